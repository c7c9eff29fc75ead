"""The request of a real pod replaces a placeholder."""

from dataclasses import replace

import pytest

from muster_core.model.config import Timing
from muster_core.model.constraints import Constraints
from muster_core.model.events import AllocationReleased, NodeAction, NodeAdded
from muster_core.model.ids import ApplicationId, NodeId, Termination
from tests.unit.builders import (
    PARTITION,
    SECOND,
    a_configuration,
    a_node,
    a_queue,
    an_allocation,
    an_application,
    an_ask,
    resources,
)
from tests.unit.core.scheduling.scenario import Scenario, notices, placed, released_asks, releases, states, waits

REPLACED = Termination.PLACEHOLDER_REPLACED
SSD = Constraints(node_selector=(("disk", "ssd"),))


def running(members: int = 2, timing: Timing | None = None, vcore: int = 2000, nodes: int = 1) -> Scenario:
    """A fully reserved gang of 1-core members on full nodes."""
    scenario = Scenario(a_configuration(a_queue("a"), timing=timing), nodes=nodes, vcore=vcore)
    scenario.gang(an_application(gang=members), members)
    assert scenario.app().state == "Running"
    return scenario


def replaced_key(scenario: Scenario, key: str) -> str:
    """The placeholder (key) that the real ask `key` waits for."""
    ask = next(ask for ask in scenario.app().asks.values() if ask.spec.key == key)
    assert ask.replacement is not None
    return scenario.app().allocations[ask.replacement.placeholder].spec.key


def test_a_member_is_allocated_after_its_placeholder_is_released() -> None:
    scenario = running()
    asked = scenario.ask(an_ask("r0", group="workers"))
    assert releases(asked) == {"app-p0": REPLACED}
    assert placed(asked) == {}
    assert placed(scenario.release("app-p0", why=REPLACED)) == {"r0": "n0"}


def test_the_core_does_not_echo_the_confirmation_of_its_own_release() -> None:
    scenario = running()
    scenario.ask(an_ask("r0", group="workers"))
    assert releases(scenario.release("app-p0", why=REPLACED)) == {}


def test_a_duplicate_confirmation_is_ignored_and_counted() -> None:
    scenario = running()
    scenario.ask(an_ask("r0", group="workers"))
    scenario.release("app-p0", why=REPLACED)
    assert scenario.release("app-p0", why=REPLACED) == []
    assert scenario.scheduler_state.ignored == {"release of an unknown allocation": 1}


def test_a_waiting_ask_does_not_keep_others_from_being_placed() -> None:
    scenario = running(vcore=3000)
    scenario.ask(an_ask("r0", group="workers"))
    assert placed(scenario.ask(an_ask("extra"))) == {"extra": "n0"}


def test_a_smaller_real_pod_releases_the_difference() -> None:
    scenario = running()
    scenario.ask(an_ask("r0", group="workers", vcore=400))
    scenario.release("app-p0", why=REPLACED)
    assert scenario.partition.queues.root.allocated == resources(vcore=1400, pods=2)
    assert placed(scenario.ask(an_ask("filler", vcore=600))) == {"filler": "n0"}


def test_a_larger_real_pod_releases_one_placeholder_and_is_scheduled_without_it() -> None:
    scenario = running(vcore=2000)
    scenario.send(NodeAdded(a_node("big", 4000)))
    effects = scenario.ask(an_ask("r0", group="workers", vcore=1500))
    assert releases(effects) == {"app-p0": Termination.TIMEOUT}
    assert placed(effects) == {"r0": "big"}
    assert any("more than its placeholder" in notice for notice in notices(effects))
    assert releases(scenario.ask(an_ask("r1", group="workers"))) == {"app-p1": REPLACED}, "the other one stays"


def test_more_real_pods_than_placeholders_are_scheduled_as_usual() -> None:
    scenario = running(vcore=3000)
    effects = scenario.ask(*(an_ask(f"r{i}", group="workers") for i in range(3)))
    assert len(releases(effects)) == 2
    assert placed(effects) == {"r2": "n0"}


def test_a_real_pod_of_an_unknown_group_is_an_ordinary_ask() -> None:
    scenario = running(vcore=3000)
    effects = scenario.ask(an_ask("r0", group="nobody"))
    assert releases(effects) == {}
    assert placed(effects) == {"r0": "n0"}


def test_a_real_pod_that_may_not_run_on_the_placeholders_node_gets_another_before_the_release() -> None:
    scenario = running()
    scenario.send(NodeAdded(a_node("n-ssd", 1000, labels={"disk": "ssd"})))
    effects = scenario.ask(an_ask("r0", group="workers", constraints=SSD))
    assert releases(effects) == {"app-p0": REPLACED}
    assert scenario.partition.nodes.available(NodeId("n-ssd"))["vcore"] == 0, "the room is held"
    assert scenario.partition.queues.root.allocated["vcore"] == 2000, "and not counted twice"
    assert placed(scenario.release("app-p0", why=REPLACED)) == {"r0": "n-ssd"}


def test_a_real_pod_that_fits_on_no_node_is_unschedulable_and_its_placeholder_stays() -> None:
    scenario = running()
    effects = scenario.ask(an_ask("r0", group="workers", constraints=SSD))
    assert releases(effects) == {}
    assert waits(effects)["r0"][0] == "FAILED"
    assert "node affinity/selector" in waits(effects)["r0"][1]
    scenario.send(NodeAdded(a_node("n-ssd", 1000, labels={"disk": "ssd"})))
    assert scenario.app().asks[an_ask("r0").key].replacement is not None


def test_the_replacement_happens_on_a_full_node() -> None:
    scenario = running(members=2, vcore=2000)
    assert scenario.partition.nodes.available(NodeId("n0"))["vcore"] == 0
    effects = scenario.ask(an_ask("r0", group="workers"), an_ask("r1", group="workers"))
    assert releases(effects) == {"app-p0": REPLACED, "app-p1": REPLACED}
    both = {**placed(scenario.release("app-p1", why=REPLACED)), **placed(scenario.release("app-p0", why=REPLACED))}
    assert both == {"r0": "n0", "r1": "n0"}


def test_a_placeholder_that_terminates_on_its_own_counts_as_confirmed() -> None:
    scenario = running()
    scenario.ask(an_ask("r0", group="workers"))
    effects = scenario.release("app-p0", why=Termination.STOPPED_BY_RM)
    assert placed(effects) == {"r0": "n0"}
    assert releases(effects) == {"app-p0": Termination.STOPPED_BY_RM}, "STOPPED_BY_RM is always confirmed"


def test_a_cancelled_real_ask_releases_its_placeholder() -> None:
    scenario = running()
    scenario.ask(an_ask("r0", group="workers"))
    assert released_asks(scenario.release_ask("r0")) == {"r0": Termination.STOPPED_BY_RM}
    assert placed(scenario.release("app-p0", why=REPLACED)) == {}
    assert scenario.partition.nodes.available(NodeId("n0"))["vcore"] == 1000


def test_a_cancelled_ask_releases_its_resources_on_another_node() -> None:
    scenario = running()
    scenario.send(NodeAdded(a_node("n-ssd", 1000, labels={"disk": "ssd"})))
    scenario.ask(an_ask("r0", group="workers", constraints=SSD))
    scenario.release_ask("r0")
    assert scenario.partition.nodes.available(NodeId("n-ssd"))["vcore"] == 1000


def test_an_ask_is_scheduled_normally_after_an_unconfirmed_release() -> None:
    scenario = running(timing=Timing(release_timeout_ns=30 * SECOND), vcore=3000)
    scenario.ask(an_ask("r0", group="workers"))
    effects = scenario.wait(31)
    assert placed(effects) == {"r0": "n0"}
    assert any("in time" in notice for notice in notices(effects))
    scenario.release("app-p0", why=REPLACED)
    assert scenario.partition.queues.root.allocated["vcore"] == 2000


def test_a_placeholder_being_released_is_not_chosen_again() -> None:
    scenario = running(vcore=2000)
    scenario.ask(an_ask("r0", group="workers"))
    scenario.ask(an_ask("r1", group="workers"))
    assert {replaced_key(scenario, "r0"), replaced_key(scenario, "r1")} == {"app-p0", "app-p1"}


def test_an_ask_is_scheduled_normally_if_the_node_is_removed_during_replacement() -> None:
    scenario = running(members=2, vcore=2000)
    scenario.ask(an_ask("r0", group="workers"))
    assert placed(scenario.node("n0", NodeAction.DECOMMISSION)) == {}
    assert placed(scenario.add_node("n1")) == {"r0": "n1"}


def test_a_replacement_on_another_node_survives_removal_of_the_placeholder_node() -> None:
    scenario = running()
    scenario.send(NodeAdded(a_node("n-ssd", 1000, labels={"disk": "ssd"})))
    scenario.ask(an_ask("r0", group="workers", constraints=SSD))
    assert placed(scenario.node("n0", NodeAction.DECOMMISSION)) == {"r0": "n-ssd"}


def test_a_replacement_whose_target_node_is_removed_waits_for_another() -> None:
    scenario = running()
    scenario.send(NodeAdded(a_node("n-ssd", 1000, labels={"disk": "ssd"})))
    scenario.ask(an_ask("r0", group="workers", constraints=SSD))
    scenario.node("n-ssd", NodeAction.DECOMMISSION)
    assert placed(scenario.release("app-p0", why=REPLACED)) == {}
    scenario.send(NodeAdded(a_node("n-new", 1000, labels={"disk": "ssd"})))
    assert {a.node for a in scenario.app().allocations.values()} == {"n0", "n-new"}


def test_a_drained_node_keeps_its_placeholders_but_takes_no_real_pod() -> None:
    scenario = running(members=2, vcore=2000)
    scenario.node("n0", NodeAction.DRAIN)
    scenario.send(NodeAdded(a_node("n1", 1000)))
    scenario.ask(an_ask("r0", group="workers"))
    assert placed(scenario.release("app-p0", why=REPLACED)) == {"r0": "n1"}


def test_members_replace_placeholders_of_their_task_group_only() -> None:
    scenario = Scenario(a_configuration(a_queue("a")), nodes=2)
    scenario.submit(
        an_application(gang=3),
        an_ask("d", group="driver", placeholder=True),
        an_ask("e0", group="executor", placeholder=True),
        an_ask("e1", group="executor", placeholder=True),
    )
    assert releases(scenario.ask(an_ask("rd", group="driver"))) == {"d": REPLACED}
    assert releases(scenario.ask(an_ask("re", group="executor"))) == {"e0": REPLACED}


def test_the_first_replacement_changes_the_counts_and_not_the_state() -> None:
    scenario = running()
    scenario.ask(an_ask("r0", group="workers"))
    assert states(scenario.release("app-p0", why=REPLACED)) == []
    counts = scenario.app().gang.groups[an_ask("x", group="workers").group]
    assert (counts.count, counts.replaced, counts.timed_out) == (2, 1, 0)


def test_a_replacement_continues_after_the_queue_maximum_is_lowered() -> None:
    scenario = running(members=2)
    scenario.ask(an_ask("r0", group="workers"))
    scenario.reload(a_configuration(a_queue("a", vcore=1500)))
    assert placed(scenario.release("app-p0", why=REPLACED)) == {"r0": "n0"}


def test_an_ask_for_several_allocations_replaces_placeholders_one_by_one() -> None:
    scenario = running()
    scenario.ask(an_ask("r", group="workers", count=2))
    swapped = scenario.release("app-p0", why=REPLACED)
    assert releases(swapped) == {"app-p1": REPLACED}
    scenario.release("app-p1", why=REPLACED)
    assert set(scenario.app().allocations) == {"r-0", "r-1"}


def test_an_ask_replaced_while_waiting_looks_for_another_placeholder() -> None:
    scenario = running()
    scenario.ask(an_ask("r0", group="workers"))
    assert releases(scenario.ask(an_ask("r0", group="workers", vcore=500))) == {"app-p1": REPLACED}
    assert placed(scenario.release("app-p0", why=REPLACED)) == {}
    assert placed(scenario.release("app-p1", why=REPLACED)) == {"r0": "n0"}


def test_a_waiting_ask_reported_as_bound_ends_its_replacement() -> None:
    scenario = running()
    scenario.ask(an_ask("r0", group="workers"))
    scenario.add_node("n1")
    assert placed(scenario.report(an_allocation("r0", "n1", group="workers"))) == {}
    assert placed(scenario.release("app-p0", why=REPLACED)) == {}
    assert scenario.app().allocated == resources(vcore=1000, pods=1)


def test_a_release_of_all_allocations_completes_a_pending_replacement() -> None:
    scenario = running()
    scenario.ask(an_ask("r0", group="workers"))
    everything = AllocationReleased(PARTITION, ApplicationId("app"), None, None, Termination.STOPPED_BY_RM)
    effects = scenario.send(everything)
    assert set(releases(effects)) == {"app-p0", "app-p1"}
    assert placed(effects) == {"r0": "n0"}


def test_a_real_pod_with_a_required_node_runs_there() -> None:
    scenario = Scenario(a_configuration(a_queue("a")), nodes=2)
    scenario.gang(an_application(gang=1), 1)
    [placeholder] = scenario.app().allocations.values()
    other = NodeId("n1" if placeholder.node == "n0" else "n0")
    scenario.ask(replace(an_ask("r0", group="workers"), required_node=other))
    assert placed(scenario.release("app-p0", why=REPLACED)) == {"r0": other}


def test_a_failing_application_releases_its_resources_on_another_node() -> None:
    scenario = Scenario(a_configuration(a_queue("a")), an_application(timeout_s=60, forced=True), nodes=1, vcore=1000)
    scenario.report(an_allocation("p0", "n0", group="workers", placeholder=True))
    scenario.send(NodeAdded(a_node("n-ssd", 2000, labels={"disk": "ssd"})))
    scenario.ask(an_ask("other", constraints=SSD), an_ask("r0", group="workers", constraints=SSD))
    assert scenario.partition.nodes.available(NodeId("n-ssd"))["vcore"] == 0
    assert states(scenario.wait(61)) == ["Failing"]
    assert scenario.partition.nodes.available(NodeId("n-ssd"))["vcore"] == 1000
    scenario.release("other", why=Termination.TIMEOUT)
    assert states(scenario.release("p0", why=REPLACED)) == ["Failed"]


def test_a_release_of_all_allocations_confirms_no_replacement_on_a_drained_node() -> None:
    scenario = running()
    scenario.ask(an_ask("r0", group="workers"))
    scenario.node("n0", NodeAction.DRAIN)
    effects = scenario.send(AllocationReleased(PARTITION, ApplicationId("app"), None, None, Termination.STOPPED_BY_RM))
    assert placed(effects) == {}
    assert not scenario.app().allocations
    assert releases(scenario.release_ask("r0")) == {}
    assert not scenario.app().asks


def placeholders_counted(scenario: Scenario) -> int:
    return sum(group.count for group in scenario.app().gang.groups.values())


def test_a_placeholder_that_is_requested_again_is_counted_once() -> None:
    scenario = Scenario(a_configuration(a_queue("a")), an_application(gang=2))
    for priority in range(4):
        scenario.ask(an_ask("p0", group="workers", placeholder=True, priority=priority))
    assert placeholders_counted(scenario) == 1


def test_a_placeholder_that_is_bound_while_it_waits_is_counted_once() -> None:
    scenario = Scenario(a_configuration(a_queue("a")))
    scenario.submit(an_application(gang=2), an_ask("p0", group="workers", placeholder=True))
    scenario.send(NodeAdded(a_node("n0", 4000), draining=True))
    scenario.report(an_allocation("p0", "n0", group="workers", placeholder=True))
    assert placeholders_counted(scenario) == 1


def test_a_lost_placeholder_and_its_successor_are_both_counted() -> None:
    scenario = Scenario(a_configuration(a_queue("a")), nodes=1, vcore=1000)
    scenario.add_full_node()
    scenario.gang(an_application(gang=2), 2)
    scenario.release("app-p0")
    scenario.ask(an_ask("again", group="workers", placeholder=True))
    assert counts(scenario) == (3, 0, 1)


def counts(scenario: Scenario) -> tuple[int, int, int]:
    [group] = scenario.app().gang.groups.values()
    return group.count, group.replaced, group.timed_out


def test_placeholders_count_as_timed_out_when_their_release_is_confirmed() -> None:
    scenario = Scenario(a_configuration(a_queue("a")), nodes=1)
    scenario.gang(an_application(gang=2, timeout_s=60), 2)
    scenario.ask(an_ask("r0", group="workers"))
    scenario.release("app-p0", why=REPLACED)
    assert set(releases(scenario.wait(61))) == {"app-p1"}
    assert counts(scenario) == (2, 1, 0)
    scenario.release("app-p1", why=Termination.TIMEOUT)
    assert counts(scenario) == (2, 1, 1)


@pytest.mark.parametrize("node_removed", [True, False])
def test_placeholders_that_leave_with_their_node_or_on_their_own_count_as_timed_out(*, node_removed: bool) -> None:
    scenario = running(members=2)
    if node_removed:
        scenario.node("n0", NodeAction.DECOMMISSION)
    else:
        scenario.release("app-p0")
        scenario.release("app-p1")
    assert counts(scenario) == (2, 0, 2)


def test_a_placeholder_whose_real_ask_was_cancelled_counts_as_timed_out() -> None:
    scenario = running(members=2)
    scenario.ask(an_ask("r0", group="workers"))
    scenario.release_ask("r0")
    scenario.release("app-p0", why=REPLACED)
    assert counts(scenario) == (2, 0, 1)
