"""Terms of allocations are found by the labels of a pod, with the same result as evaluating each of them."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from muster_core.model.constraints import PodTerm, Target, TargetOperator
from muster_core.state.affinity import AffinityTerms
from muster_core.state.node_pods import NodePods

targets = st.builds(
    lambda key, operator, values: Target(key, operator, tuple(values) if operator.endswith("IN") else ()),
    st.sampled_from("ab"),
    st.sampled_from(TargetOperator),
    st.lists(st.sampled_from("xyz"), min_size=1, max_size=3),
)
terms = st.builds(
    lambda selector: PodTerm("zone", selector, ("",)), st.none() | st.lists(targets, max_size=2).map(tuple)
)
changes = st.lists(st.tuples(terms, st.integers(0, 2), st.integers(1, 3)), max_size=6)
pods = st.dictionaries(st.sampled_from("ab"), st.sampled_from("xyz"))


@given(changes, st.data(), pods)
def test_every_term_that_matches_a_pod_is_found_once_and_no_deleted_term(
    came: list[tuple[PodTerm, int, int]], data: st.DataObject, pod: dict[str, str]
) -> None:
    kept: AffinityTerms[PodTerm] = AffinityTerms(lambda term: term)
    expected: Counter[tuple[PodTerm, int]] = Counter()
    for term, row, count in came:
        kept.change(term, row, count)
        expected[term, row] += count
    for term, row in data.draw(st.lists(st.sampled_from(sorted(expected, key=repr)), unique=True)) if expected else []:
        kept.change(term, row, -expected.pop((term, row)))
    means = NodePods().selects
    found = [(term, row, count) for term, rows in kept.that_may_select(pod) for row, count in rows.items()]
    assert len({(term, row) for term, row, _ in found}) == len(found)
    meant = {(term, row): count for term, row, count in found if means(term, pod)}
    assert meant == {(term, row): count for (term, row), count in expected.items() if means(term, pod)}
    assert bool(kept) == bool(expected)
