"""Themes about volumes: disks that one pod uses, how many a node attaches, where a claim may become bound, zones."""

from __future__ import annotations

from typing import Final

from tests.judge.dice import Dice
from tests.judge.scene import REGION, ZONE, ZONES, Raw, Scene
from tests.judge.themes.storage import (
    DRIVER,
    LATE,
    POOLED,
    SELECTED_NODE,
    a_claim,
    a_class,
    a_volume,
    bind,
    claims_of,
    mount,
    tie,
    use_claims,
)
from tests.judge.themes.theme import Theme

_CLAIMED_IN: Final = ("red", "blue")
_OLD_ZONE: Final = "failure-domain.beta.kubernetes.io/zone"
_OLD_REGION: Final = "failure-domain.beta.kubernetes.io/region"


class Disks(Theme):
    """Disks named in pods themselves, mostly of one kind in a cluster."""

    def objects(self, dice: Dice, scene: Scene) -> None:
        scene.chosen["disk"] = dice.pick(("gce", "aws", "iscsi", "rbd"))

    def running(self, dice: Dice, scene: Scene, pod: Raw) -> None:
        if dice.chance(70):
            mount(pod, _disk(dice, scene))

    def pending(self, dice: Dice, scene: Scene, pod: Raw) -> None:
        for _ in range(dice.pick((1, 1, 2))):
            mount(pod, _disk(dice, scene))


class Single(Theme):
    """Claims that one pod only may use."""

    def objects(self, dice: Dice, scene: Scene) -> None:
        scene.classes.append(a_class("single"))
        for namespace in _CLAIMED_IN:
            for _ in range(3):
                claim = a_claim(scene, namespace, "single")
                volume = a_volume(scene, 1, "single")
                if dice.chance(70):
                    claim["spec"]["accessModes"] = volume["spec"]["accessModes"] = ["ReadWriteOncePod"]
                bind(claim, volume)

    def running(self, dice: Dice, scene: Scene, pod: Raw) -> None:
        if dice.chance(40):
            use_claims(dice, scene, pod, 1)

    def pending(self, dice: Dice, scene: Scene, pod: Raw) -> None:
        use_claims(dice, scene, pod, 3)


def _disk(dice: Dice, scene: Scene) -> Raw:
    kind = scene.chosen["disk"] if dice.chance(80) else dice.pick(("gce", "aws", "iscsi", "rbd"))
    read_only = {"readOnly": True} if dice.chance(40) else {}
    which = dice.pick(("x", "x", "y"))
    match kind:
        case "gce":
            return {"gcePersistentDisk": {"pdName": which, **read_only}}
        case "aws":
            return {"awsElasticBlockStore": {"volumeID": f"vol-{which}", **read_only}}
        case "iscsi":
            portal = dice.pick(("10.0.0.1:3260", "10.0.0.2:3260"))
            return {
                "iscsi": {
                    "targetPortal": portal,
                    "iqn": f"iqn.2026-01.com.example:{which}",
                    "lun": dice.below(2),
                    **read_only,
                }
            }
        case _:
            monitors = dice.some(("m1", "m2", "m3"), 2, at_least=1)
            pool = dice.pick(("rbd", "rbd", "other"))
            return {"rbd": {"monitors": monitors, "pool": pool, "image": which, **read_only}}


class Limits(Theme):
    """Nodes that attach few volumes, claims that share them, and attachments that no pod explains."""

    def objects(self, dice: Dice, scene: Scene) -> None:
        scene.classes += [a_class("limited"), a_class("gce", provisioner="kubernetes.io/gce-pd")]
        for namespace in _CLAIMED_IN:
            for _ in range(4):
                _attachable(dice, scene, namespace)
        names = [node["metadata"]["name"] for node in scene.nodes]
        for name in names:
            if dice.chance(85):
                scene.csi_nodes.append(_csi_node(dice, name))
        for number in range(dice.below(4)):
            volume = dice.pick([volume["metadata"]["name"] for volume in scene.volumes] + ["gone"])
            source: Raw = {"persistentVolumeName": volume}
            spec = {
                "attacher": dice.pick((DRIVER, "other.example.com")),
                "nodeName": dice.pick(names),
                "source": source,
            }
            scene.attachments.append({"metadata": {"name": f"a{number}"}, "spec": spec, "status": {"attached": True}})

    def running(self, dice: Dice, scene: Scene, pod: Raw) -> None:
        use_claims(dice, scene, pod, 2, missing=10)

    def pending(self, dice: Dice, scene: Scene, pod: Raw) -> None:
        use_claims(dice, scene, pod, 3)
        if dice.chance(15):
            mount(pod, {"gcePersistentDisk": {"pdName": dice.pick(("x", "y"))}})


def _attachable(dice: Dice, scene: Scene, namespace: str) -> None:
    kind = dice.pick(("bound", "bound", "bound", "late", "in-tree", "shared"))
    match kind:
        case "late":
            a_claim(scene, namespace, dice.pick(("limited", "gce")))
        case "in-tree":
            volume = a_volume(scene, 1, "gce", {"gcePersistentDisk": {"pdName": dice.pick(("x", "y"))}})
            bind(a_claim(scene, namespace, "gce"), volume)
        case _:
            volume = a_volume(scene, 1, "limited")
            if kind == "shared":
                volume["spec"]["csi"]["volumeHandle"] = "handle-0"
            bind(a_claim(scene, namespace, "limited"), volume)


def _csi_node(dice: Dice, name: str) -> Raw:
    drivers: list[Raw] = [_driver(dice, DRIVER, name)]
    metadata: Raw = {"name": name}
    if dice.chance(50):
        drivers.append(_driver(dice, "pd.csi.storage.gke.io", name))
        if dice.chance(70):
            metadata["annotations"] = {"storage.alpha.kubernetes.io/migrated-plugins": "kubernetes.io/gce-pd"}
    return {"metadata": metadata, "spec": {"drivers": drivers}}


def _driver(dice: Dice, driver: str, node: str) -> Raw:
    found: Raw = {"name": driver, "nodeID": node, "topologyKeys": []}
    if dice.chance(85):
        found["allocatable"] = {"count": dice.pick((1, 2, 0, 3))}
    return found


class Binding(Theme):
    """Claims that are bound, and volumes for those that are not."""

    def objects(self, dice: Dice, scene: Scene) -> None:
        scene.classes += [
            a_class("static", provisioner="kubernetes.io/no-provisioner"),
            a_class("made"),
            a_class("now", mode="Immediate"),
        ]
        for _ in range(dice.between(1, 3)):
            _free_volume(dice, scene)
        for namespace in _CLAIMED_IN:
            for _ in range(4):
                _claimed(dice, scene, namespace, dice.pick(_KINDS))

    def running(self, dice: Dice, scene: Scene, pod: Raw) -> None:
        if dice.chance(10):
            use_claims(dice, scene, pod, 1)

    def pending(self, dice: Dice, scene: Scene, pod: Raw) -> None:
        use_claims(dice, scene, pod, 2)


class Claims(Theme):
    """Claims with which a pod can go nowhere, for one reason or another."""

    def objects(self, dice: Dice, scene: Scene) -> None:
        scene.classes += [
            a_class("static", provisioner="kubernetes.io/no-provisioner"),
            a_class("made"),
            a_class("now", mode="Immediate"),
        ]
        for namespace in _CLAIMED_IN:
            for _ in range(6):
                _claimed(dice, scene, namespace, dice.pick(_WRONG))

    def pending(self, dice: Dice, scene: Scene, pod: Raw) -> None:
        if dice.chance(70):
            use_claims(dice, scene, pod, 1, missing=22)
        else:
            _ephemeral(dice, scene, pod)


def _free_volume(dice: Dice, scene: Scene) -> None:
    volume = a_volume(scene, dice.pick((1, 2, 5)), dice.pick(("static", "static", "made")))
    if dice.chance(70):
        tie(dice, scene, volume)
    if dice.chance(20):
        volume["metadata"]["labels"] = {"tier": dice.pick(("fast", "slow"))}
    if dice.chance(10):
        volume["spec"]["accessModes"] = ["ReadOnlyMany", "ReadWriteMany"]
    if dice.chance(10):
        volume["spec"]["volumeMode"] = "Block"
    if dice.chance(10):
        volume["status"]["phase"] = dice.pick(("Released", "Failed"))
    if dice.chance(5):
        volume["metadata"] |= {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["x/y"]}


#: Kinds of claims; those that keep a pod from every node are rare, for they hide all else.
_KINDS: Final = (*("static",) * 5, *("bound",) * 9, "made", "made", "made", "now", "prebound")
_WRONG: Final = (*("lost", "vanished", "leaving") * 3, "now", "now", "prebound", "bound", "classless", "unknown")


def _claimed(dice: Dice, scene: Scene, namespace: str, kind: str) -> None:
    of_class = {"classless": "", "unknown": "unknown", "made": "made", "now": "now"}.get(kind, "static")
    claim = a_claim(scene, namespace, of_class, dice.pick((1, 2, 5)))
    if kind in {"bound", "lost", "vanished", "leaving", "prebound"}:
        volume = a_volume(scene, 5, of_class)
        if dice.chance(90):
            tie(dice, scene, volume)
        bind(claim, volume)
    match kind:
        case "lost":
            claim["status"]["phase"] = "Lost"
            scene.volumes.pop()
        case "vanished":
            claim["spec"]["volumeName"] = "vanished"
        case "leaving":
            claim["metadata"] |= {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["x/y"]}
        case "prebound":
            del claim["metadata"]["annotations"]
            claim["status"] = {"phase": "Pending"}
            if dice.chance(50):  # the volume names the claim, the claim no volume
                del claim["spec"]["volumeName"]
        case "static" | "made":
            _particular(dice, scene, claim)
        case _:
            pass


def _particular(dice: Dice, scene: Scene, claim: Raw) -> None:
    spec = claim["spec"]
    if dice.chance(15):
        selectors: tuple[Raw, ...] = (
            {"matchLabels": {"tier": "fast"}},
            {"matchExpressions": [{"key": "tier", "operator": dice.pick(("NotIn", "In")), "values": ["fast"]}]},
        )
        spec["selector"] = dice.pick(selectors)
    if dice.chance(10):
        spec["accessModes"] = ["ReadWriteMany"]
    if dice.chance(10):
        spec["volumeMode"] = "Block"
    if dice.chance(15):
        node = dice.pick(scene.nodes)["metadata"]["name"]
        claim["metadata"]["annotations"] = {SELECTED_NODE: node}


def _ephemeral(dice: Dice, scene: Scene, pod: Raw) -> None:
    """A generic ephemeral volume, whose claim is there, not yet there, or somebody else's."""
    metadata = pod["metadata"]
    name = f"v{len(pod['spec'].get('volumes', []))}"
    template: Raw = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    template["storageClassName"] = "made"
    mount(pod, {"ephemeral": {"volumeClaimTemplate": {"spec": template}}})
    if dice.chance(60):
        claim = a_claim(scene, metadata["namespace"], "made", name=f"{metadata['name']}-{name}")
        if dice.chance(35):
            owner: Raw = {"apiVersion": "v1", "kind": "Pod", "name": metadata["name"], "uid": metadata["uid"]}
            claim["metadata"]["ownerReferences"] = [{**owner, "controller": True}]


class Provisioning(Theme):
    """Classes whose provisioner reaches some zones only, or has a pool that may be too small."""

    def objects(self, dice: Dice, scene: Scene) -> None:
        scene.classes += [
            a_class("zonal", zones=dice.some(ZONES, 2, at_least=1)),
            a_class("pooled", provisioner=POOLED),
            a_class("nobody", provisioner="kubernetes.io/no-provisioner"),
        ]
        scene.drivers.append({"metadata": {"name": POOLED}, "spec": {"storageCapacity": dice.chance(92)}})
        for number in range(dice.pick((1, 0, 2))):
            _pool(dice, scene, number)
        for namespace in _CLAIMED_IN:
            for of_class in ("pooled", "zonal", dice.pick(("pooled", "pooled", "nobody"))):
                claim = a_claim(scene, namespace, of_class, dice.pick((1, 2, 5)))
                if dice.chance(8):
                    node = dice.pick(scene.nodes)["metadata"]["name"]
                    claim["metadata"]["annotations"] = {SELECTED_NODE: node}

    def pending(self, dice: Dice, scene: Scene, pod: Raw) -> None:
        use_claims(dice, scene, pod, 2)


def _pool(dice: Dice, scene: Scene, number: int) -> None:
    pool: Raw = {
        "metadata": {"name": f"pool-{number}", "namespace": "kube-system"},
        "storageClassName": dice.pick(("pooled", "pooled", "zonal")),
    }
    if dice.chance(90):
        expression = {"key": ZONE, "operator": dice.pick(("In", "NotIn")), "values": dice.some(ZONES, 2, at_least=1)}
        topologies: tuple[Raw, ...] = (
            {"matchLabels": {ZONE: dice.pick(ZONES)}},
            {},
            {"matchExpressions": [expression]},
        )
        pool["nodeTopology"] = dice.pick(topologies)
    if dice.chance(90):
        pool["capacity"] = dice.pick(("3Gi", "1Gi", "10Gi"))
    if dice.chance(25):
        pool["maximumVolumeSize"] = dice.pick(("1Gi", "2Gi"))
    scene.capacities.append(pool)


class Zones(Theme):
    """Bound volumes with labels of zones and regions, old and new, one or several."""

    def node(self, dice: Dice, node: Raw) -> None:
        labels = node["metadata"]["labels"]
        if dice.chance(25) and ZONE in labels:
            labels[_OLD_ZONE] = labels[ZONE]
            if dice.chance(50):
                del labels[ZONE]

    def objects(self, dice: Dice, scene: Scene) -> None:
        scene.classes += [a_class("labelled", mode="Immediate"), a_class("later", mode=LATE)]
        for namespace in _CLAIMED_IN:
            for _ in range(3):
                volume = a_volume(scene, 1, "labelled")
                zone = dice.pick(("a", "b", "c", "a__b", "b__c", "d"))
                labels = {dice.pick((ZONE, ZONE, _OLD_ZONE)): zone}
                if dice.chance(30):
                    labels[dice.pick((REGION, _OLD_REGION))] = dice.pick(("north", "south"))
                volume["metadata"]["labels"] = labels
                bind(a_claim(scene, namespace, "labelled"), volume)
            a_claim(scene, namespace, "later")

    def pending(self, dice: Dice, scene: Scene, pod: Raw) -> None:
        if claims_of(scene, pod):
            use_claims(dice, scene, pod, 2)
