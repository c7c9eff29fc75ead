"""What happened: events, history, health checks (contract 4, rows 21 to 25)."""

from __future__ import annotations

from pydantic import Field

from muster_core.edge.rest.shapes.base import Shape, TimeNs


class Quantity(Shape):
    """One amount, as protobuf's JSON has it."""

    value: int


class EventResource(Shape):
    """Amounts of an event, as protobuf's JSON has them."""

    resources: dict[str, Quantity]


class Event(Shape):
    """One record (contract 6.1)."""

    type: int
    objectID: str
    referenceID: str | None = None
    message: str | None = None
    timestampNano: TimeNs
    eventChangeType: int
    eventChangeDetail: int | None = None
    resource: EventResource


class EventBatch(Shape):
    """Records of one answer; null where the first one asked for is not kept."""

    InstanceUUID: str
    LowestID: int
    HighestID: int = Field(description="-1 while there was none")
    EventRecords: list[Event] | None


class ApplicationCount(Shape):
    """Applications that ran at a minute."""

    timestamp: TimeNs
    totalApplications: str


class ContainerCount(Shape):
    """Allocations there were at a minute."""

    timestamp: TimeNs
    totalContainers: str


class HealthCheck(Shape):
    """One check and what it found."""

    Name: str
    Succeeded: bool
    Description: str
    DiagnosisMessage: str


class Health(Shape):
    """The last result of the checks in the background."""

    Healthy: bool
    HealthChecks: list[HealthCheck]
