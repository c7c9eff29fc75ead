"""Partitions are added and removed with the configuration (the removal of a partition fails its applications)."""

from dataclasses import replace

from muster_core.model.config import ALLOW_ALL, Configuration, PartitionConfig, QueueConfig
from muster_core.model.effects import AllocationResponse, ApplicationRejected, NodeRejected
from muster_core.model.events import (
    AllocationReleased,
    ApplicationRemoved,
    AskAdded,
    NodeAction,
    NodeActionReported,
    NodeAdded,
    NodeUpdated,
)
from muster_core.model.ids import AllocationKey, ApplicationId, NodeId, RmId, Termination, is_partition_of, partition_id
from tests.unit.builders import RM, SECOND, a_node, an_application, an_ask
from tests.unit.core.scheduling.scenario import Scenario, placed, rejection, releases, states

GPU = partition_id(RM, "gpu")


def configured(*names: str) -> Configuration:
    leaf = QueueConfig("a")
    root = QueueConfig("root", parent=True, children=(leaf,), submit_acl=ALLOW_ALL)
    return Configuration(tuple(PartitionConfig(name, root) for name in names))


def running() -> Scenario:
    """Two partitions; in `gpu` a node and an application with one allocation."""
    scenario = Scenario(configured("default"), nodes=1)
    scenario.reload(configured("default", "gpu"))
    scenario.send(NodeAdded(replace(a_node("g0"), partition=GPU)))
    scenario.submit(replace(an_application("far"), partition=GPU))
    assert placed(scenario.send(AskAdded(replace(an_ask("r", app="far"), partition=GPU)))) == {"r": "g0"}
    return scenario


def confirmed() -> AllocationReleased:
    return AllocationReleased(GPU, ApplicationId("far"), AllocationKey("r"), None, Termination.TIMEOUT)


def test_a_removed_partition_fails_its_applications_and_accepts_nothing_new() -> None:
    scenario = running()
    scenario.submit(an_application("near"))
    effects = scenario.reload(configured("default"))
    assert releases(effects) == {"r": Termination.TIMEOUT}
    assert states(effects, "far") == ["Failing"]
    assert states(effects, "near") == []
    assert scenario.scheduler_state.partitions[GPU].is_closing
    refused = scenario.submit(replace(an_application("new"), partition=GPU))
    assert rejection(refused) == f"partition {GPU} is being removed"
    [node] = scenario.send(NodeAdded(replace(a_node("g1"), partition=GPU)))
    assert isinstance(node, NodeRejected)
    assert states(scenario.send(confirmed()), "far") == ["Failed"]


def test_a_removed_partition_completes_its_removed_applications() -> None:
    scenario = Scenario(configured("default", "gpu"), replace(an_application("far"), partition=GPU))
    assert states(scenario.send(ApplicationRemoved(GPU, ApplicationId("far"))), "far") == []
    partition = scenario.scheduler_state.partitions[GPU]
    assert list(partition.removed) == ["far"]
    scenario.reload(configured("default"))
    assert [app.state.value for app in partition.history] == ["Completed"]
    assert GPU not in scenario.scheduler_state.partitions


def test_a_closed_partition_is_deleted_with_its_last_application_and_node() -> None:
    scenario = running()
    scenario.reload(configured("default"))
    scenario.send(confirmed())
    assert GPU in scenario.scheduler_state.partitions
    scenario.send(NodeActionReported(GPU, NodeId("g0"), NodeAction.DECOMMISSION))
    assert GPU not in scenario.scheduler_state.partitions


def test_additions_to_a_deleted_partition_are_rejected_and_removals_ignored() -> None:
    scenario = Scenario(configured("default", "gpu"))
    scenario.reload(configured("default"))
    assert GPU not in scenario.scheduler_state.partitions
    why = f"partition {GPU} is no longer configured"
    [app] = scenario.submit(replace(an_application("new"), partition=GPU))
    assert app == ApplicationRejected(RM, ApplicationId("new"), why)
    for event in (NodeAdded(replace(a_node("g0"), partition=GPU)), NodeUpdated(replace(a_node("g0"), partition=GPU))):
        assert scenario.send(event) == [NodeRejected(RM, NodeId("g0"), why)]
    [answer] = scenario.send(AskAdded(replace(an_ask("r"), partition=GPU)))
    assert isinstance(answer, AllocationResponse)
    assert [refused.reason for refused in answer.rejected_asks] == [why]
    assert scenario.send(ApplicationRemoved(GPU, ApplicationId("far"))) == []
    assert scenario.scheduler_state.ignored == {"event for a partition that does not exist": 1}


def test_a_closing_partition_that_is_configured_again_is_open() -> None:
    scenario = running()
    scenario.reload(configured("default"))
    scenario.reload(configured("default", "gpu"))
    assert states(scenario.send(confirmed()), "far") == ["Failed"]
    assert rejection(scenario.submit(replace(an_application("new"), partition=GPU))) == ""
    assert placed(scenario.send(AskAdded(replace(an_ask("s", app="new"), partition=GPU)))) == {"s": "g0"}


def test_a_partition_that_waits_to_be_closed_is_closed_once() -> None:
    scenario = running()
    scenario.reload(configured("default"))
    assert scenario.reload(configured("default")) == []


def test_a_partition_reports_since_when_it_is_open_or_closing() -> None:
    scenario = running()
    moments = [scenario.scheduler_state.partitions[GPU].since_ns]
    for names in (("default",), ("default",), ("default", "gpu"), ("default", "gpu")):
        scenario.now_ns += SECOND
        scenario.reload(configured(*names))
        moments.append(scenario.scheduler_state.partitions[GPU].since_ns)
    assert [(moment - moments[0]) // SECOND for moment in moments] == [0, 1, 1, 3, 3]


def test_d22_a_partition_belongs_to_exactly_one_resource_manager() -> None:
    theirs = partition_id(RmId("a]b"), "default")
    assert [is_partition_of(RmId(rm), theirs) for rm in ("a]b", "a", "")] == [True, False, False]
    assert is_partition_of(RM, partition_id(RM, "GPU"))
    assert is_partition_of(RM, partition_id(RM, ""))
