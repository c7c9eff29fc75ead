"""A namespace as the agent sees it: the quota that its annotations ask for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Namespace:
    """``tags`` go into every application of the namespace (contract 1.6, 1.9); ``problems`` are ignored annotations."""

    name: str
    tags: Mapping[str, str]
    problems: tuple[str, ...] = ()
    terminating: bool = False
