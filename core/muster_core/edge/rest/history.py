"""Applications that ran and allocations there were, minute by minute, for a day (contract 4, rows 21 and 22)."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Final, NamedTuple

from muster_core.edge.rest.shapes.records import ApplicationCount, ContainerCount
from muster_core.model.states import ApplicationState
from muster_core.world.world import World

#: Between two samples.
EVERY_S: Final = 60.0
_KEPT: Final = 1440


class Sample(NamedTuple):
    """One minute."""

    at_ns: int
    applications: int
    containers: int


class History:
    """The newest samples, oldest first."""

    def __init__(self) -> None:
        self._samples: deque[Sample] = deque(maxlen=_KEPT)

    def sample(self, world: World, now_ns: int) -> None:
        """Count now."""
        apps = [app for partition in world.partitions.values() for app in partition.applications.values()]
        running = sum(app.state is ApplicationState.RUNNING for app in apps)
        self._samples.append(Sample(now_ns, running, sum(len(app.allocations) for app in apps)))

    def applications(self) -> Iterator[ApplicationCount]:
        """Applications that ran."""
        for sample in list(self._samples):
            yield ApplicationCount(timestamp=sample.at_ns, totalApplications=str(sample.applications))

    def containers(self) -> Iterator[ContainerCount]:
        """Allocations, placeholders too."""
        for sample in list(self._samples):
            yield ContainerCount(timestamp=sample.at_ns, totalContainers=str(sample.containers))
