"""Random device slices, classes and claims, and what kube-scheduler's allocator and Muster's allocate for them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from random import Random  # noqa: TID251 - with a fixed seed
from typing import Any, Final

import numpy as np

from muster_core.model.devices import CHOSEN_NODE, DeviceAllocation, DeviceClaim, DeviceId, DeviceResult, NodeAccess
from muster_core.model.ids import NodeId
from muster_core.model.specs import NodeSpec
from muster_core.placement.devices import versions
from muster_core.placement.devices.allocation import allocate
from muster_core.placement.devices.filter import reach_rows
from muster_core.si.storage import read_cluster_object
from muster_core.state.device_use import SHARES
from muster_core.state.devices import Refusal
from muster_core.state.nodes import NodeTable
from muster_operator.model.storage import ClusterObject
from muster_operator.translate.devices import read_claim, read_class, read_slice
from muster_si import muster_pb2
from tests.conformance.objects import Raw
from tests.unit.builders import a_node

_ZONE: Final = "zone"
DRIVERS: Final = ("gpu.example.com", "nic.example.com")
_MODELS: Final = ("a100", "h100")
_SELECTORS: Final = (
    'device.driver == "gpu.example.com"',
    'device.attributes["gpu.example.com"].model == "a100"',
    'device.attributes["gpu.example.com"].?model.orValue("none") == "h100"',
    'device.attributes["gpu.example.com"].numa < 1',
    '"index" in device.attributes["gpu.example.com"] && device.attributes["gpu.example.com"].index >= 2',
    'has(device.attributes["other.example.com"].rack)',
    'device.attributes["other.example.com"].?rack.orValue("") in ["r1", "r2"]',
    'device.capacity["gpu.example.com"].memory.compareTo(quantity("40Gi")) >= 0',
    'device.capacity["nic.example.com"].?memory.hasValue()',
    'device.attributes["gpu.example.com"].version.isGreaterThan(semver("1.2.0"))',
    "device.attributes[device.driver].index <= 2",
    'device.attributes[device.driver].numa == 0 || device.attributes["nic.example.com"].missing == 1',
    'cel.bind(a, device.attributes["gpu.example.com"], a.shared || a.model.startsWith("h"))',
    'device.attributes["gpu.example.com"].exists(name, name == "shared")',
    "size(device.attributes) > 1 || device.allowMultipleAllocations",
    'device.attributes["gpu.example.com"].model.upperAscii().matches("^A.*0$")',
)
#: Amounts of capacity, of which some fit, and some cannot be represented in steps.
_AMOUNTS: Final = ("0", "1", "2", "500m", "700m", "1n", "1Gi", "5Gi", "10Gi", "11Gi", "20Gi", "40Gi", str(2**63 - 1))
_ATTRIBUTES: Final = ("gpu.example.com/numa", "other.example.com/rack", "gpu.example.com/model", "nic.example.com/numa")


class Case:
    """A random case of one cluster. Every part is a raw object of Kubernetes."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)
        #: Whether shared counters and distinct attributes are used.
        self.has_features = bool(seed % 3)
        nodes = self._random.randint(1, 3)
        self.nodes = [_node(f"n{number}", self._random.choice(("a", "b"))) for number in range(nodes)]
        self.classes = [self._class(name) for name in ("any", "gpu", "rare")][: self._random.randint(2, 3)]
        self.slices: list[Raw] = []
        for number in range(self._random.randint(2, 5)):
            self._pool(number)
        self._random.shuffle(self.slices)
        self.claims = [self._claim(f"claim-{number}") for number in range(self._random.choice((1, 1, 1, 2, 3)))]
        ids = [
            [one["spec"]["driver"], one["spec"]["pool"]["name"], device["name"]]
            for one in self.slices
            for device in one["spec"].get("devices", ())
        ]
        self.allocated = [one for one in ids if self._chance(15)]
        # Differs: kube-scheduler gives a whole device although claims have shares of it, if its slice ends sharing.
        shared = [one for one in ids if tuple(one) in self._shareable()]
        self.shared = [self._share(one) for one in shared if self.has_features and self._chance(15)]

    def question(self) -> Raw:
        """Return the case for kube-scheduler's allocator."""
        return {
            "slices": self.slices,
            "classes": self.classes,
            "claims": self.claims,
            "allocated": self.allocated,
            "shared": self.shared,
            "nodes": self.nodes,
        }

    def _chance(self, percent: int) -> bool:
        return self._random.random() * 100 < percent

    def _class(self, name: str) -> Raw:
        if name == "any":
            return _object("DeviceClass", name, {})
        few = self._random.sample(_SELECTORS, self._random.randint(1, 2)) if name == "rare" else [_SELECTORS[0]]
        return _object("DeviceClass", name, {"selectors": [_cel(one) for one in few]})

    def _pool(self, number: int) -> None:
        random, node = self._random, self._random.choice(self.nodes)["metadata"]["name"]
        driver, pool = random.choice(DRIVERS), f"pool-{number}"
        slices = random.choice((1, 1, 1, 2, 3))
        where = random.choice(("node", "node", "node", "all", "zone", "device"))
        counters = random.choice((0, 0, 1, 1, 2)) if self.has_features else 0
        count = slices + counters + (random.choice((-1, 1)) if self._chance(4) else 0)
        for part in range(counters):
            sets = [self._counter_set(f"set-{part if not self._chance(2) else 0}"), self._counter_set(f"more-{part}")]
            spec: Raw = {
                "driver": driver,
                "pool": {"name": pool, "generation": 2, "resourceSliceCount": max(count, 1)},
                "sharedCounters": sets[: random.randint(1, 2)],
                **self._where(random.choice(("node", "all", "zone")), node),
            }
            self.slices.append(_object("ResourceSlice", f"s{random.randrange(1000)}-{number}-c{part}", spec))
        name = 0
        conditions = {"bindingConditions": ["ready"], "bindingFailureConditions": ["broken"]}
        is_prepared = self.has_features and self._chance(20)
        for part in range(slices):
            generation = 2 - self._chance(4)
            devices = []
            for _ in range(random.randint(0, 6)):
                devices.append(self._device(f"d{name}", driver, where) | self._consumption(counters))
                if is_prepared and self._chance(60):
                    devices[-1] |= conditions if self._chance(60) else {"bindsToNode": True}
                name += 0 if self._chance(1) else 1
            spec = {
                "driver": driver,
                "pool": {"name": pool, "generation": generation, "resourceSliceCount": max(count, 1)},
                "devices": devices,
                **self._where(where if not self._chance(10) else "zone", node),
            }
            self.slices.append(_object("ResourceSlice", f"s{random.randrange(1000)}-{number}-{part}", spec))

    def _shareable(self) -> set[tuple[str, str, str]]:
        return {
            (one["spec"]["driver"], one["spec"]["pool"]["name"], device["name"])
            for one in self.slices
            for device in one["spec"].get("devices", ())
            if device.get("allowMultipleAllocations")
        }

    def _share(self, device: list[str]) -> Raw:
        amounts = {one: self._random.choice(_AMOUNTS) for one in ("memory", "lanes") if self._chance(60)}
        return {"device": device, "consumed": amounts}

    def _capacity(self) -> Raw:
        found: Raw = {"memory": {"value": self._random.choice(("40Gi", "80Gi", "39.5Gi"))}}
        if self.has_features and self._chance(50):
            found["lanes"] = {"value": self._random.choice(("4", "1500m"))}
        for capacity in found.values():
            if self.has_features and (policy := self._policy()):
                capacity["requestPolicy"] = policy
        return found

    def _policy(self) -> Raw:
        random = self._random
        match random.choice(("none", "none", "default", "values", "range", "range")):
            case "default":
                return {"default": random.choice(_AMOUNTS)}
            case "values":
                return {"default": "10Gi", "validValues": ["1Gi", "10Gi", "20Gi"][random.randint(0, 1) :]}
            case "range":
                least = random.choice(("1Gi", "500m", "1"))
                found: Raw = {"min": least}
                if self._chance(50):
                    found["max"] = random.choice(("10Gi", "40Gi") if least == "1Gi" else ("2", "40Gi"))
                if self._chance(60):
                    found["step"] = random.choice(("1Gi", "500m", "3", "3Gi"))
                return {"default": least, "validRange": found}
            case _:
                return {}

    def _counter_set(self, name: str) -> Raw:
        amounts = {"memory": self._random.choice(("20Gi", "40Gi", "80Gi")), "cores": str(self._random.randint(1, 4))}
        return {"name": name, "counters": {counter: {"value": amount} for counter, amount in amounts.items()}}

    def _consumption(self, counters: int) -> Raw:
        """Return what a device consumes of some of the sets of the pool, which often is too much or not there."""
        random = self._random
        if not counters or self._chance(20):
            return {}
        consumed = []
        for name in random.sample(("set-0", "set-1"), random.choice((1, 1, 1, 2))):
            if name == "set-1" and counters < 2 and not self._chance(2):
                continue
            amounts = {"memory": random.choice(("10Gi", "20480Mi", "40Gi", "0"))}
            if self._chance(60):
                amounts["cores" if not self._chance(1) else "gone"] = random.choice(("1", "2", "500m"))
            consumed.append(
                {"counterSet": name, "counters": {one: {"value": amount} for one, amount in amounts.items()}}
            )
        return {"consumesCounters": consumed} if consumed else {}

    def _where(self, where: str, node: str) -> Raw:
        match where:
            case "node":
                return {"nodeName": node}
            case "all":
                return {"allNodes": True}
            case "device":
                return {"perDeviceNodeSelection": True}
            case _:
                zones = self._random.sample(("a", "b"), self._random.randint(1, 2))
                requirement = {"key": _ZONE, "operator": "In", "values": zones}
                return {"nodeSelector": {"nodeSelectorTerms": [{"matchExpressions": [requirement]}]}}

    def _device(self, name: str, driver: str, where: str) -> Raw:
        random = self._random
        attributes: Raw = {}
        if self._chance(97):
            attributes["model"] = {"string": random.choice(_MODELS)}
        if self._chance(97):
            attributes["numa"] = {"int": random.randint(0, 1)}
        if self._chance(90):
            attributes[f"{driver}/index" if self._chance(50) else "index"] = {"int": random.randint(0, 3)}
        if self._chance(90):
            attributes["shared"] = {"bool": self._chance(50)}
        if self._chance(95):
            attributes["version"] = {"version": random.choice(("1.2.0", "1.2.1-rc.1", "2.0.0"))}
        if self._chance(50):
            attributes["other.example.com/rack"] = {"string": random.choice(("r1", "r2"))}
        device: Raw = {"name": name, "attributes": attributes}
        if self._chance(97):
            device["capacity"] = self._capacity()
        if self.has_features and self._chance(30):
            device["allowMultipleAllocations"] = self._chance(90)
        if self._chance(15):
            effect = random.choice(("NoSchedule", "NoExecute", "None"))
            device["taints"] = [{"key": random.choice(("broken", "old")), "value": "yes", "effect": effect}]
        if where == "device":
            device |= self._where(random.choice(("node", "all", "zone")), random.choice(self.nodes)["metadata"]["name"])
        return device

    def _claim(self, name: str) -> Raw:
        random = self._random
        requests = [self._request(f"r{number}") for number in range(random.choice((1, 1, 2, 2, 3)))]
        constraints = []
        while self._chance(25):
            names = [one["name"] for one in requests]
            names += [f"{one['name']}/{sub['name']}" for one in requests for sub in one.get("firstAvailable", ())]
            some = random.sample(names, random.randint(0, min(2, len(names))))
            kind = random.choice(("matchAttribute", "distinctAttribute")) if self.has_features else "matchAttribute"
            constraints.append({"requests": some, kind: random.choice(_ATTRIBUTES)})
        spec = {"devices": {"requests": requests, "constraints": constraints}}
        return _object("ResourceClaim", name, spec, namespace="default", uid=f"uid-{name}")

    def _request(self, name: str) -> Raw:
        if self._chance(25):
            subs = [
                {"name": f"s{number}", **self._exactly(is_sub=True)} for number in range(self._random.randint(1, 3))
            ]
            return {"name": name, "firstAvailable": subs}
        return {"name": name, "exactly": self._exactly()}

    def _exactly(self, *, is_sub: bool = False) -> Raw:
        random = self._random
        names = [one["metadata"]["name"] for one in self.classes] + ["gone"] * self._chance(2)
        found: Raw = {"deviceClassName": random.choice(names)}
        if self._chance(25):
            found["selectors"] = [_cel(one) for one in random.sample(_SELECTORS, random.choice((1, 1, 2)))]
        if self._chance(8):
            found["allocationMode"] = "All"
        else:
            found |= {
                "allocationMode": "ExactCount",
                "count": random.choice((1, 1, 1, 1, 2, 2, 3, 17 if self._chance(20) else 2)),
            }
        if self.has_features and self._chance(30):
            names = random.sample(("memory", "lanes", "none"), random.choice((1, 1, 1, 2)))
            few = [one for one in names if one != "none" or self._chance(10)]
            found["capacity"] = {"requests": {one: random.choice(_AMOUNTS) for one in few}}
        if self._chance(10) and not is_sub:
            found["adminAccess"] = True
        if self._chance(30):
            key = random.choice(("broken", "old", ""))
            operator = "Exists" if not key or self._chance(50) else "Equal"
            value = {} if operator == "Exists" else {"value": random.choice(("yes", "no"))}
            effect = random.choice(({}, {"effect": "NoSchedule"}, {"effect": "NoExecute"}))
            found["tolerations"] = [{"key": key, "operator": operator, **value, **effect}]
        return found


def _object(kind: str, name: str, spec: Raw, **metadata: str) -> Raw:
    return {"apiVersion": "resource.k8s.io/v1", "kind": kind, "metadata": {"name": name, **metadata}, "spec": spec}


def _cel(expression: str) -> Raw:
    return {"cel": {"expression": expression}}


def _node(name: str, zone: str) -> Raw:
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": {_ZONE: zone}}}


def facts(*objects: ClusterObject | None) -> list[Any]:
    """Return what the core reads of translated objects. Raises ValueError if it rejects one."""
    sent = [
        muster_pb2.Fact(
            kind=muster_pb2.Fact.Kind.Value(one.kind.value), name=one.name, attributes=one.attributes, gone=one.gone
        )
        for one in objects
        if one is not None
    ]
    taken, rejected = read_cluster_object(sent)
    if rejected:
        raise ValueError(f"the core rejects {rejected}")
    return list(taken)


#: What the text of an answer without results says, if it is more than that the claims cannot be allocated.
_KINDS: Final = (
    "CEL runtime error",
    "invalid resource pools",
    "currently being updated",
    "currently invalid",
    "exceeds the claim limit",
    "device class",
    "cannot be represented",
)


def kind_of(answer: Raw) -> str:
    """Return what kind of answer it is: found, refused, or one of the kinds of errors."""
    if "results" in answer:
        return "found"
    return next((kind for kind in _KINDS if kind in answer["error"]), "refused")


def differs(mine: Raw, theirs: Raw, question: Raw) -> bool:
    """Whether Muster's answer differs.

    kube-scheduler's search may have been ended by a time limit, and Muster's by its steps if there was nothing to find.
    kube-scheduler evaluates selectors also for devices of a slice that the node cannot access.
    """
    if "aborted" in theirs.get("error", ""):
        return False
    if "too many steps" in mine.get("error", ""):
        return kind_of(theirs) == "found"
    if kind_of(theirs) == "CEL runtime error" != kind_of(mine):
        pool = theirs["error"].partition(" on device ")[2].split("/")[1]
        slices = (one["spec"] for one in question["slices"] if one["spec"]["pool"]["name"] == pool)
        return not any(one.get("perDeviceNodeSelection") for one in slices)
    return kind_of(mine) != kind_of(theirs) or mine.get("results") != theirs.get("results")


def muster_answers(question: Raw) -> list[Raw]:
    """Return Muster's answer for each node, in the form of the conformance process."""
    table = NodeTable()
    for raw in question["nodes"]:
        spec: NodeSpec = a_node(raw["metadata"]["name"], labels=raw["metadata"].get("labels") or {})
        table.add(spec, draining=False)
    devices = table.pods_on_nodes.devices
    slices = (read_slice(raw) for raw in question.get("slices", ()))
    classes = (read_class(raw) for raw in question.get("classes", ()))
    for fact in facts(*(one.reported for one in (*slices, *classes) if one is not None)):
        devices.update(fact)
    claims = (read_claim(raw) for raw in question["claims"])
    demands = []
    for fact in facts(*(one.reported for one in claims if one is not None)):
        assert isinstance(fact, DeviceClaim)
        if fact.unsupported:
            return [{"unsupported": fact.unsupported}] * len(question["nodes"])
        demands.append(fact.demand)
    for one in question.get("shared", ()):
        consumed = {name: versions.quantity(amount) for name, amount in one["consumed"].items()}
        devices.shared[DeviceId(*one["device"])] = Counter({SHARES: 1, **consumed})
    devices.used.update({DeviceId(*one): 1 for one in question.get("allocated", ())})
    devices.build_views(table.facts_epoch, table.rows, lambda reach: reach_rows(table, reach))
    found = []
    for raw in question["nodes"]:
        node = NodeId(raw["metadata"]["name"])
        view = devices.views[devices.view_of.item(table.rows.row(node))]
        answer = allocate(view, demands, devices.classes, devices)
        found.append({"error": answer.text} if isinstance(answer, Refusal) else {"results": _results(answer, node)})
    assert np.all(devices.view_of >= 0)
    return found


def _results(allocations: Sequence[DeviceAllocation], node: NodeId) -> list[Raw]:
    return [
        {
            "devices": [
                [one.request, *one.device, one.admin, _consumed(one), *map(list, one.binding)]
                for one in allocation.results
            ],
            "reach": _of_reach(NodeAccess(node=node) if allocation.reach == CHOSEN_NODE else allocation.reach),
        }
        for allocation in allocations
    ]


def _consumed(result: DeviceResult) -> dict[str, int] | None:
    return None if result.consumed is None else dict(result.consumed)


def _of_reach(reach: NodeAccess) -> Any:
    if reach.node is not None:
        return _fields([("metadata.name", "In", (reach.node,))])
    if reach.terms is None:
        return None
    [term] = reach.terms
    requirements = [(one.key, one.operator, one.values) for one in (*term.fields, *term.expressions)]
    return _fields(requirements)


def _fields(requirements: Sequence[tuple[str, str, Sequence[str]]]) -> str:
    return json.dumps(sorted((key, operator, sorted(values)) for key, operator, values in requirements))


def kubernetes_answers(answers: Sequence[Raw]) -> list[Raw]:
    """Return the answers of kube-scheduler's allocator in the same form. An error has its text."""
    found: list[Raw] = []
    for answer in answers:
        results = answer.get("results")
        if answer.get("error") or results is None:
            found.append({"error": answer.get("error") or "cannot allocate all claims"})
        else:
            found.append({"results": [_kubernetes_result(one) for one in results]})
    return found


def _of_share(raw: Raw) -> dict[str, int] | None:
    consumed = raw.get("consumedCapacity") or {}
    return {name: versions.quantity(amount) for name, amount in consumed.items()} if raw.get("shareID") else None


def _kubernetes_result(raw: Raw) -> Raw:
    devices = [
        [one["request"], one["driver"], one["pool"], one["device"], bool(one.get("adminAccess")), _of_share(one)]
        + [one.get(field) or [] for field in ("bindingConditions", "bindingFailureConditions")]
        for one in raw["devices"].get("results") or ()
    ]
    selector = raw.get("nodeSelector")
    if selector is None:
        return {"devices": devices, "reach": None}
    [term] = selector["nodeSelectorTerms"]
    requirements = [
        (one["key"], one["operator"], one.get("values") or ())
        for one in (*(term.get("matchFields") or ()), *(term.get("matchExpressions") or ()))
    ]
    return {"devices": devices, "reach": _fields(requirements)}
