"""Inter-pod affinity agrees with a simple search that evaluates all rules again for each pod."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from hypothesis import given, settings
from hypothesis import strategies as st

from muster_core.model.config import NodeOrder, NodeSort
from muster_core.model.constraints import NAMESPACE, PodTerm, Target, TargetOperator, matches
from muster_core.model.ids import NodeId
from muster_core.model.specs import PodOnNode
from muster_core.placement.node_search import place, refusals
from muster_core.placement.plugins.inter_pod_affinity import (
    AFFINITY_NOT_MET,
    ANTI_AFFINITY_NOT_MET,
    EXISTING_ANTI_AFFINITY_NOT_MET,
)
from muster_core.state.nodes import NodeTable
from muster_core.state.snapshot import Snapshot
from tests.unit.builders import a_node, resources
from tests.unit.core.placement.affinity_clusters import APP, HOST, ZONE, a_pod, put, selecting, wanting
from tests.unit.core.placement.tables import a_table, keep_tags

LABELS: Final[Mapping[str, Mapping[str, str]]] = {"red": {"team": "one"}, "blue": {}}
CORES: Final = 8

selectors = st.sampled_from(
    [(), selecting(app="web"), selecting(app="db"), (Target(APP, TargetOperator.NOT_IN, ("db",)),), None]
)
terms = st.builds(
    PodTerm,
    st.sampled_from([ZONE, HOST]),
    selectors,
    st.sampled_from([("red",), ("blue", "red"), ()]),
    st.sampled_from([None, None, (), (Target("team", values=("one",)),), (Target("team", TargetOperator.NOT_EXIST),)]),
)
few = st.lists(terms, max_size=2)
pods = st.builds(
    lambda app, namespace, affinity, anti_affinity, preferred: a_pod(
        app, namespace=namespace, affinity=affinity, anti_affinity=anti_affinity, preferred=preferred
    ),
    st.sampled_from(["web", "db"]),
    st.sampled_from(list(LABELS)),
    few,
    few,
    st.lists(st.tuples(st.sampled_from([-50, -1, 1, 100]), terms), max_size=2),
)


@dataclass
class Plain:
    """A node in the simple search: its capacity and its pods."""

    labels: dict[str, str]
    capacity: int
    there: list[PodOnNode] = field(default_factory=list)
    used: int = 0


nodes = st.lists(
    st.builds(
        lambda zone, host, capacity, there: Plain(
            ({ZONE: zone} if zone else {}) | ({HOST: host} if host else {}), capacity, there
        ),
        st.sampled_from(["", "a", "b"]),
        st.sampled_from(["", "h1", "h2", "h3"]),
        st.integers(0, 4),
        st.lists(pods, max_size=2),
    ),
    min_size=1,
    max_size=5,
)


def table_of(plain: list[Plain]) -> NodeTable:
    table = a_table(*(a_node(f"n{i}", vcore=CORES * 1000, labels=node.labels) for i, node in enumerate(plain)))
    keep_tags(table, (APP, NAMESPACE))
    for name, labels in LABELS.items():
        table.pods_on_nodes.namespace(name, labels)
    for index, node in enumerate(plain):
        table.take(NodeId(f"n{index}"), resources(vcore=1000 * (CORES - node.capacity)))
        put(table, f"n{index}", *node.there)
    return table


def means(term: PodTerm, pod: PodOnNode) -> bool:
    """Whether a pod's term selects another pod."""
    if term.selector is None or not matches(term.selector, dict(pod.tags)):
        return False
    namespace = dict(pod.tags)[NAMESPACE]
    if namespace in term.namespaces:
        return True
    return term.among is not None and matches(term.among, LABELS[namespace])


def together(one: Plain, other: Plain, key: str) -> bool:
    return key in one.labels and one.labels[key] == other.labels.get(key)


def refusal(plain: list[Plain], here: Plain, pod: PodOnNode) -> str:
    """The reason why the node is infeasible; empty if it is feasible."""
    inter_pod = pod.facts.inter_pod
    there = [(node, other) for node in plain for other in node.there]
    wanted = [(node, other) for node, other in there if all(means(term, other) for term in inter_pod.affinity)]
    keys = [term.topology for term in inter_pod.affinity]
    begins = all(means(term, pod) for term in inter_pod.affinity) and not any(
        key in node.labels for node, _ in wanted for key in keys
    )
    for key in keys:
        if key not in here.labels or not (begins or any(together(here, node, key) for node, _ in wanted)):
            return AFFINITY_NOT_MET
    if any(
        means(one, other) and together(here, node, one.topology)
        for node, other in there
        for one in inter_pod.anti_affinity
    ):
        return ANTI_AFFINITY_NOT_MET
    if any(
        means(one, pod) and together(here, node, one.topology)
        for node, other in there
        for one in other.facts.inter_pod.anti_affinity
    ):
        return EXISTING_ANTI_AFFINITY_NOT_MET
    return ""


def preferences_of(pod: PodOnNode, other: PodOnNode) -> Iterator[tuple[int, str]]:
    """What a pod that is there weighs for one that is to be placed, and in which domains."""
    for one in pod.facts.inter_pod.preferred:
        if means(one.term, other):
            yield one.weight, one.term.topology
    for one in other.facts.inter_pod.preferred:
        if means(one.term, pod):
            yield one.weight, one.term.topology
    for term in other.facts.inter_pod.affinity:
        if means(term, pod):
            yield 1, term.topology


def points(plain: list[Plain], pod: PodOnNode, among: Iterable[Plain]) -> list[float]:
    """Of every node, relative to the least and the most of some."""
    sums = [
        sum(
            weight
            for node in plain
            for other in node.there
            for weight, key in preferences_of(pod, other)
            if together(here, node, key)
        )
        for here in plain
    ]
    chosen = [sums[index] for index, node in enumerate(plain) if any(node is one for one in among)]
    low, high = min(chosen), max(chosen)
    return [int(100.0 * ((one - low) / (high - low))) * 2.0 if high > low else 0.0 for one in sums]


def one_by_one(plain: list[Plain], pod: PodOnNode, count: int) -> list[int]:
    """The node of each: the best in points and use, then the first by name."""
    chosen: list[int] = []
    among = [node for node in plain if node.capacity and not refusal(plain, node, pod)]
    for _ in range(count):
        fitting = [i for i, node in enumerate(plain) if node.capacity > node.used and not refusal(plain, node, pod)]
        if not fitting:
            break
        liked = points(plain, pod, among)
        used = [(CORES - node.capacity + node.used) / CORES for node in plain]
        index = min(fitting, key=lambda i: (used[i] - liked[i] / 100, i))
        plain[index].used += 1
        plain[index].there.append(pod)
        chosen.append(index)
    return chosen


def refused(table: Snapshot, pod: PodOnNode) -> dict[NodeId, str]:
    """The reason of every infeasible node, without resources."""
    found: dict[NodeId, str] = {}
    for reason, rows in refusals(table, wanting(pod, vcore=0)):
        found |= {table.nodes.rows.at(row): reason for row in rows.nonzero()[0].tolist()}
    return found


@settings(max_examples=80)
@given(nodes, pods)
def test_every_node_is_refused_for_the_reason_that_the_rules_have(plain: list[Plain], pod: PodOnNode) -> None:
    expected = {NodeId(f"n{index}"): why for index, node in enumerate(plain) if (why := refusal(plain, node, pod))}
    assert refused(Snapshot(table_of(plain)), pod) == expected


@settings(max_examples=80)
@given(nodes, pods, st.integers(1, 8))
def test_placing_together_equals_placing_one_by_one(plain: list[Plain], pod: PodOnNode, count: int) -> None:
    snapshot = Snapshot(table_of(plain))
    placed = place(snapshot, wanting(pod), count, NodeSort(NodeOrder.FAIR, (("vcore", 1.0),)))
    expected = Counter(NodeId(f"n{index}") for index in one_by_one(plain, pod, count))
    assert dict(placed) == dict(expected)
    # The snapshot of the plan contains its placements.
    assert refused(snapshot, pod) == {
        NodeId(f"n{index}"): why for index, node in enumerate(plain) if (why := refusal(plain, node, pod))
    }
