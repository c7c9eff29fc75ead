"""Quota preemption after the maximum of a queue was lowered."""

from dataclasses import replace
from random import Random  # noqa: TID251 - seeded

import pytest

from muster_core.model.config import QueueConfig, QueuePolicies
from muster_core.model.constraints import TERMINATING, TERMINATING_PREEMPTED, Constraints
from muster_core.model.events import NodeAdded
from muster_core.model.ids import Termination
from muster_core.model.limits import ALLOCATIONS_PER_QUOTA_PREEMPTION
from muster_core.model.resources import NOTHING, Limit, Resources
from tests.amounts import amount
from tests.unit.builders import SECOND, a_node, a_queue, an_allocation, an_application, an_ask, resources
from tests.unit.core.scheduling.preemption_scenario import (
    a_daemon,
    confirm,
    cores,
    first_pod,
    opted_out,
    pods,
    run,
    submit,
    victims,
    with_preemption,
)
from tests.unit.core.scheduling.scenario import Scenario, releases


def after(seconds: int) -> QueuePolicies:
    return QueuePolicies(quota_preemption_delay_ns=seconds * SECOND)


def a(vcore: int | None, delay_s: int = 60, guaranteed: int = 0) -> QueueConfig:
    return a_queue("a", vcore=vcore, guaranteed=guaranteed, policies=after(delay_s))


def reload(scenario: Scenario, *queues: QueueConfig, on: bool = True) -> None:
    scenario.reload(with_preemption(*queues, by_quota=on))


def running(*queues: QueueConfig, count: int = 6) -> Scenario:
    """`count` pods of 1 core in root.a, without a maximum."""
    scenario = Scenario(with_preemption(*(queues or (a(None),)), by_quota=True), nodes=1, vcore=100_000)
    run(scenario, "root.a", *pods("x", count))
    return scenario


def test_a_maximum_lowered_below_usage_is_enforced_after_the_delay_youngest_first() -> None:
    scenario = running()
    reload(scenario, a(4000))
    assert victims(scenario.wait(59)) == set()
    assert victims(scenario.wait(2)) == {"x4", "x5"}


def test_a_lowered_maximum_counts_preempted_pods_first() -> None:
    scenario = running(count=0)
    submit(scenario, "a", "root.a")
    scenario.report(replace(an_allocation("old", "n0", app="a"), tags={TERMINATING: TERMINATING_PREEMPTED}))
    scenario.wait(1)
    run(scenario, "root.a", *pods("x", 5))
    reload(scenario, a(5000))
    assert victims(scenario.wait(61)) == {"old"}


def test_a_longer_delay_postpones_the_start_and_a_lower_maximum_does_not() -> None:
    scenario = running()
    reload(scenario, a(4000))
    scenario.wait(50)
    reload(scenario, a(3000))
    reload(scenario, a(3000, delay_s=100))
    assert victims(scenario.wait(49)) == set()
    assert victims(scenario.wait(2)) == {"x3", "x4", "x5"}


def test_a_sufficient_or_removed_maximum_cancels_the_preemption() -> None:
    for enough in (6000, None):
        scenario = running()
        reload(scenario, a(4000))
        scenario.wait(30)
        reload(scenario, a(enough))
        assert victims(scenario.wait(500)) == set()


def test_a_delay_added_while_the_queue_is_over_its_maximum_starts_immediately() -> None:
    scenario = running()
    reload(scenario, a(4000, delay_s=0))
    assert victims(scenario.wait(500)) == set()
    reload(scenario, a(4000, delay_s=10))
    assert victims(scenario.wait(11)) == {"x4", "x5"}


def test_nothing_is_preempted_when_quota_preemption_is_off() -> None:
    scenario = running()
    reload(scenario, a(4000), on=False)
    assert victims(scenario.wait(500)) == set()
    reload(scenario, a(4000))
    assert len(victims(scenario.wait(61))) == 2, "switching it on starts it"


def test_a_reported_allocation_over_the_maximum_starts_the_delay() -> None:
    scenario = Scenario(with_preemption(a(2000), by_quota=True))
    submit(scenario, "a", "root.a")
    existing = tuple(an_allocation(f"x{index}", "n0", app="a") for index in range(3))
    scenario.send(NodeAdded(a_node("n0", 9000), existing=existing))
    assert victims(scenario.wait(59)) == set()
    assert victims(scenario.wait(2)) == {"x2"}


def test_no_queue_falls_below_its_guarantee() -> None:
    scenario = running(a(None, guaranteed=5000))
    reload(scenario, a(1000, guaranteed=5000))
    assert len(victims(scenario.wait(61))) == 1


def test_a_parent_divides_its_excess_by_usage_over_the_guarantees() -> None:
    def tree(vcore: int | None) -> QueueConfig:
        leaves = (a_queue("a", guaranteed=2000), a_queue("b"), a_queue("c", guaranteed=4000))
        return a_queue("p", *leaves, vcore=vcore, policies=after(60))

    scenario = Scenario(with_preemption(tree(None), by_quota=True), nodes=1, vcore=100_000)
    for leaf, count in (("a", 8), ("b", 3), ("c", 4)):
        run(scenario, f"root.p.{leaf}", *pods(leaf, count))
    reload(scenario, tree(12_000))
    effects = scenario.wait(61)
    assert len(victims(effects)) == 3
    assert cores(scenario, "root.p.a", "root.p.b", "root.p.c") == [6, 2, 4]


def test_originators_and_opted_out_pods_are_last_victims_and_daemons_never() -> None:
    scenario = Scenario(with_preemption(a(None), by_quota=True), nodes=1, vcore=100_000)
    first, kept, young = first_pod(an_ask("first")), opted_out(an_ask("kept")), an_ask("young")
    run(scenario, "root.a", young, kept, first, a_daemon("daemon", "n0"))
    for most, gone in ((3000, {"young"}), (2000, {"kept"}), (0, {"first"})):
        reload(scenario, a(most))
        effects = scenario.wait(61)
        assert victims(effects) == gone
        confirm(scenario, effects)


def test_a_victim_larger_than_the_excess_is_taken_if_nothing_smaller_exists() -> None:
    scenario = Scenario(with_preemption(a(None), by_quota=True), nodes=1, vcore=100_000)
    run(scenario, "root.a", an_ask("wide", vcore=4000))
    reload(scenario, a(3000))
    assert victims(scenario.wait(61)) == {"wide"}


def test_a_queue_still_over_its_maximum_is_preempted_again() -> None:
    scenario = running()
    reload(scenario, a(5000))
    scenario.wait(61)
    reload(scenario, a(3000))
    assert len(victims(scenario.wait(61))) == 2


def test_the_queue_shows_the_start_and_progress_of_quota_preemption() -> None:
    scenario = running()
    now_ns = scenario.now_ns
    reload(scenario, a(4000))
    queue = scenario.app("a").queue
    assert (queue.quota_at_ns, queue.quota_running) == (now_ns + 60 * SECOND, 0)
    effects = scenario.wait(61)
    assert queue.quota_running
    assert queue.preempting["vcore"] == 2000
    confirm(scenario, effects)
    assert not queue.quota_running


def test_quota_preemption_releases_a_bounded_number_of_allocations_at_a_time() -> None:
    count = 2 * ALLOCATIONS_PER_QUOTA_PREEMPTION + 500
    scenario = Scenario(with_preemption(a(None), by_quota=True), NodeAdded(a_node("n0", 10_000_000, pods=10_000)))
    run(scenario, "root.a", *pods("x", count))
    reload(scenario, a(100_000))
    gone = victims(scenario.wait(61))
    assert gone == {f"x{index}" for index in range(100, count)}, "all but the oldest"
    assert (
        max(len(one.victims) for one in scenario.partition.preemptions.running.values())
        <= ALLOCATIONS_PER_QUOTA_PREEMPTION
    )


@pytest.mark.parametrize("leaves, each", [(13, 50), (64, 10)])
def test_the_bound_of_quota_preemption_holds_for_all_leaves_together_and_each_gives_its_part(
    leaves: int, each: int
) -> None:
    """The excess exceeds one bound, so two plans divide it, and the parts of the leaves are no complete pods."""
    children = [a_queue(f"q{index}") for index in range(leaves)]
    before = a_queue("p", *children, vcore=leaves * each * 1000, policies=after(60))
    scenario = Scenario(with_preemption(before, by_quota=True), NodeAdded(a_node("n0", 10_000_000, pods=10_000)))
    for index in range(leaves):
        run(scenario, f"root.p.q{index}", *pods(f"x{index}-", each))
    kept = leaves * 3 // 2
    reload(scenario, replace(before, max=Limit({"vcore": kept * 1000})))
    assert len(victims(scenario.wait(61))) == leaves * each - kept
    assert set(cores(scenario, *(f"root.p.q{index}" for index in range(leaves)))) == {1, 2}
    sizes = [len(one.victims) for one in scenario.partition.preemptions.running.values()]
    assert max(sizes) <= ALLOCATIONS_PER_QUOTA_PREEMPTION < sum(sizes)


@pytest.mark.parametrize("seed", range(amount(40, 2000)))
def test_a_tree_releases_its_excess_down_to_the_guarantees_and_no_pod_more(seed: int) -> None:
    """Random trees with several levels, guarantees and resources, whose maximum is lowered."""
    random = Random(seed)
    leaves = {f"{parent}{leaf}": random.choice([0, 0, 1000, 3000]) for parent in "ab" for leaf in "xyz"}

    def a_tree(most: Limit) -> QueueConfig:
        parents = [
            a_queue(parent, *(a_queue(leaf, guaranteed=leaves[leaf]) for leaf in leaves if leaf[0] == parent))
            for parent in "ab"
        ]
        return replace(a_queue("p", *parents, policies=after(60)), max=most)

    scenario = Scenario(with_preemption(a_tree(Limit()), by_quota=True))
    node = a_node("n0", 1_000_000, pods=1000)
    scenario.send(NodeAdded(replace(node, capacity=node.capacity + resources(gpu=100))))
    sizes: dict[str, Resources] = {}
    for leaf in leaves:
        own = {f"{leaf}-{n}": resources(vcore=random.randint(1, 4) * 500, gpu=random.randint(0, 1)) for n in range(6)}
        run(scenario, f"root.p.{leaf[0]}.{leaf}", *(replace(an_ask(key), resources=size) for key, size in own.items()))
        sizes |= own
    used = sum(sizes.values(), NOTHING)
    most = Limit({name: random.randint(0, used[name]) for name in random.choice([("vcore",), ("vcore", "gpu")])})
    reload(scenario, a_tree(most))
    gone = victims(scenario.wait(61))

    left = used - sum((sizes[key] for key in gone), NOTHING)
    if len(scenario.partition.preemptions.running) == 1:  # a second plan can make a victim of the first one needless
        assert all(most.excess(left + sizes[key]) for key in gone), "each victim is required"
    for leaf, guarantee in leaves.items():
        kept = [size for key, size in sizes.items() if key.startswith(f"{leaf}-") and key not in gone]
        vcore = sum(size["vcore"] for size in kept)
        assert vcore >= guarantee or not any(key.startswith(f"{leaf}-") for key in gone)
        for size in kept:
            assert vcore - size["vcore"] < guarantee or not any(size[name] for name in most.excess(left))


def test_quota_of_a_rare_resource_is_freed_among_any_number_of_younger_pods() -> None:
    scenario = Scenario(with_preemption(a(None), by_quota=True))
    node = a_node("n0", 10_000_000, pods=10_000)
    scenario.send(NodeAdded(replace(node, capacity=node.capacity + resources(gpu=4))))
    run(scenario, "root.a", *(replace(an_ask(f"g{index}"), resources=resources(gpu=1)) for index in range(4)))
    run(scenario, "root.a", *pods("young", ALLOCATIONS_PER_QUOTA_PREEMPTION + 100))
    reload(scenario, replace(a(None), max=Limit({"gpu": 3})))
    assert victims(scenario.wait(61)) == {"g3"}


def test_a_pod_whose_large_placeholder_is_preempted_releases_a_smaller_one() -> None:
    scenario = Scenario(with_preemption(a(None), by_quota=True), an_application(gang=3), nodes=1)
    running = an_allocation("running", "n0", vcore=100, group="workers")
    scenario.report(replace(running, allow_preempt_self=False))
    for index, vcore in enumerate((2000, 1000)):
        spec = an_allocation(f"p{index}", "n0", vcore=vcore, group="workers", placeholder=True)
        scenario.report(replace(spec, allow_preempt_self=not index))
    ssd = Constraints(node_selector=(("disk", "ssd"),))
    assert releases(scenario.ask(an_ask("r0", group="workers", vcore=1500, constraints=ssd))) == {}
    reload(scenario, a(1100))
    assert releases(scenario.wait(61)) == {"p0": Termination.PREEMPTED_BY_SCHEDULER, "p1": Termination.TIMEOUT}


def test_smaller_pods_of_the_latest_hour_are_preempted_first() -> None:
    scenario = Scenario(with_preemption(a(None), by_quota=True), nodes=1, vcore=100_000)
    run(scenario, "root.a", an_ask("old", vcore=1000))
    scenario.wait(3600)
    run(scenario, "root.a", an_ask("small", vcore=1000))
    scenario.wait(1)
    run(scenario, "root.a", an_ask("young", vcore=3000))
    reload(scenario, a(4000))
    assert victims(scenario.wait(61)) == {"small"}


def test_the_youngest_of_equal_pods_within_an_hour_are_preempted() -> None:
    scenario = Scenario(with_preemption(a(None), by_quota=True), nodes=1, vcore=100_000)
    for name in ("first", "second"):
        run(scenario, "root.a", an_ask(name))
        scenario.wait(1)
    reload(scenario, a(1000))
    assert victims(scenario.wait(61)) == {"second"}


def test_leaves_that_share_an_excess_release_no_more_pods_than_it_needs() -> None:
    def tree(vcore: int | None) -> QueueConfig:
        return a_queue("p", a_queue("b"), a_queue("c"), vcore=vcore, policies=after(60))

    scenario = Scenario(with_preemption(tree(None), by_quota=True), nodes=1, vcore=200_000)
    for leaf in ("b", "c"):
        run(scenario, f"root.p.{leaf}", *pods(leaf, 7, vcore=10_000))
    reload(scenario, tree(10_000))
    assert len(victims(scenario.wait(61))) == 13
    assert sum(cores(scenario, "root.p.b", "root.p.c")) == 10
