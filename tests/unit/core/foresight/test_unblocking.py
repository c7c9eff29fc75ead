"""The smallest changes that start an application: they start it, and fewer of them do not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations

import pytest

from muster_core.foresight.changes import (
    ClusterChange,
    Constraint,
    DropConstraint,
    EndApplication,
    RaiseMaximum,
    ends,
    events,
)
from muster_core.foresight.unblocking import Advice, _fewest, forked, replayed, scheduled, unblock
from muster_core.foresight.virtual_core import VirtualCore
from muster_core.foresight.workload import HOST_NAME
from muster_core.model.config import QueueConfig
from muster_core.model.events import (
    AllocationReported,
    ApplicationAdded,
    AskAdded,
    Event,
    ManagerRegistered,
    NodeAdded,
)
from muster_core.model.ids import QueuePath
from muster_core.model.resources import Limit
from muster_core.model.specs import GangPlacement, Topology
from tests.amounts import amount
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


@pytest.mark.parametrize(
    "running, ahead, expected",
    [
        pytest.param([40], 36, (True, True), id="one application that is large"),
        pytest.param([1] * 40, 0, (False, False), id="too many"),
    ],
)
def test_applications_to_end_are_found_or_the_search_is_not_complete(
    running: list[int], ahead: int, expected: tuple[bool, bool]
) -> None:
    """The target needs all of the node, or what 36 applications that wait before it leave."""
    node = replace(a_node("n"), capacity=resources(vcore=40, pods=99))
    sent: list[Event] = [ManagerRegistered(RM, a_configuration(a_queue("a"))), NodeAdded(node)]
    for number, cores in enumerate(running):
        one = an_allocation(f"r{number}", "n", app=f"running{number}")
        sent += [
            ApplicationAdded(an_application(f"running{number}")),
            AllocationReported(replace(one, resources=resources(vcore=cores, pods=1))),
        ]
    for number in range(ahead + 1):
        name, cores = ("target", 40 - ahead) if number == ahead else (f"waiting{number}", 1)
        ask = replace(an_ask(f"p{number}", app=name), resources=resources(vcore=cores, pods=1))
        sent += [ApplicationAdded(an_application(name)), AskAdded(ask)]
    core = scheduled(sent, NOW_NS)
    found = unblock(core, forked(core), PARTITION, TARGET)
    has_ends = any(isinstance(remedy[0], EndApplication) for remedy in found.remedies)
    assert (has_ends, found.is_complete) == expected


def test_of_equal_applications_only_the_first_are_candidates() -> None:
    sent: list[Event] = [ManagerRegistered(RM, a_configuration(a_queue("a"))), NodeAdded(a_node("n"))]
    for number in range(3):
        name = f"running{number}"
        sent += [
            ApplicationAdded(an_application(name)),
            AllocationReported(an_allocation(f"r{number}", "n", app=name)),
        ]
    for name, user in (*((f"waiting{number}", "kim") for number in range(50)), ("other", "lee"), ("target", "kim")):
        ask = replace(an_ask(f"p-{name}", app=name), resources=resources(vcore=10**6, pods=1))
        sent += [ApplicationAdded(an_application(name, user=user)), AskAdded(ask)]
    partition = scheduled(sent, NOW_NS).scheduler_state.partitions[PARTITION]
    found, is_all = ends(partition, 2).without(partition.applications[TARGET])
    names = [change.name for change in found if isinstance(change, EndApplication)]
    assert names == ["running0", "running1", "waiting0", "waiting1", "other"]
    assert not is_all
    _, is_all = ends(partition, 50).without(partition.applications[TARGET])
    assert is_all


@pytest.mark.parametrize("selector", [(), ((HOST_NAME, "n39"),)], ids=["anywhere", "on the last node"])
def test_applications_of_one_of_many_equal_nodes_may_end(selector: tuple[tuple[str, str], ...]) -> None:
    """Each node has two equal applications, and the target needs a whole one."""
    sent: list[Event] = [ManagerRegistered(RM, a_configuration(a_queue("a")))]
    for number in range(40):
        node = a_node(f"n{number}", 2000)
        sent.append(NodeAdded(replace(node, labels={**node.labels, HOST_NAME: node.id})))
        for name in (f"first{number}", f"second{number}"):
            sent += [ApplicationAdded(an_application(name)), AllocationReported(an_allocation(name, node.id, app=name))]
    ask = an_ask("big", app=TARGET, vcore=2000)
    sent += [
        ApplicationAdded(an_application(TARGET)),
        AskAdded(replace(ask, constraints=replace(ask.constraints, node_selector=selector))),
    ]
    core = scheduled(sent, NOW_NS)
    ended = [
        len(one) for one in unblock(core, forked(core), PARTITION, TARGET).remedies if type(one[0]) is EndApplication
    ]
    assert ended == [2]


@pytest.mark.parametrize("seed", range(6))
def test_child_processes_are_copies_too(seed: int) -> None:
    cluster = Cluster(seed)
    live = Live(cluster)
    if live.is_waiting:
        assert unblock(live.core, forked(live.core), PARTITION, TARGET) == advice_for(seed)


@pytest.mark.parametrize(
    "failure, message",
    [
        pytest.param(RuntimeError("a defect"), "(?s)an attempt ended with status 1: .*RuntimeError: a defect"),
        pytest.param(MemoryError(), "^$", id="no memory"),
    ],
)
def test_a_failure_in_a_child_process_is_not_a_result(failure: Exception, message: str) -> None:
    def fail(_: VirtualCore) -> bool:
        raise failure

    with pytest.raises(type(failure), match=message):
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


@pytest.mark.parametrize("placement", [GangPlacement.AUTO, GangPlacement.DIRECT])
@pytest.mark.parametrize("size", [3, 5])
def test_a_gang_that_fits_in_no_topology_domain(placement: GangPlacement, size: int) -> None:
    """On the four nodes together, three members fit, and five do not."""
    sent: list[Event] = [ManagerRegistered(RM, a_configuration(a_queue("a")))]
    sent += [NodeAdded(a_node(f"{zone}{number}", 1000, labels={"zone": zone})) for zone in "ab" for number in range(2)]
    gang = an_application(TARGET, gang=size, placement=placement)
    sent += [ApplicationAdded(replace(gang, topology=Topology(("zone",), required=True)))]
    sent += [AskAdded(an_ask(f"member-{number}", app=TARGET, group="workers")) for number in range(size)]
    core = scheduled(sent, NOW_NS)
    found = unblock(core, replayed(sent, NOW_NS), PARTITION, TARGET)
    assert ((DropConstraint(TARGET, Constraint.TOPOLOGY),) in found.remedies) == (size == 3)


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
