"""The sentences of invariants.py about selectors: who reads which labels, and whose pods are where.

The counts are recomputed from asks and allocations.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from muster_core.engine import affinity
from muster_core.model.company import NAMESPACE
from muster_core.model.ids import ApplicationId
from muster_core.model.specs import AllocationSpec, AskSpec
from muster_core.world.selector_labels import Read
from muster_core.world.world import Partition


def check(partition: Partition) -> Iterator[str]:
    """Every sentence that does not hold."""
    labels = partition.nodes.occupants.tags.labels
    readers, pods = Counter[Read](), Counter[tuple[str, ApplicationId]]()
    for name, spec in _there(partition):
        readers.update(affinity.reads_of(spec))
        pods[spec.tags.get(NAMESPACE, ""), name] += 1
    for app in partition.applications.values():
        readers.update(affinity.reads_of_members(app.spec.members))
    if sum(labels.charged().values()) < len(readers):
        yield f"{len(readers)} labels are read, {labels.charged()} are charged to namespaces"
    if dict(readers) != labels.readers():
        yield f"readers of labels are kept as {labels.readers()}, counted as {dict(readers)}"
    if labels.is_on and dict(pods) != labels.pods():
        yield f"pods of namespaces are kept as {labels.pods()}, counted as {dict(pods)}"


def _there(partition: Partition) -> Iterator[tuple[ApplicationId, AskSpec | AllocationSpec]]:
    for app in partition.applications.values():
        yield from ((app.id, ask.spec) for ask in app.asks.values())
        yield from ((app.id, one.spec) for one in app.allocations.values())
    yield from ((ApplicationId(""), spec) for spec in partition.foreign.values())
