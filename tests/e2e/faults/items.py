"""The items of a load: manifests that belong together, and the expected end of their pods. Pure."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum

from devcluster.api import Json
from tests.e2e.faults.pod_versions import ITEM_LABEL

RUN_FOR = "devcluster.muster/run-for"
"""Annotation by which KWOK ends a pod; without it the pod stays."""

SIZES = ("100m", "250m", "500m", "1")


class End(Enum):
    """What has to have become of every pod of an item."""

    SERVED = "was bound once, and has succeeded or runs on"
    REFUSED = "has no node, and its phase, a condition or an event says why"
    FAILED = "has failed, with a reason"
    JOB_DONE = "as many of its pods as its Job wants have succeeded"
    DELETED = "is gone"


class Deletion(Enum):
    """When users delete an item again."""

    NEVER = "never"
    AT_ONCE = "right after it was made"
    LATER = "an episode later"


@dataclass(frozen=True, slots=True)
class Item:
    """``kind``: for people. ``gang`` and ``single``: how many real pods of each sort it has."""

    name: str
    kind: str
    manifests: list[Json]
    end: End
    gang: int = 0
    single: int = 0
    deletion: Deletion = Deletion.NEVER

    @property
    def pods(self) -> int:
        """Real pods in all."""
        return self.gang + self.single


Make = Callable[[str], Item]
"""Makes an item of that name."""


def marked(name: str, pods: Iterable[Json]) -> list[Json]:
    """The same pods with the item's name on them."""
    found = list(pods)
    for pod in found:
        pod["metadata"]["labels"][ITEM_LABEL] = name
    return found


def ending(chance: random.Random, pods: Iterable[Json]) -> list[Json]:
    """The same pods, made to succeed after a while."""
    found = list(pods)
    for pod in found:
        pod["metadata"]["annotations"][RUN_FOR] = f"{chance.randint(500, 4000)}ms"
    return found
