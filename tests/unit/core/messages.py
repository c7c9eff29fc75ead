"""Builders of Scheduler Interface messages with defaults. A test specifies only the values that matter to it."""

from collections.abc import Mapping
from typing import Any

from muster_core.model.ids import RmId
from muster_core.runtime.sessions import Decoder
from muster_si import si_pb2

RM = RmId("rm-1")


def a_decoder(*partitions: str) -> Decoder:
    return Decoder(RM, partitions or ("default",))


def a_resource(**amounts: int) -> si_pb2.Resource:
    return si_pb2.Resource(resources={name: si_pb2.Quantity(value=amount) for name, amount in amounts.items()})


def an_ask(key: str = "pod-1", **fields: Any) -> si_pb2.AllocationAsk:
    defaults: dict[str, Any] = {
        "allocationKey": key,
        "applicationID": "app-1",
        "partitionName": "default",
        "resourceAsk": a_resource(vcore=1000, memory=2**30, pods=1),
        "maxAllocations": 1,
    }
    return si_pb2.AllocationAsk(**defaults | fields)


def an_allocation(key: str = "pod-1", **fields: Any) -> si_pb2.Allocation:
    defaults: dict[str, Any] = {
        "allocationKey": key,
        "applicationID": "app-1",
        "partitionName": "default",
        "nodeID": "node-1",
        "resourcePerAlloc": a_resource(vcore=1000),
    }
    return si_pb2.Allocation(**defaults | fields)


def a_release(key: str = "pod-1", **fields: Any) -> si_pb2.AllocationRelease:
    defaults: dict[str, Any] = {
        "allocationKey": key,
        "applicationID": "app-1",
        "partitionName": "default",
        "terminationType": si_pb2.STOPPED_BY_RM,
    }
    return si_pb2.AllocationRelease(**defaults | fields)


def an_ask_release(key: str = "pod-1", **fields: Any) -> si_pb2.AllocationAskRelease:
    defaults: dict[str, Any] = {
        "allocationKey": key,
        "applicationID": "app-1",
        "partitionName": "default",
        "terminationType": si_pb2.STOPPED_BY_RM,
    }
    return si_pb2.AllocationAskRelease(**defaults | fields)


def an_application(name: str = "app-1", **fields: Any) -> si_pb2.AddApplicationRequest:
    defaults: dict[str, Any] = {
        "applicationID": name,
        "queueName": "root.default",
        "partitionName": "default",
        "ugi": si_pb2.UserGroupInformation(user="alice", groups=["dev"]),
        "tags": {"namespace": "default"},
    }
    return si_pb2.AddApplicationRequest(**defaults | fields)


def a_node(name: str = "node-1", **fields: Any) -> si_pb2.NodeInfo:
    defaults: dict[str, Any] = {
        "nodeID": name,
        "action": si_pb2.NodeInfo.CREATE,
        "schedulableResource": a_resource(vcore=8000, memory=2**34, pods=110),
    }
    return si_pb2.NodeInfo(**defaults | fields)


def asks(*items: si_pb2.AllocationAsk) -> si_pb2.AllocationRequest:
    return si_pb2.AllocationRequest(rmID=RM, asks=items)


def allocations(*items: si_pb2.Allocation) -> si_pb2.AllocationRequest:
    return si_pb2.AllocationRequest(rmID=RM, allocations=items)


def releases(*items: si_pb2.AllocationRelease) -> si_pb2.AllocationRequest:
    return si_pb2.AllocationRequest(rmID=RM, releases=si_pb2.AllocationReleasesRequest(allocationsToRelease=items))


def ask_releases(*items: si_pb2.AllocationAskRelease) -> si_pb2.AllocationRequest:
    return si_pb2.AllocationRequest(rmID=RM, releases=si_pb2.AllocationReleasesRequest(allocationAsksToRelease=items))


def applications(*items: si_pb2.AddApplicationRequest) -> si_pb2.ApplicationRequest:
    return si_pb2.ApplicationRequest(rmID=RM, new=items)


def nodes(*items: si_pb2.NodeInfo) -> si_pb2.NodeRequest:
    return si_pb2.NodeRequest(rmID=RM, nodes=items)


def tagged(tags: Mapping[str, str]) -> si_pb2.AllocationRequest:
    """Return a request with one ask with these tags."""
    return asks(an_ask(tags=tags))
