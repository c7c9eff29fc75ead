"""Builders of nodes with storage, and queries of feasible nodes, for the tests of volume filters."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from muster_core.model.config import NodeSort
from muster_core.model.constraints import Requirement, Term
from muster_core.model.ids import NodeId
from muster_core.model.specs import Disk, NodeSpec, PodOnNode, PodProperties, Volumes
from muster_core.model.storage import (
    AVAILABLE,
    Choice,
    Claim,
    ClaimDemand,
    ClaimReference,
    NodeStorage,
    StorageClass,
    StorageFact,
    Volume,
    VolumeHandle,
)
from muster_core.placement import node_search
from muster_core.state.snapshot import RequestShape, Snapshot
from tests.unit.builders import a_node, resources
from tests.unit.core.placement.tables import a_table, named

HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
DRIVER = "csi.example.com"
GIB = 1 << 30
LATE = StorageClass("late", "kubernetes.io/no-provisioner", DRIVER, delayed=True)
MADE = StorageClass("made", "maker.example.com", DRIVER, delayed=True)
ONE_TO_ONE = "ReadWriteOnce"


def on(key: str, *values: str) -> tuple[Term, ...]:
    """Return a node affinity to nodes with one of these values of a label."""
    return (Term((Requirement(key, "In", values),)),)


def a_volume(name: str, gib: int = 1, *, of: str = "late", **fields: Any) -> Volume:
    """Return an available ReadWriteOnce volume."""
    found = Volume(name, gib * GIB, (ONE_TO_ONE,), storage_class=of, phase=AVAILABLE, handle=VolumeHandle(DRIVER, name))
    return replace(found, **fields)


def a_claim(name: str, gib: int = 1, *, of: str = "late", **fields: Any) -> Claim:
    """Return an unbound claim in namespace ns."""
    modes = fields.pop("modes", (ONE_TO_ONE,))
    demand = ClaimDemand(of, modes, **{field: fields.pop(field) for field in ("mode", "selector") if field in fields})
    return replace(Claim(f"ns/{name}", f"uid-{name}", request=gib * GIB, demand=demand), **fields)


def bound(name: str, volume: Volume, **fields: Any) -> tuple[Claim, Volume]:
    """Return a claim and the volume that it is bound to."""
    claim = a_claim(name, of=volume.storage_class, volume=volume.name, bound=True, phase="Bound", **fields)
    return claim, replace(volume, phase="Bound", reference=ClaimReference(claim.name, claim.uid))


def using(*claims: str, **fields: Any) -> Volumes:
    """Return the volumes of a pod with these claims of namespace ns."""
    return Volumes(claims=tuple(f"ns/{claim}" for claim in claims), **fields)


def a_disk(kind: str, name: str, *monitors: str, read_only: bool = False) -> Volumes:
    return Volumes(disks=(Disk(kind, name, read_only, monitors),))


def shape(volumes: Volumes, vcore: int = 1) -> RequestShape:
    return RequestShape(resources(vcore=vcore), pod_on_node=PodOnNode(facts=PodProperties(volumes=volumes)))


def attaching(name: str, most: int | None, *attached: str) -> NodeSpec:
    """Return a node with an attach limit of the driver, and these attached volumes."""
    storage = NodeStorage({DRIVER: most}, tuple(VolumeHandle(DRIVER, one) for one in attached))
    return replace(a_node(name), storage=storage)


class Stored:
    """Nodes, storage and pods. A node is given as a name, which is also its hostname, or as a spec."""

    def __init__(self, *nodes: str | NodeSpec, objects: tuple[StorageFact, ...] = ()) -> None:
        specs = (a_node(node, labels={HOST: node}) if isinstance(node, str) else node for node in nodes)
        self.table = a_table(*specs)
        self.send(LATE, MADE, *objects)

    def send(self, *facts: StorageFact) -> None:
        attachments = self.table.pods_on_nodes.attachments
        for fact in facts:
            attachments.resolved(attachments.storage.update(fact))

    def put(self, node: str, volumes: Volumes, count: int = 1) -> None:
        """Put `count` pods with these volumes on the node."""
        self.table.pods_on_nodes.attachments.use(self.table.rows.row(NodeId(node)), volumes, count)

    def assume(self, node: str, **volumes: str) -> None:
        """Assume that claims of pods on the node get these volumes."""
        for claim, volume in volumes.items():
            self.table.pods_on_nodes.attachments.storage.assume(f"ns/{claim}", volume, NodeId(node))

    def snapshot(self) -> Snapshot:
        return Snapshot(self.table)

    def free(self, volumes: Volumes, snapshot: Snapshot | None = None) -> str:
        """Return the feasible nodes of a pod with these volumes."""
        return named(node_search.allowed(snapshot or self.snapshot(), shape(volumes)), self.table)

    def reasons(self, volumes: Volumes, snapshot: Snapshot | None = None) -> Mapping[str, list[str]]:
        """Return the reasons of each infeasible node."""
        found: dict[str, list[str]] = {}
        for reason, rows in node_search.refusals(snapshot or self.snapshot(), shape(volumes)):
            for node in named(rows, self.table).split():
                found.setdefault(node, []).append(reason)
        return found

    def text(self, volumes: Volumes) -> str:
        """Return the message in kube-scheduler's format."""
        return node_search.unschedulable_reason(self.snapshot(), shape(volumes)).text()

    def place(self, snapshot: Snapshot, volumes: Volumes, count: int = 1) -> str:
        """Return the planned nodes; a node repeats per pod."""
        spots = node_search.place(snapshot, shape(volumes), count, NodeSort())
        return " ".join(node for node, there in spots for _ in range(there))

    def choice(self, volumes: Volumes, snapshot: Snapshot | None = None) -> tuple[str, dict[str, str]]:
        """Return the planned node of one pod, and the volumes of its claims."""
        used = snapshot or self.snapshot()
        node = self.place(used, volumes)
        return node, _short(used.assumptions.choice(volumes.claims))


def _short(choice: Choice) -> dict[str, str]:
    return {claim.partition("/")[2]: volume for claim, volume in choice}
