"""Random small clusters in which one application may wait, and changes made without `foresight`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from random import Random  # noqa: TID251 # the seed is an argument

from muster_core.foresight.changes import (
    AddNode,
    ClusterChange,
    Constraint,
    DropConstraint,
    EndApplication,
    RaiseMaximum,
    RaiseUserLimits,
)
from muster_core.foresight.virtual_core import VirtualCore
from muster_core.model.config import Configuration, QueueConfig
from muster_core.model.constraints import (
    Constraints,
    InterPodConstraints,
    PodTerm,
    Taint,
    Target,
    Toleration,
    TopologySpreadConstraint,
)
from muster_core.model.effects import AllocationResponse, ApplicationUpdated, Effect
from muster_core.model.events import (
    AllocationReleased,
    ApplicationAdded,
    ApplicationRemoved,
    AskAdded,
    ConfigurationReplaced,
    Event,
    ManagerRegistered,
    NodeAdded,
)
from muster_core.model.ids import AllocationId, AllocationKey, ApplicationId, NodeId, TaskGroup, Termination
from muster_core.model.resources import Limit
from muster_core.model.specs import (
    AllocationSpec,
    ApplicationSpec,
    AskSpec,
    GangPlacement,
    NodeSpec,
    PodProperties,
)
from muster_core.model.states import ApplicationState
from tests.unit.builders import (
    PARTITION,
    RM,
    SECOND,
    a_configuration,
    a_limit,
    a_node,
    a_queue,
    an_application,
    an_ask,
    resources,
)

NOW_NS = 1_000_000 * SECOND
TARGET = ApplicationId("target")
HOST = "kubernetes.io/hostname"
ZONE = "zone"
LABEL = "kubernetes.io/label/app"


class Cluster:
    """Nodes, running and waiting applications, and queues with quotas."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        pick = self.random.choice
        self.maximum = {
            "root": pick((None, None, 9000)),
            "root.a": pick((None, 4000, 6000)),
            "root.b": pick((None, 3000)),
        }
        self.applications = {"root": 0, "root.a": pick((0, 0, 0, 1, 2)), "root.b": 0}
        self.guaranteed: dict[str, int] = {}
        self.user_limit = pick((None, None, None, 3000))
        self.nodes = [self._node(number) for number in range(self.random.randint(1, 5))]
        self.free = {node.id: node.capacity["vcore"] for node in self.nodes}
        self.specs: dict[ApplicationId, ApplicationSpec] = {}
        self.asks: dict[ApplicationId, list[AskSpec]] = {}
        self.allocations: list[AllocationSpec] = []
        for number in range(self.random.randint(0, 5)):
            self._running(f"running-{number}", number)
        for number in range(self.random.randint(0, 3)):
            self._waiting(f"waiting-{number}", number)
        self._waiting(TARGET, self.random.randint(0, 4))

    def events(self) -> list[Event]:
        """As a recovery reports the cluster."""
        by_node = {node.id: tuple(one for one in self.allocations if one.node == node.id) for node in self.nodes}
        return [
            ManagerRegistered(RM, self.configuration()),
            *(ApplicationAdded(spec) for spec in self.specs.values()),
            *(NodeAdded(node, existing=by_node[node.id]) for node in self.nodes),
            *(AskAdded(ask) for asks in self.asks.values() for ask in asks),
        ]

    def configuration(self) -> Configuration:
        leaves = [self._queue(name, f"root.{name}") for name in ("a", "b")]
        limits = () if self.user_limit is None else (a_limit(users=("kim",), vcore=self.user_limit),)
        found = a_configuration(*leaves, limits=limits)
        [partition] = found.partitions
        root = self._limited(partition.root, "root")
        return replace(found, partitions=(replace(partition, root=root),), tracking=False)

    def _queue(self, name: str, path: str) -> QueueConfig:
        return self._limited(a_queue(name), path)

    def _limited(self, queue: QueueConfig, path: str) -> QueueConfig:
        maximum = self.maximum[path]
        bounds = Limit({} if maximum is None else {"vcore": maximum})
        guaranteed = resources(vcore=self.guaranteed.get(path, 0))
        return replace(queue, max=bounds, guaranteed=guaranteed, max_applications=self.applications[path])

    def _node(self, number: int) -> NodeSpec:
        zone = self.random.choice("xy")
        node = a_node(f"n{number}", vcore=self.random.choice((2000, 4000)), labels={ZONE: zone, HOST: f"n{number}"})
        return replace(node, taints=(Taint("only", "", "NoSchedule"),)) if self.random.random() < 0.15 else node

    def _application(self, name: str, number: int, gang: int = 0, vcore: int = 1000) -> ApplicationSpec:
        return replace(
            an_application(
                name,
                queue=self.random.choice(("root.a", "root.b")),
                gang=gang,
                each=resources(vcore=vcore, pods=1),
                user=self.random.choice(("kim", "lee")),
                placement=self.random.choice((GangPlacement.AUTO, GangPlacement.DIRECT)),
            ),
            created_ns=NOW_NS - (100 - number) * SECOND,
        )

    def _running(self, name: str, number: int) -> None:
        spec = self.specs[ApplicationId(name)] = replace(self._application(name, number), forced=True)
        vcore = self.random.choice((1000, 2000))
        for count in range(self.random.randint(1, 3)):
            fitting = [node for node, free in self.free.items() if free >= vcore]
            if fitting:
                node = self.random.choice(fitting)
                self.free[node] -= vcore
                key = f"{name}.{count}"
                amounts = resources(vcore=vcore, pods=1)
                self.allocations.append(
                    AllocationSpec(
                        PARTITION, spec.id, AllocationKey(key), AllocationId(key), node, amounts, tags={LABEL: "web"}
                    )
                )

    def _waiting(self, name: str, number: int) -> None:
        size, vcore = self.random.randint(1, 4), self.random.choice((1000, 2000, 3000))
        is_gang = self.random.random() < 0.6
        constraints, facts = self._constraints()
        spec = self._application(name, number, gang=size if is_gang else 0, vcore=vcore)
        members = tuple(replace(member, constraints=constraints, facts=facts) for member in spec.members)
        self.specs[spec.id] = replace(spec, members=members)
        ask = replace(an_ask("", app=name, vcore=vcore, constraints=constraints), facts=facts, tags={LABEL: "web"})
        group = TaskGroup("workers" if is_gang else "")
        self.asks[spec.id] = [
            replace(ask, key=AllocationKey(f"{name}.{count}"), group=group, created_ns=spec.created_ns)
            for count in range(size)
        ]

    def _constraints(self) -> tuple[Constraints, PodProperties]:
        web = (Target(LABEL, values=("web",)),)
        constraints, facts = Constraints(), PodProperties()
        match self.random.randrange(10):
            case 0 | 1:
                constraints = Constraints(node_selector=((ZONE, self.random.choice("xyz")),))
            case 2:
                constraints = Constraints(tolerations=(Toleration("only", "Exists"),))
            case 3:
                facts = PodProperties(InterPodConstraints(anti_affinity=(PodTerm(HOST, web, ("",)),)))
            case 4:
                facts = PodProperties(InterPodConstraints(spread=(TopologySpreadConstraint(ZONE, 1, web, ""),)))
            case _:
                pass
        return constraints, facts


class Live:
    """A core that runs the cluster. Its events are written here, independently of `foresight.changes`."""

    def __init__(self, cluster: Cluster, events: Sequence[Event] | None = None) -> None:
        self.cluster, self.core = cluster, VirtualCore(NOW_NS)
        self.placed: dict[AllocationKey, NodeId] = {}
        self.preempted: set[AllocationKey] = set()
        #: Requests of a gang with the placement Reserve, which the operator sends when everything is reserved.
        self._withheld: list[AskAdded] = []
        self._run(cluster.events() if events is None else events)

    def submit(self, spec: ApplicationSpec, asks: Iterable[AskSpec]) -> None:
        """Submits the target as the operator does, and lets a minute pass, or less if it starts."""
        self.preempted.clear()
        requests = [AskAdded(ask) for ask in asks]
        if spec.is_gang and spec.gang_placement is GangPlacement.RESERVE:
            self._withheld = requests
            requests = [
                AskAdded(replace(one.spec, key=AllocationKey(f"{one.spec.key}-placeholder"), placeholder=True))
                for one in requests
            ]
        self._apply([ApplicationAdded(spec), *requests])
        self._let_a_minute_pass(ends_with_start=True)

    def make(self, changes: Iterable[ClusterChange]) -> None:
        """Makes the changes, and lets a minute pass."""
        for change in changes:
            self._make(change)
        self._let_a_minute_pass()

    def replace_configuration(self, configuration: Configuration) -> None:
        """Applies a configuration, and lets a minute pass."""
        self._apply([ConfigurationReplaced(RM, configuration)])
        self._let_a_minute_pass()

    def _let_a_minute_pass(self, *, ends_with_start: bool = False) -> None:
        self._run(())
        end_ns = self.core.now_ns + 60 * SECOND
        while (next_ns := self.core.timers.next_ns()) is not None and next_ns <= end_ns:
            if ends_with_start and self.has_started:
                return
            self.core.now_ns = max(next_ns, self.core.now_ns)
            self._run(())

    @property
    def is_waiting(self) -> bool:
        """Whether the target was accepted and has not started."""
        return TARGET in self.core.scheduler_state.partitions[PARTITION].applications and not self.has_started

    @property
    def has_started(self) -> bool:
        """Whether every pod of the target has a node."""
        return {ask.key for ask in self.cluster.asks[TARGET]} <= self.placed.keys()

    def _make(self, change: ClusterChange) -> None:
        cluster = self.cluster
        match change:
            case EndApplication():
                self._apply([ApplicationRemoved(PARTITION, change.application)])
            case AddNode():
                name = f"{change.like.id}-added-{change.number}"  # equal nodes are taken in the order of their names
                node = replace(change.like, id=NodeId(name), labels={**change.like.labels, HOST: name})
                cluster.nodes.append(node)
                self._apply([NodeAdded(node)])
            case RaiseMaximum():
                cluster.maximum[change.queue] = change.max.get("vcore")
                cluster.applications[change.queue] = change.max_applications
                self._apply([ConfigurationReplaced(RM, cluster.configuration())])
            case RaiseUserLimits():
                assert cluster.user_limit is not None
                cluster.user_limit = max(cluster.user_limit, change.max["vcore"])
                self._apply([ConfigurationReplaced(RM, cluster.configuration())])
            case DropConstraint():
                self._drop(change.constraint)

    def _drop(self, constraint: Constraint) -> None:
        where, inter_pod = None, InterPodConstraints()
        tolerates = constraint is Constraint.TAINTS
        asks: list[AskSpec] = []
        spec = self.cluster.specs[TARGET]
        for ask in self.cluster.asks[TARGET]:
            where = ask.constraints
            if tolerates:
                where = replace(where, tolerations=(*where.tolerations, Toleration("", "Exists")))
            elif constraint is Constraint.NODE_AFFINITY:
                where = replace(where, node_selector=())
            facts = ask.facts if tolerates or constraint is Constraint.NODE_AFFINITY else PodProperties(inter_pod)
            asks.append(replace(ask, constraints=where, facts=facts))
        members = tuple(replace(one, constraints=asks[0].constraints, facts=asks[0].facts) for one in spec.members)
        self.cluster.asks[TARGET] = asks
        if members:
            self.cluster.specs[TARGET] = replace(spec, members=members)
            self._apply([ApplicationRemoved(PARTITION, TARGET), ApplicationAdded(self.cluster.specs[TARGET])])
        self._apply([AskAdded(ask) for ask in asks])

    def _apply(self, events: Sequence[Event]) -> None:
        self._receive(self.core.apply(events))

    def _run(self, events: Sequence[Event]) -> None:
        effects = self.core.send(events)
        while answers := self._receive(effects):
            effects = self.core.send(answers)

    def _receive(self, effects: Iterable[Effect]) -> list[Event]:
        """Notes new allocations. Returns the confirmations of releases, and what waits for a reservation."""
        effects = list(effects)
        responses = [effect for effect in effects if isinstance(effect, AllocationResponse)]
        self.placed.update({new.ask.key: new.node for response in responses for new in response.new})
        states = [one for one in effects if isinstance(one, ApplicationUpdated) and one.application == TARGET]
        withheld: list[Event] = []
        if self._withheld and any(one.state is ApplicationState.RUNNING for one in states):
            withheld, self._withheld = [*self._withheld], []
        released = [one for response in responses for one in response.released]
        self.preempted |= {one.key for one in released if one.termination is Termination.PREEMPTED_BY_SCHEDULER}
        return withheld + [
            AllocationReleased(PARTITION, one.application, one.key, one.id, one.termination)
            for one in released
            if one.termination is not Termination.STOPPED_BY_RM
        ]
