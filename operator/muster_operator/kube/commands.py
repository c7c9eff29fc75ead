"""Commands as HTTP requests, their retries and results.

`Kube.execute` is called by the write queue. Each kind of command has a retry policy. A bind whose response is lost is
checked by reading the pod before it is sent again.
"""

from __future__ import annotations

import asyncio
import os
import random
import socket
from collections import OrderedDict
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final, Protocol

import orjson
import structlog

from muster_operator.kube import claims, provisioning
from muster_operator.kube.http import RETRY_AFTER_LIMIT_S, THROTTLED, UNAVAILABLE, Policies, Retry
from muster_operator.kube.session import JSON, MERGE_PATCH, STRATEGIC_PATCH, KubeSession, Reply, Request
from muster_operator.kube.write_queue import Throttle, WritePriority, named_command, write_priority_of
from muster_operator.model import limits
from muster_operator.model.commands import (
    BindPod,
    ClaimCommand,
    ClaimVolume,
    Command,
    CommandFailed,
    CommandSucceeded,
    CommandUnanswered,
    CreateClaim,
    CreatePlaceholder,
    DeletePod,
    FailPod,
    MarkDisrupted,
    MarkResumed,
    PostEvent,
    RequestNodes,
    ReserveClaim,
    Result,
    SelectNode,
    SetCondition,
    SetGroupCondition,
    Subject,
    WithdrawNodes,
)
from muster_operator.model.errors import Unreachable
from muster_operator.model.messages import PREEMPTION
from muster_operator.model.names import (
    ANNOTATION_BINDING_SIGNATURE,
    ANNOTATION_GANG_OUTCOME,
    ANNOTATION_OUTCOME_SIGNATURE,
    FIELD_MANAGER,
    GANG_RESUMED,
    PLACEHOLDER_FIELD_MANAGER,
    REPORTING_CONTROLLER,
)
from muster_operator.model.pod_groups import CONDITION_OF, VERSIONS
from muster_operator.model.pods import PlaceholderSpec, PodRef
from muster_operator.translate import extended_resources
from muster_operator.translate.storage import version_of
from muster_operator.translate.values import Raw, controller, mapping

log = structlog.get_logger("muster.kube")

#: Number of remembered event series. If there are more, the least recently used one is forgotten and starts again.
MAX_SERIES: Final = 4096


@dataclass(frozen=True, slots=True)
class Known:
    """An event in the API server: its name and count."""

    name: str
    count: int


class Series:
    """Event series in the API server, by object and series name."""

    def __init__(self) -> None:
        self.instance: Final = f"muster-operator-{socket.gethostname()}"[:128]
        self._known: OrderedDict[tuple[str, str, str], Known] = OrderedDict()
        self._number = 0

    def increment(self, command: PostEvent) -> Known | None:
        """Increments and returns the event of a series. Returns None if it has to be created."""
        known = self._known.get(_key(command)) if command.series else None
        if known is None:
            return None
        known = replace(known, count=known.count + 1)
        self._known[_key(command)] = known
        self._known.move_to_end(_key(command))
        return known

    def start(self, command: PostEvent, now: datetime) -> str:
        """Returns a name for a new event, unique among processes and restarts. Remembers it if it starts a series."""
        self._number += 1
        name = f"{command.name[:200].rstrip('-.')}.{int(now.timestamp() * 1e6):x}{os.getpid():x}{self._number:x}"
        if command.series:
            self._known[_key(command)] = Known(name, 1)
            if len(self._known) > MAX_SERIES:
                self._known.popitem(last=False)
        return name

    def forget(self, command: PostEvent) -> None:
        """Forgets a series whose event could not be created."""
        self._known.pop(_key(command), None)


def _key(command: PostEvent) -> tuple[str, str, str]:
    return (command.namespace, command.uid or command.name, command.series)


#: Timeout of a bind in seconds. It is short, because a new session waits for the last binds of the previous one.
BIND_S: Final = 5.0

_BINDING: Final = f"/binding?fieldManager={FIELD_MANAGER}"

#: Longest note of an event, bytes (events.k8s.io/v1 validation).
NOTE_LIMIT: Final = 1024

#: Namespace of events about cluster-scoped objects, as the API server requires.
CLUSTER_EVENTS_NAMESPACE: Final = "default"


def bind(command: BindPod) -> Request:
    """Creates the binding. The UID is a precondition: for another pod with that name the API server returns 409."""
    pod = command.pod
    metadata: dict[str, Any] = {"name": pod.name, "namespace": pod.namespace, "uid": pod.uid}
    if command.signature:  # the API server merges annotations of a binding into those of its pod
        metadata["annotations"] = {ANNOTATION_BINDING_SIGNATURE: command.signature}
    body = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": metadata,
        "target": {"apiVersion": "v1", "kind": "Node", "name": command.node},
    }
    return Request("POST", _pod_path(pod) + _BINDING, orjson.dumps(body), JSON, True, BIND_S, "pods/binding")


def delete(command: DeletePod) -> Request:
    """Deletes the pod with that UID. The API server removes a pod without a node immediately."""
    options: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "preconditions": {"uid": command.pod.uid},
    }
    if command.force:
        options["gracePeriodSeconds"] = 0
    return Request("DELETE", _pod_path(command.pod), orjson.dumps(options))


def create(namespace: str, manifest: Mapping[str, Any]) -> Request:
    """Creates a placeholder pod. The field manager marks it as created by Muster (docs/internals/semantics.md, 18)."""
    path = f"/api/v1/namespaces/{namespace}/pods?fieldManager={PLACEHOLDER_FIELD_MANAGER}"
    return Request("POST", path, orjson.dumps(manifest))


def read(namespace: str, name: str) -> Request:
    """Reads one pod."""
    return Request("GET", f"/api/v1/namespaces/{namespace}/pods/{name}")


def fail(command: FailPod, now: datetime) -> Request:
    """Sets the phase of a pod that will not be scheduled to Failed, as YuniKorn does.

    Differs: the condition PodScheduled=False gets this reason, because its earlier text says what the pod waits for.
    """
    why = (command.reason, command.message)
    return _condition(
        command.pod,
        ("PodScheduled", "False", *why),
        now,
        phase="Failed",
        reason=command.reason,
        message=command.message,
    )


def condition(command: SetCondition, now: datetime) -> Request:
    """Sets the condition PodScheduled=False, and the nominated node. The API server merges conditions by type."""
    fields = ("PodScheduled", "False", command.reason, command.message)
    return _condition(command.pod, fields, now, nominatedNodeName=command.nominated_node or None)


def group_condition(command: SetGroupCondition, version: str, now: datetime) -> Request:
    """Sets the scheduler's condition of a PodGroup, as this version of the API names it."""
    condition = command.condition
    entry = {
        "type": CONDITION_OF[version],
        "status": str(condition.is_scheduled),
        "reason": condition.reason,
        "message": condition.message,
        "observedGeneration": command.generation,
        "lastTransitionTime": now.strftime("%Y-%m-%dT%H:%M:%SZ"),
    }
    path = f"/apis/scheduling.k8s.io/{version}/namespaces/{command.namespace}/podgroups/{command.name}/status"
    body = {"metadata": {"uid": command.uid}, "status": {"conditions": [entry]}}
    return Request("PATCH", f"{path}?fieldManager={FIELD_MANAGER}", orjson.dumps(body), STRATEGIC_PATCH)


def mark_disrupted(command: MarkDisrupted, now: datetime) -> Request:
    """Sets the condition DisruptionTarget=True, with kube-scheduler's reason for preemption."""
    return _condition(command.pod, ("DisruptionTarget", "True", PREEMPTION, command.message), now)


def mark_resumed(command: MarkResumed) -> Request:
    """Sets the originator's annotation that its gang was given up.

    The patch uses the status subresource, which accepts annotations, because the operator may not patch pods.
    """
    annotations = {ANNOTATION_GANG_OUTCOME: GANG_RESUMED}
    if command.signature:
        annotations[ANNOTATION_OUTCOME_SIGNATURE] = command.signature
    return _patch(command.originator, "/status", {"metadata": {"annotations": annotations}}, MERGE_PATCH)


def event(command: PostEvent, name: str, instance: str, now: datetime) -> Request:
    """Creates a single event, or the first event of a series."""
    namespace = command.namespace or CLUSTER_EVENTS_NAMESPACE
    version = "coordination.k8s.io/v1" if command.subject is Subject.LEASE else "v1"
    regarding = {"apiVersion": version, "kind": command.subject.value, "name": command.name, "uid": command.uid}
    if command.namespace:
        regarding["namespace"] = command.namespace
    body = {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": namespace},
        "eventTime": micro_time(now),
        "reportingController": REPORTING_CONTROLLER,
        "reportingInstance": instance,
        "action": command.action,
        "reason": command.reason,
        "regarding": regarding,
        "note": shortened(command.note),
        "type": command.type.value,
    }
    path = f"/apis/events.k8s.io/v1/namespaces/{namespace}/events"
    return Request("POST", path, orjson.dumps(body), resource="events")


def series(command: PostEvent, name: str, count: int, now: datetime) -> Request:
    """Updates the event of a series: action, note and count.

    The core API group is used, because events.k8s.io/v1 does not allow changes of the note.
    """
    namespace = command.namespace or CLUSTER_EVENTS_NAMESPACE
    body = {
        "action": command.action,
        "message": shortened(command.note),
        "series": {"count": count, "lastObservedTime": micro_time(now)},
    }
    return Request("PATCH", f"/api/v1/namespaces/{namespace}/events/{name}", orjson.dumps(body), MERGE_PATCH)


def shortened(note: str) -> str:
    """Truncates a note to NOTE_LIMIT bytes, the maximum of the API server."""
    encoded = note.encode()
    return note if len(encoded) <= NOTE_LIMIT else encoded[: NOTE_LIMIT - 3].decode(errors="ignore") + "..."


def micro_time(now: datetime) -> str:
    """A time in the format of Kubernetes' MicroTime."""
    return now.astimezone(UTC).isoformat(timespec="microseconds").removesuffix("+00:00") + "Z"


def _condition(pod: PodRef, fields: tuple[str, str, str, str], now: datetime, **others: str | None) -> Request:
    """Sets a condition, given as type, status, reason and message. ``others``: further fields; None removes one."""
    entry = dict(zip(("type", "status", "reason", "message"), fields, strict=True))
    entry["lastTransitionTime"] = now.strftime("%Y-%m-%dT%H:%M:%SZ")
    return _patch(pod, "/status", {"status": {"conditions": [entry], **others}}, STRATEGIC_PATCH)


def _pod_path(pod: PodRef) -> str:
    return f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}"


def _patch(pod: PodRef, subresource: str, body: dict[str, Any], content_type: str) -> Request:
    """A patch with the UID of the pod. For another pod with that name the API server returns 409."""
    complete = {**body, "metadata": {**body.get("metadata", {}), "uid": pod.uid}}
    path = f"{_pod_path(pod)}{subresource}?fieldManager={FIELD_MANAGER}"
    return Request("PATCH", path, orjson.dumps(complete), content_type)


#: How often a claim for extended resources is tried at once, if others change the pod at the same time.
_CLAIM_ATTEMPTS: Final = 3

#: Reply of a request without an answer.
NO_REPLY = Reply(0, b"")


class ResultHandler(Protocol):
    """Receives results of commands, and objects that were read."""

    def result(self, result: Result) -> None:
        """Receives the result of a command."""

    def object_read(self, plural: str, raw: Raw) -> None:
        """Receives an object that was just read or written."""


@dataclass(frozen=True, slots=True)
class Placeholders:
    """Functions for placeholders: builds the pod, and checks whether an existing pod is that placeholder."""

    manifest: Callable[[PlaceholderSpec], Raw]
    is_ours: Callable[[Raw, PlaceholderSpec], bool]


@dataclass(slots=True)
class Attempts:
    """Callbacks for metrics: a retry (kind, status), a final answer (kind, status), a throttled kind, an exception."""

    retried: Callable[[str, int], None]
    ended: Callable[[str, int], None]
    throttled: Callable[[str], None] = lambda kind: None
    failed: Callable[[str], None] = lambda kind: None


class Cancellation:
    """Cancels all binds in progress. Shared by all writers."""

    def __init__(self) -> None:
        self._cancelled = asyncio.Event()

    def now(self) -> None:
        """Cancels all binds that are in progress. Later ones are not affected."""
        self._cancelled.set()
        self._cancelled = asyncio.Event()

    def token(self) -> CancellationToken:
        """Returns the token for a bind that starts now."""
        return CancellationToken(self._cancelled)


class CancellationToken:
    """Cancellation of one bind."""

    def __init__(self, cancelled: asyncio.Event) -> None:
        self._cancelled = cancelled

    async def wait(self, pause_s: float) -> bool:
        """Waits before the next attempt. Returns False as soon as the bind is cancelled."""
        with suppress(TimeoutError):
            async with asyncio.timeout(pause_s):
                await self._cancelled.wait()
        return not self._cancelled.is_set()


class Kube:
    """Executes commands for all writers.

    `throttle`: kinds of writes that the API server has throttled. `cancellation` cancels further attempts of binds.
    """

    def __init__(
        self,
        session: KubeSession,
        placeholders: Placeholders,
        handler: ResultHandler,
        attempts: Attempts,
        policies: Policies | None = None,
    ) -> None:
        self._policies = policies or Policies()
        self._session = session
        self._placeholders = placeholders
        self._handler = handler
        self._attempts = attempts
        self._series = Series()
        self.throttle = Throttle(attempts.throttled)
        self.cancellation = Cancellation()
        self._group_version = VERSIONS[0]

    async def execute(self, command: Command) -> None:
        """Executes the command and passes its result to the handler. Never raises: a failed command has no answer."""
        result: Result
        try:
            # A bind, the most frequent command, is not passed on through a further coroutine.
            result = await (self._bind(command) if isinstance(command, BindPod) else self._carry_out(command))
        except Exception:
            log.exception("internal error while executing a command, treating it as not answered")
            self._attempts.failed(type(command).__name__)
            result = CommandUnanswered(command)
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
        self._handler.result(result)

    async def _carry_out(self, command: Command) -> Result:
        match command:
            case PostEvent():  # the most frequent one here
                return await self._post_event(command)
            case BindPod():
                return await self._bind(command)
            case DeletePod():
                return await self._delete(command)
            case CreatePlaceholder():
                return await self._create(command)
            case FailPod():
                return await self._patch(command, fail(command, datetime.now(tz=UTC)))
            case SetCondition():
                return await self._patch(command, condition(command, datetime.now(tz=UTC)))
            case SetGroupCondition():
                return await self._set_group_condition(command)
            case MarkResumed():
                return await self._patch(command, mark_resumed(command))
            case MarkDisrupted():
                return await self._patch(command, mark_disrupted(command, datetime.now(tz=UTC)))
            case ClaimVolume() | SelectNode() | ReserveClaim() | CreateClaim():
                return await self._write_claim(command)
            case RequestNodes() | WithdrawNodes():
                return await self._provision(command)

    async def _write_claim(self, command: ClaimCommand | CreateClaim) -> Result:
        """Writes a claim. One of devices is shown before the watch shows it.

        The session or the pod can end in between, and its devices must not be free then.
        """
        if isinstance(command, CreateClaim):
            return await self._create_claim(command)
        reply = await claims.write(command, self._with_retries, self._policies)
        if not reply.ok:
            return _failed(command, reply)
        raw = reply.json()
        if isinstance(command, ReserveClaim):
            self._handler.object_read("resourceclaims", raw)
        return CommandSucceeded(command, version_of(raw))

    async def _create_claim(self, command: CreateClaim) -> Result:
        """Creates the claim for extended resources of the pod, again if others have changed the pod in between."""
        for _ in range(_CLAIM_ATTEMPTS - 1):
            result = await self._create_claim_once(command)
            if not isinstance(result, CommandFailed) or result.reason != "Conflict":
                return result
        return await self._create_claim_once(command)

    async def _create_claim_once(self, command: CreateClaim) -> Result:
        """Claim and pod are shown before the watch shows them."""
        pod = await self._read(command.pod.namespace, command.pod.name)
        if not pod.ok:
            return _failed(command, pod)
        metadata = mapping(pod.json().get("metadata"))
        if metadata.get("uid") != command.pod.uid or metadata.get("deletionTimestamp"):
            return CommandFailed(command, 404, "NotFound", "the pod no longer exists")
        if mapping(pod.json().get("spec")).get("nodeName"):
            return CommandFailed(command, 409, "Contested", "the pod has a node")
        manifest, status = extended_resources.claim(command.pod, mapping(pod.json().get("spec")), dict(command.classes))
        written = mapping(mapping(pod.json().get("status")).get("extendedResourceClaimStatus")).get("resourceClaimName")
        if written and written != status["resourceClaimName"]:
            return CommandFailed(command, 409, "Contested", f"the pod has resourceclaim {written}")
        reply = await self._with_retries(command, claims.create(manifest), self._policies.create)
        if _already_exists(reply):
            reply = await self._with_retries(command, claims.read_created(manifest), self._policies.read)
            raw = reply.json() if reply.ok else {}
            is_ours = controller(mapping(raw.get("metadata")))[0] == command.pod.uid
            if reply.ok and not (is_ours and extended_resources.is_same(raw, manifest)):
                name = manifest["metadata"]["name"]
                return CommandFailed(command, 409, "AlreadyExists", f"another resourceclaim {name} exists, delete it")
        if not reply.ok:
            return _failed(command, reply)
        if mapping(reply.json().get("metadata")).get("deletionTimestamp"):
            return CommandFailed(command, 409, "Contested", "an earlier resourceclaim is being deleted")
        self._handler.object_read("resourceclaims", reply.json())
        version = {"resourceVersion": metadata.get("resourceVersion")}
        body = {"metadata": version, "status": {"extendedResourceClaimStatus": status}}
        request = _patch(command.pod, "/status", body, STRATEGIC_PATCH)
        reply = await self._with_retries(command, request, self._policies.bind)  # a conflict is not repeated unchanged
        if not reply.ok:
            return _failed(command, reply)
        raw = reply.json()
        if not mapping(raw.get("status")).get("extendedResourceClaimStatus"):
            return CommandFailed(command, 409, "Contested", "the feature gate DRAExtendedResource is off")
        self._handler.object_read("pods", raw)
        return CommandSucceeded(command)

    async def _bind(self, command: BindPod) -> Result:
        """Binds the pod. If it is unknown whether the bind succeeded, reads the pod."""
        reply, token = NO_REPLY, self.cancellation.token()
        for attempt in range(1, self._policies.bind.attempts + 1):
            reply = await self._once(bind(command), WritePriority.BIND)
            if reply.ok:
                return CommandSucceeded(command)
            if reply.status in _SETTLED_BY_READING:
                settled = await self._settle_bind(command, reply)
                if settled is not None:
                    return settled
            pause_s = self._pause_s(self._policies.bind, attempt, reply, WritePriority.BIND)
            if pause_s is None:
                break
            self._attempts.retried("BindPod", reply.status)
            if not await token.wait(pause_s):
                break
        return _failed(command, reply)

    async def _settle_bind(self, command: BindPod, reply: Reply) -> Result | None:
        """Reads the pod: bound as requested, bound to another node, gone, or None if it is still not bound."""
        pod = await self._read(command.pod.namespace, command.pod.name)
        if not pod.ok and pod.status != 404:
            return CommandUnanswered(command)  # without reading the pod it is unknown whether it exists
        raw = pod.json()
        if not pod.ok or (raw.get("metadata") or {}).get("uid") != command.pod.uid:
            return CommandFailed(command, 404, "NotFound", "the pod no longer exists")
        self._handler.object_read("pods", raw)
        node = (raw.get("spec") or {}).get("nodeName")
        if node == command.node:
            return CommandSucceeded(command)
        if node:
            return CommandFailed(command, 409, "AlreadyBound", f"the pod is on node {node}")
        if reply.status == 409:
            return CommandFailed(command, 409, reply.reason() or "Conflict", reply.message())
        return None

    async def _delete(self, command: DeletePod) -> Result:
        """Deletes the pod. After a conflict reads it: a pod with another UID means that the pod is gone."""
        reply = await self._with_retries(command, delete(command), self._policies.delete)
        is_gone = reply.status == 404
        if reply.status == 409:
            pod = await self._read(command.pod.namespace, command.pod.name)
            is_gone = pod.status == 404 or (pod.ok and (pod.json().get("metadata") or {}).get("uid") != command.pod.uid)
        return CommandSucceeded(command) if reply.ok or is_gone else _failed(command, reply)

    async def _create(self, command: CreatePlaceholder) -> Result:
        spec = command.spec
        request = create(spec.namespace, self._placeholders.manifest(spec))
        reply = await self._with_retries(command, request, self._policies.create)
        if reply.ok:
            return CommandSucceeded(command)
        if not _already_exists(reply):
            return _failed(command, reply)
        pod = await self._read(spec.namespace, spec.name)
        if pod.ok and self._placeholders.is_ours(pod.json(), spec):
            self._handler.object_read("pods", pod.json())
            return CommandSucceeded(command)
        return _failed(command, reply)

    async def _provision(self, command: RequestNodes | WithdrawNodes) -> Result:
        """Deletes the request, or creates or reads it. A created one has no conditions yet."""
        if isinstance(command, WithdrawNodes):
            reply = await provisioning.withdraw(command, self._with_retries, self._policies)
            return CommandSucceeded(command) if reply.ok or reply.status == 404 else _failed(command, reply)
        manifest = self._placeholders.manifest
        reply = await provisioning.request(command, manifest, self._with_retries, self._policies)
        problem = provisioning.request_problem(reply.json()) if reply.ok else ""
        return CommandSucceeded(command, problem=problem) if reply.ok else _failed(command, reply)

    async def _patch(self, command: FailPod | SetCondition | MarkResumed | MarkDisrupted, request: Request) -> Result:
        reply = await self._with_retries(command, request, self._policies.patch)
        return CommandSucceeded(command) if reply.ok else _failed(command, reply)

    async def _set_group_condition(self, command: SetGroupCondition) -> Result:
        """Patches the PodGroup in the first version that the cluster serves. The next patch begins with that one."""
        reply = NO_REPLY
        for version in sorted(VERSIONS, key=lambda one: one != self._group_version):
            request = group_condition(command, version, datetime.now(tz=UTC))
            reply = await self._with_retries(command, request, self._policies.patch)
            if reply.ok:
                self._group_version = version
            if reply.status != 404:
                break
        return CommandSucceeded(command) if reply.ok else _failed(command, reply)

    async def _post_event(self, command: PostEvent) -> Result:
        """Posts an event or updates its series. If the API server has expired the series, a new one starts."""
        now = datetime.fromtimestamp(command.at, tz=UTC) if command.at else datetime.now(tz=UTC)
        known = self._series.increment(command)
        if known is not None:
            reply = await self._with_retries(
                command, series(command, known.name, known.count, now), self._policies.event
            )
            if reply.ok or reply.status != 404:
                return CommandSucceeded(command) if reply.ok else _failed(command, reply)
        name = self._series.start(command, now)
        request = event(command, name, self._series.instance, now)
        reply = await self._with_retries(command, request, self._policies.event)
        if reply.ok or _already_exists(reply):
            return CommandSucceeded(command)
        self._series.forget(command)
        return _failed(command, reply)

    async def _with_retries(self, command: Command | None, request: Request, policy: Retry) -> Reply:
        """Sends the request until it succeeds, fails finally or has no attempts left. ``command`` is None for reads."""
        kind = type(command).__name__ if command is not None else "ReadPod"
        write_priority = write_priority_of(command) if command is not None else None
        attempt = 0
        while True:
            attempt += 1
            reply = await self._once(request, write_priority)
            final = reply.ok or _already_exists(reply)
            pause_s = None if final else self._pause_s(policy, attempt, reply, write_priority)
            if pause_s is None:
                return reply
            self._attempts.retried(kind, reply.status)
            await asyncio.sleep(pause_s)

    async def _read(self, namespace: str, name: str) -> Reply:
        return await self._with_retries(None, read(namespace, name), self._policies.read)

    async def _once(self, request: Request, write_priority: WritePriority | None) -> Reply:
        """Sends the request once. Returns status 0 without an answer. Retry-After throttles the kind of write."""
        try:
            reply = await self._session.send(request)
        except Unreachable as error:
            log.debug("no answer", reason=str(error))
            return NO_REPLY
        if write_priority is not None and reply.status in THROTTLED and reply.retry_after_s:
            self.throttle.pause(write_priority, min(reply.retry_after_s, RETRY_AFTER_LIMIT_S))
        return reply

    def _pause_s(self, policy: Retry, attempt: int, reply: Reply, write_priority: WritePriority | None) -> float | None:
        """Seconds until the next attempt, or None. Denied access is retried, because permissions can be updated."""
        status = UNAVAILABLE if reply.is_access_denied else reply.status
        jitter = random.random()  # noqa: S311 - so that what failed together does not come again together
        pause_s = policy.pause_s(attempt, status, reply.retry_after_s, jitter)
        return (
            None
            if pause_s is None
            else max(pause_s, self.throttle.left_s(write_priority) if write_priority is not None else 0.0)
        )


#: After these it is unknown whether the pod was bound.
_SETTLED_BY_READING = frozenset({0, 404, 409, 500, 502, 503, 504})


def _already_exists(reply: Reply) -> bool:
    return reply.status == 409 and reply.reason() == "AlreadyExists"


def _failed(command: Command, reply: Reply) -> Result:
    """The result of a failed command, with the API server's reason if it answered."""
    if reply.status == 0:
        return CommandUnanswered(command)
    return CommandFailed(command, reply.status, reply.reason(), reply.message())
