"""An object that fails in a recovery does not affect others, and its resources are counted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from muster_operator.controller import applications, cluster_events, nodes, recovery
from muster_operator.controller.state import Application, Phase
from muster_operator.model.cluster_events import PodSeen
from muster_operator.model.commands import Outcome, PostEvent
from muster_operator.model.core_messages import AskSubmitted, NodeCreated
from tests.unit.operator.controller.driver import Driver, whole
from tests.unit.operator.controller.kubernetes import node_seen
from tests.unit.operator.controller.objects import a_node, a_pod

BROKEN = "broken"


def gathered() -> Driver:
    """Two applications with a waiting and a bound pod each, and one node."""
    driver = Driver()
    for app in (BROKEN, "fine"):
        driver.see(a_pod(f"{app}-waits", app=app))
        driver.see(a_pod(f"{app}-runs", app=app, nodeName="n1"), phase="Running")
    driver.fact(node_seen(a_node("n1")))
    return driver


def recovered(driver: Driver) -> Outcome:
    """All steps of a recovery; every application is accepted."""
    out = whole(recovery.begin(driver.ledger, 0.0))
    for app in list(driver.ledger.applications):
        driver.accepted(app)
    out.add(whole(recovery.report_nodes(driver.ledger, 0.0)))
    out.add(whole(recovery.submit_asks(driver.ledger, 0.0)))
    out.add(recovery.open_nodes(driver.ledger, 0.0))
    assert driver.ledger.phase is Phase.LIVE
    return out


def counted(out: Outcome) -> dict[str, str]:
    """The pods on the node, each with its application; empty = it only uses resources."""
    [created] = [item for item in out.requests if isinstance(item, NodeCreated)]
    return {spec.ask.key: spec.ask.app or "" for spec in created.existing}


def asks(out: Outcome) -> list[str]:
    return [item.ask.key for item in out.requests if isinstance(item, AskSubmitted)]


def reported(out: Outcome) -> set[str]:
    """The pods with an event about an internal error."""
    events = [command for command in out.commands if isinstance(command, PostEvent)]
    return {event.name for event in events if event.reason == "InternalError"}


def failing(what: Callable[..., Any], is_broken: Callable[..., bool]) -> Callable[..., Any]:
    """The function, which fails on what is broken after it has done its work."""

    def work(*args: Any) -> Any:
        result = what(*args)
        if is_broken(*args):
            raise RuntimeError(BROKEN)
        return result

    return work


def test_a_pod_that_causes_an_error_is_skipped_and_uses_resources_if_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    def is_broken(_ledger: Any, _app: Any, pod: Any) -> bool:
        return str(pod.ref.name).startswith(BROKEN)

    monkeypatch.setattr(applications, "attach", failing(applications.attach, is_broken))
    driver = gathered()
    out = recovered(driver)
    assert counted(out) == {f"uid-{BROKEN}-runs": "", "uid-fine-runs": "dev/fine"}
    assert asks(out) == ["uid-fine-waits"]
    assert reported(out) == {f"{BROKEN}-runs", f"{BROKEN}-waits"}
    assert {(failure.kind, failure.name) for failure in out.failures} == {
        ("Pod", f"dev/{BROKEN}-runs"),
        ("Pod", f"dev/{BROKEN}-waits"),
    }
    assert set(driver.ledger.applications) == {"dev/fine"}


def test_an_application_that_causes_an_error_is_skipped_and_its_bound_pods_use_resources(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def is_broken(_ledger: Any, _out: Any, app: Application, _now: float) -> bool:
        return app.name == BROKEN

    monkeypatch.setattr(applications, "submit", failing(applications.submit, is_broken))
    out = recovered(gathered())
    assert counted(out) == {f"uid-{BROKEN}-runs": "", "uid-fine-runs": "dev/fine"}
    assert asks(out) == ["uid-fine-waits"]
    assert [(failure.kind, failure.name) for failure in out.failures] == [("Application", f"dev/{BROKEN}")]
    assert len(reported(out)) == 1


def test_a_bound_pod_whose_allocation_cannot_be_created_is_reported_with_its_resources(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def is_broken(_ledger: Any, uid: str, _node: Any) -> bool:
        return uid == f"uid-{BROKEN}-runs"

    failures = iter([True])

    def is_first(*args: Any) -> bool:
        return is_broken(*args) and next(failures, False)

    monkeypatch.setattr(recovery, "existing_allocation", failing(nodes.existing_allocation, is_first))
    out = recovered(gathered())
    assert counted(out) == {f"uid-{BROKEN}-runs": "", "uid-fine-runs": "dev/fine"}
    assert reported(out) == {f"{BROKEN}-runs"}


def test_a_failing_event_received_during_a_recovery_affects_no_other_event(monkeypatch: pytest.MonkeyPatch) -> None:
    def is_broken(_ledger: Any, _out: Any, fact: Any, _now: Any) -> bool:
        return isinstance(fact, PodSeen) and fact.pod.ref.name == BROKEN and driver.ledger.phase is Phase.LIVE

    monkeypatch.setattr(cluster_events, "apply_event", failing(cluster_events.apply_event, is_broken))
    driver = gathered()
    whole(recovery.begin(driver.ledger, 0.0))
    for name in (BROKEN, "late"):
        driver.see(a_pod(name, app=name))
    for app in list(driver.ledger.applications):
        driver.accepted(app)
    whole(recovery.report_nodes(driver.ledger, 0.0))
    whole(recovery.submit_asks(driver.ledger, 0.0))
    out = recovery.open_nodes(driver.ledger, 0.0)
    assert [(failure.kind, failure.name) for failure in out.failures] == [("PodSeen", f"dev/{BROKEN}")]
    assert "dev/late" in driver.ledger.applications
