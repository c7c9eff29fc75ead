"""A gang of two for scenarios: its members and its placeholders."""

from typing import Any

from muster_operator.model.commands import CreatePlaceholder, Outcome
from muster_operator.model.settings import Settings
from muster_operator.translate.placeholders import placeholder_body
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


def began(
    *names: str, parameters: str = "", count: int = 2, settings: Settings | None = None
) -> tuple[Driver, list[CreatePlaceholder]]:
    """Return a gang with these members that the core has accepted, and the creations of its placeholders."""
    driver = live() if settings is None else live(settings=settings)
    for name in names:
        driver.see(a_member(name, count=count, parameters=parameters))
    return driver, creates(driver.accepted())


def seen(driver: Driver, commands: list[CreatePlaceholder]) -> list[Raw]:
    """Let the operator see the placeholders that it created. Return them."""
    found = [pod_of(command) for command in commands]
    for raw in found:
        driver.see(raw)
    return found


def reserving(*, parameters: str = "", settings: Settings | None = None) -> tuple[Driver, list[Raw]]:
    """Return a gang of two after the asks of both placeholders were sent."""
    driver, commands = began("w0", "w1", parameters=parameters, settings=settings)
    return driver, seen(driver, commands)


def uid(raw: Raw) -> str:
    return str(raw["metadata"]["uid"])
