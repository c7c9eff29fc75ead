"""An allocation that is reported again is updated: resized, relabelled, never moved (KEP-1287)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from muster_core.model.config import QueuePolicies
from muster_core.model.effects import AllocationResponse, Effect, TimerSet
from muster_core.model.events import AllocationReported, ApplicationAdded, ConfigurationReplaced, TimerKind
from muster_core.model.ids import ApplicationId, NodeId, QueuePath, Termination
from muster_core.model.resources import NOTHING
from tests.unit.builders import (
    RM,
    SECOND,
    a_configuration,
    a_queue,
    an_affinity,
    an_allocation,
    an_application,
    an_ask,
    resources,
)
from tests.unit.core.scheduling.preemption_scenario import with_preemption
from tests.unit.core.scheduling.scenario import Scenario, placed, released_asks, releases, states

N0 = NodeId("n0")


def refusal(effects: list[Effect]) -> str:
    answers = [effect for effect in effects if isinstance(effect, AllocationResponse)]
    return next((one.reason for answer in answers for one in answer.rejected_allocations), "")


def running(vcore: int = 1000, most: int | None = None) -> Scenario:
    """One pod, r0, on n0 of 4000."""
    scenario = Scenario(a_configuration(a_queue("a", vcore=most)), nodes=1)
    scenario.send(ApplicationAdded(an_application()))
    scenario.ask(an_ask("r0", vcore=vcore))
    return scenario


def resize(scenario: Scenario, key: str, vcore: int, node: str = "n0", **more: Any) -> list[Effect]:
    return scenario.send(AllocationReported(replace(an_allocation(key, node, vcore=vcore), **more)))


@pytest.mark.parametrize("vcore", [3000, 500])
def test_a_resized_pod_counts_as_large_as_it_is_with_application_queues_user_and_node(vcore: int) -> None:
    scenario = running()
    assert resize(scenario, "r0", vcore) == []
    now = resources(vcore=vcore, pods=1)
    partition = scenario.partition
    leaf = scenario.app().queue.path
    assert scenario.app().allocated == now
    assert partition.queues.by_path[leaf].allocated == partition.queues.by_path[QueuePath("root")].allocated == now
    assert partition.users.of(scenario.app().spec.user, leaf) == now
    assert partition.nodes.allocated(N0) == now


def test_the_same_once_more_changes_nothing() -> None:
    scenario = running()
    resize(scenario, "r0", 2000)
    epoch = scenario.partition.nodes.epoch
    assert resize(scenario, "r0", 2000) == []
    assert scenario.partition.nodes.epoch == epoch


def test_room_that_a_smaller_pod_leaves_is_given_to_one_that_waits() -> None:
    scenario = running(vcore=4000)
    assert placed(scenario.ask(an_ask("r1"))) == {}
    assert placed(resize(scenario, "r0", 3000)) == {"r1": "n0"}


def test_headroom_that_a_smaller_pod_leaves_is_given_to_one_that_waits() -> None:
    scenario = running(vcore=2000, most=2000)
    assert placed(scenario.ask(an_ask("r1"))) == {}
    assert placed(resize(scenario, "r0", 1000)) == {"r1": "n0"}


def test_a_pod_that_grew_over_its_node_and_queue_stays_and_nothing_else_goes_there() -> None:
    scenario = running(most=2000)
    assert resize(scenario, "r0", 5000) == []
    assert scenario.partition.nodes.available(N0)["vcore"] == -1000
    assert placed(scenario.ask(an_ask("r1"))) == {}
    assert resize(scenario, "r0", 6000) == []
    assert placed(resize(scenario, "r0", 1000)) == {"r1": "n0"}
    assert scenario.app().queue.tolerated == NOTHING


def test_a_gang_whose_promised_headroom_a_larger_pod_takes_waits_for_it_again() -> None:
    scenario = running(most=5000)
    scenario.gang(ApplicationAdded(an_application("gang", gang=4)), 4)
    gang = scenario.app("gang").gang
    assert (gang.reserved["vcore"], gang.quota_reservation["vcore"], gang.granted) == (3000, 1000, True)
    resize(scenario, "r0", 2000)
    assert (gang.quota_reservation["vcore"], gang.granted) == (1000, False)
    resize(scenario, "r0", 1000)
    assert (gang.quota_reservation["vcore"], gang.granted) == (1000, True)


def test_a_gang_that_misses_less_after_a_resize_reserves_the_quota_that_it_is_missing() -> None:
    scenario = running(vcore=2000, most=4000)
    scenario.gang(ApplicationAdded(an_application("gang", gang=4)), 4)
    gang = scenario.app("gang").gang
    assert (gang.reserved["vcore"], gang.quota_reservation) == (2000, NOTHING)
    resize(scenario, "gang-p0", 3000, application=ApplicationId("gang"), group="workers", placeholder=True)
    assert (gang.quota_reservation, gang.granted) == (resources(pods=2), True)


def test_a_queue_that_a_resize_takes_over_its_maximum_is_brought_below_it_later() -> None:
    policies = QueuePolicies(quota_preemption_delay_ns=60 * SECOND)
    queue = a_queue("a", vcore=2000, policies=policies)
    scenario = Scenario(with_preemption(queue, by_quota=True), nodes=1)
    scenario.send(ApplicationAdded(an_application()))
    scenario.ask(an_ask("r0"), an_ask("r1"))
    effects = resize(scenario, "r0", 1500)
    assert [effect.timer.kind for effect in effects if isinstance(effect, TimerSet)] == [TimerKind.QUOTA]
    assert set(releases(scenario.wait(61)).values()) == {Termination.PREEMPTED_BY_SCHEDULER}


def test_a_victim_that_is_resized_on_its_way_out_leaves_clean_sums() -> None:
    policies = QueuePolicies(quota_preemption_delay_ns=60 * SECOND)
    scenario = Scenario(with_preemption(a_queue("a", policies=policies), by_quota=True), nodes=1)
    scenario.send(ApplicationAdded(an_application()))
    scenario.ask(an_ask("r0"))
    lower = with_preemption(a_queue("a", vcore=500, policies=policies), by_quota=True)
    scenario.send(ConfigurationReplaced(RM, lower))
    assert set(releases(scenario.wait(61))) == {"r0"}
    resize(scenario, "r0", 3000)
    queue = scenario.app().queue
    assert queue.preempting == resources(vcore=3000, pods=1)
    scenario.release("r0", why=Termination.PREEMPTED_BY_SCHEDULER)
    assert (queue.preempting, queue.allocated) == (NOTHING, NOTHING)


def test_use_over_time_is_counted_by_the_size_that_it_had() -> None:
    scenario = running(vcore=1000)
    app = scenario.app()
    scenario.wait(10)
    resize(scenario, "r0", 2000)
    scenario.wait(5)
    scenario.release("r0")
    assert app.used.seconds()["UNKNOWN"]["vcore"] == 10 * 1000 + 5 * 2000


def test_the_most_that_an_application_had_grows_with_its_pod() -> None:
    scenario = running()
    resize(scenario, "r0", 3000)
    resize(scenario, "r0", 500)
    assert scenario.app().peak["vcore"] == 3000


def test_an_allocation_is_never_moved_by_being_told_again() -> None:
    scenario = running()
    scenario.add_node("n1")
    assert refusal(resize(scenario, "r0", 1000, "n1")) == (
        "allocation r0 is on node n0 already: release it there before it is on node n1"
    )
    assert "known already, of ask r0" in refusal(
        scenario.send(AllocationReported(an_allocation("other", "n0", identity="r0-0")))
    )
    assert scenario.app().allocated == resources(vcore=1000, pods=1)


def test_labels_that_a_placed_pod_gets_later_let_those_who_wait_for_them_in() -> None:
    """A constraint counts the tags that pods have now."""
    scenario = running()
    beside = replace(an_ask("r1"), placement=an_affinity("role", "x", scope="hostname", least=1))
    assert placed(scenario.ask(beside)) == {}
    assert placed(resize(scenario, "r0", 1000, tags={"role": "x"})) == {"r1": "n0"}


def test_whether_a_pod_may_be_preempted_can_change_while_it_runs() -> None:
    scenario = running()
    resize(scenario, "r0", 1000, allow_preempt_self=False)
    [allocation] = scenario.app().allocations.values()
    assert not allocation.spec.allow_preempt_self


def reserving(*sizes: int) -> Scenario:
    """A gang of two whose first placeholders are as large as this."""
    scenario = Scenario(a_configuration(a_queue("a")), nodes=1)
    scenario.send(ApplicationAdded(an_application(gang=2)))
    for index, vcore in enumerate(sizes):
        spec = an_allocation(f"p{index}", "n0", vcore=vcore, group="workers", placeholder=True)
        scenario.send(AllocationReported(spec))
    return scenario


def test_a_placeholder_that_shrinks_while_the_gang_reserves_is_reserved_as_small_as_it_is() -> None:
    scenario = reserving(1000)
    resize(scenario, "p0", 500, group="workers", placeholder=True)
    assert scenario.app().gang.reserved["vcore"] == scenario.app().gang.allocated["vcore"] == 500
    more = an_allocation("p1", "n0", group="workers", placeholder=True)
    assert states(scenario.send(AllocationReported(more))) == []
    assert states(resize(scenario, "p0", 1000, group="workers", placeholder=True)) == ["Running"]


def test_a_placeholder_that_is_resized_while_it_is_swapped_leaves_clean_sums() -> None:
    scenario = reserving(1000, 1000)
    assert scenario.app().state == "Running"
    assert releases(scenario.ask(an_ask("r0", group="workers"))) == {"p0": Termination.PLACEHOLDER_REPLACED}
    resize(scenario, "p0", 700, group="workers", placeholder=True)
    assert placed(scenario.release("p0", why=Termination.PLACEHOLDER_REPLACED)) == {"r0": "n0"}
    assert scenario.partition.nodes.allocated(N0) == resources(vcore=2000, pods=2)


def test_a_pod_does_not_exceed_the_maximum_when_its_placeholder_was_resized_below_it_during_the_replacement() -> None:
    scenario = reserving(1000, 1000)
    scenario.ask(an_ask("r0", group="workers"))
    scenario.send(ConfigurationReplaced(RM, a_configuration(a_queue("a", vcore=1500))))
    resize(scenario, "p0", 300, group="workers", placeholder=True)
    assert placed(scenario.release("p0", why=Termination.PLACEHOLDER_REPLACED)) == {}
    assert scenario.app().queue.allocated == resources(vcore=1000, pods=1)
    assert placed(scenario.send(ConfigurationReplaced(RM, a_configuration(a_queue("a", vcore=2000))))) == {"r0": "n0"}


def test_a_pod_does_not_exceed_its_node_when_its_placeholder_was_resized_below_it_during_the_replacement() -> None:
    scenario = reserving(1000, 1000)
    scenario.ask(an_ask("r0", group="workers"))
    resize(scenario, "p0", 300, group="workers", placeholder=True)
    scenario.ask(an_ask("r1", vcore=2700))
    assert placed(scenario.release("p0", why=Termination.PLACEHOLDER_REPLACED)) == {}
    assert scenario.partition.nodes.available(N0)["vcore"] == 300


def test_an_ask_that_is_labelled_while_it_is_swapped_keeps_its_replacement() -> None:
    """Only an ask that is another to a plan begins anew."""
    scenario = reserving(1000, 1000)
    scenario.ask(an_ask("r0", group="workers"))
    told = replace(an_ask("r0", group="workers"), tags={"job-index": "0"}, allow_preempt_other=False)
    assert scenario.ask(told) == []
    assert scenario.app().asks[told.key].spec == told
    assert placed(scenario.release("p0", why=Termination.PLACEHOLDER_REPLACED)) == {"r0": "n0"}
    [allocation] = [one for one in scenario.app().allocations.values() if not one.spec.placeholder]
    assert allocation.spec.tags == {"job-index": "0"}


def test_a_pod_of_another_scheduler_that_is_resized_takes_its_new_room() -> None:
    scenario = Scenario(a_configuration(a_queue("a")), nodes=1)
    scenario.send(AllocationReported(an_allocation("f", "n0", app="", vcore=1000, foreign=True)))
    assert resize_foreign(scenario, 3500, "n0") == []
    scenario.send(ApplicationAdded(an_application()))
    assert placed(scenario.ask(an_ask("r0"))) == {}
    assert placed(resize_foreign(scenario, 3000, "n0")) == {"r0": "n0"}
    assert "on node n0 already" in refusal(resize_foreign(scenario, 3000, "n0", "n1"))
    assert scenario.partition.nodes.record(N0).foreign == resources(vcore=3000, pods=1)
    scenario.release("f", app="")
    assert scenario.partition.nodes.record(N0).foreign == NOTHING


def resize_foreign(scenario: Scenario, vcore: int, *nodes: str) -> list[Effect]:
    """Told of the last of the nodes; the ones that are missing come first."""
    if nodes[-1] not in scenario.partition.nodes:
        scenario.add_node(nodes[-1])
    return scenario.send(AllocationReported(an_allocation("f", nodes[-1], app="", vcore=vcore, foreign=True)))


def test_an_ask_of_an_allocated_key_is_still_refused() -> None:
    """An ask replaces an ask; what is allocated is told as an allocation."""
    scenario = running()
    effects = scenario.ask(an_ask("r0", vcore=2000))
    answers = [effect for effect in effects if isinstance(effect, AllocationResponse)]
    assert "is allocated already" in answers[0].rejected_asks[0].reason
    assert released_asks(effects) == {}
