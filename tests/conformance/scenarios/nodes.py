"""Scenarios about nodes: cordons, taints, labels, names, ports, features, images."""

from typing import Final

from tests.conformance.choices import Choices
from tests.conformance.objects import HOST, REGION, ZONE, ZONES, ClusterState, Raw
from tests.conformance.scenarios.scenario import Scenario
from tests.conformance.scenarios.storage import mount

CORDON: Final = "node.kubernetes.io/unschedulable"
_TAINT_KEYS: Final = ("dedicated", "spot", "node.kubernetes.io/not-ready")
_TAINT_VALUES: Final = ("", "gpu", "web")
_EFFECTS: Final = ("NoSchedule", "NoExecute", "PreferNoSchedule")
_DISKS: Final = ("ssd", "hdd")
_GENERATIONS: Final = ("1", "2", "10", "x")
_LABEL_VALUES: Final = {"disk": _DISKS, "generation": _GENERATIONS, ZONE: ZONES}
_FEATURES: Final = (
    "RestartAllContainersOnContainerExits",
    "UserNamespacesHostNetworkSupport",
    "VolumeBindMountOptions",
)
_ADDRESSES: Final = ("0.0.0.0", "10.0.0.1", "10.0.0.2", "::")  # noqa: S104 # no server, only values of pods
_IMAGES: Final = ("example.com/big:1", "example.com/small:1", "example.com/main:1")


class Cordons(Scenario):
    """Cordoned nodes, and pods that tolerate cordons."""

    def node(self, choices: Choices, node: Raw) -> None:
        if choices.chance(55):
            node["spec"]["unschedulable"] = True
            if choices.chance(70):  # the controller adds the taint a moment later
                node["spec"].setdefault("taints", []).append({"key": CORDON, "effect": "NoSchedule"})

    def pending(self, choices: Choices, state: ClusterState, pod: Raw) -> None:
        if choices.chance(30):
            tolerations = (
                {"key": CORDON, "operator": "Exists", "effect": "NoSchedule"},
                {"key": CORDON, "operator": "Exists"},
                {"operator": "Exists"},
                {"key": CORDON, "operator": "Exists", "effect": "NoExecute"},
                {"key": CORDON, "operator": "Equal", "value": "true", "effect": "NoSchedule"},
                {"key": CORDON},
            )
            pod["spec"].setdefault("tolerations", []).append(dict(choices.pick(tolerations)))


class Taints(Scenario):
    """Taints of every effect and tolerations of every form."""

    def node(self, choices: Choices, node: Raw) -> None:
        keys = choices.some(_TAINT_KEYS, 2)
        for key in keys:
            taint = {"key": key, "effect": choices.pick(_EFFECTS)}
            if value := choices.pick(_TAINT_VALUES):
                taint["value"] = value
            node["spec"].setdefault("taints", []).append(taint)

    def pending(self, choices: Choices, state: ClusterState, pod: Raw) -> None:
        for _ in range(choices.below(3)):
            pod["spec"].setdefault("tolerations", []).append(_toleration(choices))


def _toleration(choices: Choices) -> Raw:
    toleration: Raw = {}
    if choices.chance(90):
        toleration["key"] = choices.pick(_TAINT_KEYS)
        toleration["operator"] = choices.pick(("Exists", "Equal"))
    else:
        toleration["operator"] = "Exists"
    if toleration["operator"] == "Equal":
        if choices.chance(30):
            del toleration["operator"]
        if value := choices.pick(_TAINT_VALUES):
            toleration["value"] = value
    if choices.chance(60):
        toleration["effect"] = choices.pick(_EFFECTS)
    return toleration


class Labels(Scenario):
    """Node selectors and node affinity, required and preferred, with every operator."""

    def node(self, choices: Choices, node: Raw) -> None:
        labels = node["metadata"]["labels"]
        if choices.chance(80):
            labels["disk"] = choices.pick(_DISKS)
        if choices.chance(70):
            labels["generation"] = choices.pick(_GENERATIONS)

    def pending(self, choices: Choices, state: ClusterState, pod: Raw) -> None:
        spec = pod["spec"]
        if choices.chance(40):
            key = choices.pick(("disk", "generation", ZONE))
            spec["nodeSelector"] = {key: choices.pick(_LABEL_VALUES[key])}
        if choices.chance(50):
            terms = [_term(choices, state) for _ in range(choices.between(1, 2))]
            _node_affinity(pod)["requiredDuringSchedulingIgnoredDuringExecution"] = {"nodeSelectorTerms": terms}
        if choices.chance(30):
            preferred = [
                {"weight": choices.pick((1, 10, 100)), "preference": {"matchExpressions": [_expression(choices)]}}
                for _ in range(choices.between(1, 2))
            ]
            _node_affinity(pod)["preferredDuringSchedulingIgnoredDuringExecution"] = preferred


def _node_affinity(pod: Raw) -> Raw:
    found: Raw = pod["spec"].setdefault("affinity", {}).setdefault("nodeAffinity", {})
    return found


def _expression(choices: Choices) -> Raw:
    key = choices.pick(("disk", "generation", ZONE))
    operator = choices.pick(("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"))
    expression: Raw = {"key": key, "operator": operator}
    if operator in {"In", "NotIn"}:
        expression["values"] = choices.some(_LABEL_VALUES[key], 2, at_least=1)
    elif operator in {"Gt", "Lt"}:
        expression["key"] = "generation"
        expression["values"] = [choices.pick(("0", "1", "5", "10"))]
    return expression


def _field(choices: Choices, state: ClusterState) -> Raw:
    names = [node["metadata"]["name"] for node in state.nodes] + ["nowhere"]
    return {"key": "metadata.name", "operator": choices.pick(("In", "In", "NotIn")), "values": [choices.pick(names)]}


def _term(choices: Choices, state: ClusterState) -> Raw:
    term: Raw = {}
    if expressions := [_expression(choices) for _ in range(choices.pick((1, 2, 0)))]:
        term["matchExpressions"] = expressions
    if choices.chance(10):
        term["matchFields"] = [_field(choices, state)]
    return term


class Names(Scenario):
    """Pods with a node name in their spec or, as with a DaemonSet, in their affinity."""

    def pending(self, choices: Choices, state: ClusterState, pod: Raw) -> None:
        names = [node["metadata"]["name"] for node in state.nodes] + ["nowhere"]
        if choices.chance(40):
            pod["spec"]["nodeName"] = choices.pick(names)
            return
        fields = [_field(choices, state) for _ in range(choices.pick((1, 1, 2)))]
        terms: list[Raw] = [{"matchFields": fields}]
        if choices.chance(20):
            terms.append({"matchFields": [_field(choices, state)]})
        elif choices.chance(50) and len(names) > 2:
            fields[:] = [{"key": "metadata.name", "operator": "In", "values": [name]} for name in names[:2]]
        _node_affinity(pod)["requiredDuringSchedulingIgnoredDuringExecution"] = {"nodeSelectorTerms": terms}
        if choices.chance(50) and len(terms) == len(fields) == 1 and fields[0]["operator"] == "In":
            owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "d", "controller": True}
            pod["metadata"]["ownerReferences"] = [owner]


class Ports(Scenario):
    """Host ports with addresses and protocols, in few numbers."""

    def running(self, choices: Choices, state: ClusterState, pod: Raw) -> None:
        _ports(choices, pod)

    def pending(self, choices: Choices, state: ClusterState, pod: Raw) -> None:
        _ports(choices, pod)


def _ports(choices: Choices, pod: Raw) -> None:
    ports: list[Raw] = []
    for _ in range(choices.pick((1, 2, 0))):
        number = choices.pick((80, 80, 443))
        port: Raw = {"containerPort": number, "protocol": choices.pick(("TCP", "TCP", "TCP", "UDP"))}
        if choices.chance(85):
            port["hostPort"] = number
        if choices.chance(40):
            port["hostIP"] = choices.pick(_ADDRESSES)
        if not any(_is_twice(port, other) for other in ports):
            ports.append(port)
    container_kind = choices.pick((*("containers",) * 6, "sidecar", "initContainers"))
    if not ports:
        return
    if container_kind == "containers":
        pod["spec"]["containers"][0]["ports"] = ports
    else:
        init: Raw = {"name": "init", "image": "example.com/init:1", "ports": ports}
        if container_kind == "sidecar":
            init["restartPolicy"] = "Always"
        pod["spec"].setdefault("initContainers", []).append(init)


def _is_twice(port: Raw, other: Raw) -> bool:
    """Whether the API server would reject the second host port as a duplicate."""
    return all(port.get(field) == other.get(field) for field in ("protocol", "hostPort", "hostIP"))


class Features(Scenario):
    """Pods that need a feature of the node's kubelet."""

    def node(self, choices: Choices, node: Raw) -> None:
        if features := choices.some(_FEATURES, 2):
            node["status"]["declaredFeatures"] = features

    def pending(self, choices: Choices, state: ClusterState, pod: Raw) -> None:
        spec = pod["spec"]
        if choices.chance(50):
            spec["hostNetwork"] = True
            spec["hostUsers"] = choices.chance(20)
        if choices.chance(50):
            action = choices.pick(("RestartAllContainers", "Restart"))
            rule = {"action": action, "exitCodes": {"operator": "In", "values": [42]}}
            spec["containers"][0] |= {"restartPolicy": "Never", "restartPolicyRules": [rule]}
        if choices.chance(25):
            mount(pod, {"emptyDir": {}})
            options = {"bindMountOptions": ["noexec"]} if choices.chance(70) else {}
            spec["containers"][0]["volumeMounts"] = [
                {"name": spec["volumes"][-1]["name"], "mountPath": "/v", **options}
            ]


class Topology(Scenario):
    """Zones and regions. Every cluster has this scenario."""

    def node(self, choices: Choices, node: Raw) -> None:
        labels = node["metadata"]["labels"]
        if choices.chance(90):
            labels[ZONE] = choices.pick(ZONES)
        if choices.chance(60):
            labels[REGION] = "north" if labels.get(ZONE) in {"a", "b"} else "south"
        if choices.chance(5):
            del labels[HOST]


class Images(Scenario):
    """Images on nodes, which filters ignore."""

    def node(self, choices: Choices, node: Raw) -> None:
        sizes = {
            "example.com/big:1": 2_000_000_000,
            "example.com/small:1": 30_000_000,
            "example.com/main:1": 300_000_000,
        }
        node["status"]["images"] = [
            {"names": [image, f"{image.split(':')[0]}@sha256:0"], "sizeBytes": sizes[image]}
            for image in choices.some(_IMAGES, 3)
        ]

    def pending(self, choices: Choices, state: ClusterState, pod: Raw) -> None:
        pod["spec"]["containers"][0]["image"] = choices.pick(_IMAGES)
