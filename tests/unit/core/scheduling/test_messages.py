"""Keys, duplicates, refusals, nodes and recovery."""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import pytest

from muster_core.model.constraints import Constraints, Toleration
from muster_core.model.decisions import ReasonKind, UnschedulableReason
from muster_core.model.effects import AllocationResponse, Effect, NodeAccepted, NodeRejected, SchedulingStateChanged
from muster_core.model.events import (
    AllocationReleased,
    ApplicationAdded,
    AskAdded,
    ConfigurationReplaced,
    ConnectionLost,
    ManagerLeft,
    ManagerRegistered,
    NodeAction,
    NodeUpdated,
    RecoveryBarrierPassed,
)
from muster_core.model.ids import ApplicationId, TaskGroup, Termination
from muster_core.model.limits import REFRESHES_PER_S
from muster_core.model.records import EventRecorded, Notice
from muster_core.model.specs import NO_PROPERTIES, HostPort, PodProperties
from muster_core.model.states import ManagerState
from muster_core.scheduling.scheduler import cycle, step
from tests.unit.builders import (
    PARTITION,
    RM,
    a_configuration,
    a_node,
    a_queue,
    an_allocation,
    an_application,
    an_ask,
    resources,
)
from tests.unit.core.scheduling import auto, direct
from tests.unit.core.scheduling.scenario import (
    Scenario,
    UncheckedScenario,
    notices,
    placed,
    refused_asks,
    rejection,
    released_asks,
    releases,
    states,
    waits,
)


@pytest.fixture
def scenario() -> Scenario:
    return Scenario(a_configuration(a_queue("a")), an_application(), nodes=1)


def test_an_ask_with_a_known_key_replaces_the_pending_one(scenario: Scenario) -> None:
    scenario.ask(an_ask("r0", vcore=9000))
    assert placed(scenario.ask(an_ask("r0", vcore=500))) == {"r0": "n0"}
    assert scenario.app().pending == resources()


def test_an_ask_whose_key_is_allocated_is_refused(scenario: Scenario) -> None:
    scenario.ask(an_ask("r0"))
    assert "allocated already" in refused_asks(scenario.ask(an_ask("r0")))["r0"]


def test_an_ask_for_several_allocations_gets_that_many_with_different_ids(scenario: Scenario) -> None:
    effects = scenario.ask(an_ask("many", count=3))
    [answer] = [effect for effect in effects if isinstance(effect, AllocationResponse)]
    assert [new.ask.key for new in answer.new] == ["many"] * 3
    assert [new.id for new in answer.new] == ["many-0", "many-1", "many-2"]


def test_an_ask_for_several_allocations_waits_for_the_rest(scenario: Scenario) -> None:
    effects = scenario.ask(an_ask("many", count=6))
    assert len(next(e for e in effects if isinstance(e, AllocationResponse)).new) == 4
    assert scenario.app().pending == resources(vcore=2000, pods=2)
    more = scenario.add_node("n1")
    assert [new.id for e in more if isinstance(e, AllocationResponse) for new in e.new] == ["many-4", "many-5"]


def test_a_release_without_id_releases_all_of_the_key_and_one_with_id_only_that(scenario: Scenario) -> None:
    scenario.ask(an_ask("many", count=3))
    scenario.release("many", identity="many-1")
    assert set(scenario.app().allocations) == {"many-0", "many-2"}
    scenario.release("many")
    assert scenario.app().allocations == {}


def test_a_release_without_key_releases_all_of_the_application(scenario: Scenario) -> None:
    scenario.ask(an_ask("r0"), an_ask("r1"))
    effects = scenario.send(AllocationReleased(PARTITION, ApplicationId("app"), None, None, Termination.STOPPED_BY_RM))
    assert releases(effects) == {"r0": Termination.STOPPED_BY_RM, "r1": Termination.STOPPED_BY_RM}


def test_an_ask_of_an_unknown_application_is_refused(scenario: Scenario) -> None:
    assert "not known" in refused_asks(scenario.ask(an_ask("r0", app="nobody")))["r0"]


def test_an_unknown_queue_falls_through_to_the_next_rule() -> None:
    scenario = Scenario(a_configuration(a_queue("a")))
    assert rejection(scenario.submit(an_application(queue="root.nowhere"))) == ""
    assert scenario.app().queue.path == "root.ns"


def test_nodes_are_accepted_once_and_unknown_ones_refused(scenario: Scenario) -> None:
    assert [type(e) for e in scenario.add_node("n1")] == [NodeAccepted]
    [refused] = scenario.add_node("n1")
    assert isinstance(refused, NodeRejected)
    [unknown] = scenario.send(NodeUpdated(a_node("ghost")))
    assert isinstance(unknown, NodeRejected)
    [not_draining] = scenario.node("n1", NodeAction.OPEN)
    assert isinstance(not_draining, NodeRejected)
    assert "not draining" in not_draining.reason


def test_a_drained_node_accepts_no_pods_until_it_is_opened(scenario: Scenario) -> None:
    scenario.node("n0", NodeAction.DRAIN)
    assert placed(scenario.ask(an_ask("r0"))) == {}
    assert placed(scenario.node("n0", NodeAction.OPEN)) == {"r0": "n0"}


def test_a_node_created_draining_waits_for_its_opening() -> None:
    scenario = Scenario(a_configuration(a_queue("a")), an_application())
    scenario.add_node("n0", draining=True)
    assert placed(scenario.ask(an_ask("r0"))) == {}
    assert placed(scenario.node("n0", NodeAction.OPEN)) == {"r0": "n0"}


def test_growing_a_node_places_waiting_asks_and_reports_them_as_scheduled(scenario: Scenario) -> None:
    assert waits(scenario.ask(an_ask("r0", vcore=6000)))["r0"][0] == "FAILED"
    grown = scenario.send(NodeUpdated(a_node("n0", 8000)))
    assert placed(grown) == {"r0": "n0"}
    assert waits(grown)["r0"][0] == "SCHEDULED"


def test_a_failure_with_the_same_kind_of_reason_is_reported_once(scenario: Scenario) -> None:
    assert set(waits(scenario.ask(an_ask("r0", vcore=6000)))) == {"r0"}
    assert set(waits(scenario.ask(an_ask("r1", vcore=6000)))) == {"r1"}
    assert waits(scenario.add_node("n1")) == {}


def test_a_removed_node_releases_its_allocations(scenario: Scenario) -> None:
    scenario.ask(an_ask("r0"))
    effects = scenario.node("n0", NodeAction.DECOMMISSION)
    assert releases(effects) == {"r0": Termination.STOPPED_BY_RM}
    assert states(effects) == ["Completing"]
    assert scenario.add_node("n0") != []


def test_a_gang_replaces_placeholders_lost_with_their_node() -> None:
    scenario = Scenario(a_configuration(a_queue("a")), nodes=2, vcore=2000)
    scenario.add_full_node()
    scenario.gang(an_application(gang=6), 6)
    lost = releases(scenario.node("n1", NodeAction.DECOMMISSION))
    assert len(lost) == 2
    asks = [an_ask(f"again-{i}", group="workers", placeholder=True) for i in range(2)]
    scenario.ask(*asks)
    assert states(scenario.add_node("n2", vcore=4000)) == ["Running"]


def test_foreign_allocations_use_resources_of_their_node_but_not_of_queues() -> None:
    scenario = Scenario(a_configuration(a_queue("a", vcore=4000)))
    scenario.add_node("n0", an_allocation("f", "n0", app="", vcore=3000, foreign=True))
    scenario.submit(an_application())
    assert scenario.partition.queues.root.allocated == resources()
    assert placed(scenario.ask(an_ask("r0", vcore=2000))) == {}
    assert placed(scenario.release("f", app="", identity="f-0")) == {"r0": "n0"}


def test_registering_again_clears_the_scheduler_state(scenario: Scenario) -> None:
    scenario.ask(an_ask("r0"))
    scenario.send(ManagerRegistered(RM, a_configuration(a_queue("a"))))
    assert scenario.partition.applications == {}
    assert len(scenario.partition.nodes) == 0


def test_nothing_is_scheduled_before_the_recovery_barrier() -> None:
    scenario = Scenario(a_configuration(a_queue("a")))
    scenario.send(ManagerRegistered(RM, a_configuration(a_queue("a")), awaits_barrier=True))
    scenario.add_node("n0")
    assert placed(scenario.submit(an_application(), an_ask("r0"))) == {}
    assert placed(scenario.send(RecoveryBarrierPassed(RM))) == {"r0": "n0"}


def test_a_disconnected_resource_manager_is_paused_and_stopped_after_the_timeout(scenario: Scenario) -> None:
    scenario.send(ConnectionLost(RM))
    assert scenario.scheduler_state.managers[RM].state is ManagerState.PAUSED
    assert placed(scenario.ask(an_ask("r0"))) == {}
    scenario.wait(301)
    assert scenario.scheduler_state.managers[RM].state is ManagerState.STOPPED
    assert scenario.scheduler_state.partitions == {}


def test_the_old_timer_does_not_stop_a_resource_manager_that_registered_again(scenario: Scenario) -> None:
    scenario.send(ConnectionLost(RM))
    scenario.send(ManagerRegistered(RM, a_configuration(a_queue("a"))))
    scenario.wait(301)
    assert scenario.scheduler_state.managers[RM].state is ManagerState.RUNNING


def test_a_resource_manager_that_unregisters_is_stopped_immediately(scenario: Scenario) -> None:
    scenario.send(ManagerLeft(RM))
    assert scenario.scheduler_state.managers[RM].state is ManagerState.STOPPED
    assert step(scenario.scheduler_state, ApplicationAdded(an_application()), 0) == []


def recovered(*existing_placeholders: str, real: str = "", allocated_s: int = 0) -> Scenario:
    """A gang of 3 as a restart reports it: some of its pods are bound."""
    scenario = Scenario(a_configuration(a_queue("a")), an_application(gang=3, timeout_s=60))
    existing = [
        an_allocation(key, "n0", group="workers", placeholder=True, allocated_s=allocated_s)
        for key in existing_placeholders
    ]
    if real:
        existing.append(an_allocation(real, "n0", group="workers"))
    scenario.add_node("n0", *existing)
    return scenario


def test_recovered_placeholders_count_and_the_rest_is_reserved() -> None:
    scenario = recovered("p0", "p1")
    assert scenario.app().state == "Accepted"
    assert states(scenario.ask(an_ask("p2", group="workers", placeholder=True))) == ["Running"]


def test_a_recovered_gang_with_all_placeholders_bound_runs_immediately() -> None:
    assert recovered("p0", "p1", "p2").app().state == "Running"


def test_one_bound_real_member_means_that_the_gang_runs() -> None:
    scenario = recovered("p0", real="r1")
    assert scenario.app().state == "Running"
    assert releases(scenario.ask(an_ask("r0", group="workers"))) == {"p0": Termination.PLACEHOLDER_REPLACED}
    late = scenario.ask(an_ask("p9", group="workers", placeholder=True))
    assert released_asks(late) == {"p9": Termination.TIMEOUT}


def test_the_placeholder_timer_continues_from_the_earliest_bound_placeholder() -> None:
    scenario = recovered("p0", "p1", allocated_s=960)
    assert states(scenario.wait(19)) == []
    assert states(scenario.wait(2)) == ["Resuming"]


def test_a_recovered_allocation_counts_even_over_the_quota() -> None:
    scenario = Scenario(a_configuration(a_queue("a", vcore=1000)), an_application())
    scenario.add_node("n0", an_allocation("r0", "n0", vcore=3000))
    assert scenario.partition.queues.root.allocated["vcore"] == 3000
    assert placed(scenario.ask(an_ask("r1", vcore=100))) == {}


def test_an_existing_allocation_of_an_unknown_application_is_refused() -> None:
    scenario = Scenario(a_configuration(a_queue("a")))
    effects = scenario.add_node("n0", an_allocation("r0", "n0", app="nobody"))
    [answer] = [effect for effect in effects if isinstance(effect, AllocationResponse)]
    assert [refusal.key for refusal in answer.rejected_allocations] == ["r0"]


def test_a_gang_made_unsatisfiable_by_a_reload_waits_and_is_reported_once() -> None:
    scenario = Scenario(a_configuration(a_queue("a", vcore=4000)))
    scenario.gang(an_application(gang=4), 4)
    lower = ConfigurationReplaced(RM, a_configuration(a_queue("a", vcore=2000)))
    effects = scenario.send(lower)
    assert states(effects) == []
    assert [text for text in notices(effects) if "the maximum of queue root.a is 2:" in text]
    assert notices(scenario.send(lower)) == []


def test_a_reload_that_raises_a_limit_unblocks_waiting_requests() -> None:
    scenario = Scenario(a_configuration(a_queue("a", vcore=1000)), nodes=1)
    assert placed(scenario.submit(an_application(), an_ask("r0", vcore=2000))) == {}
    assert placed(scenario.reload(a_configuration(a_queue("a", vcore=3000)))) == {"r0": "n0"}


def test_a_queue_removed_from_the_configuration_drains_and_is_deleted_when_empty() -> None:
    scenario = Scenario(a_configuration(a_queue("a")), nodes=1)
    scenario.submit(an_application(), an_ask("r0"))
    scenario.reload(a_configuration(a_queue("b")))
    assert scenario.app().queue.draining
    scenario.release("r0")
    scenario.wait(31)
    assert set(scenario.partition.queues.by_path) == {"root", "root.b"}


def test_a_cycle_stops_when_its_time_budget_is_used_and_continues_later() -> None:
    scenario = Scenario(a_configuration(a_queue("a"), a_queue("b")), nodes=8)
    events = [ApplicationAdded(an_application("one")), ApplicationAdded(an_application("two", queue="root.b"))]
    for event in events:
        step(scenario.scheduler_state, event, scenario.now_ns)
    for app in ("one", "two"):
        step(scenario.scheduler_state, AskAdded(an_ask(f"{app}-0", app=app)), scenario.now_ns)
    turns = iter([False])
    first = cycle(scenario.scheduler_state, scenario.now_ns, lambda: next(turns))
    assert first.more
    assert len(placed(first.effects)) == 1
    second = cycle(scenario.scheduler_state, scenario.now_ns, lambda: True)
    assert not second.more
    assert len(placed(second.effects)) == 1


# -- Messages of unschedulable requests, and which of them trigger an autoscaler.


def short_of(effects: list[Effect]) -> list[str]:
    """The task groups for which more nodes would help, as the warnings name them."""
    return [e.reference for e in effects if isinstance(e, EventRecorded) and e.about is Notice.APPLICATION]


def test_reasons_are_listed_in_the_order_of_kube_scheduler() -> None:
    counts = (("node(s) were unschedulable", 2), ("Too many pods", 1), ("Insufficient cpu", 10))
    assert UnschedulableReason(ReasonKind.NODES, counts=counts, nodes=13).text() == (
        "0/13 nodes are available: 1 Too many pods, 10 Insufficient cpu, 2 node(s) were unschedulable."
    )


def test_a_request_behind_a_gang_reports_the_gang_and_triggers_no_scale_up() -> None:
    scenario = Scenario(a_configuration(a_queue("a", vcore=3000)), nodes=4)
    assert len(placed(scenario.submit(an_application("busy"), an_ask("b0")))) == 1
    scenario.gang(an_application("first", gang=3), 3)
    effects = scenario.submit(an_application("second"), an_ask("s0"))
    assert waits(effects) == {"s0": ("SKIPPED", "queued behind gang first in queue root.a, which is waiting for quota")}


def test_a_gang_larger_than_the_empty_cluster_needs_nodes_for_a_task_group() -> None:
    scenario = Scenario(a_configuration(a_queue("a")), nodes=1, vcore=2000)
    assert short_of(scenario.gang(an_application(gang=3), 3)) == ["workers"]


def test_a_gang_that_also_exceeds_a_quota_does_not_need_nodes() -> None:
    scenario = Scenario(a_configuration(a_queue("a", vcore=3000)), nodes=1, vcore=2000)
    assert len(placed(scenario.submit(an_application("busy"), an_ask("b0")))) == 1
    effects = scenario.gang(an_application("gang", gang=3), 3)
    assert short_of(effects) == [""]
    assert {state for state, _ in waits(effects).values()} == {"SKIPPED"}


# -- Reported reasons follow the nodes: one number of nodes in all texts, without a storm of messages.

QUEUES = a_configuration(a_queue("a"), a_queue("b"))
FULL = "0/{0} nodes are available: {0} Insufficient cpu."


def crowded(pods: int, classes: int = 1, nodes: int = 3) -> Scenario:
    """Full nodes and waiting pods, which fit on no node."""
    scenario = Scenario(QUEUES) if pods < 1000 else UncheckedScenario(QUEUES)
    for index in range(nodes):
        scenario.add_full_node(f"n{index}")
    scenario.submit(an_application())
    scenario.send(*(AskAdded(an_ask(f"x{index}", vcore=1000 + index % classes)) for index in range(pods)))
    return scenario


def texts(scenario: Scenario, seconds: float) -> dict[str, str]:
    return {key: reason for key, (_, reason) in waits(scenario.wait(seconds)).items()}


def test_the_number_of_nodes_follows_when_a_full_node_is_added() -> None:
    scenario = crowded(1)
    added = scenario.add_full_node("n3")
    assert {**waits(added), **waits(scenario.wait(10))}["x0"] == ("FAILED", FULL.format(4))
    assert next(iter(scenario.app().refusals.values())).text() == FULL.format(4), "for explain and REST, too"


def test_the_number_of_nodes_follows_when_a_node_is_removed() -> None:
    scenario = crowded(1)
    scenario.wait(10)
    removed = scenario.node("n0", NodeAction.DECOMMISSION)
    assert {**waits(removed), **waits(scenario.wait(10))}["x0"] == ("FAILED", FULL.format(2))


def test_a_reason_follows_when_a_node_is_cordoned() -> None:
    scenario = crowded(1)
    scenario.wait(10)
    cordoned = scenario.node("n0", NodeAction.DRAIN)
    expected = "0/3 nodes are available: 1 node(s) were unschedulable, 2 Insufficient cpu."
    assert {**waits(cordoned), **waits(scenario.wait(10))}["x0"] == ("FAILED", expected)


def test_nothing_is_sent_again_while_nodes_and_reasons_stay() -> None:
    scenario = crowded(5, classes=5)
    scenario.wait(10)
    scenario.ask(an_ask("other"))
    assert texts(scenario, 60) == {}


def test_a_pod_with_a_reserved_node_keeps_it_in_the_new_text() -> None:
    scenario = Scenario(QUEUES, nodes=1)
    scenario.send(ApplicationAdded(an_application("busy", queue="root.b")), ApplicationAdded(an_application()))
    scenario.ask(*(an_ask(f"b{index}", app="busy") for index in range(4)))
    scenario.ask(an_ask("x0"))
    scenario.wait(10)
    [reservation] = scenario.partition.reservations.by_ask.values()
    effects = [*scenario.add_full_node("n9"), *scenario.wait(10)]
    mine = [(str(one.state), one.reason) for one in effects if isinstance(one, SchedulingStateChanged)]
    assert mine[-2][0] == "FAILED"
    assert mine[-1] == ("RESERVED", f"node {reservation.node} is reserved for the pod until enough resources are free")


@pytest.mark.parametrize("classes", [1, 2_000])
def test_flapping_nodes_cost_a_bounded_number_of_messages_with_10000_waiting_pods(classes: int) -> None:
    scenario = crowded(10_000, classes)
    scenario.wait(30)
    per_second: Counter[int] = Counter()
    per_pod: Counter[str] = Counter()
    for second in range(120):
        effects: list[Effect] = []
        if second % 2:
            effects += scenario.node("flap", NodeAction.DECOMMISSION)
        else:
            effects += scenario.add_full_node("flap")
        effects += scenario.wait(1)
        sent = [one.key for one in effects if isinstance(one, SchedulingStateChanged)]
        per_second[second] += len(sent)
        per_pod.update(sent)
    assert sum(per_second.values()) <= 121 * REFRESHES_PER_S
    assert max(per_second.values()) <= 3 * REFRESHES_PER_S
    assert max(per_pod.values()) <= 120 / 5 + 1
    assert sum(per_second.values()) > 10 * REFRESHES_PER_S, "the texts do follow"


def test_all_pods_get_the_last_text_when_the_nodes_stay() -> None:
    scenario = crowded(300, classes=3)
    scenario.wait(10)
    shown = {f"x{index}": FULL.format(3) for index in range(300)}
    for number in range(3, 8):
        shown |= {key: reason for key, (_, reason) in waits(scenario.add_full_node(f"n{number}")).items()}
        shown |= texts(scenario, 2)
    shown |= texts(scenario, 60)
    assert set(shown.values()) == {FULL.format(8)}


def test_a_step_lists_a_part_of_many_applications() -> None:
    """Otherwise one cycle takes longer the more applications there are, with room for all of them, too."""
    scenario = UncheckedScenario(QUEUES)
    scenario.add_full_node("n0")
    names = [f"app-{index}" for index in range(5_000)]
    scenario.send(*(ApplicationAdded(an_application(name)) for name in names))
    shown = waits(scenario.send(*(AskAdded(an_ask(f"x-{name}", app=name)) for name in names)))
    shown |= waits(scenario.wait(60))
    assert len(shown) == len(names)
    shown = waits(scenario.add_full_node("n1"))
    searched = scenario.partition.texts
    assert 0 < len(searched.applications) < len(names)
    shown |= waits(scenario.wait(600))
    assert not searched.is_searching
    assert {reason for _, reason in shown.values()} == {FULL.format(2)}
    assert len(shown) == len(names)


def test_members_and_placeholders_of_a_gang_never_have_different_texts() -> None:
    scenario = Scenario(auto.CONFIGURATION)
    scenario.add_node("free", vcore=2000)
    scenario.add_full_node("n1")
    other = Constraints(tolerations=(Toleration(key="tenant"),))  # another class than that of absent members
    shown = {key: reason for key, (_, reason) in waits(scenario.send(*direct.with_members(auto.a_gang(3)))).items()}
    assert shown["app/workers"].startswith("2 of 3 members")
    for effects in (
        scenario.ask(replace(auto.pod("p0"), constraints=other)),
        scenario.wait(1),
        scenario.add_full_node("n2"),
        scenario.wait(3),
        scenario.ask(replace(auto.pod("p1"), constraints=other)),
        scenario.wait(10),
    ):
        shown |= {key: reason for key, (_, reason) in waits(effects).items()}
        assert len(set(shown.values())) == 1, shown
        assert shown["app/workers"].startswith("2 of 3 members of task group workers fit: 0/"), "they do"
    assert shown.keys() == {"app/workers", "p0", "p1"}
    assert "0/3 nodes" in shown["p1"]


@pytest.mark.parametrize("a_gang", [auto.a_gang, direct.a_gang])
@pytest.mark.parametrize("ports", [(), (HostPort("10.0.0.1", "TCP", 80),)], ids=["resources", "host ports"])
def test_the_number_of_members_that_fit_follows_when_a_node_is_cordoned(
    a_gang: Callable[[int], ApplicationAdded], ports: tuple[HostPort, ...]
) -> None:
    scenario = Scenario(auto.CONFIGURATION)
    scenario.add_node("n0", vcore=1000)
    scenario.add_node("n1", vcore=1000)
    scenario.add_full_node("n2")
    member = replace(direct.member("r0"), facts=PodProperties(ports=ports) if ports else NO_PROPERTIES)
    shown = [reason for _, reason in waits(scenario.send(a_gang(3), AskAdded(member))).values()]
    for action in (NodeAction.DRAIN, NodeAction.OPEN):
        effects = [*scenario.node("n0", action), *scenario.send(), *scenario.wait(10)]
        shown += [reason for _, reason in waits(effects).values()]
    assert [text.partition(":")[0] for text in dict.fromkeys(shown)] == [
        "2 of 3 members of task group workers fit",
        "1 of 3 members of task group workers fit",
    ]
    assert shown[-1] == shown[0]
    counts = "1 Insufficient cpu, 1 node(s) didn't have free ports" if ports else "2 Insufficient cpu"
    assert counts in shown[-2], "next to the member that fits"
    assert "1 node(s) were unschedulable" in shown[-2]


def test_a_task_group_that_fits_only_without_the_others_says_so() -> None:
    scenario = Scenario(auto.CONFIGURATION)
    scenario.add_node("free", vcore=3000)
    scenario.add_full_node("n1")
    gang = auto.a_gang(2).spec
    groups = (*gang.members, replace(gang.members[0], group=TaskGroup("servers"), count=2))
    effects = scenario.send(ApplicationAdded(replace(gang, members=groups)), AskAdded(direct.member("r0")))
    found = {reason for _, reason in waits(effects).values()}
    assert len(found) == 1
    assert "1 of 2 members" in next(iter(found))
    assert "fit together with the others" in next(iter(found))
