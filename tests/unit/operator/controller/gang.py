"""A gang of two for scenarios: its members and its placeholders."""

from __future__ import annotations

from typing import Any

from muster_operator.model.commands import CreatePlaceholder, Outcome
from muster_operator.model.settings import Settings
from muster_operator.translate.gangs import placeholder_body
from tests.unit.operator.controller.driver import APP, Driver, live
from tests.unit.operator.controller.objects import Raw, a_group, a_pod, gang_annotations


def a_member(name: str = "w0", *, group: str = "g", count: int = 2, parameters: str = "") -> Raw:
    return a_pod(
        name, app=APP, annotations=gang_annotations(a_group("g", count), parameters=parameters, member_of=group)
    )


def a_direct_member(name: str = "w0", **of_member: Any) -> Raw:
    """Return a member of a Direct gang."""
    return a_member(name, parameters="gangPlacement=Direct", **of_member)


def creates(outcome: Outcome) -> list[CreatePlaceholder]:
    return [command for command in outcome.commands if isinstance(command, CreatePlaceholder)]


def pod_of(command: CreatePlaceholder, **spec: Any) -> Raw:
    """Return the placeholder as the API server returns it. Its UID is ``ph-<name>``."""
    raw = placeholder_body(command.spec, Settings())
    raw["metadata"] |= {
        "uid": f"ph-{command.spec.name}",
        "creationTimestamp": "2026-01-01T00:00:01Z",
    }
    raw["spec"].update(spec)
    raw["status"] = {"phase": "Pending"}
    return raw


def reserving(*, parameters: str = "") -> tuple[Driver, list[Raw]]:
    """Return a gang of two after the asks of both placeholders were sent."""
    driver = live()
    driver.see(a_member(parameters=parameters))
    driver.see(a_member("w1", parameters=parameters))
    placeholders = [pod_of(command) for command in creates(driver.accepted())]
    for raw in placeholders:
        driver.see(raw)
    return driver, placeholders


def uid(raw: Raw) -> str:
    return str(raw["metadata"]["uid"])
