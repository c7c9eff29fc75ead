"""Rules: slices, classes and claims of devices are added, changed and removed; claims show what was chosen, or not."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from muster_core.model.constraints import Requirement, Term
from muster_core.model.devices import (
    DeviceAllocation,
    DeviceClaim,
    DeviceFact,
    DeviceObject,
    DeviceObjectGone,
    DeviceSlice,
    NodeAccess,
    PodClaim,
)
from muster_core.model.events import ClusterObjectsReported
from muster_core.model.ids import NodeId
from muster_core.model.specs import PodProperties
from tests.unit.builders import PARTITION
from tests.unit.core.placement.devices.device_clusters import ANY, DRIVER, a_claim, a_device, a_slice, got, wanting
from tests.unit.core.scheduling.random_events.base import Ground

_NAMES = ("x", "y", "z")

#: Pods with one or two claims of devices.
USERS: tuple[PodProperties, ...] = (
    PodProperties(devices=(PodClaim("ns/x", "uid-x"),)),
    PodProperties(devices=(PodClaim("ns/y", "uid-y"), PodClaim("ns/z", "uid-z"))),
)
_SSD = NodeAccess(terms=(Term((Requirement("disk", "In", ("ssd",)),)),))
_REACHES = (NodeAccess(node=NodeId("first")), NodeAccess(node=NodeId("second")), NodeAccess(everywhere=True), _SSD)
_NEW = f'device.attributes["{DRIVER}"].new'


@st.composite
def _slices(draw: st.DrawFn) -> DeviceSlice:
    name, reach = draw(st.sampled_from(("s", "t"))), draw(st.sampled_from(_REACHES))
    devices = [a_device(f"d{number}", new=draw(st.booleans())) for number in range(draw(st.integers(0, 2)))]
    count, generation = draw(st.sampled_from([1, 1, 1, 2])), draw(st.integers(1, 2))
    return a_slice(name, reach, *devices, pool=draw(st.sampled_from(("p", "q"))), count=count, generation=generation)


@st.composite
def _claims(draw: st.DrawFn) -> DeviceClaim:
    selectors = draw(st.sampled_from([(), (), (_NEW,)]))
    request = wanting(
        draw(st.integers(1, 2)), selectors=selectors, everything=draw(st.sampled_from([False, False, True]))
    )
    claim = a_claim(draw(st.sampled_from(_NAMES)), request)
    if draw(st.integers(0, 3)):
        return claim
    return replace(claim, allocation=got("p", "d0", reach=draw(st.sampled_from(_REACHES))), reserved=1)


def _gone() -> st.SearchStrategy[DeviceFact]:
    names = {DeviceObject.SLICE: ("s", "t"), DeviceObject.CLAIM: tuple(f"ns/{one}" for one in _NAMES)}
    found = [DeviceObjectGone(kind, name) for kind, some in names.items() for name in some]
    return st.sampled_from([*found, DeviceObjectGone(DeviceObject.CLASS, "any")])


class Equipped(Ground):
    """Rules of devices."""

    @rule(facts=st.lists(st.one_of(_slices(), _slices(), _claims(), _gone(), st.just(ANY)), min_size=1, max_size=4))
    def report_devices(self, facts: list[DeviceFact]) -> None:
        """Send new and changed facts of devices in any order."""
        self.send(ClusterObjectsReported(PARTITION, tuple(facts)))

    @rule()
    def report_all_devices(self) -> None:
        """Send what a pod with claims needs to be placed."""
        there = a_slice(
            "s", NodeAccess(everywhere=True), *(a_device(f"d{number}", new=True) for number in range(4)), pool="p"
        )
        self.send(ClusterObjectsReported(PARTITION, (ANY, there, *map(a_claim, _NAMES))))

    @precondition(lambda self: self.nodes() and self.partition.nodes.pods_on_nodes.devices.assumed)
    @rule(data=st.data())
    def show_devices(self, data: st.DataObject) -> None:
        """A claim shows the devices that were chosen for it."""
        devices = self.partition.nodes.pods_on_nodes.devices
        chosen = devices.assumed[data.draw(st.sampled_from(sorted(devices.assumed)))]
        allocation: DeviceAllocation = chosen.allocation
        claim = replace(devices.claims[chosen.claim], allocation=allocation, reserved=1)
        self.send(ClusterObjectsReported(PARTITION, (claim,)))
