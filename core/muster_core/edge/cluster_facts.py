"""Facts about other objects of the cluster → the core's events; what cannot be read is answered (scheduler.py)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from muster_core.edge import fields, storage_facts
from muster_core.edge.reading import NAME_LIMIT
from muster_core.edge.refusals import Unfit
from muster_core.model.cluster import ClusterFact, NamespaceLabels
from muster_core.model.storage import ObjectGone, ObjectKind
from muster_si import muster_pb2

Fact = muster_pb2.Fact
_READERS: Final[Mapping[int, tuple[ObjectKind, storage_facts.Reader]]] = {
    Fact.VOLUME: (ObjectKind.VOLUME, storage_facts.volume),
    Fact.CLAIM: (ObjectKind.CLAIM, storage_facts.claim),
    Fact.STORAGE_CLASS: (ObjectKind.CLASS, storage_facts.storage_class),
    Fact.STORAGE_DRIVER: (ObjectKind.DRIVER, storage_facts.driver),
    Fact.STORAGE_CAPACITY: (ObjectKind.CAPACITY, storage_facts.capacity),
}


def read(facts: Iterable[Fact]) -> tuple[tuple[ClusterFact, ...], list[muster_pb2.RejectedFact]]:
    """The facts that mean something, and why the others do not."""
    taken: list[ClusterFact] = []
    rejected: list[muster_pb2.RejectedFact] = []
    for fact in facts:
        try:
            taken.append(_fact(fact))
        except Unfit as unfit:
            rejected.append(muster_pb2.RejectedFact(kind=fact.kind, name=fact.name[:NAME_LIMIT], reason=str(unfit)))
    return tuple(taken), rejected


def _fact(fact: Fact) -> ClusterFact:
    if fact.kind == Fact.NAMESPACE:
        return NamespaceLabels(fields.long_name(fact.name, "name"), None if fact.gone else dict(fact.attributes))
    if fact.kind not in _READERS:
        raise Unfit("kind", f"is not known: {int(fact.kind)}")
    kind, reader = _READERS[fact.kind]
    name = fields.long_name(fact.name, "name")
    return ObjectGone(kind, name) if fact.gone else storage_facts.read(reader, name, fact.attributes)
