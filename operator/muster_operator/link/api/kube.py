"""Carries a command out at the API server, tries again as its kind allows, and says how it ended.

What the answers mean, kind by kind: a bind that met 409 or no answer is settled by reading the pod (semantics 20); a
delete of what is gone, or is another pod by now, has succeeded; a placeholder that exists is accepted if it is ours
(semantics 18). Never raises: every command ends in one result of `model.results`.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Protocol

import structlog

from muster_operator.link.api import requests
from muster_operator.link.api.amending import amend
from muster_operator.link.api.brakes import Brakes
from muster_operator.link.api.event_series import Series
from muster_operator.link.api.recall import Recall
from muster_operator.link.api.retry import RETRY_AFTER_LIMIT_S, THROTTLED, UNAVAILABLE, Policies, Retry
from muster_operator.link.api.session import KubeSession, Reply, Request
from muster_operator.link.api.urgency import Urgency, named_command, urgency_of
from muster_operator.link.errors import Unreachable
from muster_operator.model import limits
from muster_operator.model.commands import (
    BindPod,
    ClaimVolume,
    Command,
    CreatePlaceholder,
    DeletePod,
    FailPod,
    MarkDisrupted,
    MarkResumed,
    PostEvent,
    SelectNode,
    SetCondition,
)
from muster_operator.model.groups import PlaceholderSpec
from muster_operator.model.results import CommandFailed, CommandSucceeded, CommandUnanswered, Result
from muster_operator.translate.raw import Raw

log = structlog.get_logger("muster.kube")

#: The answer that never came.
NO_REPLY = Reply(0, b"")


class Teller(Protocol):
    """Who is told of results, and of pods that had to be read on the way."""

    def result(self, result: Result) -> None:
        """Take how a command ended."""

    def read_pod(self, raw: Raw) -> None:
        """Take a pod as it was just read."""


@dataclass(frozen=True, slots=True)
class Placeholders:
    """What the link cannot know of placeholders: their body, and whether a pod is the one meant."""

    manifest: Callable[[PlaceholderSpec], Raw]
    is_ours: Callable[[Raw, PlaceholderSpec], bool]


@dataclass(slots=True)
class Attempts:
    """Counts for metrics: tries beyond the first, and final answers by kind and status; kinds told to slow down."""

    retried: Callable[[str, int], None]
    ended: Callable[[str, int], None]
    braked: Callable[[str], None] = lambda kind: None


class Kube:
    """Executes commands; one instance serves all writers.

    `brakes`: what the API server said about whole kinds. `recall` ends the tries of binds.
    """

    def __init__(
        self,
        session: KubeSession,
        placeholders: Placeholders,
        teller: Teller,
        attempts: Attempts,
        policies: Policies | None = None,
    ) -> None:
        self._policies = policies or Policies()
        self._session = session
        self._placeholders = placeholders
        self._teller = teller
        self._attempts = attempts
        self._series = Series()
        self.brakes = Brakes(attempts.braked)
        self.recall = Recall()

    async def execute(self, command: Command) -> None:
        """Carry the command out and tell how it ended."""
        result = await self._carry_out(command)
        match result:
            case CommandSucceeded():
                self._attempts.ended(type(command).__name__, 200)
            case CommandFailed():
                message = result.message[: limits.LOGGED_CHARACTERS]
                log.info("a command failed", **named_command(command), status=result.status, message=message)
                self._attempts.ended(type(command).__name__, result.status)
            case CommandUnanswered():
                log.warning("a command was not answered", **named_command(command))
                self._attempts.ended(type(command).__name__, 0)
        self._teller.result(result)

    async def _carry_out(self, command: Command) -> Result:
        match command:
            case BindPod():
                return await self._bind(command)
            case DeletePod():
                return await self._delete(command)
            case CreatePlaceholder():
                return await self._create(command)
            case FailPod():
                return await self._patch(command, requests.fail(command))
            case SetCondition():
                return await self._patch(command, requests.condition(command, datetime.now(tz=UTC)))
            case MarkResumed():
                return await self._patch(command, requests.mark_resumed(command))
            case MarkDisrupted():
                return await self._patch(command, requests.mark_disrupted(command, datetime.now(tz=UTC)))
            case ClaimVolume() | SelectNode():
                reply = await amend(command, self._with_retries, self._policies)
                return CommandSucceeded(command) if reply.ok else _failed(command, reply)
            case PostEvent():
                return await self._post_event(command)

    async def _bind(self, command: BindPod) -> Result:
        """Bind; where it is unknown or contested whether the pod has a node, the pod itself says."""
        reply, patience = NO_REPLY, self.recall.heard_by()
        for attempt in range(1, self._policies.bind.attempts + 1):
            reply = await self._once(requests.bind(command), Urgency.BIND)
            if reply.ok:
                return CommandSucceeded(command)
            if reply.status in _SETTLED_BY_READING:
                settled = await self._settle_bind(command, reply)
                if settled is not None:
                    return settled
            pause_s = self._pause_s(self._policies.bind, attempt, reply, Urgency.BIND)
            if pause_s is None:
                break
            self._attempts.retried("BindPod", reply.status)
            if not await patience.lasts(pause_s):
                break
        return _failed(command, reply)

    async def _settle_bind(self, command: BindPod, reply: Reply) -> Result | None:
        """Read the pod: bound as asked, bound elsewhere, gone, or (None) still without a node."""
        pod = await self._read(command.pod.namespace, command.pod.name)
        if pod.status == 0:
            return CommandUnanswered(command)
        raw = pod.json()
        if not pod.ok or (raw.get("metadata") or {}).get("uid") != command.pod.uid:
            return CommandFailed(command, 404, "NotFound", "the pod is gone")
        self._teller.read_pod(raw)
        node = (raw.get("spec") or {}).get("nodeName")
        if node == command.node:
            return CommandSucceeded(command)
        if node:
            return CommandFailed(command, 409, "AlreadyBound", f"the pod is on node {node}")
        if reply.status == 409:
            return CommandFailed(command, 409, reply.reason() or "Conflict", reply.message())
        return None

    async def _delete(self, command: DeletePod) -> Result:
        """A conflict is a pod of another UID under that name, or something else that only the pod itself can tell."""
        reply = await self._with_retries(command, requests.delete(command), self._policies.delete)
        is_gone = reply.status == 404
        if reply.status == 409:
            pod = await self._read(command.pod.namespace, command.pod.name)
            is_gone = pod.status == 404 or (pod.ok and (pod.json().get("metadata") or {}).get("uid") != command.pod.uid)
        return CommandSucceeded(command) if reply.ok or is_gone else _failed(command, reply)

    async def _create(self, command: CreatePlaceholder) -> Result:
        spec = command.spec
        request = requests.create(spec.namespace, self._placeholders.manifest(spec))
        reply = await self._with_retries(command, request, self._policies.create)
        if reply.ok:
            return CommandSucceeded(command)
        if not _already_exists(reply):
            return _failed(command, reply)
        pod = await self._read(spec.namespace, spec.name)
        if pod.ok and self._placeholders.is_ours(pod.json(), spec):
            self._teller.read_pod(pod.json())
            return CommandSucceeded(command)
        return _failed(command, reply)

    async def _patch(self, command: FailPod | SetCondition | MarkResumed | MarkDisrupted, request: Request) -> Result:
        reply = await self._with_retries(command, request, self._policies.patch)
        return CommandSucceeded(command) if reply.ok else _failed(command, reply)

    async def _post_event(self, command: PostEvent) -> Result:
        """An event, or one more turn of its series; a series that expired at the server begins anew."""
        now = datetime.fromtimestamp(command.at, tz=UTC) if command.at else datetime.now(tz=UTC)
        known = self._series.turn(command)
        if known is not None:
            reply = await self._with_retries(
                command, requests.series(command, known.name, known.count, now), self._policies.event
            )
            if reply.ok or reply.status != 404:
                return CommandSucceeded(command) if reply.ok else _failed(command, reply)
        name = self._series.start(command, now)
        request = requests.event(command, name, self._series.instance, now)
        reply = await self._with_retries(command, request, self._policies.event)
        if reply.ok or _already_exists(reply):
            return CommandSucceeded(command)
        self._series.forget(command)
        return _failed(command, reply)

    async def _with_retries(self, command: Command | None, request: Request, policy: Retry) -> Reply:
        """Send until the answer is final: done, not worth another try, or out of tries. None = a read."""
        kind = type(command).__name__ if command is not None else "ReadPod"
        urgency = urgency_of(command) if command is not None else None
        attempt = 0
        while True:
            attempt += 1
            reply = await self._once(request, urgency)
            final = reply.ok or _already_exists(reply)
            pause_s = None if final else self._pause_s(policy, attempt, reply, urgency)
            if pause_s is None:
                return reply
            self._attempts.retried(kind, reply.status)
            await asyncio.sleep(pause_s)

    async def _read(self, namespace: str, name: str) -> Reply:
        return await self._with_retries(None, requests.read(namespace, name), self._policies.read)

    async def _once(self, request: Request, urgency: Urgency | None) -> Reply:
        """One try; no answer is the reply with status 0. What the server says of this kind holds for all of it."""
        try:
            reply = await self._session.send(request)
        except Unreachable as error:
            log.debug("no answer", reason=str(error))
            return NO_REPLY
        if urgency is not None and reply.status in THROTTLED and reply.retry_after_s:
            self.brakes.hold(urgency, min(reply.retry_after_s, RETRY_AFTER_LIMIT_S))
        return reply

    def _pause_s(self, policy: Retry, attempt: int, reply: Reply, urgency: Urgency | None) -> float | None:
        """Seconds until the next try, None = none; rights that are missing may be on their way."""
        status = UNAVAILABLE if reply.is_access_denied else reply.status
        luck = random.random()  # noqa: S311 - so that what failed together does not come again together
        pause_s = policy.pause_s(attempt, status, reply.retry_after_s, luck)
        return None if pause_s is None else max(pause_s, self.brakes.left_s(urgency) if urgency is not None else 0.0)


#: After these it is unknown, or contested, whether the pod got the node.
_SETTLED_BY_READING = frozenset({0, 404, 409, 500, 502, 503, 504})


def _already_exists(reply: Reply) -> bool:
    return reply.status == 409 and reply.reason() == "AlreadyExists"


def _failed(command: Command, reply: Reply) -> Result:
    """The final no: the server's words, or that it has none."""
    if reply.status == 0:
        return CommandUnanswered(command)
    return CommandFailed(command, reply.status, reply.reason(), reply.message())
