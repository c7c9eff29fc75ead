"""Builders with defaults for the core's tests. A test specifies only the values that matter to it."""

from muster_core.model.config import (
    ALLOW_ALL,
    ApplicationOrder,
    Configuration,
    PartitionConfig,
    PlacementRule,
    QueueConfig,
    QueuePolicies,
    QuotaLimit,
    Timing,
)
from muster_core.model.constraints import (
    ANYWHERE,
    UNBOUNDED,
    AllocationAffinity,
    Constraints,
    PlacementConstraint,
    Requirement,
    Target,
    Term,
    Toleration,
)
from muster_core.model.ids import (
    AllocationId,
    AllocationKey,
    ApplicationId,
    NodeId,
    PartitionId,
    RmId,
    TaskGroup,
    partition_id,
)
from muster_core.model.resources import UNLIMITED, Limit, Resources
from muster_core.model.specs import AllocationSpec, ApplicationSpec, AskSpec, GangPlacement, GangStyle, Member, NodeSpec

RM = RmId("rm")
PARTITION: PartitionId = partition_id(RM, "default")
SECOND = 1_000_000_000


def resources(vcore: int = 0, memory: int = 0, pods: int = 0, **more: int) -> Resources:
    """Vcore in millicores, memory in bytes."""
    return Resources({"vcore": vcore, "memory": memory, "pods": pods, **more})


def a_queue(
    name: str,
    *children: QueueConfig,
    vcore: int | None = None,
    fair: bool = False,
    guaranteed: int = 0,
    policies: QueuePolicies | None = None,
    limits: tuple[QuotaLimit, ...] = (),
    max_applications: int = 0,
) -> QueueConfig:
    """Return a queue. `vcore` is its maximum. `policies` takes precedence over `fair`."""
    order = ApplicationOrder.FAIR if fair else ApplicationOrder.FIFO
    return QueueConfig(
        name=name,
        children=children,
        max=UNLIMITED if vcore is None else Limit({"vcore": vcore}),
        guaranteed=Resources({"vcore": guaranteed}),
        policies=policies or QueuePolicies(order=order),
        limits=limits,
        max_applications=max_applications,
    )


def a_limit(
    *, users: tuple[str, ...] = (), groups: tuple[str, ...] = (), vcore: int | None = None, applications: int = 0
) -> QuotaLimit:
    return QuotaLimit(users, groups, UNLIMITED if vcore is None else Limit({"vcore": vcore}), applications)


def a_configuration(
    *queues: QueueConfig, timing: Timing | None = None, limits: tuple[QuotaLimit, ...] = ()
) -> Configuration:
    """Return queues below root, which has the limits. Placement rules: the provided queue, else `root.<namespace>`."""
    rules = (PlacementRule("provided"), PlacementRule("tag", create=True, value="namespace"))
    root = QueueConfig("root", parent=True, children=queues, submit_acl=ALLOW_ALL, limits=limits)
    return Configuration((PartitionConfig("default", root, rules),), timing or Timing())


def a_node(name: str, vcore: int = 4000, pods: int = 100, labels: dict[str, str] | None = None) -> NodeSpec:
    return NodeSpec(PARTITION, NodeId(name), resources(vcore=vcore, memory=1 << 34, pods=pods), labels=labels or {})


def an_application(
    name: str = "app",
    *,
    queue: str = "root.a",
    gang: int = 0,
    each: Resources | None = None,
    style: GangStyle = GangStyle.SOFT,
    placement: GangPlacement = GangPlacement.RESERVE,
    user: str = "kim",
    groups: tuple[str, ...] = (),
    timeout_s: int = 0,
    wait_s: int = 0,
    created_s: int = 0,
    forced: bool = False,
) -> ApplicationSpec:
    """Return an application with `gang` members of `each` (1 core) in the task group `workers`."""
    shape = each or resources(vcore=1000, pods=1)
    return ApplicationSpec(
        PARTITION,
        ApplicationId(name),
        queue=queue,
        user=user,
        groups=groups,
        tags={"namespace": "ns"},
        timeout_ns=timeout_s * SECOND,
        wait_timeout_ns=wait_s * SECOND,
        placeholder_ask=shape.times(gang),
        style=style,
        gang_placement=placement,
        members=(Member(TaskGroup("workers"), gang, shape),) if gang else (),
        created_ns=created_s * SECOND,
        forced=forced,
    )


def an_ask(
    key: str,
    *,
    app: str = "app",
    vcore: int = 1000,
    group: str = "",
    placeholder: bool = False,
    constraints: Constraints = ANYWHERE,
    priority: int = 0,
    count: int = 1,
    timeout_s: int = 0,
    tags: dict[str, str] | None = None,
    placement: PlacementConstraint | None = None,
) -> AskSpec:
    return AskSpec(
        PARTITION,
        ApplicationId(app),
        AllocationKey(key),
        resources(vcore=vcore, pods=1),
        constraints=constraints,
        group=TaskGroup(group),
        placeholder=placeholder,
        priority=priority,
        max_allocations=count,
        timeout_ns=timeout_s * SECOND,
        tags=tags or {},
        placement=placement,
    )


def an_affinity(
    key: str, *values: str, scope: str = "zone", least: int = 0, most: int = UNBOUNDED, required: bool = True
) -> PlacementConstraint:
    """Require `least` to `most` allocations with a value of tag `key`, on the nodes with the same value of `scope`."""
    return PlacementConstraint((), AllocationAffinity(scope, (Target(key, values=values),), least, most, required))


def an_allocation(
    key: str,
    node: str,
    *,
    app: str = "app",
    vcore: int = 1000,
    group: str = "",
    placeholder: bool = False,
    foreign: bool = False,
    allocated_s: int = 0,
    identity: str = "",
) -> AllocationSpec:
    """Return an existing allocation as reported in a recovery."""
    return AllocationSpec(
        PARTITION,
        ApplicationId(app),
        AllocationKey(key),
        AllocationId(identity or f"{key}-0"),
        NodeId(node),
        resources(vcore=vcore, pods=1),
        group=TaskGroup(group),
        placeholder=placeholder,
        foreign=foreign,
        allocated_ns=allocated_s * SECOND,
    )


def made_for(node: str) -> Constraints:
    """Return the constraints of a DaemonSet pod: affinity to its node, and a toleration of a cordon."""
    term = Term(fields=(Requirement("metadata.name", "In", (node,)),))
    cordon = Toleration("node.kubernetes.io/unschedulable", "Exists", "", "NoSchedule")
    return Constraints(affinity=(term,), tolerations=(cordon,))
