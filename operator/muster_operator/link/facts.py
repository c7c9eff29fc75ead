"""A raw object of a watch stream as the fact it is (style 23: raw objects end in `translate`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from muster_operator.model.facts import (
    Fact,
    NamespaceGone,
    NamespaceSeen,
    NodeGone,
    NodeSeen,
    PodGone,
    PodSeen,
)
from muster_operator.model.ids import NodeName, PodUid
from muster_operator.model.settings import Settings
from muster_operator.translate.namespaces import read_namespace, read_priority_class
from muster_operator.translate.nodes import read_node
from muster_operator.translate.pods import read_pod
from muster_operator.translate.raw import Raw, mapping, text

DELETED: Final = "DELETED"


def fact_of(plural: str, kind: str | None, raw: Raw, settings: Settings) -> Fact | None:
    """What a watch event says; None for an object that cannot be read or a resource that is not watched."""
    if kind == DELETED:
        return _gone(plural, mapping(raw.get("metadata")))
    reader = _READERS.get(plural)
    return reader(raw, settings) if reader is not None else None


def _gone(plural: str, metadata: Raw) -> Fact | None:
    """A priority class that is gone is still the one its pods were made with: no fact."""
    name, uid = text(metadata.get("name")), text(metadata.get("uid"))
    match plural:
        case "pods" if uid:
            return PodGone(PodUid(uid))
        case "nodes" if name:
            return NodeGone(NodeName(name))
        case "namespaces" if name:
            return NamespaceGone(name)
        case _:
            return None


def _pod(raw: Raw, settings: Settings) -> Fact | None:
    pod = read_pod(raw, settings)
    return None if pod is None else PodSeen(pod)


def _node(raw: Raw, settings: Settings) -> Fact | None:
    node = read_node(raw, settings)
    return None if node is None else NodeSeen(node)


def _namespace(raw: Raw, _: Settings) -> Fact | None:
    namespace = read_namespace(raw)
    return None if namespace is None else NamespaceSeen(namespace)


def _priority_class(raw: Raw, _: Settings) -> Fact | None:
    return read_priority_class(raw)


_READERS: Final[Mapping[str, Callable[[Raw, Settings], Fact | None]]] = {
    "pods": _pod,
    "nodes": _node,
    "namespaces": _namespace,
    "priorityclasses": _priority_class,
}
