"""Rules: volumes, claims and storage classes are added, changed and removed; attach limits of nodes change."""

from dataclasses import replace

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from muster_core.model.constraints import Requirement, Term
from muster_core.model.events import ClusterObjectsReported, NodeUpdated
from muster_core.model.ids import NodeId
from muster_core.model.specs import Disk, PodProperties, Volumes
from muster_core.model.storage import (
    AVAILABLE,
    ONE_POD,
    Claim,
    ClaimDemand,
    ClaimReference,
    NodeStorage,
    ObjectGone,
    ObjectKind,
    StorageClass,
    StorageFact,
    Volume,
    VolumeHandle,
)
from tests.unit.builders import PARTITION
from tests.unit.core.scheduling.random_events.base import Ground

#: Pods with claims, an ephemeral claim, and a disk.
MOUNTS: tuple[PodProperties, ...] = (
    PodProperties(volumes=Volumes(claims=("ns/a",))),
    PodProperties(volumes=Volumes(claims=("ns/b", "ns/c"))),
    PodProperties(volumes=Volumes(claims=("ns/c",), attached=(VolumeHandle("driver", "own"),))),
    PodProperties(volumes=Volumes(disks=(Disk("gce", "x"),))),
)
_SSD = (Term((Requirement("disk", "In", ("ssd",)),)),)
_CLAIMS, _VOLUMES = ("ns/a", "ns/b", "ns/c"), ("u", "v", "w")


def _classes() -> st.SearchStrategy[StorageFact]:
    delayed = st.sampled_from([True, True, True, False])
    provisioners = st.sampled_from(["", "maker"])
    return st.builds(lambda maker, late: StorageClass("late", maker, "driver", late), provisioners, delayed)


@st.composite
def _volumes(draw: st.DrawFn) -> StorageFact:
    name, claim = draw(st.sampled_from(_VOLUMES)), draw(st.sampled_from([None, None, *_CLAIMS]))
    volume = Volume(
        name, draw(st.integers(1, 3)), (ONE_POD,), storage_class="late", handle=VolumeHandle("driver", name)
    )
    reference = None if claim is None else ClaimReference(claim)
    affinity = draw(st.sampled_from([None, _SSD]))
    return replace(
        volume, phase=draw(st.sampled_from([AVAILABLE] * 3 + ["Bound"])), reference=reference, affinity=affinity
    )


@st.composite
def _claims(draw: st.DrawFn) -> StorageFact:
    modes = draw(st.sampled_from([(), (), (ONE_POD,)]))
    claim = Claim(draw(st.sampled_from(_CLAIMS)), request=draw(st.integers(1, 2)), demand=ClaimDemand("late", modes))
    if draw(st.booleans()):
        return claim
    if draw(st.booleans()):
        return replace(claim, volume=draw(st.sampled_from(_VOLUMES)), bound=True)
    return replace(claim, selected_node=NodeId(draw(st.sampled_from(["first", "second"]))))


def _gone() -> st.SearchStrategy[StorageFact]:
    names = {ObjectKind.VOLUME: _VOLUMES, ObjectKind.CLAIM: _CLAIMS, ObjectKind.CLASS: ("late",)}
    return st.sampled_from([ObjectGone(kind, name) for kind, some in names.items() for name in some])


class Stored(Ground):
    """Rules of storage."""

    @rule(
        facts=st.lists(
            st.one_of(_volumes(), _volumes(), _claims(), _claims(), _classes(), _gone()), min_size=1, max_size=5
        )
    )
    def report_storage(self, facts: list[StorageFact]) -> None:
        """Send new and changed storage facts in any order."""
        self.send(ClusterObjectsReported(PARTITION, tuple(facts)))

    @precondition(lambda self: self.nodes())
    @rule(data=st.data(), most=st.sampled_from([0, 1, 2, None]), attached=st.sampled_from([(), ("u",), ("old", "own")]))
    def report_attachments(self, data: st.DataObject, most: int | None, attached: tuple[str, ...]) -> None:
        """Change attach limit and attached volumes of a node, possibly above the limit."""
        spec = self.partition.nodes.record(NodeId(data.draw(st.sampled_from(self.nodes())))).spec
        storage = NodeStorage({"driver": most}, tuple(VolumeHandle("driver", one) for one in attached))
        self.send(NodeUpdated(replace(spec, storage=storage)))

    @rule()
    def report_all_storage(self) -> None:
        """Send the storage facts that a pod with claims needs to be placed."""
        volumes = (Volume(name, 3, storage_class="late", phase=AVAILABLE) for name in _VOLUMES)
        claims = (Claim(name, request=1, demand=ClaimDemand("late")) for name in _CLAIMS)
        self.send(
            ClusterObjectsReported(
                PARTITION, (StorageClass("late", "maker", "driver", delayed=True), *volumes, *claims)
            )
        )
