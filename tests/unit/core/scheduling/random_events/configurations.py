"""Draws configurations: queues, limits, policies, placement rules and timeouts. Few values each, so that they interact.

The configurations are consistent, like an accepted file: no guarantee is above a maximum, and the guarantees of
children do not exceed that of their parent.
"""

from dataclasses import dataclass, fields, replace

from hypothesis import strategies as st

from muster_core.model.config import (
    ALLOW_ALL,
    DENY_ALL,
    AccessList,
    ApplicationOrder,
    ChildTemplate,
    Configuration,
    NodeOrder,
    NodeSort,
    PartitionConfig,
    PlacementRule,
    PreemptionPolicy,
    PriorityPolicy,
    QueueConfig,
    QueuePolicies,
    QuotaLimit,
    RuleFilter,
    Timing,
)
from muster_core.model.resources import UNLIMITED, Limit, Resources
from tests.unit.builders import SECOND, a_limit, a_queue

#: Queues that applications request. Some exist only in some configurations. Empty: placement rules decide.
QUEUES = ("root.p.a", "root.p.b", "root.c", "root.fair", "root.turned", "root.turned.x", "root.made.new", "")
EXPIRY_NS = 60 * SECOND

_SOON = QueuePolicies(preemption_delay_ns=SECOND)
_POLICIES = (
    QueuePolicies(),
    _SOON,
    _SOON,
    replace(_SOON, priority_offset=2),
    replace(_SOON, priority=PriorityPolicy.FENCE, priority_offset=1),
    replace(_SOON, preemption=PreemptionPolicy.FENCE),
    replace(_SOON, preemption=PreemptionPolicy.DISABLED),
    replace(_SOON, quota_preemption_delay_ns=5 * SECOND),
    replace(_SOON, daemonsets_preempt_all=True),
    replace(_SOON, order=ApplicationOrder.FAIR, sorts_by_priority=False),
    QueuePolicies(backoff_after=3, backoff_delay_ns=20 * SECOND),
)
_TIMING = Timing(
    placeholder_timeout_ns=100 * SECOND,
    starvation_age_ns=200 * SECOND,
    completing_timeout_ns=10 * SECOND,
    release_timeout_ns=40 * SECOND,
    reservation_timeout_ns=90 * SECOND,
    expiry_ns=EXPIRY_NS,
)
_RULES = (
    (PlacementRule("provided"), PlacementRule("tag", create=True, value="namespace")),
    (
        PlacementRule("provided", filter=RuleFilter(allow=False, users=frozenset({"user1"}))),
        PlacementRule("user", create=True, parent=PlacementRule("fixed", value="root.made", create=True)),
    ),
    (PlacementRule("provided", create=True), PlacementRule("fixed", value="root.c")),
)


@dataclass(frozen=True, slots=True)
class Sizes:
    """Maximums and guarantees of `root.p` and below, in millicores."""

    parent: int
    leaf: int
    mine: int
    others: int


def _limits(vcore: int) -> tuple[QuotaLimit, ...]:
    """Return limits of one user, of all other users each, and of a group."""
    return (
        a_limit(users=("user0",), vcore=vcore // 2, applications=2),
        a_limit(users=("*",), vcore=vcore),
        a_limit(groups=("dev",), vcore=vcore, applications=2),
    )


_SIZES = st.builds(
    Sizes,
    parent=st.sampled_from([12_000, 5_000, 3_000]),
    leaf=st.sampled_from([6_000, 3_000, 2_000]),
    mine=st.sampled_from([0, 1_000, 2_000]),
    others=st.sampled_from([0, 1_000]),
)
_KIND = st.sampled_from(["", "leaf", "parent"])
_POLICY = st.sampled_from(_POLICIES)


@st.composite
def trees(draw: st.DrawFn) -> QueueConfig:
    """Draw the queues of a partition."""
    size = draw(_SIZES)
    spare = draw(st.sampled_from([0, 1_000]))
    submit = draw(st.sampled_from([ALLOW_ALL, ALLOW_ALL, AccessList(users=frozenset({"user0"}))]))
    leaf_a = a_queue("a", vcore=size.leaf, guaranteed=size.mine, policies=draw(_POLICY))
    leaf_b = a_queue(
        "b", guaranteed=size.others, policies=draw(_POLICY), max_applications=draw(st.sampled_from([0, 2]))
    )
    leaf_b = replace(leaf_b, submit_acl=AccessList(groups=frozenset({"dev"})))
    together = min(size.mine + size.others + spare, size.parent)
    parent = a_queue("p", leaf_a, leaf_b, vcore=size.parent, guaranteed=together, policies=draw(_POLICY))
    limits = draw(st.sampled_from([(), _limits(size.leaf)]))
    queues = [
        parent,
        a_queue("c", limits=limits, policies=draw(_POLICY), guaranteed=draw(st.sampled_from([0, 2_000]))),
        a_queue("fair", fair=True),
        replace(a_queue("made", policies=draw(_POLICY)), parent=True, template=_template(size.leaf)),
    ]
    if kind := draw(_KIND):
        queues.append(a_queue("turned", *([a_queue("x", policies=draw(_POLICY))] if kind == "parent" else [])))
    return QueueConfig("root", parent=True, children=tuple(queues), submit_acl=submit, admin_acl=DENY_ALL)


def _template(vcore: int) -> ChildTemplate:
    return ChildTemplate(Limit({"vcore": vcore}) if vcore < 6_000 else UNLIMITED, Resources({"vcore": 1_000}), 2)


@st.composite
def partitions(draw: st.DrawFn, name: str) -> PartitionConfig:
    """Draw one partition."""
    return PartitionConfig(
        name,
        draw(trees()),
        draw(st.sampled_from(_RULES)),
        NodeSort(draw(st.sampled_from(NodeOrder))),
        preemption=draw(st.sampled_from([True, True, True, False])),
        quota_preemption=draw(st.booleans()),
    )


class RandomConfiguration:
    """A configuration whose repr in a failing example has only the values that differ."""

    def __init__(self, configuration: Configuration) -> None:
        self.value = configuration

    def __repr__(self) -> str:
        return "; ".join(_shown(partition) for partition in self.value.partitions)


@st.composite
def configurations(draw: st.DrawFn, names: tuple[str, ...]) -> RandomConfiguration:
    """Draw partitions with these names and the timeouts of all of them."""
    return RandomConfiguration(Configuration(tuple(draw(partitions(name)) for name in names), _TIMING))


def with_many_queues(configuration: Configuration, count: int) -> Configuration:
    """Add ``count`` leaf queues below `root.many` to each partition, some with a maximum, some with a guarantee."""
    if not count:
        return configuration
    leaves = (
        a_queue(f"q{number}", vcore=2_000 if number % 3 == 0 else None, guaranteed=100 if number % 5 == 0 else 0)
        for number in range(count)
    )
    many = replace(a_queue("many", *leaves), parent=True)
    wider = (
        replace(partition, root=replace(partition.root, children=(*partition.root.children, many)))
        for partition in configuration.partitions
    )
    return replace(configuration, partitions=tuple(wider))


def _shown(partition: PartitionConfig) -> str:
    queues, lines = [("", partition.root)], []
    while queues:
        above, queue = queues.pop()
        path = above + queue.name
        own = {field.name: getattr(queue.policies, field.name) for field in fields(queue.policies)}
        usual = {field.name: getattr(QueuePolicies(), field.name) for field in fields(QueuePolicies)}
        policies = {name: value for name, value in own.items() if value != usual[name]}
        lines.append(f"{path} max={queue.max} guaranteed={queue.guaranteed} {policies} limits={len(queue.limits)}")
        queues += [(f"{path}.", child) for child in queue.children[:10]]
    flags = f"preemption={partition.preemption} quota={partition.quota_preemption} {partition.node_sort.order}"
    rules = [f"{rule.name}{'+' * rule.create}" for rule in partition.rules]
    return f"{partition.name}: {flags} rules={rules} [{' | '.join(lines)}]"
