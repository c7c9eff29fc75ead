"""Each view has the JSON names of YuniKorn's REST API, shows the state, and returns None for unknown names."""

from __future__ import annotations

import re
from dataclasses import replace
from importlib.metadata import version
from typing import Any

import aiohttp
import pytest
from yarl import URL

from muster_core.model.config import ChildTemplate
from muster_core.model.events import ApplicationAdded, NodeUpdated
from muster_core.model.ids import AllocationKey, ApplicationId, NodeId, QueuePath
from muster_core.model.records import EventRecorded, Notice
from muster_core.model.resources import Limit, Resources
from muster_core.model.specs import ApplicationSpec
from muster_core.rest import schemas
from muster_core.rest.routes import ROUTES
from muster_core.rest.schemas import Shape
from muster_core.state.reservations import NodeReservation, ThrashingGuard, pair
from tests.unit.builders import RM, a_configuration, a_queue, an_application, an_ask
from tests.unit.core.conftest import Bench
from tests.unit.core.rest.conftest import Ask, a_scenario
from tests.unit.core.scheduling.direct import a_gang
from tests.unit.core.scheduling.scenario import Scenario, states

#: JSON names per object, as YuniKorn's REST API has them.
NAMES: dict[type[Shape], str] = {
    schemas.ClusterInfo: "startTime rmBuildInformation partition clusterName",
    schemas.Build: "arch buildDate buildVersion coreSHA goVersion isPluginVersion rmId shimSHA siSHA",
    schemas.PartitionInfo: "clusterId name state lastStateTransitionTime capacity nodeSortingPolicy applications "
    "totalContainers totalNodes preemptionEnabled quotaPreemptionEnabled",
    schemas.RuleInfo: "name parameters filter parentRule",
    schemas.RuleFilterInfo: "type userList groupList userExp groupExp",
    schemas.ClusterUtilization: "clusterId partition utilizations",
    schemas.Bucket: "bucketName numOfNodes nodeNames",
    schemas.QueueInfo: "queuename status partition pendingResource maxResource guaranteedResource allocatedResource "
    "preemptingResource headroom isLeaf isManaged properties parent template children childNames absUsedCapacity "
    "maxRunningApps runningApps currentPriority allocatingAcceptedApps sortingPolicy prioritySorting "
    "preemptionEnabled isPreemptionFence preemptionDelay quotaPreemptionDelay isPriorityFence priorityOffset "
    "isQuotaPreemptionRunning quotaPreemptionStartTime unschedAskBackoff askBackoffDelay",
    schemas.TemplateInfo: "maxApplications maxResource guaranteedResource properties",
    schemas.ApplicationInfo: "applicationID usedResource maxUsedResource pendingResource partition queueName "
    "submissionTime finishedTime requests allocations applicationState user groups rejectedMessage stateLog "
    "placeholderData hasReserved reservations maxRequestPriority startTime resourceHistory backoffDeadline",
    schemas.TaskGroupInfo: "taskGroupName count minResource replaced timedout",
    schemas.ResourceHistory: "resourceUsage preemptedResource placeholderResource",
    schemas.AskInfo: "allocationKey allocationTags requestTime resource priority requiredNodeId applicationId "
    "placeholder taskGroupName allocationLog triggeredPreemption originator schedulingAttempted triggeredScaleUp "
    "pendingCount partition placeholderTimeout",
    schemas.LogEntry: "message lastOccurrence count",
    schemas.AllocationInfo: "allocationKey allocationTags requestTime allocationTime allocationDelay resource "
    "priority nodeId applicationId placeholder placeholderUsed taskGroupName preempted originator allocationID "
    "partition",
    schemas.ForeignAllocation: "allocationKey allocationTags allocationTime resource priority nodeId preemptable",
    schemas.NodeInfo: "nodeID hostName rackName attributes capacity allocated occupied available utilized allocations "
    "foreignAllocations schedulable isReserved reservations",
    schemas.UserUsage: "userName groups queues",
    schemas.GroupUsage: "groupName applications queues",
    schemas.UsageTree: "queuePath resourceUsage runningApplications maxResources maxApplications children",
    schemas.EventBatch: "InstanceUUID LowestID HighestID EventRecords",
    schemas.EventRecord: "type objectID referenceID message timestampNano eventChangeType eventChangeDetail resource",
    schemas.Health: "Healthy HealthChecks",
    schemas.HealthCheck: "Name Succeeded Description DiagnosisMessage",
    schemas.ApplicationCount: "timestamp totalApplications",
    schemas.ContainerCount: "timestamp totalContainers",
}


@pytest.mark.parametrize("shape", NAMES, ids=lambda shape: shape.__name__)
def test_a_shape_has_every_field_of_the_contract(shape: type[Shape]) -> None:
    assert set(NAMES[shape].split()) - set(shape.model_fields) == set()


async def fetch(http: aiohttp.ClientSession, path: str) -> Any:
    async with http.get(path) as answer:
        assert answer.status == 200, await answer.text()
        assert answer.headers["Content-Type"] == "application/json; charset=UTF-8"
        assert answer.headers["Access-Control-Allow-Origin"] == "*"
        assert answer.headers["Access-Control-Allow-Methods"] == "GET, OPTIONS"
        assert answer.headers["Access-Control-Allow-Headers"] == "X-Requested-With,Content-Type,Accept,Origin"
        return await answer.json()


async def test_clusters_and_partitions_are_arrays(http: aiohttp.ClientSession, scenario: Scenario) -> None:
    [cluster] = await fetch(http, "/ws/v1/clusters")
    assert (cluster["clusterName"], cluster["partition"]) == ("kubernetes", "default")
    assert cluster["coreVersion"] == version("muster-scheduler")
    assert cluster["startTime"] > 10**18
    [partition] = await fetch(http, "/ws/v1/partitions")
    assert (partition["name"], partition["state"], partition["clusterId"]) == ("default", "Active", "rm")
    assert partition["lastStateTransitionTime"] == scenario.partition.since_ns > 0
    assert (partition["totalNodes"], partition["totalContainers"]) == (3, 3)
    assert partition["applications"] == {"Running": 1, "Accepted": 1, "Rejected": 1, "total": 3}
    assert partition["capacity"]["capacity"]["vcore"] == 12000
    assert partition["capacity"]["utilization"]["vcore"] == 25
    assert partition["nodeSortingPolicy"] == {"type": "fair", "resourceWeights": {"vcore": 1.0, "memory": 1.0}}
    assert (partition["preemptionEnabled"], partition["quotaPreemptionEnabled"]) == (True, False)


async def test_the_placement_rules_end_with_the_recovery_rule(ask: Ask, scenario: Scenario) -> None:
    assert await ask("placementrules") == [
        {"name": "provided", "parameters": {"create": "false"}},
        {"name": "tag", "parameters": {"create": "true", "tagName": "namespace"}},
        {"name": "recovery", "parameters": {"queue": "root.@recovery@"}},
    ]


async def test_the_queue_tree_is_one_object(ask: Ask, scenario: Scenario) -> None:
    root = await ask("queues")
    assert (root["queuename"], root["isLeaf"], root["isManaged"], root["parent"]) == ("root", False, True, "")
    assert root["maxResource"]["vcore"] == 12000
    assert root["childNames"] == ["root.a", "root.b"]
    leaf, other = root["children"]
    assert (leaf["queuename"], leaf["parent"], leaf["isLeaf"]) == ("root.a", "root", True)
    assert (leaf["allocatedResource"]["vcore"], leaf["headroom"]["vcore"]) == (3000, 3000)
    assert (leaf["absUsedCapacity"], leaf["guaranteedResource"]) == ({"vcore": 50}, {"vcore": 1000})
    assert (leaf["preemptionDelay"], leaf["quotaPreemptionDelay"], leaf["sortingPolicy"]) == ("30s", "0s", "fifo")
    assert (other["pendingResource"]["vcore"], other["currentPriority"]) == (9000, 7)
    assert (root["currentPriority"], leaf["currentPriority"]) == (7, -2147483648)


async def test_only_parent_queues_show_the_template_of_dynamic_queues(ask: Ask, scenario: Scenario) -> None:
    template = ChildTemplate(max=Limit({"vcore": 2000}), max_applications=3)
    for queue in scenario.partition.queues.by_path.values():  # the template of an ancestor is passed on to all queues
        queue.template = template
    root = await ask("queues")
    assert (root["template"]["maxApplications"], root["template"]["maxResource"]) == (3, {"vcore": 2000})
    assert not any("template" in leaf for leaf in root["children"])


@pytest.mark.parametrize(
    "requested, reason",
    [(20, "0/3 nodes are available: 3 Insufficient cpu."), (0, "not all placeholders have been requested yet")],
)
async def test_a_pod_of_an_incomplete_gang_reports_why_the_gang_waits(
    ask: Ask, scenario: Scenario, requested: int, reason: str
) -> None:
    scenario.gang(an_application("early", queue="root.b", gang=20), requested)
    scenario.ask(an_ask("pod", app="early", group="workers"))
    found = {item["allocationKey"]: item for item in (await ask("application/early"))["requests"]}
    [entry] = found["pod"]["allocationLog"]
    assert entry["message"].startswith("waiting for the reservation of the gang: ")
    assert entry["message"].endswith(reason)
    assert (entry["count"], entry["reason"]) == (1, "gang")


async def test_the_recovery_queue_is_served_by_name_but_not_in_the_tree(ask: Ask, scenario: Scenario) -> None:
    lost = replace(an_application("recovered", queue="root.gone", forced=True), tags={})
    scenario.submit(lost)
    queue = await ask("queue/root.@recovery@")
    assert (queue["queuename"], queue["isLeaf"], queue["isManaged"]) == ("root.@recovery@", True, False)
    [app] = await ask("queue/root.@recovery@/applications")
    assert app["applicationID"] == "recovered"
    tree = await ask("queues")
    assert [child["queuename"] for child in tree["children"]] == ["root.a", "root.b"]


async def test_a_queue_shows_until_when_its_preemption_is_paused(ask: Ask, scenario: Scenario) -> None:
    both = pair(QueuePath("root.a"), QueuePath("root.x"))
    scenario.partition.preemptions.thrashing_guards[both] = ThrashingGuard(QueuePath("root.x"), 1, paused_until_ns=77)
    assert (await ask("queue/root.a"))["preemptionPausedUntil"] == 77
    assert "preemptionPausedUntil" not in await ask("queue/root.b")


async def test_a_queue_includes_its_children_only_on_request(ask: Ask, scenario: Scenario) -> None:
    assert (await ask("queue/root"))["children"] == []
    assert [child["queuename"] for child in (await ask("queue/root?subtree"))["children"]] == ["root.a", "root.b"]
    assert (await ask("queue/ROOT.A"))["queuename"] == "root.a"


async def test_applications_are_filtered_by_state_and_status(ask: Ask, scenario: Scenario) -> None:
    async def ids(path: str) -> list[str]:
        return [app["applicationID"] for app in await ask(path)]

    assert await ids("applications/active") == ["gang", "waits"]
    assert await ids("applications/ACTIVE?status=accepted") == ["waits"]
    assert await ids("applications/active?status=completing") == []
    assert await ids("applications/active?limit=1") == ["gang"]
    assert await ids("applications/active?offset=1") == ["waits"]
    assert await ids("applications/completed") == []
    assert await ids("applications/rejected") == ["lost"]
    assert await ids("queue/root.a/applications") == ["gang"]
    assert await ids("queue/root.b/applications/active?status=running") == []


async def test_a_rejected_application_reports_why(ask: Ask, scenario: Scenario) -> None:
    [app] = await ask("applications/rejected")
    assert "no placement rule matched" in app["rejectedMessage"]
    assert app["finishedTime"] > 0


async def test_an_application_reports_why_it_waits(ask: Ask, scenario: Scenario) -> None:
    app = await ask("application/waits")
    [waiting] = app["requests"]
    assert (waiting["allocationKey"], waiting["priority"], waiting["pendingCount"]) == ("too-big", "7", 1)
    assert (waiting["schedulingAttempted"], waiting["triggeredScaleUp"]) == (True, True)
    [reason] = waiting["allocationLog"]
    assert reason["message"] == "0/3 nodes are available: 3 Insufficient cpu."
    assert app["maxRequestPriority"] == 7
    assert (await ask("application/gang"))["maxRequestPriority"] == -2147483648


async def test_an_application_shows_its_gang(ask: Ask, scenario: Scenario) -> None:
    app = await ask("queue/root.a/application/gang")
    assert (app["applicationState"], app["user"], app["groups"]) == ("Running", "kim", ["staff"])
    assert app["placeholderData"] == [
        {
            "taskGroupName": "workers",
            "count": 2,
            "minResource": {"pods": 1, "vcore": 1000},
            "replaced": 0,
            "timedout": 0,
        }
    ]
    assert app["placeholderResource"]["vcore"] == 2000
    placeholders = [item for item in app["allocations"] if item["placeholder"]]
    assert {item["allocationID"] for item in placeholders} == {"gang-p0-0", "gang-p1-0"}
    [parked] = app["requests"]
    assert parked["replaces"]["allocationID"] in {"gang-p0-0", "gang-p1-0"}
    assert app["startTime"] == app["stateLog"][-1]["time"] // 1_000_000
    assert app["gangPlacement"] == "Reserve"
    assert not any("is_virtual" in item for item in (*app["allocations"], *app["requests"]))


async def test_an_application_shows_its_virtual_placeholders(ask: Ask, scenario: Scenario) -> None:
    scenario.send(a_gang(1, "held"), a_gang(50, "vast", queue="root.b", user="lee"))
    scenario.wait(1)  # without members, they are planned after a second
    app = await ask("queue/root.a/application/held")
    assert (app["gangPlacement"], app["placeholderData"][0]["count"]) == ("Direct", 1)
    [place] = app["allocations"]
    assert (place["allocationKey"], place["placeholder"], place["is_virtual"]) == ("held/workers", True, True)
    [waiting] = (await ask("queue/root.b/application/vast"))["requests"]
    assert (waiting["allocationKey"], waiting["pendingCount"], waiting["is_virtual"]) == ("vast/workers", 50, True)


async def test_a_gang_is_unsatisfiable_only_while_it_reserves(ask: Ask, scenario: Scenario) -> None:
    scenario.send(a_gang(50, "vast", queue="root.b", user="lee", wait_s=100))
    scenario.wait(1)
    assert (await ask("queue/root.b/application/vast"))["unsatisfiable"]
    assert states(scenario.wait(101), "vast")[0] == "Resuming"
    assert (await ask("queue/root.b/application/vast"))["unsatisfiable"] is False


async def test_nodes_show_their_own_and_foreign_allocations(ask: Ask, scenario: Scenario) -> None:
    found = {node["nodeID"]: node for node in await ask("nodes")}
    assert set(found) == {"n0", "n1", "n2"}
    node = await ask("node/n2")
    assert node == found["n2"]
    assert node["occupied"]["vcore"] == 500
    assert [item["allocationKey"] for item in node["foreignAllocations"]] == ["other"]
    held = [item["allocationKey"] for node in found.values() for item in node["allocations"]]
    assert sorted(held) == ["gang-p0", "gang-p1", "more"]
    assert all(node["schedulable"] and not node["isReserved"] for node in found.values())
    assert len(await ask("nodes?limit=2")) == 2


async def test_a_node_shows_labels_and_attributes_with_the_names_of_yunikorn(ask: Ask, scenario: Scenario) -> None:
    attributes = {"si/hostname": "n0", "si/rackname": "/rack-default", "si/node-partition": "default", "ready": "true"}
    spec = replace(
        scenario.partition.nodes.record(NodeId("n0")).spec,
        labels={"disk": "ssd"},
        attributes={**attributes, "kubernetes.io/label/disk": "ssd"},
    )
    scenario.send(NodeUpdated(spec))
    assert (await ask("node/n0"))["attributes"] == {
        "disk": "ssd",
        "ready": "true",
        "si.io/hostname": "n0",
        "si.io/rackname": "/rack-default",
        "si/instance-type": "",
        "si/node-partition": "[rm]default",
    }


async def test_a_full_node_shows_0_for_resources_that_are_not_available(ask: Ask, scenario: Scenario) -> None:
    full = {item["nodeID"]: item for item in await ask("nodes")}["n0"]
    spec = replace(scenario.partition.nodes.record(NodeId("n0")).spec, capacity=Resources(full["allocated"]))
    scenario.send(NodeUpdated(spec))
    assert (await ask("node/n0"))["available"] == dict.fromkeys(full["allocated"], 0)


async def test_a_reservation_is_shown_on_the_node_and_the_application(ask: Ask, scenario: Scenario) -> None:
    hold = NodeReservation(
        ApplicationId("waits"), AllocationKey("too-big"), NodeId("n1"), Resources({"vcore": 9000}), 1
    )
    scenario.partition.reservations.add(hold)
    node, app = await ask("node/n1"), await ask("application/waits")
    assert (node["isReserved"], node["reservations"]) == (True, ["waits|too-big"])
    assert (app["hasReserved"], app["reservations"]) == (True, ["n1|too-big"])


async def test_an_application_shows_its_peak_usage_and_backoff_deadline(ask: Ask, scenario: Scenario) -> None:
    before = await ask("application/gang")
    assert before["usedResource"] == before["maxUsedResource"] == {"pods": 1, "vcore": 1000}
    assert "backoffDeadline" not in before
    scenario.release("more", "gang")
    scenario.app("gang").backoff_until_ns = 7
    after = await ask("application/gang")
    assert (after["usedResource"], after["maxUsedResource"]) == ({}, {"pods": 1, "vcore": 1000})
    assert after["backoffDeadline"] == 7


async def test_the_allocation_log_of_an_ask_shows_preemption_attempts(ask: Ask, scenario: Scenario) -> None:
    [waiting] = scenario.app("waits").asks.values()
    waiting.attempts, waiting.triggered = {"Preemption does not help": (3, 5)}, True
    [shown] = (await ask("application/waits"))["requests"]
    first, last = shown["allocationLog"]
    assert first == {"message": "Preemption does not help", "lastOccurrence": 5, "count": 3}
    assert last["lastOccurrence"] > 5
    assert shown["triggeredPreemption"] is True


async def test_the_allocation_log_keeps_one_entry_for_each_kind_of_reason(ask: Ask, scenario: Scenario) -> None:
    async def log() -> list[tuple[str, int]]:
        [shown] = (await ask("application/later"))["requests"]
        return [(entry["reason"], entry["count"]) for entry in shown["allocationLog"]]

    scenario.submit(an_application("later", queue="root.a"))
    scenario.ask(an_ask("r", app="later", vcore=4000))
    assert await log() == [("quota", 1)]
    scenario.release("more", "gang")
    assert await log() == [("quota", 1), ("nodes", 1)]
    scenario.ask(an_ask("again", app="gang"))
    scenario.add_node("n3", vcore=4000)
    assert await log() == [("nodes", 1), ("quota", 2)]
    first, last = (await ask("application/later"))["requests"][0]["allocationLog"]
    assert first["message"] == "0/3 nodes are available: 3 Insufficient cpu."
    assert last["message"].startswith("Not enough queue quota: root.a")
    [kind] = scenario.app("later").waiting
    assert set(scenario.app("later").earlier_refusals) == {kind}
    scenario.release_ask("r", "later")
    assert scenario.app("later").earlier_refusals == {}


async def test_an_earlier_reason_is_not_shown_for_a_request_that_was_created_later(
    ask: Ask, scenario: Scenario
) -> None:
    scenario.submit(an_application("later", queue="root.a", user="ann"))
    scenario.ask(an_ask("old", app="later", vcore=4000))
    scenario.release("more", "gang")
    scenario.wait(10)
    scenario.ask(replace(an_ask("new", app="later", vcore=4000), created_ns=scenario.now_ns))
    scenario.release_ask("old", "later")
    [shown] = (await ask("application/later"))["requests"]
    assert [entry["reason"] for entry in shown["allocationLog"]] == ["nodes"]


async def test_nodes_are_counted_in_utilization_buckets(http: aiohttp.ClientSession, scenario: Scenario) -> None:
    [found] = await fetch(http, "/ws/v1/scheduler/node-utilizations")
    by_type = {item["type"]: item["utilization"] for item in found["utilizations"]}
    assert [bucket["bucketName"] for bucket in by_type["vcore"]][::9] == ["0-10%", "90-100%"]
    assert sum(bucket["numOfNodes"] for bucket in by_type["vcore"]) == 3
    assert sorted(by_type["memory"][0]["nodeNames"]) == ["n0", "n1", "n2"]


async def test_users_and_groups_have_a_usage_tree_with_limits(ask: Ask, scenario: Scenario) -> None:
    assert [user["userName"] for user in await ask("usage/users")] == ["kim", "lee@example.org"]
    kim = await ask("usage/user/kim")
    assert kim["groups"] == {"gang": "staff"}
    assert (kim["queues"]["queuePath"], kim["queues"]["resourceUsage"]["vcore"]) == ("root", 3000)
    [leaf] = kim["queues"]["children"]
    assert (leaf["queuePath"], leaf["maxResources"], leaf["maxApplications"]) == ("root.a", {"vcore": 9000}, 5)
    assert leaf["runningApplications"] == ["gang"]
    assert (await ask("usage/user/lee%2540example.org"))["userName"] == "lee@example.org"
    [staff] = await ask("usage/groups")
    assert (staff["groupName"], staff["applications"]) == ("staff", ["gang"])
    assert await ask("usage/group/staff") == staff


async def test_outstanding_requests_are_reported_for_autoscaling(ask: Ask, scenario: Scenario) -> None:
    [found] = await ask("autoscaling")
    assert (found["resource"], found["count"], found["applications"]) == ({"pods": 1, "vcore": 9000}, 1, 1)


async def test_waiting_applications_are_reported_in_scheduling_order(ask: Ask, scenario: Scenario) -> None:
    scenario.submit(an_application("late", queue="root.b"))
    scenario.ask(an_ask("late-big", app="late", vcore=9000, priority=9))
    scenario.submit(an_application("idle", queue="root.b"))
    found = await ask("queue/root.b/waiting")
    assert [(item["applicationID"], item["priority"]) for item in found] == [("late", 9), ("waits", 7)]
    assert found[1]["pendingResource"]["vcore"] == 9000
    assert [item["blocksOthers"] for item in found] == [False, False]
    assert await ask("queue/root.b/waiting?offset=1&limit=1") == found[1:]


async def test_a_waiting_gang_at_the_head_of_the_queue_blocks_others(ask: Ask, scenario: Scenario) -> None:
    scenario.gang(an_application("next", gang=5, queue="root.a"), 5)
    scenario.submit(an_application("behind", queue="root.a"))
    scenario.ask(an_ask("small", app="behind", vcore=1000))
    found = await ask("queue/root.a/waiting")
    assert [item["applicationID"] for item in found if item["blocksOthers"]] == ["next"]


async def test_the_allocation_log_counts_nodes_by_reason(ask: Ask, scenario: Scenario) -> None:
    [shown] = (await ask("application/waits"))["requests"]
    [log] = shown["allocationLog"]
    assert (log["reason"], log["reasons"]) == ("nodes", {"Insufficient cpu": 3})


@pytest.mark.parametrize(
    "path, status, message",
    [
        ("nothing/queues", 404, "Partition not found"),
        ("default/queue/root.nothing", 404, "Queue not found"),
        ("default/queue/root.@recovery@", 404, "Queue not found"),
        ("default/queue/root..a", 400, "Invalid queue name"),
        ("default/queue/root%252", 400, "invalid URL escape in queue"),
        ("default/queue/root.b/application/gang", 404, "Application not found"),
        ("default/application/nothing", 404, "Application not found"),
        ("default/node/nothing", 404, "Node not found"),
        ("default/usage/user/nobody", 404, "User not found"),
        ("default/usage/user/1", 400, "Invalid user name"),
        ("default/usage/group/nobody", 404, "Group not found"),
        ("default/usage/group/a%20b", 400, "Invalid group name"),
        (
            "default/applications/killed",
            400,
            "Only following application states are allowed: active, rejected, completed",
        ),
        ("default/queue/root.a/applications/completed", 400, "Only following application states are allowed: active"),
        (
            "default/applications/active?status=tired",
            400,
            "Only following active statuses are allowed: new, accepted, running, completing, failing, resuming",
        ),
        ("default/nodes?limit=-1", 400, "limit must be an integer of 0 or more"),
        ("default/nodes?offset=99999999999999999999", 400, "offset must be an integer of 0 or more"),
    ],
)
async def test_an_error_has_the_message_of_the_contract(
    http: aiohttp.ClientSession, scenario: Scenario, path: str, status: int, message: str
) -> None:
    async with http.get(URL(f"/ws/v1/partition/{path}", encoded=True)) as answer:
        assert answer.status == status
        assert await answer.json() == {"status_code": status, "message": message, "description": message}


# -- Short forms of applications and nodes, and the waiting requests by reason.


async def test_a_summary_counts_what_the_complete_application_lists(ask: Ask, scenario: Scenario) -> None:
    summaries = {item["applicationID"]: item for item in await ask("applications/active/summary")}
    complete = {item["applicationID"]: item for item in await ask("applications/active")}
    assert summaries.keys() == complete.keys()
    for name, app in complete.items():
        summary = summaries[name]
        same = ("queueName", "applicationState", "user", "submissionTime", "usedResource", "pendingResource")
        assert {key: summary[key] for key in same} == {key: app[key] for key in same}
        real = [item for item in app["allocations"] if not item["placeholder"]]
        assert (summary["pods"], summary["placeholders"]) == (len(real), len(app["allocations"]) - len(real))
        assert "requests" not in summary
    assert (summaries["gang"]["isGang"], summaries["waits"]["isGang"]) == (True, False)


async def test_a_summary_has_the_reason_of_most_requests(ask: Ask, scenario: Scenario) -> None:
    [found] = [item for item in await ask("applications/active/summary") if item["applicationID"] == "waits"]
    [request] = (await ask("application/waits"))["requests"]
    assert found["pending"] == 1
    assert found["reason"] == request["allocationLog"][-1]["reason"]
    assert found["message"] == request["allocationLog"][-1]["message"]


async def test_the_summary_of_a_rejected_application_says_why(ask: Ask, scenario: Scenario) -> None:
    [found] = await ask("applications/rejected/summary")
    [complete] = await ask("applications/rejected")
    assert (found["applicationID"], found["message"]) == ("lost", complete["rejectedMessage"])
    assert "reason" not in found


async def test_waiting_requests_are_counted_by_reason_with_the_oldest_application(ask: Ask, scenario: Scenario) -> None:
    before = {item.get("reason"): item for item in await ask("waiting")}
    scenario.submit(an_application("later", queue="root.b"))
    scenario.ask(an_ask("also-too-big", app="later", vcore=9000), an_ask("too-big-2", app="later", vcore=9000))
    [reason] = [item["reason"] for item in await ask("applications/active/summary") if item["applicationID"] == "later"]
    after = {item.get("reason"): item for item in await ask("waiting")}
    assert after[reason]["requests"] == before[reason]["requests"] + 2
    assert after[reason]["applications"] == before[reason]["applications"] + 1
    assert after[reason]["applicationID"] == before[reason]["applicationID"]
    assert after[reason]["resource"]["vcore"] == before[reason]["resource"]["vcore"] + 18_000
    counts = [item["requests"] for item in await ask("waiting")]
    assert counts == sorted(counts, reverse=True)


async def test_members_and_placeholders_of_an_incomplete_gang_count_once(ask: Ask, scenario: Scenario) -> None:
    before = sum(item["requests"] for item in await ask("waiting"))
    scenario.gang(an_application("large", queue="root.b", gang=50), 50)
    scenario.ask(an_ask("member", app="large", group="workers"))
    [gang] = [item for item in await ask("applications/active/summary") if item["applicationID"] == "large"]
    assert sum(item["requests"] for item in await ask("waiting")) == before + gang["pending"]


async def test_a_summary_of_a_node_counts_what_the_node_lists(ask: Ask, scenario: Scenario) -> None:
    complete = {item["nodeID"]: item for item in await ask("nodes")}
    for summary in await ask("nodes/summary"):
        node = complete.pop(summary["nodeID"])
        numbers = {key: len(node[key]) for key in ("allocations", "foreignAllocations", "reservations")}
        assert summary == {key: node[key] for key in summary if key not in numbers} | numbers
    assert complete == {}


@pytest.mark.parametrize("path", ["applications/active/summary", "nodes/summary"])
async def test_summaries_are_paged(ask: Ask, scenario: Scenario, path: str) -> None:
    complete = await ask(path)
    assert [*await ask(f"{path}?limit=1"), *await ask(f"{path}?offset=1")] == complete


async def test_an_unknown_list_is_an_error(http: aiohttp.ClientSession, scenario: Scenario) -> None:
    async with http.get("/ws/v1/partition/default/applications/all/summary") as answer:
        assert answer.status == 400


# -- A name in a path may be anything: every view answers that it has no such thing, and none fails.

ODD = (
    "%00",
    "%2F",
    "..%2f..",
    "%FF%FE",
    "%F0%9F%A6%86",
    "%25",
    "root..a",
    "a" * 3000,
    "%7B%7D",
    "-1",
    "%0d%0aX:y",
    "null",
)
#: Permitted responses for a name that does not exist.
STATUSES = (200, 301, 400, 404, 414, 431)


@pytest.mark.parametrize("odd", ODD)
async def test_odd_names_in_a_path_return_an_expected_status(
    http: aiohttp.ClientSession, bench: Bench, odd: str
) -> None:
    bench.core.loop.scheduler_state = a_scenario().scheduler_state
    for route in ROUTES:
        parts = re.findall(r"\{\w+\}", route.path)
        if route.method != "GET" or route.path.startswith("/debug"):
            continue
        for part in parts:
            path = route.path.replace(part, odd)
            for other in parts:
                path = path.replace(other, "default" if other == "{partition}" else "root.a")
            async with http.get(URL(path, encoded=True), allow_redirects=False) as answer:
                assert answer.status in STATUSES, path
                await answer.read()
    async with http.get("/ws/v1/partition/default/queue/root.a") as answer:
        assert answer.status == 200


# -- Applications with a qualified ID in messages: users see the plain ID, and add the namespace if it is ambiguous.

PARTITION = "/ws/v1/partition/default"


def of(namespace: str, name: str = "job", queue: str = "root.a") -> ApplicationSpec:
    return replace(an_application(f"{namespace}/{name}", queue=queue), shown_as=name, namespace=namespace)


@pytest.fixture
def two(bench: Bench) -> Scenario:
    """Application `job` of two namespaces, in two queues, with one pod each."""
    scenario = Scenario(a_configuration(a_queue("a"), a_queue("b")), nodes=2)
    scenario.send(ApplicationAdded(of("team-a")), ApplicationAdded(of("team-b", queue="root.b")))
    for namespace in ("team-a", "team-b"):
        scenario.ask(replace(an_ask(f"pod-{namespace}", app=f"{namespace}/job"), namespace=namespace))
    bench.core.loop.scheduler_state = scenario.scheduler_state
    return scenario


async def refusal(http: aiohttp.ClientSession, path: str) -> tuple[int, str]:
    async with http.get(f"{PARTITION}/{path}") as answer:
        return answer.status, (await answer.json())["message"]


async def test_every_view_shows_the_plain_id_and_the_namespace(ask: Ask, two: Scenario) -> None:
    apps: list[dict[str, Any]] = await ask("applications/active")
    assert {(app["applicationID"], app["namespace"]) for app in apps} == {("job", "team-a"), ("job", "team-b")}
    assert {item["applicationId"] for app in apps for item in (*app["requests"], *app["allocations"])} == {"job"}
    nodes = await ask("nodes")
    assert {item["applicationId"] for node in nodes for item in node["allocations"]} == {"job"}


async def test_an_ambiguous_id_is_rejected_with_the_namespaces(http: aiohttp.ClientSession, two: Scenario) -> None:
    status, message = await refusal(http, "application/job")
    assert (status, message) == (
        400,
        "application job exists in namespaces team-a, team-b: add ?namespace=<one of them>",
    )


async def test_the_namespace_the_queue_or_the_qualified_id_selects_one_application(ask: Ask, two: Scenario) -> None:
    assert (await ask("application/job?namespace=team-b"))["namespace"] == "team-b"
    assert (await ask("queue/root.b/application/job"))["namespace"] == "team-b"
    assert (await ask("application/team-b%252Fjob"))["namespace"] == "team-b"


async def test_an_id_in_another_namespace_is_not_found(http: aiohttp.ClientSession, two: Scenario) -> None:
    assert await refusal(http, "application/job?namespace=team-c") == (404, "Application not found")


async def test_an_application_of_a_sharing_group_is_found_by_the_namespace_of_each_of_its_pods(
    ask: Ask, bench: Bench
) -> None:
    scenario = Scenario(a_configuration(a_queue("a")), nodes=1)
    scenario.submit(replace(of("team-a"), id=of("@group").id))
    scenario.ask(replace(an_ask("pod", app="@group/job"), namespace="team-b"))
    bench.core.loop.scheduler_state = scenario.scheduler_state
    for namespace in ("team-a", "team-b"):
        assert (await ask(f"application/job?namespace={namespace}"))["namespace"] == "team-a"


@pytest.mark.parametrize("name", ["job", "team-a%252Fjob"])
async def test_the_newest_run_of_an_application_is_shown_and_earlier_ones_stay_listed(
    ask: Ask, bench: Bench, name: str
) -> None:
    scenario = Scenario(a_configuration(a_queue("a"), a_queue("b")), nodes=1)
    scenario.submit(of("team-a"))
    scenario.submit(replace(of("team-a", queue="root.b"), id=of("team-a#1").id))
    bench.core.loop.scheduler_state = scenario.scheduler_state
    assert (await ask(f"application/{name}"))["queueName"] == "root.b"
    assert (await ask(f"queue/root.a/application/{name}"))["queueName"] == "root.a"
    assert [app["applicationID"] for app in await ask("applications/active")] == ["job", "job"]


async def test_events_name_the_plain_id(http: aiohttp.ClientSession, bench: Bench) -> None:
    application = EventRecorded(RM, Notice.APPLICATION, "team-a/job", "words", app_name="job")
    request = EventRecorded(RM, Notice.REQUEST, "pod", "words", "team-a/job", app_name="job")
    bench.core.events.add([application, request], 1)
    async with http.get("/ws/v1/events/batch") as answer:
        first, second = (await answer.json())["EventRecords"]
    assert (first["objectID"], second["objectID"], second["referenceID"]) == ("job", "pod", "job")
