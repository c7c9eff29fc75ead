"""Traces of applications: one trace per application, with its phases and waits as spans.

`runtime/loop` reports what it sends to the core, what it receives, and results of commands; the state of the
applications is read from the ledger afterwards. Only with `--tracing`. `runtime/span_export` exports finished spans.

The IDs of a trace and of its root span follow from the application and its first pod, so that a restarted operator
continues the trace. The root span is exported at the end of the application. Times are epoch nanoseconds.

A pod's trace context becomes a link and not the parent: the annotation is written by users, who must not be able to add
spans to the traces of others, and a trace ID that the operator cannot derive would be lost with a restart.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Final

from muster_operator.controller.state import Application, Ledger, Phase
from muster_operator.model.commands import BindPod, CommandSucceeded, Result
from muster_operator.model.core_messages import (
    AllocationReleased,
    AllocationResponse,
    ApplicationRemoved,
    ApplicationResponse,
    ApplicationSubmitted,
    AskReleased,
    AskSubmitted,
    CoreRequest,
    CoreResponse,
    SchedulingState,
    SchedulingStateChanged,
    SchedulingStates,
)
from muster_operator.model.ids import AppId, PodUid
from muster_operator.model.limits import OPEN_TRACES, SPAN_TEXT_BYTES, TRACE_SPANS, Shares
from muster_operator.model.states import AppState, TaskState
from muster_si import keys

Attributes = Mapping[str, str | int | bool]
Ids = tuple[int, int]

#: Seconds between two searches for traces whose application was removed without a message.
_SEARCH_S: Final = 30.0
_CONTEXT: Final = re.compile(r"00-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-[0-9a-f]{2}")
_PHASES: Final = {
    AppState.NEW: "submit",
    AppState.SUBMITTED: "accept",
    AppState.ACCEPTED: "accept",
    AppState.RESERVING: "reserve",
    AppState.RESUMING: "resume",
    AppState.REJECTED: "reject",
    AppState.FAILING: "fail",
    AppState.KILLING: "end",
}
_OVER: Final = frozenset({AppState.COMPLETED, AppState.FAILED, AppState.KILLED})
_ENDS_OF_CORE: Final = frozenset({keys.APP_COMPLETED, keys.APP_FAILED, keys.APP_REJECTED, keys.APP_EXPIRED})
_ERRORS: Final = frozenset({keys.APP_FAILED, keys.APP_REJECTED})


@dataclass(frozen=True, slots=True)
class Span:
    """A finished span. ``parent_id``: 0 = it is the root. ``link``: trace and span. ``error``: empty = none."""

    name: str
    trace_id: int
    span_id: int
    parent_id: int
    start_ns: int
    end_ns: int
    attributes: Attributes
    link: Ids | None = None
    error: str = ""


@dataclass(slots=True)
class _Wait:
    """Pods that wait for the same kind of reason. ``most``: their largest number at the same time."""

    span_id: int
    phase_id: int
    start_ns: int
    attributes: dict[str, str | int | bool]
    pods: int = 0
    most: int = 0


@dataclass(slots=True)
class _Trace:
    """The open trace of an application.

    ``unplaced`` and ``unbound``: members with a request, and with a node, until all have been bound once. ``needed``:
    members that have to be placed before. ``waiting``: kind of the reason by request; ``waits``: by kind.
    """

    namespace: str
    ids: Ids
    start_ns: int
    attributes: dict[str, str | int | bool]
    link: Ids | None
    needed: int
    phase: str = ""
    phase_id: int = 0
    phase_ns: int = 0
    is_recovered: bool = False
    core_state: str = ""
    unplaced: set[PodUid] = field(default_factory=set)
    unbound: set[PodUid] = field(default_factory=set)
    placed: int = 0
    waiting: dict[PodUid, str] = field(default_factory=dict)
    waits: dict[str, _Wait] = field(default_factory=dict)
    spans: int = 0


def trace_ids(app: AppId, originator: PodUid) -> Ids:
    """IDs of the trace and of its root span."""
    digest = blake2b(f"{app}\0{originator}".encode(), digest_size=24).digest()
    return int.from_bytes(digest[:16]), int.from_bytes(digest[16:])


def read_context(traceparent: str) -> Ids | None:
    """Trace and span of a trace context (W3C); None if it is invalid."""
    found = _CONTEXT.fullmatch(traceparent)
    return (int(found[1], 16), int(found[2], 16)) if found else None


def clipped(text: str) -> str:
    """The text, SPAN_TEXT_BYTES at most."""
    if len(text) * 4 <= SPAN_TEXT_BYTES:
        return text
    return text.encode("utf-8", "replace")[:SPAN_TEXT_BYTES].decode("utf-8", "ignore")


class ApplicationTracer:
    """Follows applications and passes finished spans to `emit`. Owned by `Loop`.

    `is_sampled`: whether a trace is exported, by its ID. `limit`: maximum number of open traces.
    """

    def __init__(
        self,
        ledger: Ledger,
        emit: Callable[[Span], None],
        is_sampled: Callable[[int], bool] = lambda _: True,
        limit: int = OPEN_TRACES,
        now_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        self._ledger, self._emit, self._is_sampled = ledger, emit, is_sampled
        self._limit, self._now_ns = limit, now_ns
        self._traces: dict[AppId, _Trace] = {}
        self._by_namespace: dict[str, dict[AppId, None]] = {}
        self._shares = Shares()
        self._changed: dict[AppId, None] = {}
        self._searched_ns = now_ns()

    def __len__(self) -> int:
        return len(self._traces)

    def sent(self, requests: Iterable[CoreRequest]) -> None:
        """Records requests to the core, and ends and begins the spans of the applications that have changed."""
        for request in requests:
            self._record_request(request)
        now_ns = self._now_ns()
        if now_ns >= self._searched_ns + _SEARCH_S * 1e9:
            self._searched_ns = now_ns
            self._find_vanished()
        for app_id in self._changed:
            if (trace := self._traces.get(app_id)) is not None:
                self._advance(app_id, trace, now_ns)
        self._changed.clear()

    def received(self, response: CoreResponse) -> None:
        """Records a message of the core."""
        match response:
            case ApplicationResponse():
                for update in response.updated:
                    if (trace := self._change(update.app)) is not None:
                        trace.core_state = update.state
                for accepted in response.accepted:
                    self._change(accepted.app)
                for rejected in response.rejected:
                    self._change(rejected.app)
            case AllocationResponse():
                for cancelled in response.cancelled_asks:
                    self._stop_waiting(cancelled.app, cancelled.key)
                for allocated in response.allocated:
                    self._placed(allocated.app, allocated.key)
            case SchedulingStates():
                for change in response.changes:
                    self._state_changed(change)
            case _:
                pass

    def result(self, result: Result) -> None:
        """Records the result of a command."""
        if isinstance(result, CommandSucceeded) and isinstance(result.command, BindPod):
            task = self._ledger.tasks.get(result.command.pod.uid)
            if task is not None and (trace := self._change(task.app)) is not None:
                trace.unbound.discard(task.uid)

    def close(self) -> None:
        """Ends the open phases and waits, because the operator stops. Root spans follow at the end of applications."""
        now_ns = self._now_ns()
        for trace in self._traces.values():
            self._end_phase(trace, now_ns, {"muster.operator.stopped": True})
        self._traces.clear()

    def _change(self, app_id: AppId) -> _Trace | None:
        trace = self._traces.get(app_id)
        if trace is not None:
            self._changed[app_id] = None
        return trace

    def _record_request(self, request: CoreRequest) -> None:
        match request:
            case ApplicationSubmitted(spec):
                if spec.app not in self._traces:
                    self._begin(spec.app)
                self._change(spec.app)
            case ApplicationRemoved(app_id):
                self._change(app_id)
            case AskSubmitted(ask) if ask.app is not None and not ask.placeholder:
                if (trace := self._change(ask.app)) is not None and trace.phase not in {"run", "complete"}:
                    trace.unplaced.add(ask.key)
                    trace.unbound.discard(ask.key)
            case AskReleased(app_id, key) | AllocationReleased(app_id, key) if app_id is not None:
                if (trace := self._change(app_id)) is not None:
                    trace.unplaced.discard(key)
                    trace.unbound.discard(key)
                    self._stop_waiting(app_id, key)
            case _:
                pass

    def _begin(self, app_id: AppId) -> None:
        """Opens the trace of an application that was submitted. After a restart its first phase begins now."""
        app = self._ledger.applications.get(app_id)
        if app is None or app.state is not AppState.SUBMITTED:
            return
        pod, now_ns = app.originator, self._now_ns()
        ids = trace_ids(app.common_id, pod.ref.uid)
        if not self._is_sampled(ids[0]):
            return
        created_ns = pod.created_s * 1_000_000_000 + self._ledger.clock_ahead_ms * 1_000_000
        start_ns = min(now_ns, created_ns) if pod.created_s else now_ns
        trace = _Trace(app.namespace, ids, start_ns, _described(app), read_context(pod.traceparent), _needed(app))
        is_new = self._ledger.phase is Phase.LIVE
        self._begin_phase(trace, "submit", trace.start_ns if is_new else now_ns)
        self._traces[app_id] = trace
        self._by_namespace.setdefault(trace.namespace, {})[app_id] = None
        self._shares.add(trace.namespace)
        while len(self._traces) > self._limit:
            self._forget(next(iter(self._by_namespace[self._shares.largest()])))

    def _forget(self, app_id: AppId) -> _Trace:
        trace = self._traces.pop(app_id)
        self._shares.remove(trace.namespace)
        del self._by_namespace[trace.namespace][app_id]
        if not self._by_namespace[trace.namespace]:
            del self._by_namespace[trace.namespace]
        return trace

    def _find_vanished(self) -> None:
        """Finds ended applications of which no message was seen, and binds that only the watch has shown."""
        tasks = self._ledger.tasks
        for app_id, trace in self._traces.items():
            if app_id not in self._ledger.applications:
                self._changed[app_id] = None
            elif trace.unbound:
                trace.unbound = {
                    uid for uid in trace.unbound if uid in tasks and tasks[uid].state is TaskState.ALLOCATED
                }
                self._changed[app_id] = None

    def _advance(self, app_id: AppId, trace: _Trace, now_ns: int) -> None:
        """Moves the trace to the present phase of the application, or ends it."""
        app = self._ledger.applications.get(app_id)
        if app is None and self._ledger.phase is not Phase.LIVE:
            return  # the applications are being read again
        if app is None or app.state in _OVER:
            self._end(app_id, trace, app, now_ns)
            return
        if app.state is AppState.RESUMING:
            trace.needed = 1  # the members are scheduled one by one
        while (phase := _phase_of(trace, app)) != trace.phase:
            self._end_phase(trace, now_ns)
            self._begin_phase(trace, phase, now_ns)

    def _placed(self, app_id: AppId, key: PodUid) -> None:
        self._stop_waiting(app_id, key)
        if (trace := self._change(app_id)) is not None and key in trace.unplaced:
            trace.unplaced.discard(key)
            trace.unbound.add(key)
            trace.placed += 1

    def _state_changed(self, change: SchedulingStateChanged) -> None:
        if (trace := self._traces.get(change.app)) is None:
            return
        if change.state is SchedulingState.SCHEDULED:
            self._stop_waiting(change.app, change.key)
            return
        kind = change.kind or change.state.value
        if trace.waiting.get(change.key) == kind:
            return
        self._stop_waiting(change.app, change.key)
        trace.waiting[change.key] = kind
        if (wait := trace.waits.get(kind)) is None:
            wait = trace.waits[kind] = self._begin_wait(trace, change, kind)
        wait.pods += 1
        wait.most = max(wait.most, wait.pods)

    def _begin_wait(self, trace: _Trace, change: SchedulingStateChanged, kind: str) -> _Wait:
        now_ns = self._now_ns()
        attributes: dict[str, str | int | bool] = {
            "muster.wait.reason": kind,
            "muster.wait.message": clipped(change.reason),
        }
        if (task := self._ledger.tasks.get(change.key)) is not None:
            attributes["k8s.pod.name"] = task.pod.ref.name
        return _Wait(_span_id(trace, f"wait {kind}", now_ns), trace.phase_id, now_ns, attributes)

    def _stop_waiting(self, app_id: AppId, key: PodUid) -> None:
        """The request does not wait any more. An empty key means all requests of the application."""
        if (trace := self._traces.get(app_id)) is None:
            return
        for each in [key] if key else [*trace.waiting]:
            if (kind := trace.waiting.pop(each, None)) is not None:
                trace.waits[kind].pods -= 1
                if not trace.waits[kind].pods:
                    self._end_wait(trace, kind, self._now_ns())

    def _end_wait(self, trace: _Trace, kind: str, now_ns: int) -> None:
        self._emit_wait(trace, trace.waits.pop(kind), now_ns)

    def _emit_wait(self, trace: _Trace, wait: _Wait, now_ns: int) -> None:
        attributes = {**wait.attributes, "muster.wait.pods": wait.most}
        self._emit_child(trace, "wait", wait.span_id, wait.phase_id, wait.start_ns, now_ns, attributes)

    def _begin_phase(self, trace: _Trace, phase: str, now_ns: int) -> None:
        trace.phase, trace.phase_ns = phase, now_ns
        trace.phase_id = _span_id(trace, phase, now_ns)
        trace.is_recovered = self._ledger.phase is not Phase.LIVE
        for kind, wait in trace.waits.items():  # waits that do not end continue in a span of this phase
            wait.span_id, wait.phase_id = _span_id(trace, f"wait {kind}", now_ns), trace.phase_id
            wait.start_ns, wait.most = now_ns, wait.pods
        if phase == "run":
            trace.unplaced.clear()
            trace.unbound.clear()

    def _end_phase(self, trace: _Trace, now_ns: int, attributes: Attributes | None = None) -> None:
        """Exports the phase with its waits. `_begin_phase` continues the waits."""
        for wait in trace.waits.values():
            self._emit_wait(trace, wait, now_ns)
        added = {"muster.recovery": True} if trace.is_recovered else {}
        described = {**(attributes or {}), **added}
        self._emit_child(trace, trace.phase, trace.phase_id, trace.ids[1], trace.phase_ns, now_ns, described)

    def _end(self, app_id: AppId, trace: _Trace, app: Application | None, now_ns: int) -> None:
        self._end_phase(trace, now_ns)
        self._forget(app_id)
        state = trace.core_state if app is None else app.state.value
        if app is None and state not in _ENDS_OF_CORE:
            state = AppState.KILLED.value
        why = app.failure.text if app is not None and app.failure is not None else state
        attributes = {**trace.attributes, "muster.application.state": state}
        if trace.spans > TRACE_SPANS:
            attributes["muster.spans.dropped"] = trace.spans - TRACE_SPANS
        error = clipped(why) if state in _ERRORS else ""
        self._emit(
            Span(
                "application", *trace.ids, 0, trace.start_ns, max(now_ns, trace.start_ns), attributes, trace.link, error
            )
        )

    def _emit_child(  # noqa: PLR0913, PLR0917 # the fields of a span
        self, trace: _Trace, name: str, span_id: int, parent_id: int, start_ns: int, now_ns: int, attributes: Attributes
    ) -> None:
        trace.spans += 1
        if trace.spans <= TRACE_SPANS:
            self._emit(Span(name, trace.ids[0], span_id, parent_id, start_ns, max(now_ns, start_ns), attributes))


def _span_id(trace: _Trace, name: str, now_ns: int) -> int:
    """A span ID that no other process uses in this trace."""
    text = f"{trace.ids}\0{name}\0{now_ns}\0{trace.spans}"
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest()) or 1


def _phase_of(trace: _Trace, app: Application) -> str:
    """The present phase, at most one step after the last one while the application runs."""
    if app.state is not AppState.RUNNING:
        return _PHASES[app.state]
    match trace.phase:
        case "place" if trace.unplaced or trace.placed < trace.needed:
            return "place"
        case "place":
            return "bind"
        case "bind" if trace.unbound:
            return "bind"
        case "bind" | "run" | "complete":
            return "complete" if trace.core_state == keys.APP_COMPLETING else "run"
        case _:
            has_started = any(task.state is TaskState.BOUND for task in app.members.values())
            return "run" if has_started else "place"


def _needed(app: Application) -> int:
    return max(1, app.gang.size) if app.gang is not None else 1


def _described(app: Application) -> dict[str, str | int | bool]:
    """Attributes of the root span."""
    attributes: dict[str, str | int | bool] = {
        "k8s.namespace.name": app.namespace,
        "k8s.pod.name": app.originator.ref.name,
        "k8s.pod.uid": app.originator.ref.uid,
        "muster.application.id": clipped(app.name),
    }
    if app.queue:
        attributes["muster.queue"] = clipped(app.queue)
    if app.gang is not None:
        attributes["muster.gang.size"] = app.gang.size
        attributes["muster.gang.style"] = app.gang.style
        attributes["muster.gang.placement"] = app.gang.placement.value
    return attributes
