"""A raw node becomes a Node: what it offers and what filters read of it (contract 1.7)."""

from __future__ import annotations

from typing import Final

from muster_operator.model.errors import BadInputError
from muster_operator.model.ids import NodeName
from muster_operator.model.nodes import Node
from muster_operator.model.resources import MAX_AMOUNT
from muster_operator.model.settings import Settings
from muster_operator.translate.canonical import canonical
from muster_operator.translate.images import images_attribute
from muster_operator.translate.quantities import amount, canonical_name, nanos
from muster_operator.translate.raw import Raw, items, mapping, objects, strings, text
from muster_si import keys

#: Longest name of anything in the interface (semantics 3); Kubernetes lets extended resources have 317 characters.
_MAX_NAME: Final = 256
_RACK: Final = "/rack-default"
#: Well-known labels that have an attribute of their own in the interface (seed 003).
_LABEL_ATTRIBUTES: Final = {
    "kubernetes.io/arch": keys.ARCH,
    "kubernetes.io/os": keys.OS,
    "topology.kubernetes.io/zone": keys.FAILURE_DOMAIN_ZONE,
    "topology.kubernetes.io/region": keys.FAILURE_DOMAIN_REGION,
}
_TAINT_FIELDS: Final = ("key", "value", "effect")


def _capacity(status: Raw) -> dict[str, int]:
    """Allocatable in the scheduler's units; an amount that cannot be read offers nothing.

    A name that the interface does not carry is left out: for it the core would refuse the whole node.
    """
    capacity: dict[str, int] = {}
    for resource, quantity in mapping(status.get("allocatable")).items():
        name = canonical_name(text(resource))
        if not 0 < len(name) <= _MAX_NAME:
            continue
        try:
            capacity[name] = min(max(amount(name, nanos(name, quantity)), 0), MAX_AMOUNT)
        except BadInputError:
            capacity[name] = 0
    return capacity


def _is_ready(status: Raw) -> bool:
    return any(
        condition.get("type") == "Ready" and condition.get("status") == "True"
        for condition in objects(status.get("conditions"))
    )


def _attributes(name: str, raw: Raw, settings: Settings) -> dict[str, str]:
    metadata, spec, status = (mapping(raw.get(part)) for part in ("metadata", "spec", "status"))
    labels = strings(metadata.get("labels"))
    attributes = {
        keys.HOST_NAME: name,
        keys.RACK_NAME: _RACK,
        keys.NODE_PARTITION: settings.partition,
        keys.NODE_READY: "true" if _is_ready(status) else "false",
    }
    for label, attribute in (*_LABEL_ATTRIBUTES.items(), (settings.instance_type_label, keys.INSTANCE_TYPE)):
        if labels.get(label):
            attributes[attribute] = labels[label]
    for label, value in labels.items():
        attributes[keys.NODE_LABEL_PREFIX + label] = value
    taints = [
        {field: text(taint.get(field)) for field in _TAINT_FIELDS if taint.get(field)}
        for taint in objects(spec.get("taints"))
    ]
    if taints:
        attributes[keys.NODE_TAINTS] = canonical("taints", taints)
    if spec.get("unschedulable") is True:
        attributes[keys.NODE_UNSCHEDULABLE] = "true"
    if features := sorted({text(name) for name in items(status.get("declaredFeatures")) if isinstance(name, str)}):
        attributes[keys.NODE_FEATURES] = canonical("declared features", features)
    if images := images_attribute(status):
        attributes[keys.LOCAL_IMAGES] = images
    return attributes


def read_node(raw: Raw, settings: Settings) -> Node | None:
    """The node, None for an object that is no node."""
    metadata = mapping(raw.get("metadata"))
    name = text(metadata.get("name"))
    if not name:
        return None
    return Node(
        name=NodeName(name),
        uid=text(metadata.get("uid")),
        capacity=_capacity(mapping(raw.get("status"))),
        attributes=_attributes(name, raw, settings),
        schedulable=mapping(raw.get("spec")).get("unschedulable") is not True,
    )
