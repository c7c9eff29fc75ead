"""Objects that filters read beside nodes and pods, as the core is told of them (muster.v1, UpdateFacts)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class ObjectKind(StrEnum):
    """What kind of object; the names of the interface's enum `Fact.Kind`."""

    NAMESPACE = "NAMESPACE"
    VOLUME = "VOLUME"
    CLAIM = "CLAIM"
    STORAGE_CLASS = "STORAGE_CLASS"
    STORAGE_DRIVER = "STORAGE_DRIVER"
    STORAGE_CAPACITY = "STORAGE_CAPACITY"


@dataclass(frozen=True, slots=True)
class ClusterObject:
    """One object as the core knows it. ``name``: ``namespace/name`` where it lies in a namespace.

    ``attributes`` are those of its kind in ``muster_si.keys``. ``gone``: it is there no more.
    """

    kind: ObjectKind
    name: str
    attributes: Mapping[str, str] = field(default_factory=dict)
    gone: bool = False
