"""The duels, and the operations of their workloads as scheduler_perf's configuration files define them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from benchmarks.cluster.benches import Bench, Contender
from benchmarks.duels.templates import manifest
from devcluster.api import Json
from devcluster.frameworks import go_module

_FOLDER = "test/integration/scheduler_perf"
_NODE, _POD = "templates/node-default.yaml", "templates/pod-default.yaml"
"""The defaults of an operation without a template."""


@dataclass(frozen=True, slots=True)
class Duel:
    """A workload of scheduler_perf: the folder and case, and the names of its workload and of a quick one.

    ``floor``: the most that Muster may take, in times of a program that binds every pod without choosing a node; None
    if that program would do less than the schedulers, because pods need devices or victims. ``optional``: takes too
    long for a run of everything.
    """

    topic: str
    case: str
    workload: str
    quick: str
    params: Mapping[str, int] = field(default_factory=dict)
    """Parameters that differ from the workload's."""
    floor: float | None = None
    ahead: float = 1.0
    """The required ratio to kube-scheduler."""
    optional: bool = False


_GANGS = ("podgroup/gangscheduling", "GangScheduling")
_RACKS = ("podgroup/tas", "TopologyAwareScheduling")
_GROUPS_OF_3, _GROUPS_OF_4 = "5000Nodes_1000Gangs_3000Pods", "5000Nodes_750Gangs_3000Pods"
_GROUPS_OF_1000 = "5000Nodes_3Gangs_3000Pods_1000PerGroup"
_QUICK_GANGS = "100Nodes_10Gangs"
_LARGE = {"initPodGroups": 10, "podsPerGroup": 5000}
_ANTI_AFFINITY = ("affinity", "SchedulingRequiredPodAntiAffinityWithNSSelector")

DUELS: Mapping[str, Duel] = {
    "duels/gangs-1000x3": Duel(*_GANGS, _GROUPS_OF_3, _QUICK_GANGS, floor=1.3),
    "duels/gangs-3x1000": Duel(*_GANGS, _GROUPS_OF_1000, _QUICK_GANGS, floor=1.3),
    "duels/gangs-10x5000": Duel(*_GANGS, _GROUPS_OF_1000, _QUICK_GANGS, _LARGE, floor=1.3, optional=True),
    "duels/racks-750x4": Duel(*_RACKS, _GROUPS_OF_4, _QUICK_GANGS, floor=1.3, ahead=5.0),
    "duels/racks-3x1000": Duel(*_RACKS, _GROUPS_OF_1000, _QUICK_GANGS, floor=1.3, ahead=5.0),
    "duels/preemption": Duel(
        "workload_preemption", "GangPreemptionBasic",
        "100Nodes_1PreemptorGang_100Pods_Evicting_1000InitPods", "2Nodes_1PreemptorGang_2Pods_Evicting_10InitPods",
    ),
    "duels/devices": Duel("dra", "SchedulingWithResourceClaimTemplate", "5000pods_500nodes", "fast"),
    "duels/single": Duel("misc", "SchedulingBasic", "5000Nodes_10000Pods", "500Nodes", floor=1.3),
    "duels/anti-affinity": Duel(*_ANTI_AFFINITY, "5000Nodes_2000Pods", "500Nodes", floor=1.3),
}  # fmt: skip


def bench(name: str) -> Bench:
    """Return the duel as a benchmark of the cluster."""
    return Bench(name, Contender.AUTO, ahead=DUELS[name].ahead)


@dataclass(frozen=True, slots=True)
class Operation:
    """One step of a workload. ``kind``: ``nodes``, ``namespaces``, ``objects``, ``pods``, or ``allocated claims``.

    ``namespace``: empty for objects without one. ``measured``: the schedulers are compared by these pods.
    """

    kind: str
    namespace: str = ""
    template: Path = Path()
    count: int = 1
    values: Mapping[str, Any] = field(default_factory=dict)
    measured: bool = False

    def manifests(self) -> Iterator[Json]:
        """Yield the objects. Generated names are completed by the object's index instead of a random text."""
        text = self.template.read_text()
        for index in range(self.count):
            found: Json = manifest(text, {**self.values, "Index": index, "Count": self.count})
            meta = found["metadata"]
            meta.setdefault("name", f"{meta.pop('generateName', '')}{index}")
            if found["kind"] == "Node":
                meta.setdefault("labels", {})["kubernetes.io/hostname"] = meta["name"]
            yield found


@cache
def perf_folder() -> Path:
    """Return the folder of scheduler_perf in Kubernetes' module. Raises BuildFailed."""
    return go_module("controlplane", "k8s.io/kubernetes") / _FOLDER


def operations(duel: Duel, perf: Path, *, quick: bool) -> list[Operation]:
    """Return the steps of a duel from the folder of scheduler_perf. Raises ValueError for one that is not supported."""
    folder = perf / duel.topic
    cases = yaml.safe_load((folder / "performance-config.yaml").read_text())
    case = next(case for case in cases if case["name"] == duel.case)
    wanted = duel.quick if quick else duel.workload
    workload = next(workload for workload in case["workloads"] if workload["name"] == wanted)
    reader = _Reader(perf, folder, case, {**workload["params"], **({} if quick else duel.params)})
    return [operation for step in case["workloadTemplate"] for operation in reader.operations(step)]


@dataclass(slots=True)
class _Reader:
    """Reads the steps of a case with the parameters of a workload."""

    perf: Path
    folder: Path
    case: Json
    params: Mapping[str, Any]
    unnamed: int = 0
    """Operations on pods without a namespace, each of which gets its own."""

    def operations(self, step: Json) -> Iterator[Operation]:
        """Yield the operations of one step."""
        opcode, count = step["opcode"], self._count(step)
        match opcode:
            case "createNodes":
                yield self._operation("nodes", step, "nodeTemplatePath", count, _NODE)
            case "createNamespaces":
                names = {"names": [f"{step['prefix']}-{number}" for number in range(count)]}
                path = self.folder / step["namespaceTemplatePath"] if "namespaceTemplatePath" in step else Path()
                yield Operation("namespaces", template=path, values=names)
            case "createAny" | "createPodGroups":
                yield self._operation("objects", step, "templatePath", count)
            case "allocResourceClaims":
                yield Operation("allocated claims", step["namespace"])
            case "createPodSets":
                for number in range(count):
                    yield from self.operations(
                        {**step["createPodsOp"], "namespace": f"{step['namespacePrefix']}-{number}"}
                    )
            case "createPods" if self._value(step.get("steadyStateParam", False)) is False:
                default = {"podTemplatePath": path} if (path := self.case.get("defaultPodTemplatePath")) else {}
                yield self._operation("pods", {**default, **step}, "podTemplatePath", count, _POD)
            case _:
                raise ValueError(f"operation {opcode} is not supported")

    def _operation(self, kind: str, step: Json, template: str, count: int, default: str = "") -> Operation:
        namespace = step.get("namespace", "")
        if kind == "pods" and not namespace:
            namespace, self.unnamed = f"namespace-{self.unnamed}", self.unnamed + 1
        path = self.folder / step[template] if template in step else self.perf / default
        values = {key: self._value(value) for key, value in step.get("templateParams", {}).items()}
        return Operation(kind, namespace, path, count, values, step.get("collectMetrics", False))

    def _count(self, step: Json) -> int:
        count = int(self._value(step.get("countParam", step.get("count", 1))))
        return count * int(self._value(step.get("countMultiplierParam", 1)))

    def _value(self, value: object) -> Any:  # the value of a parameter
        """Return a value, or that of its parameter: ``$name``, or ``$name|default``."""
        if not isinstance(value, str) or not value.startswith("$"):
            return value
        name, bar, default = value[1:].partition("|")
        if name in self.params:
            return self.params[name]
        if not bar:
            raise ValueError(f"parameter {name} is missing")
        return default or None
