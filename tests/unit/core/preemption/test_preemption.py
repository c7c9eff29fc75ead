"""Pure functions of preemption: the queues that a request can preempt, their preemptible resources, spared victims."""

from hypothesis import given, settings
from hypothesis import strategies as st

from muster_core.model.config import QueueConfig
from muster_core.model.ids import NodeId, QueuePath
from muster_core.model.resources import NOTHING, Resources
from muster_core.preemption import guarantees
from muster_core.preemption.candidates import CandidatePool, fewest, lifted, positive, sides
from muster_core.preemption.guarantees import GuaranteeBalance
from muster_core.state.nodes import NodeTable
from muster_core.state.queues import Queue
from muster_core.state.reservations import ThrashingGuard, pair
from muster_core.state.snapshot import Snapshot
from tests.unit.builders import SECOND, a_configuration, a_node, a_queue, an_ask, resources
from tests.unit.core.scheduling.preemption_scenario import offset, pods, run
from tests.unit.core.scheduling.scenario import Scenario

_ONE = Resources({"vcore": 1000})


def scheduler_state(*queues: QueueConfig, **counts: int) -> Scenario:
    """A scenario with this number of pods of 1 core in each leaf of root.p."""
    scenario = Scenario(a_configuration(a_queue("p", *queues)), nodes=2, vcore=50_000)
    for leaf, count in counts.items():
        run(scenario, f"root.p.{leaf}", *pods(leaf, count))
    return scenario


def queue(scenario: Scenario, path: str) -> Queue:
    return scenario.partition.queues.by_path[QueuePath(path)]


def test_a_leaf_within_its_guarantee_may_preempt_in_every_queue() -> None:
    scenario = scheduler_state(a_queue("a", guaranteed=3000), a=2)
    fence = guarantees.fence(scenario.app("a"), _ONE)
    assert fence is not None
    assert (fence.root.path, fence.need) == ("root", NOTHING)


def test_a_leaf_that_would_exceed_its_guarantee_may_not_preempt() -> None:
    scenario = scheduler_state(a_queue("a", guaranteed=3000), a=3)
    assert guarantees.fence(scenario.app("a"), _ONE) is None
    assert not guarantees.is_under_guarantee(queue(scenario, "root.p.a"))


def test_a_leaf_without_any_guarantee_on_its_path_may_not_preempt() -> None:
    scenario = scheduler_state(a_queue("a"), a=1)
    assert guarantees.fence(scenario.app("a"), _ONE) is None


def test_a_used_up_inherited_guarantee_limits_victims_to_the_queue_that_has_it() -> None:
    scenario = scheduler_state(a_queue("t", a_queue("a"), a_queue("b"), guaranteed=4000))
    run(scenario, "root.p.t.b", *pods("b", 4))
    run(scenario, "root.p.t.a", an_ask("x"))
    scenario.release("x", app="a")
    fence = guarantees.fence(scenario.app("a"), _ONE)
    assert fence is not None
    assert (fence.root.path, fence.need) == ("root.p.t", _ONE)


def test_one_resource_beyond_the_guarantee_forbids_preemption_for_the_ask() -> None:
    scenario = scheduler_state(a_queue("a", guaranteed=3000), a=1)
    queue(scenario, "root.p.a").guaranteed = Resources({"vcore": 3000, "memory": 10})
    assert guarantees.fence(scenario.app("a"), Resources({"vcore": 1000, "memory": 11})) is None
    assert guarantees.fence(scenario.app("a"), Resources({"vcore": 1000, "memory": 10})) is not None


def test_what_a_queue_may_release_counts_every_level_and_assumed_releases() -> None:
    scenario = scheduler_state(a_queue("t", a_queue("a"), guaranteed=2000))
    run(scenario, "root.p.t.a", *pods("a", 4))
    leaf, root = queue(scenario, "root.p.t.a"), scenario.partition.queues.root
    balance = GuaranteeBalance(root)
    assert balance.may_release(leaf, Resources({"vcore": 2000}))
    balance.lose(leaf, _ONE)
    assert balance.may_release(leaf, _ONE)
    assert not balance.may_release(leaf, Resources({"vcore": 2000}))
    balance.lose(leaf, _ONE, -1)
    assert balance.may_release(leaf, Resources({"vcore": 2000}))


def test_a_queue_that_gains_what_it_loses_keeps_its_guarantee() -> None:
    scenario = scheduler_state(a_queue("t", a_queue("a"), a_queue("b"), guaranteed=4000))
    run(scenario, "root.p.t.a", *pods("a", 4))
    path = frozenset(above.path for above in queue(scenario, "root.p.t.b").path_up)
    balance = GuaranteeBalance(scenario.partition.queues.root, _ONE, path)
    assert balance.may_release(queue(scenario, "root.p.t.a"), _ONE)
    assert not balance.may_release(queue(scenario, "root.p.t.a"), Resources({"vcore": 2000}))


def test_a_priority_adds_offsets_and_is_replaced_at_a_fence() -> None:
    scenario = scheduler_state(
        a_queue("t", a_queue("a", policies=offset(3)), policies=offset(10, fence=True)), a_queue("b")
    )
    ours, theirs = sides(queue(scenario, "root.p.b"), queue(scenario, "root.p.t.a"))
    assert [one.path for one in ours] == ["root.p.b"]
    assert [one.path for one in theirs] == ["root.p.t.a", "root.p.t"]
    assert lifted(5, theirs[:1]) == 8
    assert lifted(5, theirs) == 10


@settings(max_examples=60, deadline=None)
@given(
    sizes=st.lists(st.integers(1, 5), min_size=1, max_size=8),
    priorities=st.lists(st.integers(0, 3), min_size=8, max_size=8),
    wanted=st.integers(1, 20),
    guaranteed=st.integers(0, 12),
)
def test_victims_are_sufficient_and_necessary_and_keep_the_guarantee(
    sizes: list[int], priorities: list[int], wanted: int, guaranteed: int
) -> None:
    scenario = scheduler_state(a_queue("a", guaranteed=guaranteed * 1000), a_queue("b"))
    asks = (an_ask(f"a{i}", vcore=size * 1000, priority=priorities[i]) for i, size in enumerate(sizes))
    run(scenario, "root.p.a", *asks)
    leaf, lacking = queue(scenario, "root.p.a"), Resources({"vcore": wanted * 1000})
    pool = CandidatePool(
        scenario.partition,
        scenario.partition.queues.root,
        queue(scenario, "root.p.b"),
        priority=3,
        amount=lacking,
    )
    found = sorted((one for node in ("n0", "n1") for one in pool.on(NodeId(node))), key=lambda one: one.key)
    assert len(found) == (len(sizes) if sum(sizes) > guaranteed else 0)
    victims = fewest(found, lacking, GuaranteeBalance(scenario.partition.queues.root))
    if victims is None:
        return
    freed = sum((victim.resources for victim in victims), NOTHING)
    assert freed.covers(lacking)
    assert leaf.allocated["vcore"] - freed["vcore"] >= guaranteed * 1000
    assert all(positive(lacking - (freed - victim.resources)) for victim in victims)


def test_thrashing_is_detected_when_the_first_queue_preempts_the_second_again() -> None:
    scenario = scheduler_state(a_queue("a"), a_queue("b"))
    a, b = QueuePath("root.p.a"), QueuePath("root.p.b")
    partition, now_ns = scenario.partition, scenario.now_ns
    thrashing = partition.preemptions.thrashing_guards[pair(b, a)] = ThrashingGuard(taker=a, since_ns=now_ns)
    assert guarantees.is_thrashing(partition, b, a, now_ns) is None
    thrashing.taker, thrashing.rounds = b, 1
    assert guarantees.is_thrashing(partition, b, a, now_ns) is None
    assert guarantees.is_thrashing(partition, a, b, now_ns) is thrashing
    assert guarantees.is_thrashing(partition, a, b, now_ns + 601 * SECOND) is None, "that is long ago"


def test_the_pause_doubles_up_to_a_day() -> None:
    assert [guarantees.pause_ns(count) // SECOND for count in (0, 1, 2, 30)] == [60, 120, 240, 86_400]


def test_reserved_resources_count_as_used_even_if_nothing_else_of_a_resource_is_left() -> None:
    nodes = NodeTable()
    nodes.add(a_node("n0", 1000), draining=False)
    nodes.add(a_node("n1", 1000), draining=False)
    nodes.take(NodeId("n0"), resources(vcore=1000))
    nodes.reserve(NodeId("n0"), _ONE, 1)
    nodes.remove(NodeId("n1"))
    snapshot = Snapshot(nodes)
    snapshot.free(NodeId("n0"), _ONE)
    left = snapshot.available("vcore")
    assert left is not None
    assert left[nodes.rows.row(NodeId("n0"))] == 0
