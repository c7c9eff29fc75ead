"""The items of a load: manifests that belong together, and the expected outcome of their pods. Pure."""

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum

from devcluster.api import Json
from tests.e2e.faults.pod_versions import ITEM_LABEL

RUN_FOR = "devcluster.muster/run-for"
"""Annotation with the run time after which KWOK completes a pod; without it the pod runs on."""

SIZES = ("100m", "250m", "500m", "1")


class Outcome(Enum):
    """The expected outcome of every pod of an item."""

    BOUND = "was bound once, and has succeeded or still runs"
    REJECTED = "has no node, and its phase, a condition or an event has the reason"
    FAILED = "has failed, with a reason"
    JOB_DONE = "as many pods have succeeded as the Job requires"
    DELETED = "is deleted"


class Deletion(Enum):
    """When the user deletes an item."""

    NEVER = "never"
    AT_ONCE = "immediately after its creation"
    LATER = "an episode later"


@dataclass(frozen=True, slots=True)
class Item:
    """``kind``: shown in reports. ``gang`` and ``single``: number of real pods of gangs, and of single pods."""

    name: str
    kind: str
    manifests: list[Json]
    outcome: Outcome
    gang: int = 0
    single: int = 0
    deletion: Deletion = Deletion.NEVER

    @property
    def pods(self) -> int:
        """Total number of real pods."""
        return self.gang + self.single


CreateItem = Callable[[str], Item]
"""Creates an item with this name."""


def marked(name: str, pods: Iterable[Json]) -> list[Json]:
    """The same pods with a label that has the name of the item."""
    found = list(pods)
    for pod in found:
        pod["metadata"]["labels"][ITEM_LABEL] = name
    return found


def ending(chance: random.Random, pods: Iterable[Json]) -> list[Json]:
    """The same pods with a random run time, after which they succeed."""
    found = list(pods)
    for pod in found:
        pod["metadata"]["annotations"][RUN_FOR] = f"{chance.randint(500, 4000)}ms"
    return found
