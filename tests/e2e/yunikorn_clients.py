"""What clients of YuniKorn read: endpoints of its REST API with field names and JSON types, and metrics with labels.

A shape is a type, a list of a shape, a mapping ``{str: shape}``, or a mapping of field names. A name that ends in ``?``
may be missing.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from devcluster.api import Json

Shape = Any


def each(names: str, shape: Shape) -> dict[str, Shape]:
    """Fields of the same shape, separated by blanks."""
    return dict.fromkeys(names.split(), shape)


NUMBER: Final = (int, float)
RESOURCES: Final = {str: int}
RESOURCE_SECONDS: Final = {str: {str: int}}
TAGS: Final = {str: str}

BUILD: Final = "arch buildDate buildVersion coreSHA goVersion isPluginVersion rmId shimSHA siSHA"
CLUSTER: Final = {
    "startTime": int,
    "rmBuildInformation": [each(BUILD, str)],
    "partition": str,
    "clusterName": str,
}
PARTITION: Final = {
    "clusterId": str,
    "name": str,
    "state": str,
    "lastStateTransitionTime": int,
    "capacity": {"capacity": RESOURCES, "usedCapacity": RESOURCES, "utilization": RESOURCES},
    "nodeSortingPolicy": {"type": str, "resourceWeights": {str: NUMBER}},
    "applications": {str: int},
    "totalContainers": int,
    "totalNodes": int,
    "preemptionEnabled": bool,
    "quotaPreemptionEnabled": bool,
}
FILTER: Final = {"type": str, "userList": [str], "groupList": [str], "userExp": str, "groupExp": str}
RULE: Final = {
    "name": str,
    "parameters": TAGS,
    "filter?": FILTER,
    "parentRule?": {"name": str, "parameters": TAGS},
}
QUEUE: Final = {
    "queuename": str,
    "status": str,
    "partition": str,
    **each("pendingResource maxResource guaranteedResource allocatedResource", RESOURCES),
    **each("preemptingResource headroom absUsedCapacity", RESOURCES),
    **each("isLeaf isManaged prioritySorting preemptionEnabled isPreemptionFence", bool),
    **each("isPriorityFence isQuotaPreemptionRunning", bool),
    **each("maxRunningApps runningApps currentPriority priorityOffset unschedAskBackoff", int),
    **each("parent sortingPolicy preemptionDelay quotaPreemptionDelay askBackoffDelay", str),
    "properties": TAGS,
    "template?": {
        "maxApplications": int,
        "maxResource": RESOURCES,
        "guaranteedResource": RESOURCES,
        "properties": TAGS,
    },
    "childNames": [str],
    "allocatingAcceptedApps": [str],
    "quotaPreemptionStartTime?": int,
}
QUEUES: Final = {**QUEUE, "children": [{**QUEUE, "children": [QUEUE]}]}

ALLOCATION: Final = {
    **each("allocationKey allocationID priority nodeId applicationId partition taskGroupName", str),
    **each("requestTime allocationTime allocationDelay", int),
    **each("placeholder placeholderUsed preempted originator", bool),
    "allocationTags": TAGS,
    "resource": RESOURCES,
}
REQUEST: Final = {
    **each("allocationKey priority requiredNodeId applicationId partition taskGroupName", str),
    **each("requestTime pendingCount placeholderTimeout", int),
    **each("placeholder triggeredPreemption originator schedulingAttempted triggeredScaleUp", bool),
    "allocationTags": TAGS,
    "resource": RESOURCES,
    "allocationLog": [{"message": str, "lastOccurrence": int, "count": int}],
}
APPLICATION: Final = {
    **each("applicationID partition queueName applicationState user rejectedMessage", str),
    **each("usedResource maxUsedResource pendingResource", RESOURCES),
    **each("submissionTime startTime maxRequestPriority", int),
    "finishedTime?": int,
    "groups": [str],
    "requests": [REQUEST],
    "allocations": [ALLOCATION],
    "stateLog": [{"time": int, "applicationState": str}],
    "placeholderData": [
        {"taskGroupName": str, "count": int, "minResource": RESOURCES, "replaced": int, "timedout": int}
    ],
    "hasReserved": bool,
    "reservations": [str],
    "resourceHistory": each("resourceUsage preemptedResource placeholderResource", RESOURCE_SECONDS),
    "backoffDeadline?": int,
}
ENDED: Final = APPLICATION | {"finishedTime": int, "requests": [], "allocations": [], "placeholderData": []}

FOREIGN: Final = {
    **each("allocationKey priority nodeId", str),
    "allocationTags": TAGS,
    "allocationTime": int,
    "resource": RESOURCES,
    "preemptable": bool,
}
NODE: Final = {
    **each("nodeID hostName rackName", str),
    **each("capacity allocated occupied available utilized", RESOURCES),
    "attributes": TAGS,
    "allocations": [ALLOCATION],
    "foreignAllocations": [FOREIGN],
    "schedulable": bool,
    "isReserved": bool,
    "reservations": [str],
}
USAGE: Final = {
    "queuePath": str,
    "resourceUsage": RESOURCES,
    "runningApplications": [str],
    "maxResources?": RESOURCES,
    "maxApplications": int,
}
USAGES: Final = {**USAGE, "children": [{**USAGE, "children": []}]}
USER: Final = {"userName": str, "groups": TAGS, "queues": USAGES}
GROUP: Final = {"groupName": str, "applications": [str], "queues": USAGES}
BUCKET: Final = {"bucketName": str, "numOfNodes": int, "nodeNames": [str]}
EVENT: Final = {
    **each("type timestampNano eventChangeType", int),
    **each("referenceID? message?", str),
    "objectID": str,
    "eventChangeDetail?": int,
    "resource": {"resources": {str: {"value": int}}},
}

RESPONSES: Final[Mapping[str, Shape]] = {
    "clusters": [CLUSTER],
    "partitions": [PARTITION],
    "partition/default/placementrules": [RULE],
    "partition/default/queues": QUEUES,
    "partition/default/queue/root.team": {**QUEUE, "children": []},
    "partition/default/queue/root.team?subtree": {**QUEUE, "children": [QUEUE]},
    "partition/default/applications/active": [APPLICATION],
    "partition/default/applications/rejected": [ENDED],
    "partition/default/applications/completed": [ENDED],
    "partition/default/queue/root.team.small/applications": [APPLICATION],
    "partition/default/queue/root.team.small/applications/active": [APPLICATION],
    "partition/default/application/gang": APPLICATION,
    "partition/default/queue/root.team.small/application/gang": APPLICATION,
    "partition/default/nodes": [NODE],
    "partition/default/node/node-0": NODE,
    "scheduler/node-utilizations": [
        {"clusterId": str, "partition": str, "utilizations": [{"type": str, "utilization": [BUCKET]}]}
    ],
    "partition/default/usage/users": [USER],
    "partition/default/usage/user/kim": USER,
    "partition/default/usage/groups": [GROUP],
    "partition/default/usage/group/staff": GROUP,
    "history/apps": [{"timestamp": int, "totalApplications": str}],
    "history/containers": [{"timestamp": int, "totalContainers": str}],
    "scheduler/healthcheck": {
        "Healthy": bool,
        "HealthChecks": [{"Name": str, "Succeeded": bool, "Description": str, "DiagnosisMessage": str}],
    },
    "events/batch?count=10000": {"InstanceUUID": str, "LowestID": int, "HighestID": int, "EventRecords": [EVENT]},
}
"""Paths below ``/ws/v1/`` with the shape of the answer, as in YuniKorn's source. Its web UI reads a part of them."""

READ_BY_THE_WEB_UI: Final[Mapping[str, str]] = {
    "clusters": "clusterName partition startTime rmBuildInformation.buildDate rmBuildInformation.buildVersion "
    "rmBuildInformation.rmId",
    "partitions": "name state clusterId totalNodes totalContainers applications.total nodeSortingPolicy.type",
    "partition/default/queues": "queuename status isLeaf isManaged partition maxResource guaranteedResource "
    "allocatedResource pendingResource absUsedCapacity properties maxRunningApps runningApps children.queuename "
    "children.status children.isLeaf children.template children.children.queuename",
    "partition/default/queue/root.team.small/applications": "applicationID usedResource pendingResource "
    "maxUsedResource submissionTime stateLog.time stateLog.applicationState applicationState "
    "allocations.allocationTags.kubernetes.io/meta/namespace allocations.allocationTags.kubernetes.io/meta/podName "
    "allocations.allocationKey allocations.resource allocations.priority allocations.nodeId "
    "allocations.applicationId allocations.partition",
    "partition/default/applications/completed": "finishedTime",
    "partition/default/nodes": "nodeID hostName rackName capacity allocated occupied available utilized attributes "
    "allocations.allocationKey allocations.nodeId foreignAllocations.allocationKey foreignAllocations.resource "
    "foreignAllocations.allocationTags.kubernetes.io/meta/podName foreignAllocations.priority "
    "foreignAllocations.nodeId",
    "scheduler/node-utilizations": "partition utilizations.type utilizations.utilization.bucketName "
    "utilizations.utilization.numOfNodes utilizations.utilization.nodeNames",
    "history/apps": "timestamp totalApplications",
    "history/containers": "timestamp totalContainers",
    "scheduler/healthcheck": "Healthy HealthChecks.Name HealthChecks.Succeeded HealthChecks.Description "
    "HealthChecks.DiagnosisMessage",
}
"""Fields that the pages of YuniKorn's web UI read and that YuniKorn sends."""

ERRORS: Final[Mapping[str, tuple[int, str]]] = {
    "partition/none/queues": (404, "Partition not found"),
    "partition/none/nodes": (404, "Partition not found"),
    "partition/none/applications/active": (404, "Partition not found"),
    "partition/none/usage/users": (404, "Partition not found"),
    "partition/default/queue/root.none": (404, "Queue not found"),
    "partition/default/queue/root.none/applications": (404, "Queue not found"),
    "partition/default/queue/root.none/application/gang": (404, "Queue not found"),
    "partition/default/application/none": (404, "Application not found"),
    "partition/default/queue/root.team.small/application/none": (404, "Application not found"),
    "partition/default/node/none": (404, "Node not found"),
    "partition/default/usage/user/none": (404, "User not found"),
    "partition/default/usage/group/none": (404, "Group not found"),
    "partition/default/usage/user/9%20x": (400, "Invalid user name"),
    "partition/default/usage/group/9%20x": (400, "Invalid group name"),
    "partition/default/applications/none": (
        400,
        "Only following application states are allowed: active, rejected, completed",
    ),
    "partition/default/applications/active?status=none": (
        400,
        "Only following active statuses are allowed: new, accepted, running, completing, failing, resuming",
    ),
    "events/batch?count=0": (400, '0 is not a valid value for "count"'),
}

QUERIED: Final[Mapping[str, str]] = {
    "yunikorn_scheduler_application_total": "state",
    "yunikorn_scheduler_application_submission_total": "result",
    "yunikorn_scheduler_container_allocation_attempt_total": "state",
    "yunikorn_scheduler_scheduling_latency_milliseconds_bucket": "le",
    "yunikorn_scheduler_trynode_latency_milliseconds_bucket": "le",
    "yunikorn_scheduler_trypreemption_latency_milliseconds_bucket": "le",
    "yunikorn_scheduler_vcore_node_usage_total": "range",
    "yunikorn_scheduler_memory_node_usage_total": "range",
    "yunikorn_scheduler_ephemeral_storage_node_usage_total": "range",
    "yunikorn_scheduler_pods_node_usage_total": "range",
    "yunikorn_queue_app": "queue state",
    "yunikorn_queue_resource": "queue state resource",
}
"""Metrics with the labels of the queries of YuniKorn's Grafana dashboard, its panels of queues by the present names."""


def fields(shape: Shape, path: str = "") -> Iterator[str]:
    """The paths of all fields that must occur."""
    if isinstance(shape, list):
        for item in shape:
            yield from fields(item, path)
    elif isinstance(shape, dict) and str not in shape:
        for name, inner in shape.items():
            if not name.endswith("?"):
                yield f"{path}.{name}".removeprefix(".")
                yield from fields(inner, f"{path}.{name}".removeprefix("."))


def found_fields(value: Shape, path: str = "") -> Iterator[str]:
    """The paths of all fields that occur."""
    if isinstance(value, list):
        for item in value:
            yield from found_fields(item, path)
    elif isinstance(value, dict):
        for name, inner in value.items():
            yield (below := f"{path}.{name}".removeprefix("."))
            yield from found_fields(inner, below)


def mismatches(value: Shape, shape: Shape, path: str = "") -> Iterator[str]:
    """What differs from the shape. Fields that it does not name are allowed."""
    if isinstance(shape, list):
        if not isinstance(value, list):
            yield f"{path} is no array: {value!r}"
        elif shape:
            for item in value:
                yield from mismatches(item, shape[0], path)
    elif isinstance(shape, dict):
        if isinstance(value, dict):
            yield from _mismatches_of_object(value, shape, path)
        else:
            yield f"{path} is no object: {value!r}"
    elif not isinstance(value, shape) or (isinstance(value, bool) and shape is not bool):
        yield f"{path} is {value!r}, not {shape}"


def _mismatches_of_object(value: Json, shape: Mapping[Any, Shape], path: str) -> Iterator[str]:
    if str in shape:
        for name, inner in value.items():
            yield from mismatches(inner, shape[str], f"{path}.{name}")
        return
    for name, inner in shape.items():
        plain = str(name).removesuffix("?")
        if plain in value:
            yield from mismatches(value[plain], inner, f"{path}.{plain}")
        elif plain == name:
            yield f"{path} has no {name}"
