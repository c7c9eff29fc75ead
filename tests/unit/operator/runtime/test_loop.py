"""One task owns the ledger: the order of a recovery, lists that show missed deletes, and isolated failures."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pytest

from muster_operator.config.settings import parse
from muster_operator.controller import applications, core_responses, recovery
from muster_operator.controller.state import Application, Ledger, Task
from muster_operator.kube.watch import PATHS
from muster_operator.model.cluster_events import KeysSeen
from muster_operator.model.commands import (
    BindPod,
    CommandSucceeded,
    CreatePlaceholder,
    DeletePod,
    Order,
    Outcome,
    PostEvent,
)
from muster_operator.model.ids import NodeName, PodUid
from muster_operator.model.pods import Pod, PodRef
from muster_operator.runtime import session
from muster_operator.runtime.inputs import CommandEnded, EventReceived, Unreadable
from muster_operator.runtime.loop import Inbox, Loop
from muster_operator.runtime.metrics import Metrics
from muster_operator.runtime.session import Stage
from muster_operator.si.codec import Encoder, decoded
from muster_operator.si.session import CoreLink
from muster_operator.translate import objects
from muster_si import keys, muster_pb2, si_pb2
from tests.unit.operator.controller.driver import APP
from tests.unit.operator.controller.kubernetes import SETTINGS
from tests.unit.operator.controller.test_recovery import a_member, placeholder
from tests.unit.operator.model.signing import KEYS, sign_binding
from tests.unit.operator.si.scheduler import Peer


def a_node(name: str, version: int = 1) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "uid": f"uid-{name}", "resourceVersion": str(version)},
        "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"}},
    }


def a_pod(name: str, node: str = "", version: int = 1, app: str = "app") -> dict[str, Any]:
    return {
        "metadata": {
            "name": name,
            "namespace": "ns",
            "uid": f"uid-{name}",
            "resourceVersion": str(version),
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": {"applicationId": app},
        },
        "spec": {
            "schedulerName": "muster",
            "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}],
            **({"nodeName": node} if node else {}),
        },
        "status": {"phase": "Running" if node else "Pending"},
    }


@dataclass
class Operator:
    """A loop with its inbox, a peer instead of a core, and the resulting commands."""

    peer: Peer = field(default_factory=Peer)
    metrics: Metrics = field(default_factory=Metrics)
    commands: list[Order] = field(default_factory=list)
    binds_in_flight: int = 0
    cancellations: int = 0
    clock_ahead_s: float = 0.0

    def cancel_binds(self) -> None:
        self.cancellations += 1

    def __post_init__(self) -> None:
        self.inbox = Inbox(self.metrics)
        self.ledger = Ledger(SETTINGS, keys=KEYS)
        self.loop = Loop(self.ledger, self.inbox, self.commands.append, self.metrics, binds=self)
        self.loop.use_clock(lambda: self.clock_ahead_s)
        self.link = CoreLink(self.peer, Encoder("rm", "default"), parse({}), self.inbox, lambda: None)

    async def lists(self, **objects: list[dict[str, Any]]) -> None:
        """A complete list of every resource."""
        for plural in sorted(PATHS):
            self.inbox.list_begun(plural)
            for raw in objects.get(plural, []):
                await self.inbox.watched(plural, None, raw)
            await self.inbox.listed(plural)

    async def until(self, holds: Callable[[], bool]) -> None:
        """Wait until it is so."""
        async with asyncio.timeout(10):
            while not holds():  # noqa: ASYNC110 - a level that nobody signals
                await asyncio.sleep(0.001)

    async def ready(self) -> None:
        """Wait until it has recovered and the core has received the last message."""
        await self.until(lambda: not self.loop.missing and self.barriers()[-1:] == [False])

    async def wait_until_idle(self) -> None:
        """Let everything that can happen now happen."""
        for _ in range(50):
            await asyncio.sleep(0)

    def barriers(self) -> list[bool]:
        """For each barrier, whether more messages follow before scheduling may begin."""
        return [message.more for message in self.peer.received if isinstance(message, muster_pb2.BarrierRequest)]

    def requested_uids(self) -> list[str]:
        """The keys of the requests that the core received."""
        requests = [message for message in self.peer.received if isinstance(message, si_pb2.AllocationRequest)]
        return [ask.allocationKey for request in requests for ask in request.asks]

    def reported_nodes(self) -> list[tuple[str, int]]:
        """Node actions in the order in which the core received them."""
        requests = [message for message in self.peer.received if isinstance(message, si_pb2.NodeRequest)]
        return [(node.nodeID, node.action) for request in requests for node in request.nodes]


@asynccontextmanager
async def running(operator: Operator) -> AsyncIterator[Operator]:
    tasks = [asyncio.create_task(operator.loop.run()), asyncio.create_task(operator.link.run())]
    try:
        yield operator
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


INFO = si_pb2.NodeInfo


def accepted(app: str) -> si_pb2.ApplicationResponse:
    return si_pb2.ApplicationResponse(accepted=[si_pb2.AcceptedApplication(applicationID=app)])


async def test_a_recovery_sends_applications_then_nodes_then_requests_then_a_barrier_then_opens_nodes() -> None:
    async with running(Operator()) as operator:
        await operator.lists(nodes=[a_node("n1")], pods=[a_pod("bound", "n1"), a_pod("waiting")])
        await operator.until(lambda: operator.barriers() == [True, False])
    kinds = [type(message).__name__ for message in operator.peer.received]
    assert kinds == [
        "ApplicationRequest",
        "NodeRequest",
        "AllocationRequest",
        "BarrierRequest",
        "NodeRequest",
        "BarrierRequest",
    ]
    assert operator.reported_nodes() == [("n1", INFO.CREATE_DRAIN), ("n1", INFO.DRAIN_TO_SCHEDULABLE)]
    first = next(message for message in operator.peer.received if isinstance(message, si_pb2.NodeRequest))
    assert [allocation.allocationKey for allocation in first.nodes[0].existingAllocations] == ["uid-bound"]


async def test_object_times_are_converted_to_our_clock() -> None:
    """Else a clock that is 15 minutes ahead ends every gang that reserves, at a restart."""
    bound = a_pod("bound", "n1")
    scheduled = {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-01-01T00:00:10Z"}
    bound["status"]["conditions"] = [scheduled]
    async with running(Operator(clock_ahead_s=900.0)) as operator:
        await operator.lists(nodes=[a_node("n1")], pods=[bound])
        await operator.ready()
    created_s = int(datetime(2026, 1, 1, tzinfo=UTC).timestamp())
    [request] = [one for one in operator.peer.received if isinstance(one, si_pb2.ApplicationRequest)]
    assert request.new[0].tags[keys.APP_TAG_CREATION_TIME] == str(created_s + 900)
    node = next(one for one in operator.peer.received if isinstance(one, si_pb2.NodeRequest)).nodes[0]
    assert node.existingAllocations[0].allocationTags[keys.TAG_ALLOCATED_AT] == str((created_s + 910) * 1000)


async def test_nothing_is_reported_before_every_list_is_complete() -> None:
    async with running(Operator()) as operator:
        operator.inbox.list_begun("pods")
        await operator.inbox.watched("pods", None, a_pod("waiting"))
        await operator.inbox.listed("pods")
        await operator.wait_until_idle()
        assert operator.loop.missing == "waiting for the first lists of the cluster"
    assert operator.peer.received == []


async def test_the_operator_is_not_ready_while_an_application_is_unanswered() -> None:
    async with running(Operator(Peer(accepts=False))) as operator:
        await operator.lists(nodes=[a_node("n1")], pods=[a_pod("waiting")])
        await operator.wait_until_idle()
        assert operator.loop.missing == "waiting for the core to accept or reject the applications"
        assert operator.reported_nodes() == []


async def test_an_unanswered_application_does_not_block_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "ANSWERS_S", 0.01)
    async with running(Operator(Peer(accepts=False))) as operator:
        await operator.lists(nodes=[a_node("n1")], pods=[a_pod("one", app="one"), a_pod("two", app="two")])
        await two_pods_are_requested_one_by_one(operator)


async def two_pods_are_requested_one_by_one(operator: Operator) -> None:
    """The core accepts one application; the operator is ready before the answer for the other one."""
    await operator.until(lambda: bool(operator.ledger.applications))
    operator.peer.callback.update_application(accepted("ns/one"))
    await operator.ready()
    assert operator.requested_uids() == ["uid-one"]
    operator.peer.callback.update_application(accepted("ns/two"))
    await operator.until(lambda: operator.requested_uids() == ["uid-one", "uid-two"])
    assert len(operator.peer.registrations) == 1


async def test_an_application_accepted_late_sends_its_requests_when_nodes_open(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(session, "ANSWERS_S", 0.01)
    open_nodes = recovery.open_nodes

    def answered_just_before(ledger: Ledger, now: float) -> Outcome:
        core_responses.handle_core_response(ledger, decoded(accepted("ns/late")), now)
        return open_nodes(ledger, now)

    monkeypatch.setattr(recovery, "open_nodes", answered_just_before)
    async with running(Operator(Peer(accepts=False))) as operator:
        await operator.lists(nodes=[a_node("n1")], pods=[a_pod("late", app="late")])
        await operator.until(lambda: operator.requested_uids() == ["uid-late"])


async def test_an_unanswered_application_with_a_pod_not_bound_by_muster_does_not_block_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(session, "ANSWERS_S", 0.01)
    async with running(Operator(Peer(accepts=False))) as operator:
        pods = [a_pod("one", app="one"), a_pod("bound", "n1", app="two"), a_pod("two", app="two")]
        await operator.lists(nodes=[a_node("n1")], pods=pods)
        await two_pods_are_requested_one_by_one(operator)


async def test_the_recovery_waits_for_an_unanswered_application_with_a_pod_bound_by_muster(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(session, "ANSWERS_S", 0.0)
    bound = a_pod("bound", "n1")
    bound["metadata"]["annotations"] = {}
    async with running(Operator(Peer(accepts=False))) as operator:
        await operator.lists(nodes=[a_node("n1")], pods=[sign_binding(bound)])
        await operator.until(lambda: bool(operator.ledger.applications))
        await operator.wait_until_idle()
        assert operator.reported_nodes() == []


async def test_a_lost_session_is_replayed_completely() -> None:
    async with running(Operator()) as operator:
        await operator.lists(nodes=[a_node("n1")], pods=[a_pod("waiting")])
        await operator.ready()
        operator.peer.received.clear()
        operator.peer.callback.session_lost("gone")
        await operator.until(lambda: len(operator.reported_nodes()) == 2)
    assert operator.reported_nodes() == [("n1", INFO.CREATE_DRAIN), ("n1", INFO.DRAIN_TO_SCHEDULABLE)]


@pytest.mark.parametrize("begun", [True, False])
async def test_placeholders_are_adopted_when_keys_are_received_after_the_session_began(
    *,
    begun: bool,
) -> None:
    """`begun`: whether the core has answered, so that the session lives."""
    operator = Operator(Peer(accepts=begun))
    operator.ledger.keys = None
    pods = [a_member("w0"), a_member("w1"), placeholder("ph0", nodeName="n1"), placeholder("ph1")]
    for raw in pods:
        raw["metadata"]["resourceVersion"] = "1"
    async with running(operator):
        await operator.lists(nodes=[a_node("n1")], pods=pods)
        await (operator.ready() if begun else operator.until(lambda: bool(operator.peer.received)))
        operator.peer.accepts = True
        operator.peer.received.clear()
        operator.inbox.put(EventReceived(KeysSeen(KEYS)))
        await operator.until(lambda: operator.barriers() == [True, False])
        await operator.ready()
    assert operator.ledger.unverified == set()
    assert len(operator.ledger.applications[APP].placeholders) == 2
    assert not [command for command in operator.commands if isinstance(command, DeletePod | CreatePlaceholder)]


async def test_an_allocation_of_the_core_becomes_a_bind() -> None:
    async with running(Operator()) as operator:
        await operator.lists(nodes=[a_node("n1")], pods=[a_pod("waiting")])
        await operator.ready()
        operator.peer.callback.update_allocation(
            si_pb2.AllocationResponse(
                new=[si_pb2.Allocation(applicationID="ns/app", allocationKey="uid-waiting", nodeID="n1")]
            )
        )
        await operator.until(lambda: bool(operator.commands))
    assert [type(command) for command in operator.commands] == [BindPod]


async def test_an_allocation_of_an_older_session_is_ignored() -> None:
    async with running(Operator()) as operator:
        await operator.lists(nodes=[a_node("n1")], pods=[a_pod("waiting")])
        await operator.ready()
        older = operator.peer.callback
        older.session_lost("gone")
        await operator.until(lambda: len(operator.peer.callbacks) >= 2)
        await operator.ready()
        older.update_allocation(
            si_pb2.AllocationResponse(
                new=[si_pb2.Allocation(applicationID="ns/app", allocationKey="uid-waiting", nodeID="n1")]
            )
        )
        await operator.wait_until_idle()
    assert operator.commands == []


async def test_a_missed_deletion_is_found_by_the_next_list() -> None:
    async with running(Operator()) as operator:
        await operator.lists(nodes=[a_node("n1"), a_node("n2")], pods=[a_pod("bound", "n1")])
        await operator.ready()
        await operator.lists(nodes=[a_node("n1")])
        await operator.until(lambda: len(operator.reported_nodes()) == 5)
    assert operator.reported_nodes()[-1] == ("n2", INFO.DECOMISSION)
    assert "uid-bound" not in operator.ledger.pods
    assert (
        operator.metrics.registry.get_sample_value("muster_operator_resync_repairs_total", {"resource": "pods"}) == 1.0
    )


async def test_a_pod_created_during_a_list_is_not_deleted() -> None:
    async with running(Operator()) as operator:
        await operator.lists(nodes=[a_node("n1")])
        await operator.ready()
        operator.inbox.list_begun("pods")
        operator.inbox.object_read("pods", a_pod("new", version=9))
        await operator.inbox.listed("pods", "8")
        await operator.wait_until_idle()
    assert "uid-new" in operator.ledger.pods


async def test_a_pod_read_before_its_deletion_is_not_added_again() -> None:
    async with running(Operator()) as operator:
        await operator.lists(nodes=[a_node("n1")], pods=[a_pod("p", version=5)])
        await operator.ready()
        await operator.inbox.watched("pods", "DELETED", a_pod("p", version=7))
        operator.inbox.object_read("pods", a_pod("p", version=6))
        await operator.wait_until_idle()
    assert operator.ledger.pods == {}


async def test_an_older_read_does_not_replace_the_state_from_the_watch() -> None:
    async with running(Operator()) as operator:
        await operator.lists(nodes=[a_node("n1")], pods=[a_pod("p", "n1", version=9)])
        await operator.ready()
        operator.inbox.object_read("pods", a_pod("p", version=8))
        await operator.wait_until_idle()
        [pod] = operator.ledger.pods.values()
        assert pod.node == "n1"


async def test_a_failing_input_affects_no_other_input() -> None:
    async with running(Operator()) as operator:
        await operator.lists(nodes=[a_node("n1")])
        await operator.ready()
        await operator.inbox.watched("pods", "ADDED", {"metadata": {"uid": 7, "name": ["no", "name"]}, "spec": 3})
        operator.inbox.put(CommandEnded("no result"))  # type: ignore[arg-type] # a bug somewhere else
        await operator.inbox.watched("pods", "ADDED", a_pod("p"))
        await operator.wait_until_idle()
        assert "uid-p" in operator.ledger.pods
        assert operator.loop.missing == ""
    failures = operator.metrics.registry.get_sample_value("muster_operator_loop_failures_total", {"kind": "str"})
    assert failures == 1.0


async def test_after_a_failure_a_new_session_recovers_all_objects(monkeypatch: pytest.MonkeyPatch) -> None:
    join, calls = applications.join, iter([True])

    def fails_at_its_end(*args: Any) -> None:
        join(*args)
        if next(calls, False):
            raise ZeroDivisionError

    monkeypatch.setattr(applications, "join", fails_at_its_end)
    async with running(Operator()) as operator:
        await operator.lists(nodes=[a_node("n1")])
        await operator.ready()
        recoveries = operator.barriers().count(False)
        await operator.inbox.watched("pods", "ADDED", a_pod("p"))
        await operator.until(lambda: operator.barriers().count(False) > recoveries)
        assert PodUid("uid-p") in operator.ledger.tasks


async def test_a_failing_recovery_step_does_not_discard_the_result_of_an_input(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gated = a_pod("p")
    gated["spec"]["schedulingGates"] = [{"name": "later"}]
    async with running(Operator()) as operator:
        await operator.lists(nodes=[a_node("n1")])
        await operator.ready()
        monkeypatch.setattr(operator.loop._current, "stage", Stage.OPENING)
        monkeypatch.setattr(operator.loop._current, "next_step", lambda now: next(iter(())))
        await operator.inbox.watched("pods", "ADDED", gated)
        await operator.until(lambda: bool(operator.commands))
    assert "later" in str(operator.commands[0])


async def test_an_unreadable_object_does_not_end_a_recovery(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its owner could otherwise change it again and again, and no recovery would ever end."""
    async with running(Operator()) as operator:
        await operator.lists(nodes=[a_node("n1")])
        await operator.ready()
        current = operator.loop._current
        monkeypatch.setattr(current, "stage", Stage.ANSWERS)
        monkeypatch.setattr(current, "next_step", lambda now: None)
        operator.inbox.put(Unreadable("pods", a_pod("p"), ValueError("broken")))
        registry = operator.metrics.registry
        await operator.until(
            lambda: registry.get_sample_value("muster_operator_loop_failures_total", {"kind": "Unreadable"}) == 1.0
        )
        assert current.session is not None
        assert not current.session.over.done()


@pytest.mark.parametrize("requests, vcore", [({"cpu": "1"}, 1000), ({"cpu": ["odd"]}, 0)])
async def test_an_unreadable_bound_pod_uses_its_node_and_joins_its_application_once_readable(
    monkeypatch: pytest.MonkeyPatch, requests: Any, vcore: int
) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError

    raw = a_pod("odd", "n1")
    raw["spec"]["containers"][0]["resources"]["requests"] = requests
    async with running(Operator()) as operator:
        with monkeypatch.context() as patch:
            patch.setattr(objects, "read_pod", broken)
            await operator.lists(nodes=[a_node("n1")], pods=[raw])
            await operator.ready()
        [node] = [info for one in operator.peer.received if isinstance(one, si_pb2.NodeRequest) for info in one.nodes][
            :1
        ]
        [counted] = node.existingAllocations
        amounts = counted.resourcePerAlloc.resources
        assert (counted.allocationKey, counted.applicationID, amounts["vcore"].value) == ("uid-odd", "", vcore)
        assert amounts["pods"].value == 1
        [event] = [order for order in operator.commands if isinstance(order, PostEvent)]
        assert (event.name, event.reason) == ("odd", "InternalError")
        operator.peer.received.clear()
        await operator.inbox.watched("pods", "MODIFIED", a_pod("odd", "n1", version=2))
        await operator.until(lambda: len(allocated(operator)) == 2)
        assert allocated(operator) == ["", "ns/app"]
        releases = [one.releases for one in operator.peer.received if isinstance(one, si_pb2.AllocationRequest)]
        released = [gone.allocationKey for one in releases for gone in one.allocationsToRelease]
        assert released == ["uid-odd", "uid-odd"]


def allocated(operator: Operator) -> list[str]:
    """The applications of the allocations that were reported to the core, in order."""
    requests = [one for one in operator.peer.received if isinstance(one, si_pb2.AllocationRequest)]
    return [one.applicationID for request in requests for one in request.allocations]


async def test_an_object_that_fails_in_a_recovery_is_counted_and_the_recovery_continues(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    attach = applications.attach

    def broken(ledger: Ledger, app: Application, pod: Pod) -> Task:
        if pod.ref.name == "broken":
            raise ZeroDivisionError
        return attach(ledger, app, pod)

    monkeypatch.setattr(applications, "attach", broken)
    async with running(Operator()) as operator:
        await operator.lists(nodes=[a_node("n1")], pods=[a_pod("broken", "n1"), a_pod("fine", app="fine")])
        await operator.ready()
        assert [task.pod.ref.name for task in operator.ledger.tasks.values()] == ["fine"]
        registry = operator.metrics.registry
        assert registry.get_sample_value("muster_operator_loop_failures_total", {"kind": "Pod"}) == 1.0
        assert len(operator.peer.registrations) == 1


async def test_the_scheduler_state_is_sent_to_the_core_as_json() -> None:
    async with running(Operator()) as operator:
        await operator.lists(nodes=[a_node("n1")], pods=[a_pod("p")])
        await operator.ready()
        operator.peer.callback.call_back(muster_pb2.Callback(stateDump=muster_pb2.StateDumpQuestion(id=7)))
        await operator.until(lambda: len(operator.peer.answered) >= 2)
    answer = operator.peer.answered[-1].stateDump
    assert answer.id == 7
    update = json.loads(answer.json)
    [app] = update["applications"].values()
    assert app["members"]["uid-p"]["pod"]["ref"]["name"] == update["pods"]["uid-p"]["ref"]["name"] == "p"


async def test_a_draining_operator_ignores_allocations() -> None:
    async with running(Operator()) as operator:
        await operator.lists(nodes=[a_node("n1")], pods=[a_pod("waiting")])
        await operator.ready()
        operator.loop.drain()
        operator.peer.callback.update_allocation(
            si_pb2.AllocationResponse(
                new=[si_pb2.Allocation(applicationID="ns/app", allocationKey="uid-waiting", nodeID="n1")]
            )
        )
        await operator.wait_until_idle()
        assert operator.loop.missing == "shutting down"
    assert operator.commands == []


async def test_a_session_begins_after_the_last_bind_of_the_previous_one_has_finished() -> None:
    """Otherwise it would allocate resources that a late bind uses."""
    operator = Operator(binds_in_flight=1)
    async with running(operator):
        await operator.lists(nodes=[a_node("n1")], pods=[a_pod("late")])
        await operator.until(lambda: operator.cancellations > 0)
        await operator.wait_until_idle()
        assert operator.loop.missing == "waiting for the last binds of the previous session"
        assert operator.peer.received == []
        operator.binds_in_flight = 0
        bind = BindPod(PodRef("ns", "late", PodUid("uid-late")), NodeName("n1"))
        operator.inbox.put(CommandEnded(CommandSucceeded(bind)))
        await operator.ready()
    update = next(message for message in operator.peer.received if isinstance(message, si_pb2.NodeRequest))
    assert [allocation.allocationKey for allocation in update.nodes[0].existingAllocations] == ["uid-late"]
