"""Measures placements per second of the core for pods with affinity, spread constraints and volumes.

    .venv/bin/python -m benchmarks shapes

The workloads are those of kube-scheduler's throughput tests at 5,000 nodes (scheduler_perf), whose thresholds are in
figures.py: existing pods, then new pods. New pods arrive 100 per message, with a cycle after each. The engine receives
each ask as an event, plans, commits and reports each allocation. Results are in CPU time. `growth` is the cost of a pod
on 15,000 nodes divided by that on 500, with the same number of pods.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

import orjson

from benchmarks.core_placement import ASKED, PARTITION, RM, timed
from muster_core.model.config import ALLOW_ALL, Configuration, NodeSort, PartitionConfig, PlacementRule, QueueConfig
from muster_core.model.effects import AllocationResponse, Effect
from muster_core.model.events import (
    AllocationReported,
    ApplicationAdded,
    AskAdded,
    ClusterObjectsReported,
    ManagerRegistered,
    NodeAdded,
)
from muster_core.model.ids import AllocationId, AllocationKey, ApplicationId, NodeId
from muster_core.model.resources import Resources
from muster_core.model.specs import AllocationSpec, ApplicationSpec, AskSpec, NodeSpec
from muster_core.model.storage import NamespaceLabels
from muster_core.scheduling.scheduler import cycle, step
from muster_core.si import nodes as si_nodes
from muster_core.si import pod_tags, storage
from muster_core.state.scheduler_state import SchedulerState
from muster_si import keys
from muster_si.muster_pb2 import Fact

NODES: Final = 5000
#: Nodes of the two growth measurements, and the maximal ratio of the costs.
GROWTH: Final = (500, 15_000)
MOST_GROWTH: Final = 2.0
#: Asks per message.
MESSAGE: Final = 100
ZONES: Final = 3
HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
APP = ApplicationId("app")

Tags = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Work:
    """One workload. `goal`: pods per second.

    `tags` returns the tags of a new pod by its number. `before`: number of existing pods. `namespaces`: number of
    namespaces that the pods are distributed over, each with its own label.
    """

    goal: float
    pods: int
    tags: Callable[[int], Tags]
    before: int = 0
    namespaces: int = 1
    taints: str = ""
    #: A node holds only one of them.
    one_a_host: bool = False
    #: Attributes of all nodes.
    attributes: Tags = field(default_factory=dict)
    #: Additional facts for each existing or new pod.
    facts: Callable[[int], list[Fact]] = lambda _: []


def constraints(**found: object) -> Callable[[int], Tags]:
    """Return tags of pods with node constraints."""
    text = orjson.dumps(found).decode()
    return lambda _: {keys.TAG_CONSTRAINTS: text}


def inter_pod(**found: object) -> Callable[[int], Tags]:
    """Return tags of pods with the label color=blue and (anti-)affinity to pods with it."""
    text = orjson.dumps(found).decode()
    return lambda _: {keys.TAG_POD_CONSTRAINTS: text, f"{keys.TAG_POD_LABEL_PREFIX}color": "blue"}


def term(topology: str, **more: object) -> dict[str, object]:
    """Return a term for pods with the label, in the namespaces of the new pods."""
    return {"topologyKey": topology, "labelSelector": {"matchLabels": {"color": "blue"}}, **more}


def spread(when: str) -> Callable[[int], Tags]:
    """Return tags of pods that spread over the zones."""
    return inter_pod(spread=[term(ZONE, maxSkew=5, whenUnsatisfiable=when)])


def with_a_volume(number: int) -> Tags:
    """Return tags with a claim bound to a CSI volume."""
    return {keys.TAG_VOLUMES: orjson.dumps({"claims": [f"ns-0/claim-{number}"]}).decode()}


def volume_and_claim(number: int) -> list[Fact]:
    """Return the facts about the volume and the claim of a pod."""
    claim = {"uid": f"uid-{number}", "volumeName": f"pv-{number}", "bound": True, "accessModes": ["ReadOnlyMany"]}
    volume = {
        "capacity": 1 << 30,
        "accessModes": ["ReadOnlyMany"],
        "csi": {"driver": DRIVER, "volumeHandle": f"disk-{number}"},
        "claimRef": {"namespace": "ns-0", "name": f"claim-{number}", "uid": f"uid-{number}"},
    }
    return [
        _fact(Fact.VOLUME, f"pv-{number}", volume),
        _fact(Fact.CLAIM, f"ns-0/claim-{number}", claim),
    ]


def _fact(kind: Fact.Kind.ValueType, name: str, found: dict[str, object]) -> Fact:
    return Fact(kind=kind, name=name, attributes={keys.FACT_OBJECT: orjson.dumps(found).decode()})


DRIVER: Final = "ebs.csi.aws.com"
ATTACHES: Final = {keys.NODE_VOLUME_LIMITS: orjson.dumps({DRIVER: 39}).decode()}
IN_ZONE: Final = [{"matchExpressions": [{"key": ZONE, "operator": "In", "values": ["zone-1", "zone-2"]}]}]
HERE: Final = {"namespaces": ["ns-0"]}
ANYWHERE_OF_KIND: Final = {"namespaceSelector": {"matchLabels": {"team": "devops"}}}

WORKS: Final[Mapping[str, Work]] = {
    "basic": Work(20_000, 10_000, lambda _: {}),
    "node-affinity": Work(10_000, 10_000, constraints(nodeAffinity=IN_ZONE)),
    "taints": Work(
        10_000,
        10_000,
        constraints(tolerations=[{"key": "dedicated", "operator": "Exists"}]),
        taints='[{"effect":"NoSchedule","key":"dedicated","value":"batch"}]',
    ),
    "anti-affinity": Work(1000, 2000, inter_pod(antiAffinity=[term(HOST, **HERE)]), before=1000, one_a_host=True),
    "affinity": Work(1000, 5000, inter_pod(affinity=[term(ZONE, **HERE)]), before=5000),
    "preferred-affinity": Work(500, 5000, inter_pod(preferred=[term(HOST, weight=1, **HERE)]), before=5000),
    "preferred-anti-affinity": Work(500, 5000, inter_pod(preferred=[term(HOST, weight=-1, **HERE)]), before=5000),
    "anti-affinity-by-namespace-label": Work(
        500,
        1000,
        inter_pod(antiAffinity=[term(HOST, **ANYWHERE_OF_KIND)]),
        before=3000,
        namespaces=100,
        one_a_host=True,
    ),
    "spread": Work(2000, 5000, spread("DoNotSchedule"), before=5000),
    "preferred-spread": Work(1000, 5000, spread("ScheduleAnyway"), before=5000),
    "volumes": Work(500, 5000, with_a_volume, before=5000, attributes=ATTACHES, facts=volume_and_claim),
}


def measured(name: str, nodes: int, *, share: float = 1.0) -> float:
    """Return placements per second of one workload with a `share` of its pods."""
    work = WORKS[name]
    pods, before = round(work.pods * share), round(work.before * share)
    scheduler_state = a_state(nodes, work)
    facts = [fact for number in range(before + pods) for fact in work.facts(number)]
    step(scheduler_state, ClusterObjectsReported(PARTITION, storage.read_cluster_object(facts)[0]), 0)
    for number in range(before):
        node = NodeId(f"node-{number % nodes:05d}")
        step(scheduler_state, AllocationReported(an_allocation(work, number, node)), 0)
    asks = [AskAdded(an_ask(work, before + number)) for number in range(pods)]
    effects: list[Effect] = []

    def run() -> None:
        for start in range(0, len(asks), MESSAGE):
            for event in asks[start : start + MESSAGE]:
                effects.extend(step(scheduler_state, event, 1))
            effects.extend(cycle(scheduler_state, 1, lambda: True).effects)

    seconds = timed(run)
    count = sum(len(effect.new) for effect in effects if isinstance(effect, AllocationResponse))
    if count != pods:
        raise RuntimeError(f"{name} on {nodes} nodes: {count} of {pods} pods have a place")
    return pods / seconds


def growth(name: str) -> float:
    """Return the cost of a pod on many nodes divided by that on few, with as many pods as fit on the few nodes."""
    few, many = GROWTH
    work = WORKS[name]
    most = few * (0.4 if work.one_a_host else 8)
    share = min(1.0, most / max(work.pods, work.before))
    return measured(name, few, share=share) / measured(name, many, share=share)


def a_state(nodes: int, work: Work) -> SchedulerState:
    """Return the state of a registered resource manager with nodes, namespaces and one application."""
    scheduler_state = SchedulerState()
    root = QueueConfig("root", parent=True, submit_acl=ALLOW_ALL)
    rules = (PlacementRule("provided", create=True),)
    step(
        scheduler_state,
        ManagerRegistered(RM, Configuration((PartitionConfig("default", root, rules, NodeSort(balanced=True)),))),
        0,
    )
    for spec in specs(nodes, work):
        step(scheduler_state, NodeAdded(spec), 0)
    facts = (NamespaceLabels(f"ns-{number}", {"team": "devops"}) for number in range(work.namespaces))
    step(scheduler_state, ClusterObjectsReported(PARTITION, tuple(facts)), 0)
    step(scheduler_state, ApplicationAdded(ApplicationSpec(PARTITION, APP, queue="root.queue")), 0)
    return scheduler_state


def specs(nodes: int, work: Work) -> Iterator[NodeSpec]:
    """Yield nodes in three zones."""
    taints = si_nodes.taints({keys.NODE_TAINTS: work.taints})
    capacity = Resources({"vcore": 32_000, "memory": 256 << 30, "pods": 110})
    for number in range(nodes):
        name = f"node-{number:05d}"
        labels = {HOST: name, ZONE: f"zone-{number % ZONES}"}
        storage = si_nodes.storage(work.attributes)
        yield NodeSpec(PARTITION, NodeId(name), capacity, labels=labels, taints=taints, storage=storage)


def an_ask(work: Work, number: int) -> AskSpec:
    """Return the decoded ask of a new pod."""
    tags = tags_of(work, number)
    where = pod_tags.constraints(tags)
    key, space = AllocationKey(f"{number:036d}"), tags[keys.TAG_NAMESPACE]
    return AskSpec(
        PARTITION, APP, key, ASKED, constraints=where, namespace=space, tags=tags, facts=pod_tags.read_properties(tags)
    )


def an_allocation(work: Work, number: int, node: NodeId) -> AllocationSpec:
    """Return the decoded allocation of an existing pod."""
    tags = tags_of(work, number)
    key = AllocationKey(f"{number:036d}")
    return AllocationSpec(
        PARTITION,
        APP,
        key,
        AllocationId(f"{key}-0"),
        node,
        ASKED,
        namespace=tags[keys.TAG_NAMESPACE],
        tags=tags,
        facts=pod_tags.read_properties(tags),
    )


def tags_of(work: Work, number: int) -> Tags:
    """Return the tags of a pod with its name and namespace."""
    return {
        keys.TAG_NAMESPACE: f"ns-{number % work.namespaces}",
        keys.TAG_POD_NAME: f"pod-{number}",
        **work.tags(number),
    }
