"""A namespace as the agent sees it: the quota that its annotations ask for, and its labels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Namespace:
    """``tags`` go into every application of the namespace (contract 1.6, 1.9); ``problems`` are ignored annotations.

    ``labels`` are what the namespace selectors of pods read.
    """

    name: str
    tags: Mapping[str, str]
    problems: tuple[str, ...] = ()
    terminating: bool = False
    labels: Mapping[str, str] = field(default_factory=dict)
