"""NodePorts: which ports are equal and in use, also between members of one plan."""

import pytest

from muster_core.model.config import NodeSort
from muster_core.model.ids import NodeId
from muster_core.model.specs import HostPort, PodOnNode, PodProperties
from muster_core.placement import node_search
from muster_core.state.nodes import NodeTable
from muster_core.state.snapshot import RequestShape, Snapshot
from tests.unit.builders import resources
from tests.unit.core.placement.tables import a_table, having

EVERY = "0.0.0.0"  # noqa: S104 - what ports say, nobody listens there
HTTP = HostPort(EVERY, "TCP", 80)
REASON = "node(s) didn't have free ports for the requested pod ports"


def with_ports(*ports: HostPort) -> PodOnNode:
    return PodOnNode(facts=PodProperties(ports=ports))


def shape(*ports: HostPort, vcore: int = 1) -> RequestShape:
    return RequestShape(resources(vcore=vcore), pod_on_node=with_ports(*ports))


def nodes(*names: str) -> NodeTable:
    return a_table(*(having(name, {"vcore": 4}) for name in names))


@pytest.mark.parametrize(
    "wanted, taken, free",
    [
        (HTTP, HTTP, False),
        (HTTP, HostPort("10.0.0.1", "TCP", 80), False),
        (HostPort("10.0.0.1", "TCP", 80), HTTP, False),
        (HostPort("10.0.0.1", "TCP", 80), HostPort("10.0.0.1", "TCP", 80), False),
        (HostPort("10.0.0.1", "TCP", 80), HostPort("10.0.0.2", "TCP", 80), True),
        (HTTP, HostPort(EVERY, "UDP", 80), True),
        (HTTP, HostPort(EVERY, "TCP", 81), True),
        # Only 0.0.0.0 stands for every address, as in Kubernetes.
        (HTTP, HostPort("::", "TCP", 80), False),
        (HostPort("::", "TCP", 80), HostPort("::1", "TCP", 80), True),
    ],
)
def test_a_port_conflicts_if_protocol_number_and_address_overlap(
    wanted: HostPort, taken: HostPort, *, free: bool
) -> None:
    table = nodes("n1", "n2")
    table.pods_on_nodes.add(table.rows.row(NodeId("n1")), with_ports(taken))
    snapshot = Snapshot(table)
    assert node_search.fits_on(snapshot, shape(wanted), NodeId("n1")) is free
    assert node_search.fits_on(snapshot, shape(wanted), NodeId("n2"))
    table.pods_on_nodes.remove(table.rows.row(NodeId("n1")), with_ports(taken))
    assert node_search.fits_on(Snapshot(table), shape(wanted), NodeId("n1"))


def test_one_port_out_of_several_is_enough() -> None:
    table = nodes("n1")
    table.pods_on_nodes.add(table.rows.row(NodeId("n1")), with_ports(HTTP))
    request = shape(HostPort(EVERY, "TCP", 443), HTTP)
    assert node_search.unschedulable_reason(Snapshot(table), request).text() == f"0/1 nodes are available: 1 {REASON}."


def test_at_most_one_pod_of_a_shape_is_placed_on_a_node() -> None:
    table, sort = nodes("n1", "n2", "n3"), NodeSort()
    snapshot = Snapshot(table)
    assert node_search.place(snapshot, shape(HTTP), 5, sort) == [("n1", 1), ("n2", 1), ("n3", 1)]
    # Members of another shape in the same plan conflict with them, and ports are reported before resources.
    other = shape(HostPort("10.0.0.1", "TCP", 80), vcore=9)
    assert node_search.unschedulable_reason(snapshot, other).counts == ((REASON, 3),)


def test_a_plan_may_use_the_host_port_of_an_assumed_victim() -> None:
    table = nodes("n1")
    row = table.rows.row(NodeId("n1"))
    table.pods_on_nodes.add(row, with_ports(HTTP))
    snapshot = Snapshot(table)
    assert not node_search.fits_on(snapshot, shape(HTTP), NodeId("n1"))
    snapshot.enter(row, with_ports(HTTP), -1)
    assert node_search.fits_on(snapshot, shape(HTTP), NodeId("n1"))
