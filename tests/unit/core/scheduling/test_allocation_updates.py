"""An allocation that is reported again is updated: resized or relabelled, but never moved (KEP-1287)."""

from dataclasses import replace
from typing import Any

import pytest

from muster_core.model.config import QueuePolicies
from muster_core.model.effects import AllocationResponse, Effect, TimerSet
from muster_core.model.events import TimerKind
from muster_core.model.ids import ApplicationId, NodeId, QueuePath, Termination
from muster_core.model.resources import NOTHING
from tests.unit.builders import (
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
    scenario.submit(an_application(), an_ask("r0", vcore=vcore))
    return scenario


def resize(scenario: Scenario, key: str, vcore: int, node: str = "n0", **more: Any) -> list[Effect]:
    return scenario.report(replace(an_allocation(key, node, vcore=vcore), **more))


@pytest.mark.parametrize("vcore", [3000, 500])
def test_a_resize_updates_application_queue_user_and_node_usage(vcore: int) -> None:
    scenario = running()
    assert resize(scenario, "r0", vcore) == []
    now = resources(vcore=vcore, pods=1)
    partition = scenario.partition
    leaf = scenario.app().queue.path
    assert scenario.app().allocated == now
    assert partition.queues.by_path[leaf].allocated == partition.queues.by_path[QueuePath("root")].allocated == now
    assert partition.users.users[scenario.app().spec.user][leaf].allocated == now
    assert partition.nodes.allocated(N0) == now


def test_a_repeated_resize_changes_nothing() -> None:
    scenario = running()
    resize(scenario, "r0", 2000)
    epoch = scenario.partition.nodes.epoch
    assert resize(scenario, "r0", 2000) == []
    assert scenario.partition.nodes.epoch == epoch


def test_node_resources_freed_by_a_resize_go_to_a_waiting_pod() -> None:
    scenario = running(vcore=4000)
    assert placed(scenario.ask(an_ask("r1"))) == {}
    assert placed(resize(scenario, "r0", 3000)) == {"r1": "n0"}


def test_headroom_freed_by_a_resize_goes_to_a_waiting_pod() -> None:
    scenario = running(vcore=2000, most=2000)
    assert placed(scenario.ask(an_ask("r1"))) == {}
    assert placed(resize(scenario, "r0", 1000)) == {"r1": "n0"}


def test_a_pod_resized_beyond_its_node_and_queue_stays_and_blocks_new_pods() -> None:
    scenario = running(most=2000)
    assert resize(scenario, "r0", 5000) == []
    assert scenario.partition.nodes.available(N0)["vcore"] == -1000
    assert placed(scenario.ask(an_ask("r1"))) == {}
    assert resize(scenario, "r0", 6000) == []
    assert placed(resize(scenario, "r0", 1000)) == {"r1": "n0"}
    assert scenario.app().queue.tolerated == NOTHING


def test_a_gang_whose_reserved_quota_is_used_by_a_resize_waits_for_it_again() -> None:
    scenario = running(most=5000)
    scenario.gang(an_application("gang", gang=4), 4)
    gang = scenario.app("gang").gang
    assert (gang.reserved["vcore"], gang.quota_reservation["vcore"], gang.granted) == (3000, 1000, True)
    resize(scenario, "r0", 2000)
    assert (gang.quota_reservation["vcore"], gang.granted) == (1000, False)
    resize(scenario, "r0", 1000)
    assert (gang.quota_reservation["vcore"], gang.granted) == (1000, True)


def test_a_gang_reserves_the_missing_quota_after_a_placeholder_is_resized() -> None:
    scenario = running(vcore=2000, most=4000)
    scenario.gang(an_application("gang", gang=4), 4)
    gang = scenario.app("gang").gang
    assert (gang.reserved["vcore"], gang.quota_reservation) == (2000, NOTHING)
    resize(scenario, "gang-p0", 3000, application=ApplicationId("gang"), group="workers", placeholder=True)
    assert (gang.quota_reservation, gang.granted) == (resources(pods=2), True)


def test_a_resize_over_the_maximum_starts_quota_preemption() -> None:
    policies = QueuePolicies(quota_preemption_delay_ns=60 * SECOND)
    queue = a_queue("a", vcore=2000, policies=policies)
    scenario = Scenario(with_preemption(queue, by_quota=True), nodes=1)
    scenario.submit(an_application(), an_ask("r0"), an_ask("r1"))
    effects = resize(scenario, "r0", 1500)
    assert [effect.timer.kind for effect in effects if isinstance(effect, TimerSet)] == [TimerKind.QUOTA]
    assert set(releases(scenario.wait(61)).values()) == {Termination.PREEMPTED_BY_SCHEDULER}


def test_a_victim_resized_during_preemption_keeps_totals_consistent() -> None:
    policies = QueuePolicies(quota_preemption_delay_ns=60 * SECOND)
    scenario = Scenario(with_preemption(a_queue("a", policies=policies), by_quota=True), nodes=1)
    scenario.submit(an_application(), an_ask("r0"))
    lower = with_preemption(a_queue("a", vcore=500, policies=policies), by_quota=True)
    scenario.reload(lower)
    assert set(releases(scenario.wait(61))) == {"r0"}
    resize(scenario, "r0", 3000)
    queue = scenario.app().queue
    assert queue.preempting == resources(vcore=3000, pods=1)
    scenario.release("r0", why=Termination.PREEMPTED_BY_SCHEDULER)
    assert (queue.preempting, queue.allocated) == (NOTHING, NOTHING)


def test_usage_over_time_is_counted_by_the_size_at_that_time() -> None:
    scenario = running(vcore=1000)
    app = scenario.app()
    scenario.wait(10)
    resize(scenario, "r0", 2000)
    scenario.wait(5)
    scenario.release("r0")
    assert app.used.seconds()["UNKNOWN"]["vcore"] == 10 * 1000 + 5 * 2000


def test_the_peak_usage_of_an_application_grows_with_its_pod() -> None:
    scenario = running()
    resize(scenario, "r0", 3000)
    resize(scenario, "r0", 500)
    assert scenario.app().peak["vcore"] == 3000


def test_a_repeated_report_never_moves_an_allocation() -> None:
    scenario = running()
    scenario.add_node("n1")
    assert refusal(resize(scenario, "r0", 1000, "n1")) == (
        "allocation r0 is on node n0 already: release it there before it is on node n1"
    )
    assert "already exists for ask r0" in refusal(scenario.report(an_allocation("other", "n0", identity="r0-0")))
    assert scenario.app().allocated == resources(vcore=1000, pods=1)


def test_labels_added_to_a_running_pod_requeue_pods_with_affinity_to_them() -> None:
    """A constraint counts the tags that pods have now."""
    scenario = running()
    beside = replace(an_ask("r1"), placement=an_affinity("role", "x", scope="hostname", least=1))
    assert placed(scenario.ask(beside)) == {}
    assert placed(resize(scenario, "r0", 1000, tags={"role": "x"})) == {"r1": "n0"}


def test_a_running_pod_can_opt_out_of_preemption() -> None:
    scenario = running()
    resize(scenario, "r0", 1000, allow_preempt_self=False)
    [allocation] = scenario.app().allocations.values()
    assert not allocation.spec.allow_preempt_self


def reserving(*sizes: int) -> Scenario:
    """A gang of two whose first placeholders have this size."""
    scenario = Scenario(a_configuration(a_queue("a")), an_application(gang=2), nodes=1)
    for index, vcore in enumerate(sizes):
        spec = an_allocation(f"p{index}", "n0", vcore=vcore, group="workers", placeholder=True)
        scenario.report(spec)
    return scenario


def test_a_placeholder_that_shrinks_reduces_the_reservation_of_its_gang() -> None:
    scenario = reserving(1000)
    resize(scenario, "p0", 500, group="workers", placeholder=True)
    assert scenario.app().gang.reserved["vcore"] == scenario.app().gang.allocated["vcore"] == 500
    more = an_allocation("p1", "n0", group="workers", placeholder=True)
    assert states(scenario.report(more)) == []
    assert states(resize(scenario, "p0", 1000, group="workers", placeholder=True)) == ["Running"]


def test_a_placeholder_resized_during_replacement_keeps_totals_consistent() -> None:
    scenario = reserving(1000, 1000)
    assert scenario.app().state == "Running"
    assert releases(scenario.ask(an_ask("r0", group="workers"))) == {"p0": Termination.PLACEHOLDER_REPLACED}
    resize(scenario, "p0", 700, group="workers", placeholder=True)
    assert placed(scenario.release("p0", why=Termination.PLACEHOLDER_REPLACED)) == {"r0": "n0"}
    assert scenario.partition.nodes.allocated(N0) == resources(vcore=2000, pods=2)


def test_a_pod_larger_than_its_resized_placeholder_stays_within_the_maximum() -> None:
    scenario = reserving(1000, 1000)
    scenario.ask(an_ask("r0", group="workers"))
    scenario.reload(a_configuration(a_queue("a", vcore=1500)))
    resize(scenario, "p0", 300, group="workers", placeholder=True)
    assert placed(scenario.release("p0", why=Termination.PLACEHOLDER_REPLACED)) == {}
    assert scenario.app().queue.allocated == resources(vcore=1000, pods=1)
    assert placed(scenario.reload(a_configuration(a_queue("a", vcore=2000)))) == {"r0": "n0"}


def test_a_pod_larger_than_its_resized_placeholder_stays_within_its_node() -> None:
    scenario = reserving(1000, 1000)
    scenario.ask(an_ask("r0", group="workers"))
    resize(scenario, "p0", 300, group="workers", placeholder=True)
    scenario.ask(an_ask("r1", vcore=2700))
    assert placed(scenario.release("p0", why=Termination.PLACEHOLDER_REPLACED)) == {}
    assert scenario.partition.nodes.available(N0)["vcore"] == 300


def test_an_ask_labelled_during_replacement_keeps_its_replacement() -> None:
    """Only a change that affects the placement restarts a request."""
    scenario = reserving(1000, 1000)
    scenario.ask(an_ask("r0", group="workers"))
    updated = replace(an_ask("r0", group="workers"), tags={"job-index": "0"}, allow_preempt_other=False)
    assert scenario.ask(updated) == []
    assert scenario.app().asks[updated.key].spec == updated
    assert placed(scenario.release("p0", why=Termination.PLACEHOLDER_REPLACED)) == {"r0": "n0"}
    [allocation] = [one for one in scenario.app().allocations.values() if not one.spec.placeholder]
    assert allocation.spec.tags == {"job-index": "0"}


def test_a_resized_foreign_pod_uses_its_new_resources() -> None:
    scenario = Scenario(a_configuration(a_queue("a")), nodes=1)
    scenario.report(an_allocation("f", "n0", app="", vcore=1000, foreign=True))
    assert resize_foreign(scenario, 3500, "n0") == []
    assert placed(scenario.submit(an_application(), an_ask("r0"))) == {}
    assert placed(resize_foreign(scenario, 3000, "n0")) == {"r0": "n0"}
    assert "on node n0 already" in refusal(resize_foreign(scenario, 3000, "n0", "n1"))
    assert scenario.partition.nodes.record(N0).foreign == resources(vcore=3000, pods=1)
    scenario.release("f", app="")
    assert scenario.partition.nodes.record(N0).foreign == NOTHING


def resize_foreign(scenario: Scenario, vcore: int, *nodes: str) -> list[Effect]:
    """Report a resized pod on the last of the nodes, after the missing nodes."""
    if nodes[-1] not in scenario.partition.nodes:
        scenario.add_node(nodes[-1])
    return scenario.report(an_allocation("f", nodes[-1], app="", vcore=vcore, foreign=True))


def test_an_ask_for_an_allocated_key_is_rejected() -> None:
    """A request can replace a request; an allocated pod is reported as an allocation."""
    scenario = running()
    effects = scenario.ask(an_ask("r0", vcore=2000))
    answers = [effect for effect in effects if isinstance(effect, AllocationResponse)]
    assert "is allocated already" in answers[0].rejected_asks[0].reason
    assert released_asks(effects) == {}
