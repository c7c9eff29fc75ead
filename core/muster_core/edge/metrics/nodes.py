"""Nodes by state, and how full they are: whole columns at a time, when scraped."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final

import numpy as np
import numpy.typing as npt
from prometheus_client.core import Metric

from muster_core.edge.metrics.family import gauge, word
from muster_core.world.nodes import Columns
from muster_core.world.world import Partition

_TENTHS: Final = 10
#: Labels of the ranges, as contract 5 has them.
RANGES: Final = ("[0,10%]", *(f"({10 * each}%,{10 * each + 10}%]" for each in range(1, _TENTHS)))


def families(partitions: Iterable[Partition], failed: int, decommissioned: int) -> Iterator[Metric]:
    """All metrics about nodes; those that were refused, or went, are counted elsewhere."""
    active = known = 0
    usage: dict[str, npt.NDArray[np.int64]] = {}
    sums: Counter[tuple[str, str]] = Counter()
    for partition in partitions:
        columns = partition.nodes.columns()
        active += int(columns.open.sum())
        known += len(partition.nodes)
        for resource in columns.capacities:
            sums.update(_sums(partition, columns, resource))
            total = columns.capacities.column(resource, columns.size)
            left = columns.availables.column(resource, columns.size)
            if total is not None:
                counts = usage_counts(total, np.zeros_like(total) if left is None else left)
                usage[resource] = usage[resource] + counts if resource in usage else counts
    states = {"active": active, "draining": known - active, "failed": failed, "decommissioned": decommissioned}
    yield gauge(
        "yunikorn_scheduler_node",
        "Nodes, by state; failed and decommissioned ones since the start.",
        [({"state": state}, count) for state, count in states.items()],
    )
    yield gauge(
        "muster_core_cluster_resource",
        "Resources of all nodes: what they have, what of it is taken, held for asks, and really used where reported.",
        [({"resource": resource, "state": state}, amount) for (resource, state), amount in sums.items()],
    )
    for name, ranges in _by_name(usage).items():
        yield gauge(
            f"yunikorn_scheduler_{name}_node_usage_total",
            "Nodes, by how much of the resource is used.",
            [({"range": label}, int(count)) for label, count in zip(RANGES, ranges, strict=True)],
        )


def _sums(partition: Partition, columns: Columns, resource: str) -> dict[tuple[str, str], int]:
    """Of one resource over all nodes of a partition."""

    def sum_of(column: npt.NDArray[np.int64] | None) -> int:
        return 0 if column is None else int(column.sum())

    capacity = sum_of(columns.capacities.column(resource, columns.size))
    taken = capacity - sum_of(columns.availables.column(resource, columns.size))
    return {
        (resource, "capacity"): capacity,
        (resource, "taken"): taken,
        (resource, "held"): sum_of(columns.claimed.column(resource, columns.size)),
        (resource, "used"): taken + sum_of(partition.nodes.measured(resource)),
    }


def usage_counts(total: npt.NDArray[np.int64], left: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """How many nodes use up to 10 %, 20 %, … of what they have; those that have none are left out."""
    has = total > 0
    used = (total[has] - left[has]) / total[has]
    tenths = np.clip(np.ceil(used * _TENTHS).astype(np.int64) - 1, 0, _TENTHS - 1)
    return np.bincount(tenths, minlength=_TENTHS)


def _by_name(usage: dict[str, npt.NDArray[np.int64]]) -> dict[str, npt.NDArray[np.int64]]:
    """By what may stand in a metric's name; two resources that become one name are added up."""
    named: dict[str, npt.NDArray[np.int64]] = {}
    for resource, counts in usage.items():
        name = word(resource)
        named[name] = named[name] + counts if name in named else counts
    return named
