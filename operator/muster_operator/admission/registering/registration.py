"""Keeps the two webhook configurations as they should be: made, compared every few seconds, put right when changed.

Only the replica that leads writes (semantics 27); the others read what stands there, for their certificates follow it.
With a manifest of the user's own (`--webhook-manifest`) only the authorities in it are ours to keep.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import orjson
import structlog

from muster_operator.admission.certifying.certificates import split
from muster_operator.admission.registering import webhooks
from muster_operator.admission.registering.conditions import Ours
from muster_operator.admission.registering.webhooks import Door, name_of
from muster_operator.link.api.session import KubeSession, Request
from muster_operator.link.errors import ApiRefused
from muster_operator.translate.raw import Raw, mapping, text

log = structlog.get_logger("muster.admission")

_PATH: Final = "/apis/admissionregistration.k8s.io/v1"
MUTATING: Final = f"{_PATH}/mutatingwebhookconfigurations"
VALIDATING: Final = f"{_PATH}/validatingwebhookconfigurations"

Json = dict[str, Any]
Make = Callable[[Iterable[bytes]], Json]


@dataclass(frozen=True, slots=True)
class Registration:
    """What to register, and how: `by_manifest` leaves all but the authorities to the user."""

    door: Door
    ours: Ours
    by_manifest: bool = False


@dataclass(frozen=True, slots=True)
class Look:
    """The configurations as they stand, by path; None = there is none."""

    found: Mapping[str, Raw | None]

    @property
    def authorities(self) -> tuple[tuple[bytes, ...], ...]:
        """Those of each configuration."""
        return tuple(split(webhooks.bundle_of(one or {})) for one in self.found.values())


class Registrar:
    """Both configurations of the cluster."""

    def __init__(self, session: KubeSession, registration: Registration) -> None:
        self._session, self._registration = session, registration
        door, ours = registration.door, registration.ours
        self._name = name_of(ours.home)
        self._makers: dict[str, Make] = {
            MUTATING: lambda bundle: webhooks.mutating(door, ours, bundle),
            VALIDATING: lambda bundle: webhooks.validating(door, ours, bundle),
        }

    async def look(self) -> Look:
        """What stands there.

        Raises:
            ApiRefused, Unreachable: it cannot be read.
        """
        return Look({path: await self._read(path) for path in self._makers})

    async def keep(self, look: Look, bundle: tuple[bytes, ...]) -> None:
        """Have both stand as they should, with these authorities; nothing is written where nothing differs.

        Raises:
            NotLeading: something differs, and another replica has to put it right.
            ApiRefused, Unreachable: the API server refuses, or does not answer.
        """
        for path, make in self._makers.items():
            found = look.found[path]
            wanted = self._wanted(path, make(bundle), found)
            if found is None or not _is_as(found, wanted):
                await self._write(path, wanted, found)

    def _wanted(self, path: str, ours: Json, found: Raw | None) -> Json:
        """Ours, or the user's with our authorities.

        Raises:
            ApiRefused: the user's is not there.
        """
        if self._registration.by_manifest:
            if found is None:
                raise ApiRefused(
                    f"GET {path}/{self._name}", 404, "apply deploy/webhooks.yaml, or leave --webhook-manifest out"
                )
            return {**ours, "webhooks": _with_authorities(found, ours)}
        return ours if found is None else {**ours, "webhooks": _with_authorities(ours, found, only_missing=True)}

    async def _read(self, path: str) -> Raw | None:
        try:
            return await self._session.get(f"{path}/{self._name}")
        except ApiRefused as error:
            if error.status == 404:
                return None
            raise

    async def _write(self, path: str, wanted: Json, found: Raw | None) -> None:
        """Create or replace. Somebody else was faster: the next round looks again."""
        body, method = wanted, "POST"
        if found is not None:
            version = mapping(found.get("metadata")).get("resourceVersion")
            metadata = {**mapping(found.get("metadata")), **wanted["metadata"], "resourceVersion": version}
            body, method, path = {**wanted, "metadata": metadata}, "PUT", f"{path}/{self._name}"
        reply = await self._session.send(Request(method, path, orjson.dumps(body)))
        if reply.ok:
            log.info("webhooks registered", kind=wanted["kind"], name=self._name, first=found is None)
        elif reply.status not in {404, 409}:
            raise ApiRefused(f"{method} {path}", reply.status, reply.message())


def _with_authorities(hooks_of: Raw, source: Raw, *, only_missing: bool = False) -> list[Json]:
    """The hooks of one configuration with the authorities of the other's, by name.

    `only_missing`: where the first names none; somebody else, such as cert-manager, may have written the other's.
    """
    found = {hook["name"]: hook["clientConfig"].get("caBundle") for hook in source.get("webhooks") or []}
    hooks: list[Json] = []
    for hook in hooks_of.get("webhooks") or []:
        client, bundle = hook["clientConfig"], found.get(hook["name"])
        keeps = not bundle or (only_missing and client.get("caBundle"))
        hooks.append(hook if keeps else {**hook, "clientConfig": {**client, "caBundle": bundle}})
    return hooks


def _is_as(found: Raw, wanted: Raw) -> bool:
    """Whether hooks and labels are as they should be; other labels and annotations are nobody's harm."""
    labels = mapping(mapping(found.get("metadata")).get("labels"))
    asked = mapping(mapping(wanted.get("metadata")).get("labels"))
    return found.get("webhooks") == wanted.get("webhooks") and all(
        text(labels.get(key)) == value for key, value in asked.items()
    )
