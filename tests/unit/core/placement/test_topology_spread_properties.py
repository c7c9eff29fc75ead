"""Required spread constraints agree with a simple implementation of the rules, before and after each member."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from muster_core.model.config import NodeSort
from muster_core.model.constraints import NAMESPACE, TERMINATING, Constraints, Tags, TopologySpreadConstraint, matches
from muster_core.model.ids import NodeId
from muster_core.model.specs import NodeSpec
from muster_core.placement.node_search import place
from muster_core.placement.plugins.topology_spread import NO_LABEL, SKEWED, spread_filter
from muster_core.state.nodes import NodeTable
from muster_core.state.snapshot import RequestShape, Snapshot
from tests.unit.builders import PARTITION, resources
from tests.unit.core.placement.spread_clusters import DEDICATED, HOST, KEYS, WEB, ZONE, a_pod, put, spread, spreading
from tests.unit.core.placement.tables import keep_tags

DISK = Constraints(node_selector=(("disk", "ssd"),))


@dataclass
class Plain:
    """A node as the rules see it."""

    labels: dict[str, str]
    tainted: bool
    there: list[Tags] = field(default_factory=list)


pods = st.builds(
    lambda app, namespace, terminating: a_pod(app, namespace, terminating=terminating),
    st.sampled_from(["web", "web", "db"]),
    st.sampled_from(["ns", "ns", "ns", "other"]),
    st.sampled_from([False, False, False, True]),
)
labels = st.fixed_dictionaries(
    {},
    optional={ZONE: st.sampled_from(["a", "b", "c"]), "rack": st.sampled_from(["1", "2"]), "disk": st.just("ssd")},
)
nodes = st.lists(st.builds(Plain, labels, st.booleans(), st.lists(pods, max_size=3)), min_size=1, max_size=6)
constraints = st.builds(
    lambda key, skew, selector, domains, affinity, taints: spread(
        key, skew=skew, selector=selector, domains=domains, honors_affinity=affinity, honors_taints=taints
    ),
    st.sampled_from([ZONE, ZONE, "rack", HOST]),
    st.integers(1, 2),
    st.sampled_from([WEB, WEB, WEB, (), None]),
    st.sampled_from([1, 1, 1, 2, 3]),
    st.booleans(),
    st.booleans(),
)
shapes = st.builds(
    lambda found, app, where: spreading(*found, app=app, where=where),
    st.lists(constraints, min_size=1, max_size=2),
    st.sampled_from(["web", "web", "web", "db"]),
    st.sampled_from([Constraints(), Constraints(), DISK]),
)


def table_of(plain: list[Plain]) -> NodeTable:
    """With capacity for more pods than any example places."""
    table = NodeTable()
    keep_tags(table, KEYS)
    for index, node in enumerate(plain):
        node.labels[HOST] = f"n{index}"
        taints = (DEDICATED,) if node.tainted else ()
        spec = NodeSpec(PARTITION, NodeId(f"n{index}"), resources(vcore=4000), labels=node.labels, taints=taints)
        table.add(spec, draining=False)
        put(table, spec.id, *node.there)
    return table


def counts(plain: list[Plain], shape: RequestShape, constraint: TopologySpreadConstraint) -> Counter[str]:
    """Pods that count, by domain; domains without any are there with 0."""
    keys = {one.topology for one in shape.pod_on_node.facts.inter_pod.spread}
    found: Counter[str] = Counter()
    for node in plain:
        if not keys <= node.labels.keys():
            continue
        if constraint.honors_affinity and shape.constraints.node_selector and "disk" not in node.labels:
            continue
        if constraint.honors_taints and node.tainted:
            continue
        found[node.labels[constraint.topology]] += sum(is_counted(constraint, dict(tags)) for tags in node.there)
    return found


def is_counted(constraint: TopologySpreadConstraint, tags: dict[str, str]) -> bool:
    selector = constraint.selector
    if not selector or tags[NAMESPACE] != constraint.namespace or TERMINATING in tags:
        return False
    return matches(selector, tags)


def refusal(plain: list[Plain], shape: RequestShape, at: int) -> str:
    """Why one more may not go to the node, as the rules have it; empty = it may."""
    for constraint in shape.pod_on_node.facts.inter_pod.spread:
        here = plain[at].labels.get(constraint.topology)
        if here is None:
            return NO_LABEL
        found = counts(plain, shape, constraint)
        least = min(found.values()) if len(found) >= constraint.min_domains else 0
        itself = constraint.selector is not None and matches(constraint.selector, dict(shape.pod_on_node.tags))
        if found[here] + itself - least > constraint.max_skew:
            return SKEWED
    return ""


@settings(max_examples=200)
@given(nodes, shapes, st.lists(st.integers(0, 5), max_size=8))
def test_each_node_is_refused_by_the_rules_before_and_after_each_member(
    plain: list[Plain], shape: RequestShape, members: list[int]
) -> None:
    found = spread_filter(Snapshot(table_of(plain)), shape)
    assert found is not None
    rows = np.arange(len(plain))
    for member in [*members, -1]:
        whys = [refusal(plain, shape, at) for at in range(len(plain))]
        assert found.allows().tolist() == found.allows_at(rows).tolist() == [not why for why in whys]
        for reason, refused in found.refusals():
            assert refused.tolist() == [why == reason for why in whys]
        may = [at for at, why in enumerate(whys) if not why]
        if member < 0 or not may:
            break
        at = may[member % len(may)]
        before = found.allows()
        added = found.add(at)
        plain[at].there.append(shape.pod_on_node.tags)
        changed = set(np.flatnonzero(before != found.allows()).tolist()) - {at}
        assert changed <= set(() if added is None else added.tolist())


@settings(max_examples=100)
@given(nodes, shapes, st.integers(1, 8))
def test_placing_together_equals_placing_one_by_one(plain: list[Plain], shape: RequestShape, count: int) -> None:
    table = table_of(plain)
    together, singly = Snapshot(table), Snapshot(table)
    placed = dict(place(together, shape, count, NodeSort()))
    chosen = Counter(node for _ in range(count) for node, _ in place(singly, shape, 1, NodeSort()))
    assert placed == dict(chosen)
    # What may come next is the same, too, and the same as if they had been there from the beginning.
    for node, there in placed.items():
        plain[int(node.removeprefix("n"))].there += [shape.pod_on_node.tags] * there
    whys = [refusal(plain, shape, at) for at in range(len(plain))]
    found = spread_filter(together, shape)
    assert found is not None
    assert found.allows().tolist() == [not why for why in whys]
