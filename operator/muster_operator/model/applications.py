"""An application as it is submitted to the core (seed 003, AddApplicationRequest)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from muster_operator.model.ids import AppId
from muster_operator.model.pods import UserInfo
from muster_operator.model.resources import Resources


@dataclass(frozen=True, slots=True)
class ApplicationSpec:
    """``placeholder_ask`` is empty and ``style`` blank for an application that is no gang."""

    app: AppId
    queue: str
    user: UserInfo
    tags: Mapping[str, str]
    placeholder_ask: Resources = field(default_factory=dict)
    style: str = ""
    execution_timeout_ms: int = 0
