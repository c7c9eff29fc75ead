"""The smallest changes that start an application: they start it, and fewer of them do not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import combinations

import pytest

from muster_core.foresight.changes import ClusterChange, RaiseMaximum, events
from muster_core.foresight.unblocking import Advice, _fewest, forked, replayed, unblock
from muster_core.foresight.virtual_core import VirtualCore
from muster_core.model.config import QueueConfig
from muster_core.model.events import ManagerRegistered
from muster_core.model.ids import QueuePath
from muster_core.model.resources import Limit
from tests.amounts import amount
from tests.unit.builders import PARTITION, RM, a_configuration
from tests.unit.core.foresight.small_clusters import NOW_NS, TARGET, Cluster, Live

#: Clusters per case of the first test, of which `make soak` has 56. The application waits in three of four.
_PART = amount(40, 250)
#: A cluster whose remedies have needless changes unless each is tried without them.
_NEEDLESS = 577


def advice_for(seed: int) -> Advice:
    cluster = Cluster(seed)
    live = Live(cluster)
    return unblock(live.core, replayed(cluster.events(), NOW_NS), PARTITION, TARGET)


def starts(seed: int, changes: tuple[ClusterChange, ...]) -> bool:
    live = Live(Cluster(seed))
    live.make(changes)
    return live.has_started


def proper_subsets(changes: tuple[ClusterChange, ...]) -> Iterator[tuple[ClusterChange, ...]]:
    """All of them, or of many changes those without one."""
    sizes = range(len(changes)) if len(changes) <= 6 else [len(changes) - 1]
    for size in sizes:
        yield from combinations(changes, size)


@pytest.mark.thorough
@pytest.mark.timeout(amount(300, 3600))
@pytest.mark.parametrize("part", range(amount(1, 56)))
def test_the_changes_start_the_application_and_no_proper_subset_does(part: int) -> None:
    found: Counter[str] = Counter()
    for seed in (*range(part * _PART, (part + 1) * _PART), _NEEDLESS):
        if not Live(Cluster(seed)).is_waiting:
            continue
        advice = advice_for(seed)
        assert advice.is_complete
        assert advice.starts_anyway == starts(seed, ()), f"seed {seed}"
        found["clusters"] += 1
        for remedy in advice.remedies:
            found.update({type(change).__name__ for change in remedy})
            assert starts(seed, remedy), f"seed {seed}: {remedy} do not start it"
            for fewer in proper_subsets(remedy):
                assert not starts(seed, fewer), f"seed {seed}: {fewer} are sufficient, not only {remedy}"
    assert found.keys() >= {"AddNode", "EndApplication", "RaiseMaximum", "RaiseUserLimits", "DropConstraint"}


@pytest.mark.parametrize(
    "sufficient, number, best",
    [
        pytest.param([{0, 1}, {2}], 3, {2}, id="one change, and two that are earlier"),
        pytest.param([{0, 1, 2}, {3, 4}], 5, {3, 4}, id="two changes, and three that are earlier"),
        pytest.param([{0, 1}, {99}], 200, {99}, id="one of the first changes of many"),
        pytest.param([{0, 1}, {100}], 200, {0, 1}, id="a later one of many is not tried"),
        pytest.param([{0, 1, 2}, {3, 4}], 20, {0, 1, 2}, id="too many pairs"),
    ],
)
def test_fewer_changes_are_preferred_to_earlier_ones(sufficient: list[set[int]], number: int, best: set[int]) -> None:
    changes = [RaiseMaximum(QueuePath(f"root.q{index}"), Limit(), 0) for index in range(number)]

    def starts(tried: Sequence[ClusterChange]) -> bool:
        return any(all(changes[index] in tried for index in enough) for enough in sufficient)

    remedy = tuple(changes[index] for index in sorted(sufficient[0]))
    assert _fewest(remedy, changes, starts) == tuple(changes[index] for index in sorted(best))


@pytest.mark.parametrize("seed", range(6))
def test_child_processes_are_copies_too(seed: int) -> None:
    cluster = Cluster(seed)
    live = Live(cluster)
    if live.is_waiting:
        assert unblock(live.core, forked(live.core), PARTITION, TARGET) == advice_for(seed)


def test_a_failure_in_a_child_process_is_not_a_result() -> None:
    def fail(_: VirtualCore) -> bool:
        raise RuntimeError("a defect")

    with pytest.raises(RuntimeError, match=r"(?s)an attempt ended with status 1: .*RuntimeError: a defect"):
        forked(VirtualCore(NOW_NS))(fail)


def test_the_search_ends_when_its_time_is_over() -> None:
    seed = next(seed for seed in range(50) if Live(Cluster(seed)).is_waiting and advice_for(seed).remedies)
    cluster, attempts = Cluster(seed), iter(range(3))
    live = Live(cluster)
    found = unblock(
        live.core, replayed(cluster.events(), NOW_NS), PARTITION, TARGET, lambda: next(attempts, None) is not None
    )
    assert not found.is_complete
    assert len(found.remedies) <= 1


@pytest.mark.parametrize("queue", ["root.team", "root.team.lonely", "root.team.gone"])
def test_a_dynamic_queue_without_applications_has_no_maximum_to_raise(queue: str) -> None:
    """An application that drops a constraint is submitted again, and may be rejected."""
    core = VirtualCore(NOW_NS)
    core.send([ManagerRegistered(RM, a_configuration())])
    state = core.scheduler_state
    partition = state.partitions[PARTITION]
    team = partition.queues.add(partition.queues.root, QueueConfig("team", parent=True), managed=False)
    partition.queues.add(team, QueueConfig("lonely"), managed=False)
    assert events(state, partition, RaiseMaximum(QueuePath(queue), Limit({}), 1)) == []
