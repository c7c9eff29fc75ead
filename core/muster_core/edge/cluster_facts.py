"""Facts about other objects of the cluster → the core's events; what cannot be read is answered (scheduler.py)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from muster_core.edge import fields
from muster_core.edge.reading import NAME_LIMIT
from muster_core.edge.refusals import Unfit
from muster_core.model.cluster import ClusterFact, NamespaceLabels
from muster_si import muster_pb2

Fact = muster_pb2.Fact
#: Reads the attributes of one object; None = it is gone.
Reader = Callable[[str, Mapping[str, str] | None], ClusterFact]


def _namespace(name: str, attributes: Mapping[str, str] | None) -> ClusterFact:
    return NamespaceLabels(name, attributes)


_READERS: Final[Mapping[int, Reader]] = {Fact.NAMESPACE: _namespace}


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
    reader = _READERS.get(fact.kind)
    if reader is None:
        raise Unfit("kind", f"is not known: {int(fact.kind)}")
    name = fields.long_name(fact.name, "name")
    return reader(name, None if fact.gone else dict(fact.attributes))
