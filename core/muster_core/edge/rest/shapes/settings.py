"""Configuration and its check, level of the log (contract 4, rows 3 and 4)."""

from __future__ import annotations

from pydantic import Field

from muster_core.edge.rest.shapes.base import Shape, Texts


class Config(Shape):
    """The configuration in force, with the names of its file written as YuniKorn's JSON has them."""

    Partitions: list[dict[str, object]]
    Checksum: str
    Extra: Texts = Field(description="the settings beside the files")
    DeadlockDetectionEnabled: bool
    DeadlockTimeoutSeconds: int


class Verdict(Shape):
    """Whether a configuration may be put in force."""

    allowed: bool
    reason: str | None = None
    checksum: str | None = None
    checksumMatch: bool | None = None


class LogLevel(Shape):
    """From what on the log is written."""

    level: str = Field(description="debug, info, warning or error")
