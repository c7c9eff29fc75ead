"""Messages of unschedulable requests, and which of them trigger an autoscaler."""

from __future__ import annotations

from muster_core.model.decisions import ReasonKind, UnschedulableReason
from muster_core.model.effects import Effect
from muster_core.model.events import ApplicationAdded
from muster_core.model.records import EventRecorded, Notice
from tests.unit.builders import a_configuration, a_queue, an_application, an_ask
from tests.unit.core.scheduling.scenario import Scenario, placed, waits


def short_of(effects: list[Effect]) -> list[str]:
    """The task groups for which more nodes would help, as the warnings name them."""
    return [e.reference for e in effects if isinstance(e, EventRecorded) and e.about is Notice.APPLICATION]


def test_reasons_are_listed_in_the_order_of_kube_scheduler() -> None:
    counts = (("node(s) were unschedulable", 2), ("Too many pods", 1), ("Insufficient cpu", 10))
    assert UnschedulableReason(ReasonKind.NODES, counts=counts, nodes=13).text() == (
        "0/13 nodes are available: 1 Too many pods, 10 Insufficient cpu, 2 node(s) were unschedulable."
    )


def test_a_request_behind_a_gang_reports_the_gang_and_triggers_no_scale_up() -> None:
    scenario = Scenario(a_configuration(a_queue("a", vcore=3000)), nodes=4)
    scenario.send(ApplicationAdded(an_application("busy")))
    assert len(placed(scenario.ask(an_ask("b0", app="busy")))) == 1
    scenario.gang(ApplicationAdded(an_application("first", gang=3)), 3)
    scenario.send(ApplicationAdded(an_application("second")))
    effects = scenario.ask(an_ask("s0", app="second"))
    assert waits(effects) == {"s0": ("SKIPPED", "queued behind gang first in queue root.a, which is waiting for quota")}


def test_a_gang_larger_than_the_empty_cluster_needs_nodes_for_a_task_group() -> None:
    scenario = Scenario(a_configuration(a_queue("a")), nodes=1, vcore=2000)
    assert short_of(scenario.gang(ApplicationAdded(an_application(gang=3)), 3)) == ["workers"]


def test_a_gang_that_also_exceeds_a_quota_does_not_need_nodes() -> None:
    scenario = Scenario(a_configuration(a_queue("a", vcore=3000)), nodes=1, vcore=2000)
    scenario.send(ApplicationAdded(an_application("busy")))
    assert len(placed(scenario.ask(an_ask("b0", app="busy")))) == 1
    effects = scenario.gang(ApplicationAdded(an_application("gang", gang=3)), 3)
    assert short_of(effects) == [""]
    assert {state for state, _ in waits(effects).values()} == {"SKIPPED"}
