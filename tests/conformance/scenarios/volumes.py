"""Scenarios about volumes: exclusive disks, attach limits, claim binding, zones."""

from typing import Final

from tests.conformance.choices import Choices
from tests.conformance.objects import REGION, ZONE, ZONES, ClusterState, Raw
from tests.conformance.scenarios.scenario import Scenario
from tests.conformance.scenarios.storage import (
    DRIVER,
    LATE,
    POOLED,
    SELECTED_NODE,
    a_claim,
    a_class,
    a_volume,
    bind,
    claims_of,
    fraction,
    mount,
    tie,
    use_claims,
)

_CLAIMED_IN: Final = ("red", "blue")
_OLD_ZONE: Final = "failure-domain.beta.kubernetes.io/zone"
_OLD_REGION: Final = "failure-domain.beta.kubernetes.io/region"
_GOOGLE: Final = "pd.csi.storage.gke.io"


class Disks(Scenario):
    """Inline disks of pods, mostly of one kind per cluster."""

    def objects(self, choices: Choices, state: ClusterState) -> None:
        state.chosen["disk"] = choices.pick(("gce", "aws", "iscsi", "rbd"))

    def running(self, choices: Choices, state: ClusterState, pod: Raw) -> None:
        if choices.chance(70):
            mount(pod, _disk(choices, state))

    def pending(self, choices: Choices, state: ClusterState, pod: Raw) -> None:
        for _ in range(choices.pick((1, 1, 2))):
            mount(pod, _disk(choices, state))


class Single(Scenario):
    """Claims with ReadWriteOncePod."""

    def objects(self, choices: Choices, state: ClusterState) -> None:
        state.classes.append(a_class("single"))
        for namespace in _CLAIMED_IN:
            for _ in range(3):
                claim = a_claim(state, namespace, "single")
                volume = a_volume(state, 1, "single")
                if choices.chance(70):
                    claim["spec"]["accessModes"] = volume["spec"]["accessModes"] = ["ReadWriteOncePod"]
                bind(claim, volume)

    def running(self, choices: Choices, state: ClusterState, pod: Raw) -> None:
        if choices.chance(40):
            use_claims(choices, state, pod, 1)

    def pending(self, choices: Choices, state: ClusterState, pod: Raw) -> None:
        use_claims(choices, state, pod, 3)


def _disk(choices: Choices, state: ClusterState) -> Raw:
    kind = state.chosen["disk"] if choices.chance(80) else choices.pick(("gce", "aws", "iscsi", "rbd"))
    read_only = {"readOnly": True} if choices.chance(40) else {}
    which = choices.pick(("x", "x", "y"))
    match kind:
        case "gce":
            return {"gcePersistentDisk": {"pdName": which, **read_only}}
        case "aws":
            return {"awsElasticBlockStore": {"volumeID": f"vol-{which}", **read_only}}
        case "iscsi":
            portal = choices.pick(("10.0.0.1:3260", "10.0.0.2:3260"))
            return {
                "iscsi": {
                    "targetPortal": portal,
                    "iqn": f"iqn.2026-01.com.example:{which}",
                    "lun": choices.below(2),
                    **read_only,
                }
            }
        case _:
            monitors = choices.some(("m1", "m2", "m3"), 2, at_least=1)
            pool = choices.pick(("rbd", "rbd", "other"))
            return {"rbd": {"monitors": monitors, "pool": pool, "image": which, **read_only}}


class Limits(Scenario):
    """Nodes with low attach limits, claims that share volumes, and attachments without a pod."""

    def objects(self, choices: Choices, state: ClusterState) -> None:
        state.classes += [a_class("limited"), a_class("gce", provisioner="kubernetes.io/gce-pd")]
        for namespace in _CLAIMED_IN:
            for _ in range(4):
                _attachable(choices, state, namespace)
        names = [node["metadata"]["name"] for node in state.nodes]
        for name in names:
            if choices.chance(85):
                state.csi_nodes.append(_csi_node(choices, name))
        if choices.chance(70):  # kube-scheduler names any of several missing drivers, so that only one is required
            opted = {"preventPodSchedulingIfMissing": choices.chance(90)}
            state.drivers.append({"metadata": {"name": choices.pick((DRIVER, DRIVER, _GOOGLE))}, "spec": opted})
        for number in range(choices.below(4)):
            volume = choices.pick([volume["metadata"]["name"] for volume in state.volumes] + ["gone"])
            source: Raw = {"persistentVolumeName": volume}
            spec = {
                "attacher": choices.pick((DRIVER, "other.example.com")),
                "nodeName": choices.pick(names),
                "source": source,
            }
            state.attachments.append({"metadata": {"name": f"a{number}"}, "spec": spec, "status": {"attached": True}})

    def running(self, choices: Choices, state: ClusterState, pod: Raw) -> None:
        use_claims(choices, state, pod, 2, missing=10)

    def pending(self, choices: Choices, state: ClusterState, pod: Raw) -> None:
        use_claims(choices, state, pod, 3)
        if choices.chance(15):
            mount(pod, {"gcePersistentDisk": {"pdName": choices.pick(("x", "y"))}})


def _attachable(choices: Choices, state: ClusterState, namespace: str) -> None:
    kind = choices.pick(("bound", "bound", "bound", "late", "in-tree", "shared"))
    match kind:
        case "late":
            a_claim(state, namespace, choices.pick(("limited", "gce")))
        case "in-tree":
            volume = a_volume(state, 1, "gce", {"gcePersistentDisk": {"pdName": choices.pick(("x", "y"))}})
            bind(a_claim(state, namespace, "gce"), volume)
        case _:
            volume = a_volume(state, 1, "limited")
            if kind == "shared":
                volume["spec"]["csi"]["volumeHandle"] = "handle-0"
            bind(a_claim(state, namespace, "limited"), volume)


def _csi_node(choices: Choices, name: str) -> Raw:
    drivers: list[Raw] = [_driver(choices, DRIVER, name)] if choices.chance(85) else []
    metadata: Raw = {"name": name}
    if choices.chance(50):
        drivers.append(_driver(choices, _GOOGLE, name))
        if choices.chance(70):
            metadata["annotations"] = {"storage.alpha.kubernetes.io/migrated-plugins": "kubernetes.io/gce-pd"}
    return {"metadata": metadata, "spec": {"drivers": drivers}}


def _driver(choices: Choices, driver: str, node: str) -> Raw:
    found: Raw = {"name": driver, "nodeID": node, "topologyKeys": []}
    if choices.chance(85):
        found["allocatable"] = {"count": choices.pick((1, 2, 0, 3))}
    return found


class Binding(Scenario):
    """Bound claims, and volumes for unbound ones."""

    def objects(self, choices: Choices, state: ClusterState) -> None:
        state.classes += [
            a_class("static", provisioner="kubernetes.io/no-provisioner"),
            a_class("made"),
            a_class("now", mode="Immediate"),
        ]
        for _ in range(choices.between(1, 3)):
            _free_volume(choices, state)
        for namespace in _CLAIMED_IN:
            for _ in range(4):
                _claim_of_kind(choices, state, namespace, choices.pick(_KINDS))

    def running(self, choices: Choices, state: ClusterState, pod: Raw) -> None:
        if choices.chance(10):
            use_claims(choices, state, pod, 1)

    def pending(self, choices: Choices, state: ClusterState, pod: Raw) -> None:
        use_claims(choices, state, pod, 2)


class Claims(Scenario):
    """Claims that make all nodes infeasible, for several reasons."""

    def objects(self, choices: Choices, state: ClusterState) -> None:
        state.classes += [
            a_class("static", provisioner="kubernetes.io/no-provisioner"),
            a_class("made"),
            a_class("now", mode="Immediate"),
        ]
        for namespace in _CLAIMED_IN:
            for _ in range(6):
                _claim_of_kind(choices, state, namespace, choices.pick(_WRONG))

    def pending(self, choices: Choices, state: ClusterState, pod: Raw) -> None:
        if choices.chance(70):
            use_claims(choices, state, pod, 1, missing=22)
        else:
            _ephemeral(choices, state, pod)


def _free_volume(choices: Choices, state: ClusterState) -> None:
    volume = a_volume(state, choices.pick((1, 2, 5)), choices.pick(("static", "static", "made")))
    if choices.chance(15):
        volume["spec"]["capacity"] = {"storage": fraction(2 * len(state.volumes))}
    if choices.chance(70):
        tie(choices, state, volume)
    if choices.chance(20):
        volume["metadata"]["labels"] = {"tier": choices.pick(("fast", "slow"))}
    if choices.chance(10):
        volume["spec"]["accessModes"] = ["ReadOnlyMany", "ReadWriteMany"]
    if choices.chance(10):
        volume["spec"]["volumeMode"] = "Block"
    if choices.chance(10):
        volume["status"]["phase"] = choices.pick(("Released", "Failed"))
    if choices.chance(5):
        volume["metadata"] |= {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["x/y"]}


#: Kinds of claims. Those that make all nodes infeasible are rare, because they hide other reasons.
_KINDS: Final = (*("static",) * 5, *("bound",) * 9, "made", "made", "made", "now", "prebound")
_WRONG: Final = (*("lost", "vanished", "leaving") * 3, "now", "now", "prebound", "bound", "classless", "unknown")


def _claim_of_kind(choices: Choices, state: ClusterState, namespace: str, kind: str) -> None:
    of_class = {"classless": "", "unknown": "unknown", "made": "made", "now": "now"}.get(kind, "static")
    claim = a_claim(state, namespace, of_class, choices.pick((1, 2, 5)))
    if kind in {"bound", "lost", "vanished", "leaving", "prebound"}:
        volume = a_volume(state, 5, of_class)
        if choices.chance(90):
            tie(choices, state, volume)
        bind(claim, volume)
    match kind:
        case "lost":
            claim["status"]["phase"] = "Lost"
            state.volumes.pop()
        case "vanished":
            claim["spec"]["volumeName"] = "vanished"
        case "leaving":
            claim["metadata"] |= {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["x/y"]}
        case "prebound":
            del claim["metadata"]["annotations"]
            claim["status"] = {"phase": "Pending"}
            if choices.chance(50):  # the volume references the claim, the claim no volume
                del claim["spec"]["volumeName"]
        case "static" | "made":
            _particular(choices, state, claim)
        case _:
            pass


def _particular(choices: Choices, state: ClusterState, claim: Raw) -> None:
    spec = claim["spec"]
    if choices.chance(15):
        spec["resources"]["requests"]["storage"] = fraction(1 + 2 * choices.below(8))
    if choices.chance(15):
        selectors: tuple[Raw, ...] = (
            {"matchLabels": {"tier": "fast"}},
            {"matchExpressions": [{"key": "tier", "operator": choices.pick(("NotIn", "In")), "values": ["fast"]}]},
        )
        spec["selector"] = choices.pick(selectors)
    if choices.chance(10):
        spec["accessModes"] = ["ReadWriteMany"]
    if choices.chance(10):
        spec["volumeMode"] = "Block"
    if choices.chance(15):
        node = choices.pick(state.nodes)["metadata"]["name"]
        claim["metadata"]["annotations"] = {SELECTED_NODE: node}


def _ephemeral(choices: Choices, state: ClusterState, pod: Raw) -> None:
    """A generic ephemeral volume, whose claim exists, is missing, or belongs to another owner."""
    metadata = pod["metadata"]
    name = f"v{len(pod['spec'].get('volumes', []))}"
    template: Raw = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    template["storageClassName"] = "made"
    mount(pod, {"ephemeral": {"volumeClaimTemplate": {"spec": template}}})
    if choices.chance(60):
        claim = a_claim(state, metadata["namespace"], "made", name=f"{metadata['name']}-{name}")
        if choices.chance(35):
            owner: Raw = {"apiVersion": "v1", "kind": "Pod", "name": metadata["name"], "uid": metadata["uid"]}
            claim["metadata"]["ownerReferences"] = [{**owner, "controller": True}]


class Provisioning(Scenario):
    """Classes whose provisioner is limited to some zones, or has a pool that may be too small."""

    def objects(self, choices: Choices, state: ClusterState) -> None:
        state.classes += [
            a_class("zonal", zones=choices.some(ZONES, 2, at_least=1)),
            a_class("pooled", provisioner=POOLED),
            a_class("nobody", provisioner="kubernetes.io/no-provisioner"),
        ]
        state.drivers.append({"metadata": {"name": POOLED}, "spec": {"storageCapacity": choices.chance(92)}})
        for number in range(choices.pick((1, 0, 2))):
            _pool(choices, state, number)
        for namespace in _CLAIMED_IN:
            for of_class in ("pooled", "zonal", choices.pick(("pooled", "pooled", "nobody"))):
                claim = a_claim(state, namespace, of_class, choices.pick((1, 2, 5)))
                if choices.chance(15):
                    claim["spec"]["resources"]["requests"]["storage"] = fraction(choices.below(4))
                if choices.chance(8):
                    node = choices.pick(state.nodes)["metadata"]["name"]
                    claim["metadata"]["annotations"] = {SELECTED_NODE: node}

    def pending(self, choices: Choices, state: ClusterState, pod: Raw) -> None:
        use_claims(choices, state, pod, 2)


def _pool(choices: Choices, state: ClusterState, number: int) -> None:
    pool: Raw = {
        "metadata": {"name": f"pool-{number}", "namespace": "kube-system"},
        "storageClassName": choices.pick(("pooled", "pooled", "zonal")),
    }
    if choices.chance(90):
        expression = {
            "key": ZONE,
            "operator": choices.pick(("In", "NotIn")),
            "values": choices.some(ZONES, 2, at_least=1),
        }
        topologies: tuple[Raw, ...] = (
            {"matchLabels": {ZONE: choices.pick(ZONES)}},
            {},
            {"matchExpressions": [expression]},
        )
        pool["nodeTopology"] = choices.pick(topologies)
    if choices.chance(90):
        pool["capacity"] = choices.pick(("3Gi", "1Gi", "10Gi", fraction(choices.below(4))))
    if choices.chance(25):
        pool["maximumVolumeSize"] = choices.pick(("1Gi", "2Gi"))
    state.capacities.append(pool)


class Zones(Scenario):
    """Bound volumes with labels of zones and regions, old and new, one or several."""

    def node(self, choices: Choices, node: Raw) -> None:
        labels = node["metadata"]["labels"]
        if choices.chance(25) and ZONE in labels:
            labels[_OLD_ZONE] = labels[ZONE]
            if choices.chance(50):
                del labels[ZONE]

    def objects(self, choices: Choices, state: ClusterState) -> None:
        state.classes += [a_class("labelled", mode="Immediate"), a_class("later", mode=LATE)]
        for namespace in _CLAIMED_IN:
            for _ in range(3):
                volume = a_volume(state, 1, "labelled")
                zone = choices.pick(("a", "b", "c", "a__b", "b__c", "d"))
                labels = {choices.pick((ZONE, ZONE, _OLD_ZONE)): zone}
                if choices.chance(30):
                    labels[choices.pick((REGION, _OLD_REGION))] = choices.pick(("north", "south"))
                volume["metadata"]["labels"] = labels
                bind(a_claim(state, namespace, "labelled"), volume)
            a_claim(state, namespace, "later")

    def pending(self, choices: Choices, state: ClusterState, pod: Raw) -> None:
        if claims_of(state, pod):
            use_claims(choices, state, pod, 2)
