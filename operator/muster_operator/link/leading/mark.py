"""The mark on the pod that leads, by which a Service finds the one core that knows the cluster, as Patroni marks its
primary.

Every replica is ready, or no upgrade would go on; but the core beside an operator that stands by knows nothing, and
would answer REST with an empty world. So who leads takes the mark from all others at once, and puts it on its own pod
when its core has taken in the cluster. Meanwhile the Service has no endpoint: no answer, rather than a wrong one.

Nobody takes the mark from itself: who was killed, cut off or replaced may not write any more. A write of it that comes
late is put right with the next look. Where the operator runs in no pod there is nothing to mark.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

import orjson
import structlog

from muster_operator.link.api.session import MERGE_PATCH, KubeSession, Request
from muster_operator.link.errors import ApiRefused, Unreachable
from muster_operator.model.vocabulary import FIELD_MANAGER, LABEL_ROLE, ROLE_LEADER

log = structlog.get_logger("muster.leading")

MARKED: Final = quote(f"{LABEL_ROLE}={ROLE_LEADER}")
#: Seconds between looks while we lead.
PERIOD_S: Final = 30.0
#: Seconds after the first look that failed; after each further one twice as many, up to the period.
AGAIN_S: Final = 1.0
#: The pod went, or is another one of its name by now: there is nothing to take the mark from.
GONE: Final = frozenset({404, 409})


def pause_s(failed: int) -> float:
    """Seconds until the next look, after so many that failed."""
    return min(PERIOD_S, AGAIN_S * 2 ** min(failed - 1, 10)) if failed else PERIOD_S


@dataclass(frozen=True, slots=True)
class Mark:
    """Kept on the pod of that namespace and name, ours. `recovered`: set once our core knows the cluster."""

    session: KubeSession
    namespace: str
    pod: str
    recovered: asyncio.Event

    async def run(self) -> None:
        """Keep it where it belongs, from when we lead on."""
        failed = 0
        while True:
            is_ours = self.recovered.is_set()
            failed = 0 if await self.look() else failed + 1
            if is_ours:
                await asyncio.sleep(pause_s(failed))
                continue
            with suppress(TimeoutError):
                async with asyncio.timeout(pause_s(failed)):
                    await self.recovered.wait()

    async def look(self) -> bool:
        """Put it right once; whether that worked."""
        try:
            found = await self.session.get(f"{self._pods}?labelSelector={MARKED}")
            for request in self._changes([pod["metadata"] for pod in found.get("items") or []]):
                await self._change(request)
        except (ApiRefused, Unreachable) as error:
            log.warning("cannot mark the pod that leads", pod=self.pod, reason=str(error))
            return False
        return True

    @property
    def _pods(self) -> str:
        return f"/api/v1/namespaces/{self.namespace}/pods"

    def _changes(self, marked: list[dict[str, Any]]) -> Iterator[Request]:
        """From others first, so that there never are two that we know of."""
        others = [pod for pod in marked if pod["name"] != self.pod]
        for other in others:
            yield self._patch(other["name"], {"uid": other["uid"], "labels": {LABEL_ROLE: None}})
        if self.recovered.is_set() and len(others) == len(marked):
            yield self._patch(self.pod, {"labels": {LABEL_ROLE: ROLE_LEADER}})

    def _patch(self, name: str, metadata: dict[str, Any]) -> Request:
        # The status subresource takes labels too: so the operator needs no right to patch pods.
        path = f"{self._pods}/{quote(name)}/status?fieldManager={FIELD_MANAGER}"
        return Request("PATCH", path, orjson.dumps({"metadata": metadata}), MERGE_PATCH)

    async def _change(self, request: Request) -> None:
        reply = await self.session.send(request)
        if not reply.ok and reply.status not in GONE:
            raise ApiRefused(request.name, reply.status, reply.message())
