"""Measures what one change costs while many applications wait.

    .venv/bin/python -m benchmarks steady

In a full cluster of 1,000 nodes, 1,000 and 10,000 applications wait for one kind of reason, each with a request of its
own. Then single pods end, one per second, and a node gets and loses a taint. A change is measured with its cycles of
10 ms, until the core has nothing more to do at that time. The figures are the worst change: CPU time in milliseconds,
and the number of attempts. What the back-off tries later is measured by `load`: CPU time per second while ten pods end
per second, in percent. `tests/unit/core/scheduling/test_steadiness.py` counts the attempts of smaller clusters.
"""

from __future__ import annotations

import gc
import heapq
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from types import MappingProxyType
from typing import Final

from benchmarks.core_placement import PARTITION, RM
from benchmarks.figures import Figure, Options
from muster_core.model.config import (
    ALLOW_ALL,
    Configuration,
    PartitionConfig,
    QueueConfig,
    QuotaLimit,
)
from muster_core.model.constraints import (
    NAMESPACE,
    Constraints,
    InterPodConstraints,
    PodTerm,
    Taint,
    Target,
    TopologySpreadConstraint,
)
from muster_core.model.effects import Effect, TimerSet
from muster_core.model.events import (
    AllocationReleased,
    ApplicationAdded,
    AskAdded,
    ClusterObjectsReported,
    Event,
    ManagerRegistered,
    NodeAdded,
    NodeUpdated,
    TimerFired,
)
from muster_core.model.ids import AllocationKey, ApplicationId, NodeId, TaskGroup, Termination
from muster_core.model.resources import Limit, Resources
from muster_core.model.specs import (
    ApplicationSpec,
    AskSpec,
    GangPlacement,
    HostPort,
    Member,
    NodeSpec,
    PodProperties,
    Volumes,
)
from muster_core.model.storage import Claim, ClaimDemand, StorageClass
from muster_core.scheduling.scheduler import CyclePhase, cycle, step
from muster_core.state.scheduler_state import SchedulerState

_SECOND: Final = 1_000_000_000
_BUDGET_S: Final = 0.010
_LEAVES: Final = 20
_NODES: Final = 1_000
_SIZES: Final = (1_000, 10_000)
_CHANGES: Final = 12
_FULL: Final = ApplicationId("full")
_HOST: Final = "kubernetes.io/hostname"
_ZONE: Final = "topology.kubernetes.io/zone"
_LABEL: Final = "kubernetes.io/label/app"
_CORE: Final = 1_000


@dataclass(slots=True)
class Change:
    """One change with its cycles: CPU time in seconds, attempts, and effects."""

    seconds: float = 0.0
    attempts: int = 0
    effects: list[Effect] = field(default_factory=list)


class WaitingCluster:
    """A core with its time. `nodes` of one core each are full but for `free`."""

    def __init__(self, waiting: int, nodes: int = _NODES) -> None:
        self.state, self.now_ns = SchedulerState(), 1_000 * _SECOND
        self.waiting, self.nodes = waiting, nodes
        self._timers: list[tuple[int, int, TimerSet]] = []
        self._order = count()
        self._ended = count()

    def send(self, *events: Event, budget_s: float | None = _BUDGET_S) -> Change:
        """Apply the events and run cycles until nothing is left to do."""
        change = Change()

        def count_attempt(phase: CyclePhase) -> None:
            change.attempts += phase is CyclePhase.NODE

        start = time.thread_time()
        for event in events:
            change.effects += step(self.state, event, self.now_ns)
        more = True
        while more:
            until = time.thread_time() + (budget_s or 0)
            may_go_on = (lambda: time.thread_time() < until) if budget_s else (lambda: True)  # noqa: B023 - used at once
            result = cycle(self.state, self.now_ns, may_go_on, count_attempt)
            change.effects += result.effects
            more = result.more
        change.seconds = time.thread_time() - start
        for effect in change.effects:
            if isinstance(effect, TimerSet):
                heapq.heappush(self._timers, (effect.at_ns, next(self._order), effect))
        return change

    def wait(self, seconds: float) -> Change:
        """Advance the time. Timers fire when they are due."""
        total, end_ns = Change(), self.now_ns + int(seconds * _SECOND)
        while self._timers and self._timers[0][0] <= end_ns:
            at_ns, _, timer = heapq.heappop(self._timers)
            self.now_ns = max(self.now_ns, at_ns)
            change = self.send(TimerFired(timer.timer))
            total.seconds += change.seconds
            total.attempts += change.attempts
            total.effects += change.effects
        self.now_ns = end_ns
        return total

    def end_pod(self) -> Change:
        """End the next pod of those that fill the nodes."""
        key = AllocationKey(f"full-{next(self._ended)}")
        return self.send(AllocationReleased(PARTITION, _FULL, key, None, Termination.STOPPED_BY_RM))

    def taint(self, *, is_set: bool) -> Change:
        """Set or remove a taint of the last node."""
        partition = self.state.partitions[PARTITION]
        spec = partition.nodes.record(NodeId(f"n{self.nodes - 1}")).spec
        taints = (Taint("node.kubernetes.io/not-ready", "", "NoSchedule"),) if is_set else ()
        return self.send(NodeUpdated(replace(spec, taints=taints)))

    @property
    def unscheduled(self) -> int:
        """Number of requests that wait."""
        apps = self.state.partitions[PARTITION].applications.values()
        return sum(len(keys) for app in apps for keys in app.waiting.values())


# -- clusters -----------------------------------------------------------------------


def _term(app: str, topology: str) -> PodTerm:
    return PodTerm(topology, (Target(_LABEL, values=(app,)),), ("ns",))


def _inter_pod(number: int, constraints: InterPodConstraints) -> Iterator[Event]:
    yield from _application(number, vcore=_CORE - number % 500, facts=PodProperties(inter_pod=constraints))


def _resources(number: int) -> Iterator[Event]:
    yield from _application(number, vcore=501 + number % 500, memory=number)


def _affinity(number: int) -> Iterator[Event]:
    return _inter_pod(number, InterPodConstraints(affinity=(_term(f"other-{number}", _ZONE),)))


def _anti_affinity(number: int) -> Iterator[Event]:
    return _inter_pod(number, InterPodConstraints(anti_affinity=(_term("full", _ZONE), _term(f"w{number}", _HOST))))


def _spread(number: int) -> Iterator[Event]:
    spread = TopologySpreadConstraint(_ZONE, 1, (Target(_LABEL, values=(f"w{number}",)),), "ns")
    return _inter_pod(number, InterPodConstraints(spread=(spread,)))


def _ports(number: int) -> Iterator[Event]:
    return _application(number, vcore=1, memory=number, facts=PodProperties(ports=(HostPort("", "TCP", 80),)))


def _claims(number: int) -> Iterator[Event]:
    claim = Claim(f"ns/c{number}", request=1, demand=ClaimDemand("fast"))
    yield ClusterObjectsReported(PARTITION, (claim,))
    yield from _application(number, vcore=_CORE, facts=PodProperties(volumes=Volumes(claims=(claim.name,))))


def _own_claims(number: int) -> Iterator[Event]:
    """Yields a pod of a StatefulSet: one application, and a claim per pod."""
    for event in _claims(number):
        if isinstance(event, AskAdded):
            yield AskAdded(replace(event.spec, application=ApplicationId("w0")))
        elif not number or not isinstance(event, ApplicationAdded):
            yield event


def _amounts(number: int) -> Iterator[Event]:
    return _application(number, queue="root.full", vcore=2 * _CORE + number)


def _gang(number: int) -> Iterator[Event]:
    each = Resources({"vcore": 900, "pods": 1})
    members = tuple(Member(TaskGroup(group), _FREE_FOR_GANGS - 1, each) for group in ("a", "b"))
    yield ApplicationAdded(
        ApplicationSpec(
            PARTITION,
            ApplicationId(f"w{number}"),
            queue=f"root.q{number % _LEAVES}",
            placeholder_ask=each.times(2 * (_FREE_FOR_GANGS - 1)),
            members=members,
            gang_placement=GangPlacement.AUTO,
        )
    )
    group = members[0].group
    first = AskSpec(PARTITION, ApplicationId(f"w{number}"), AllocationKey(f"w{number}-0"), each, group=group)
    yield AskAdded(first)


def _pools(number: int) -> Iterator[Event]:
    return _application(number, vcore=_CORE, constraints=Constraints((("pool", f"p{number % 1024}"),)))


def _application(  # the parts of a request that reasons depend on
    number: int,
    *,
    vcore: int,
    memory: int = 0,
    queue: str = "",
    facts: PodProperties | None = None,
    constraints: Constraints | None = None,
) -> Iterator[Event]:
    name = f"w{number}"
    spec = ApplicationSpec(
        PARTITION, ApplicationId(name), queue=queue or f"root.q{number % _LEAVES}", tags={"namespace": "ns"}
    )
    yield ApplicationAdded(replace(spec, user="kim"))
    yield AskAdded(
        AskSpec(
            PARTITION,
            spec.id,
            AllocationKey(name),
            Resources({"vcore": vcore, "memory": memory, "pods": 1}),
            constraints=constraints or Constraints(),
            facts=facts or PodProperties(),
            namespace="ns",
            tags={NAMESPACE: "ns", _LABEL: name},
        )
    )


@dataclass(frozen=True, slots=True)
class Reason:
    """A kind of blocking reason: its applications, and what is special about the cluster."""

    applications: Callable[[int], Iterator[Event]]
    free: int = 0
    node_vcore: int = _CORE
    ports: tuple[HostPort, ...] = ()
    is_limited: bool = False
    has_user_limit: bool = False
    reserves: bool = False


_FREE_FOR_GANGS: Final = 26

REASONS: Final[Mapping[str, Reason]] = MappingProxyType(
    {
        "resources": Reason(_resources),
        "affinity": Reason(_affinity),
        "anti-affinity": Reason(_anti_affinity),
        "spread": Reason(_spread),
        "ports": Reason(_ports, node_vcore=4 * _CORE, ports=(HostPort("", "TCP", 80),)),
        "claims": Reason(_claims),
        "own-claims": Reason(_own_claims),
        "quota": Reason(_amounts, node_vcore=4 * _CORE, is_limited=True),
        "user-limit": Reason(_amounts, node_vcore=4 * _CORE, has_user_limit=True),
        "gang": Reason(_gang, free=_FREE_FOR_GANGS),
        "node-reservation": Reason(_resources, reserves=True),
        "node-pools": Reason(_pools),
    }
)


def cluster(name: str, waiting: int, nodes: int = _NODES) -> WaitingCluster:
    """Return a full cluster in which this number of applications wait for the reason."""
    reason, made = REASONS[name], WaitingCluster(waiting, nodes)
    most = Limit({"vcore": nodes * _CORE}) if reason.is_limited else Limit()
    limits = (QuotaLimit(("kim",), (), Limit({"vcore": nodes * _CORE}), 0),) if reason.has_user_limit else ()
    leaves = [QueueConfig(f"q{number}", submit_acl=ALLOW_ALL) for number in range(_LEAVES)]
    full = QueueConfig("full", submit_acl=ALLOW_ALL, max=most, limits=limits)
    root = QueueConfig("root", parent=True, children=(full, *leaves), submit_acl=ALLOW_ALL)
    made.send(ManagerRegistered(RM, Configuration((PartitionConfig("default", root),))))
    made.send(*(NodeAdded(_node(number, reason.node_vcore)) for number in range(nodes)))
    made.send(ClusterObjectsReported(PARTITION, (StorageClass("fast", provisioner="csi", driver="csi", delayed=True),)))
    spec = ApplicationSpec(PARTITION, _FULL, queue="root.full", user="kim", tags={"namespace": "ns"})
    made.send(ApplicationAdded(spec), *(_filling(number, reason) for number in range(nodes - reason.free)))
    for number in range(waiting):
        made.send(*reason.applications(number))
    if reason.reserves:
        made.wait(10)
    return made


def _node(number: int, vcore: int) -> NodeSpec:
    labels = {_HOST: f"n{number}", _ZONE: f"z{number % 10}", "pool": f"p{number % 1024}"}
    return NodeSpec(
        PARTITION, NodeId(f"n{number}"), Resources({"vcore": vcore, "memory": 1 << 34, "pods": 110}), labels=labels
    )


def _filling(number: int, reason: Reason) -> AskAdded:
    return AskAdded(
        AskSpec(
            PARTITION,
            _FULL,
            AllocationKey(f"full-{number}"),
            Resources({"vcore": _CORE, "pods": 1}),
            facts=PodProperties(ports=reason.ports),
            namespace="ns",
            tags={NAMESPACE: "ns", _LABEL: "full"},
        )
    )


# -- figures ----------------------------------------------------------------------


def _measured(name: str, waiting: int, nodes: int, changes: int) -> dict[str, float]:
    made = cluster(name, waiting, nodes)
    made.wait(120)  # until the back-off of the first attempts has ended
    gc.collect()
    gc.freeze()
    found: list[Change] = []
    for number in range(changes):
        found.append(made.end_pod() if number % 3 else made.taint(is_set=number % 2 == 0))
        made.wait(1)
    start_ns, used = made.now_ns, 0.0
    for _ in range(changes * 10):
        used += made.end_pod().seconds + made.wait(0.1).seconds
    gc.unfreeze()
    load = used / ((made.now_ns - start_ns) / _SECOND)
    figure = f"steady/{name}/{waiting}"
    return {
        figure: max(one.seconds for one in found) * 1000,
        f"{figure} attempts": max(one.attempts for one in found),
        f"{figure} load": load * 100,
    }


_UNITS: Final = MappingProxyType({"": ("ms", 20.0), " attempts": ("attempts", 10.0), " load": ("% of a CPU", None)})
NAMES: Final = tuple(f"steady/{name}/{size}{suffix}" for name in REASONS for size in _SIZES for suffix in _UNITS)


def measure(names: Sequence[str], options: Options) -> list[Figure]:
    """Return the figures of these names. The figures of a reason and a size are one measurement."""
    found: dict[str, list[float]] = {name: [] for name in names}
    nodes, divisor = (100, 10) if options.quick else (_NODES, 1)
    for _ in range(options.runs):
        for name in REASONS:
            for size in _SIZES:
                figure = f"steady/{name}/{size}"
                if any(one.partition(" ")[0] == figure for one in names):
                    for key, value in _measured(name, size // divisor, nodes, _CHANGES).items():
                        found.setdefault(key.replace(f"/{size // divisor}", f"/{size}"), []).append(value)
    return [_figure(name, found[name]) for name in names]


def _figure(name: str, values: list[float]) -> Figure:
    unit, goal = _UNITS[name[len(name.partition(" ")[0]) :]]
    return Figure(name, unit, values, goal, less_is_better=True)
