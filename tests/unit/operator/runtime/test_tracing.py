"""One trace per application: its phases and waits as spans, whatever users write and whenever the operator restarts."""

from collections import Counter
from dataclasses import dataclass, field

import pytest

from muster_operator.controller import recovery
from muster_operator.controller.state import Ledger
from muster_operator.model.cluster_events import ClusterEvent
from muster_operator.model.commands import BindPod, CommandSucceeded, Outcome, Result
from muster_operator.model.core_messages import (
    ApplicationAccepted,
    ApplicationResponse,
    CoreResponse,
    SchedulingState,
    SchedulingStateChanged,
    SchedulingStates,
)
from muster_operator.model.ids import AppId, PodUid
from muster_operator.model.limits import SPAN_TEXT_BYTES, TRACE_SPANS
from muster_operator.model.names import ANNOTATION_TRACEPARENT
from muster_operator.runtime.tracing import ApplicationTracer, Span, read_context, trace_ids
from muster_si import keys
from tests.unit.operator.controller.driver import APP, Driver, live, whole
from tests.unit.operator.controller.gang import a_direct_member, a_member, creates, pod_of, uid
from tests.unit.operator.controller.kubernetes import namespace_seen
from tests.unit.operator.controller.objects import Raw, a_pod
from tests.unit.operator.runtime.test_loop import Operator, running
from tests.unit.operator.runtime.test_loop import a_node as a_raw_node
from tests.unit.operator.runtime.test_loop import a_pod as a_raw_pod

SECOND = 1_000_000_000
TRACEPARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


@dataclass
class Traced(Driver):
    """A driver with a tracer, as in `Loop`. Each input takes a second."""

    spans: list[Span] = field(default_factory=list)
    ns: int = 2_000_000_000 * SECOND
    limit: int = 100

    def __post_init__(self) -> None:
        self.tracer = ApplicationTracer(self.ledger, self.spans.append, limit=self.limit, now_ns=self.tick)

    def tick(self) -> int:
        return self.ns

    def sent(self, out: Outcome) -> Outcome:
        self.ns += SECOND
        self.tracer.sent(out.requests)
        return out

    def fact(self, fact: ClusterEvent) -> Outcome:
        return self.sent(super().fact(fact))

    def receive(self, response: CoreResponse) -> Outcome:
        out = super().receive(response)
        self.tracer.received(response)
        return self.sent(out)

    def result(self, result: Result) -> Outcome:
        self.tracer.result(result)
        return self.sent(super().result(result))

    def allocate_and_bind(self, *uids: str) -> None:
        """The core allocates a node to each, then the API server answers the binds."""
        binds = [one for each in uids for one in self.allocated(each).commands if isinstance(one, BindPod)]
        for command in binds:
            self.result(CommandSucceeded(command))

    def waits(self, key: str, kind: str, reason: str = "why", app: AppId = APP) -> None:
        """The core reports why a request waits; an empty kind: that it does not."""
        state = SchedulingState.FAILED if kind else SchedulingState.SCHEDULED
        change = SchedulingStateChanged(app, PodUid(key), state, reason, kind)
        self.receive(SchedulingStates((change,)))

    @property
    def names(self) -> list[str]:
        return [span.name for span in self.spans]

    def only(self, name: str) -> Span:
        (found,) = [span for span in self.spans if span.name == name]
        return found


def traced(limit: int = 100) -> Traced:
    return Traced(live().ledger, limit=limit)


def finish(driver: Traced, *names: str) -> None:
    """The pods end, and the core completes the application."""
    driver.updated(keys.APP_COMPLETING)
    for name in names:
        driver.gone(name)
    driver.updated(keys.APP_COMPLETED)


def a_run_of_one(driver: Traced, raw: Raw | None = None) -> None:
    driver.see(raw or a_pod("w0", app=APP))
    driver.accepted()
    driver.allocate_and_bind("uid-w0")
    driver.updated(keys.APP_RUNNING)
    finish(driver, "w0")


def test_an_application_is_a_trace_with_its_phases_in_order() -> None:
    driver = traced()
    a_run_of_one(driver)
    assert driver.names == ["submit", "accept", "place", "bind", "run", "complete", "application"]
    root = driver.only("application")
    assert (root.parent_id, root.attributes["muster.application.state"], root.error) == (0, "Completed", "")
    assert {span.trace_id for span in driver.spans} == {root.trace_id}
    children = driver.spans[:-1]
    assert {span.parent_id for span in children} == {root.span_id}
    assert [one.end_ns for one in children[:-1]] == [next_one.start_ns for next_one in children[1:]]
    assert root.start_ns == children[0].start_ns
    assert root.end_ns == children[-1].end_ns
    assert len({span.span_id for span in driver.spans}) == len(driver.spans)
    assert len(driver.tracer) == 0


def test_a_gang_is_reserved_then_placed_and_bound() -> None:
    driver = traced()
    driver.see(a_member())
    driver.see(a_member("w1"))
    placeholders = [pod_of(command) for command in creates(driver.accepted())]
    for raw in placeholders:
        driver.see(raw)
    for raw in placeholders:
        driver.waits(uid(raw), keys.REASON_QUOTA, "not enough queue quota: root.a")
    for raw in placeholders:
        driver.allocate_and_bind(uid(raw))
    driver.updated(keys.APP_RUNNING)
    driver.allocate_and_bind("uid-w0")
    assert driver.names[-1] == "reserve", "one of two members is placed"
    driver.allocate_and_bind("uid-w1")
    assert driver.names == ["submit", "accept", "wait", "reserve", "place", "bind"]
    wait = driver.only("wait")
    assert wait.parent_id == driver.only("reserve").span_id
    assert wait.attributes["muster.wait.reason"] == "quota"
    assert wait.attributes["muster.wait.message"] == "not enough queue quota: root.a"
    assert wait.attributes["muster.wait.pods"] == 2
    assert driver.only("reserve").start_ns <= wait.start_ns < wait.end_ns <= driver.only("reserve").end_ns


def test_a_gang_without_placeholder_pods_has_the_same_phases() -> None:
    driver = traced()
    driver.see(a_direct_member())
    driver.see(a_direct_member("w1"))
    driver.accepted()
    driver.waits(f"{APP}/g", keys.REASON_NODES)
    driver.updated(keys.APP_RUNNING)
    driver.allocate_and_bind("uid-w0", "uid-w1")
    assert [name for name in driver.names if name != "wait"] == ["submit", "accept", "reserve", "place", "bind"]


def test_waits_of_each_reason_are_spans_of_their_own() -> None:
    driver = traced()
    driver.see(a_pod("w0", app=APP))
    driver.accepted()
    driver.waits("uid-w0", keys.REASON_QUOTA)
    driver.waits("uid-w0", keys.REASON_QUOTA, "another message, the same reason")
    driver.waits("uid-w0", keys.REASON_NODES)
    driver.allocate_and_bind("uid-w0")
    waits = [span for span in driver.spans if span.name == "wait"]
    assert [span.attributes["muster.wait.reason"] for span in waits] == ["quota", "nodes"]
    assert all(span.attributes["k8s.pod.name"] == "w0" for span in waits)
    assert waits[0].end_ns <= waits[1].start_ns


def test_a_wait_that_outlasts_its_phase_continues_in_the_next_one() -> None:
    driver = traced()
    driver.see(a_pod("w0", app=APP))
    driver.accepted()
    driver.see(a_pod("w1", app=APP))
    driver.waits("uid-w1", keys.REASON_NODES)
    driver.tracer.close()
    assert driver.names[-2:] == ["wait", "place"]
    assert driver.spans[-1].attributes["muster.operator.stopped"] is True
    assert driver.spans[-2].parent_id == driver.spans[-1].span_id


def test_a_failed_application_is_an_error_with_its_reason() -> None:
    driver = traced()
    driver.see(a_pod("w0", app=APP))
    driver.accepted()
    driver.updated(keys.APP_FAILING, "no nodes")
    driver.updated(keys.APP_FAILED)
    root = driver.only("application")
    assert (root.attributes["muster.application.state"], "no nodes" in root.error) == ("Failed", True)


def test_an_application_that_is_deleted_before_it_runs_ends_its_trace() -> None:
    driver = traced()
    driver.see(a_pod("w0", app=APP))
    driver.receive(ApplicationResponse(accepted=(ApplicationAccepted(APP),)))
    driver.gone("w0")
    assert driver.only("application").attributes["muster.application.state"] == "Killed"


def test_a_restarted_operator_continues_the_trace() -> None:
    before = traced()
    before.see(a_pod("w0", app=APP))
    before.accepted()
    before.allocate_and_bind("uid-w0")
    before.updated(keys.APP_RUNNING)
    before.tracer.close()
    assert before.names[-1] == "run"

    after = Traced(Ledger(before.ledger.settings, keys=before.ledger.keys))
    after.ns = before.ns
    after.ledger.namespaces, after.ledger.nodes = before.ledger.namespaces, before.ledger.nodes
    after.see(a_pod("w0", app=APP, nodeName="n1"))
    after.sent(whole(recovery.begin(after.ledger, 0.0)))
    after.accepted()
    after.sent(whole(recovery.report_nodes(after.ledger, 0.0)))
    after.sent(whole(recovery.submit_asks(after.ledger, 0.0)))
    after.sent(recovery.open_nodes(after.ledger, 0.0))
    finish(after, "w0")
    assert {span.trace_id for span in before.spans + after.spans} == {trace_ids(APP, PodUid("uid-w0"))[0]}
    assert [name for name in after.names if name in {"place", "bind"}] == []
    assert after.spans[0].attributes == {"muster.recovery": True}
    assert before.spans[-1].end_ns <= after.spans[0].start_ns
    roots = [span for span in before.spans + after.spans if not span.parent_id]
    assert [root.span_id for root in roots] == [trace_ids(APP, PodUid("uid-w0"))[1]]
    span_ids = Counter(span.span_id for span in before.spans + after.spans)
    assert span_ids.most_common(1)[0][1] == 1


def test_a_lost_session_does_not_end_the_trace() -> None:
    driver = traced()
    driver.see(a_pod("w0", app=APP))
    driver.accepted()
    recovery.pause(driver.ledger)
    driver.sent(Outcome())
    assert "application" not in driver.names
    driver.sent(whole(recovery.begin(driver.ledger, 0.0)))
    driver.accepted()
    driver.sent(whole(recovery.report_nodes(driver.ledger, 0.0)))
    driver.sent(whole(recovery.submit_asks(driver.ledger, 0.0)))
    driver.sent(recovery.open_nodes(driver.ledger, 0.0))
    driver.allocate_and_bind("uid-w0")
    assert driver.names == ["submit", "accept", "place", "accept", "place", "bind"]


def test_the_trace_context_of_the_first_pod_becomes_a_link() -> None:
    driver = traced()
    a_run_of_one(driver, a_pod("w0", app=APP, annotations={ANNOTATION_TRACEPARENT: TRACEPARENT}))
    root = driver.only("application")
    assert root.link == (0x4BF92F3577B34DA6A3CE929D0E0E4736, 0x00F067AA0BA902B7)
    assert root.trace_id == trace_ids(APP, PodUid("uid-w0"))[0]


@pytest.mark.parametrize(
    "written",
    [
        "",
        "no",
        TRACEPARENT.upper(),
        TRACEPARENT + "0",
        TRACEPARENT.replace("00-", "ff-", 1),
        f"00-{'0' * 32}-00f067aa0ba902b7-01",
        f"00-4bf92f3577b34da6a3ce929d0e0e4736-{'0' * 16}-01",
        "x" * 55,
        "\N{ARABIC-INDIC DIGIT ZERO}" * 55,
        "0" * 250_000,
    ],
)
def test_an_invalid_trace_context_is_ignored(written: str) -> None:
    assert read_context(written) is None
    driver = traced()
    a_run_of_one(driver, a_pod("w0", app=APP, annotations={ANNOTATION_TRACEPARENT: written}))
    assert driver.only("application").link is None
    assert len(driver.spans) == 7


def test_texts_of_users_are_bounded_in_bytes() -> None:
    driver = traced()
    driver.see(a_pod("w0", app=APP))
    driver.accepted()
    driver.waits("uid-w0", keys.REASON_NODES, "ü" * 100_000)
    driver.waits("uid-w0", "")
    message = str(driver.only("wait").attributes["muster.wait.message"])
    assert 0 < len(message.encode()) <= SPAN_TEXT_BYTES


def test_the_number_of_spans_of_an_application_is_bounded_and_its_root_reports_the_rest() -> None:
    driver = traced()
    driver.see(a_pod("w0", app=APP))
    driver.accepted()
    for _ in range(TRACE_SPANS):
        driver.waits("uid-w0", keys.REASON_NODES)
        driver.waits("uid-w0", keys.REASON_QUOTA)
    finish(driver, "w0")
    assert len(driver.spans) == TRACE_SPANS + 1
    assert driver.spans[-1].attributes["muster.spans.dropped"] == TRACE_SPANS + 3


def test_a_namespace_with_many_applications_does_not_displace_the_traces_of_others() -> None:
    driver = traced(limit=10)
    driver.see(a_pod("w0", app=APP))
    driver.fact(namespace_seen({"metadata": {"name": "other"}}))
    for number in range(50):
        raw = a_pod(f"many-{number}", app=AppId(f"other/job-{number}"))
        raw["metadata"]["namespace"] = "other"
        raw["metadata"]["labels"]["applicationId"] = f"job-{number}"
        driver.see(raw)
    assert len(driver.tracer) == 10
    a_run_of_one(driver)
    assert driver.only("application").attributes["k8s.namespace.name"] == "dev"


def test_a_trace_that_is_not_sampled_has_no_span() -> None:
    driver = traced()
    driver.tracer = ApplicationTracer(driver.ledger, driver.spans.append, lambda _: False, now_ns=driver.tick)
    a_run_of_one(driver)
    assert driver.spans == []


async def test_scheduling_continues_if_tracing_fails() -> None:
    operator = Operator()

    def fail(span: Span) -> None:
        raise OSError(span.name)

    operator.loop.tracer = ApplicationTracer(operator.ledger, fail)
    async with running(operator):
        await operator.lists(nodes=[a_raw_node("n1")], pods=[a_raw_pod("w0")])
        await operator.ready()
    assert operator.requested_uids() == ["uid-w0"]
    assert operator.metrics.failures.labels("Trace")._value.get() == 1
    assert operator.loop.tracer is None
