"""For any application, placement gives an open leaf with submit access, or a reason, and the tree stays consistent."""

import re
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from muster_core.model.config import (
    ALLOW_ALL,
    AccessList,
    Configuration,
    PartitionConfig,
    PlacementRule,
    QueueConfig,
    RuleFilter,
)
from muster_core.model.events import ApplicationAdded
from muster_core.model.ids import RECOVERY
from muster_core.queues.placement_rules import may_submit
from tests.unit.builders import an_application
from tests.unit.core.scheduling.scenario import Scenario, rejection

_PART = re.compile(r"[a-z0-9_:#/@-]{1,64}")

NAMES = st.one_of(
    st.sampled_from(
        ["", "root", "root.a", "root.p.x", "root.p.x.y", "a", "root.@recovery@", "root..", ".", "A B", "p.q"]
    ),
    st.text(max_size=20),
)
FILTERS = st.one_of(
    st.none(),
    st.builds(RuleFilter, allow=st.booleans(), users=st.sampled_from([frozenset(), frozenset({"kim"})])),
    st.builds(RuleFilter, allow=st.booleans(), user_expression=st.sampled_from(["", "^k", ".*"])),
)


def _rules(parents: st.SearchStrategy[PlacementRule | None]) -> st.SearchStrategy[PlacementRule]:
    kinds = st.sampled_from([("provided", ""), ("user", ""), ("tag", "namespace"), ("fixed", "p"), ("fixed", "root.a")])
    return st.builds(
        lambda kind, create, parent, found: PlacementRule(kind[0], create, kind[1], parent, found),
        kinds,
        st.booleans(),
        parents,
        FILTERS,
    )


RULES = _rules(st.one_of(st.none(), _rules(st.none())))


@given(
    rules=st.lists(RULES, max_size=3),
    named=st.lists(st.tuples(NAMES, NAMES, st.sampled_from(["kim", "", "a.b", "root.a"]), st.booleans()), max_size=4),
    open_to=st.sampled_from([ALLOW_ALL, AccessList(users=frozenset({"kim"}))]),
)
@settings(max_examples=60, deadline=None)
def test_an_application_gets_a_leaf_that_it_may_use_or_a_reason(
    rules: list[PlacementRule], named: list[tuple[str, str, str, bool]], open_to: AccessList
) -> None:
    tree = QueueConfig(
        "root", parent=True, children=(QueueConfig("a"), QueueConfig("p", parent=True)), submit_acl=open_to
    )
    scenario = Scenario(Configuration((PartitionConfig("default", tree, tuple(rules)),)))
    for number, (queue, namespace, user, forced) in enumerate(named):
        spec = replace(
            an_application(f"app{number}", queue=queue, user=user, forced=forced), tags={"namespace": namespace}
        )
        reason = rejection(scenario.send(ApplicationAdded(spec)))
        if reason:
            assert not forced
            assert reason.startswith("application rejected: no placement rule matched")
            continue
        leaf = scenario.app(spec.id).queue
        assert leaf.is_leaf
        if leaf.path == RECOVERY:
            assert forced
            continue
        assert may_submit(leaf, user, spec.groups)
        assert all(_PART.fullmatch(part) for part in leaf.path.split("."))
