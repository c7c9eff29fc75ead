"""Nodes, namespaces and priority classes as values of ``model``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from hashlib import blake2b
from typing import Any, Final

import orjson

from muster_operator.model import names
from muster_operator.model.cluster_events import Namespace, PriorityClassSeen
from muster_operator.model.core_messages import Node
from muster_operator.model.errors import BadInputError
from muster_operator.model.ids import MAX_AMOUNT, NodeName
from muster_operator.model.settings import Settings
from muster_operator.translate import go_json
from muster_operator.translate.known_names import namespace_problems, unknown_resources
from muster_operator.translate.values import (
    Raw,
    amount,
    canonical,
    canonical_name,
    integer,
    items,
    mapping,
    nanos,
    objects,
    strings,
    text,
)
from muster_si import keys

#: Characters of the images attribute. The core accepts more; the difference covers quotes in names.
_MAX_TEXT: Final = 250_000

#: Characters in addition to a name: quotes, colon, comma and a size of up to 19 digits.
_EXTRA_CHARACTERS: Final = 23

#: Distinct image lists in the cache, which is cleared if it is full. Each node has one list.
_CACHED_NODES: Final = 8192


def _attribute(images: Any) -> str:
    """Image sizes by name as JSON. Keeps the largest images if there are too many for the limit."""
    sizes: dict[str, int] = {}
    remaining = _MAX_TEXT
    for image in sorted(objects(images), key=_size, reverse=True):
        for name in map(text, items(image.get("names"))):
            if not name or name in sizes:
                continue
            remaining -= len(name.encode()) + _EXTRA_CHARACTERS
            if remaining < 0:
                return _text(sizes)
            sizes[name] = _size(image)
    return _text(sizes) if sizes else ""


def _text(sizes: dict[str, int]) -> str:
    """Canonical JSON. It is not cached here, because the list that it is built from is the cache key."""
    return orjson.dumps(sizes, option=orjson.OPT_SORT_KEYS).decode()


def _size(image: Raw) -> int:
    return min(max(integer(image.get("sizeBytes")), 0), MAX_AMOUNT)


class _ImageLists:
    """Cache of image attributes by the digest of the raw list, because the lists are long."""

    def __init__(self) -> None:
        self._known: dict[bytes, str] = {}

    def attribute(self, images: Any) -> str:
        try:
            digest = blake2b(orjson.dumps(images), digest_size=16).digest()
        except (TypeError, RecursionError):
            return _attribute(images)
        known = self._known.get(digest)
        if known is None:
            if len(self._known) >= _CACHED_NODES:
                self._known.clear()
            known = self._known[digest] = _attribute(images)
        return known


_IMAGE_LISTS: Final = _ImageLists()


def images_attribute(status: Raw) -> str:
    """Value of the images attribute; empty for a node that reports no image."""
    images = status.get("images")
    return _IMAGE_LISTS.attribute(images) if images else ""


#: Longest resource name in the Scheduler Interface. Kubernetes allows 317 characters for extended resources.
_MAX_NAME: Final = 256
_RACK: Final = "/rack-default"

#: Well-known labels that the Scheduler Interface carries as attributes of their own.
_LABEL_ATTRIBUTES: Final = {
    "kubernetes.io/arch": keys.ARCH,
    "kubernetes.io/os": keys.OS,
    "topology.kubernetes.io/zone": keys.FAILURE_DOMAIN_ZONE,
    "topology.kubernetes.io/region": keys.FAILURE_DOMAIN_REGION,
}

_TAINT_FIELDS: Final = ("key", "value", "effect")


def _capacity(status: Raw) -> dict[str, int]:
    """Allocatable resources in the scheduler's units. An invalid quantity counts as 0.

    Names that are too long for the Scheduler Interface are left out, because the core would reject the complete node.
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
    """Translates a node. Returns None if the object has no name."""
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


def _quota(annotation: str, quantities: Mapping[str, str], sign: str = ": ") -> str:
    """The quota as canonical JSON of the interface's Resource message.

    ``sign`` separates annotation and resource in error messages.
    """
    amounts: dict[str, dict[str, int]] = {}
    for resource, quantity in quantities.items():
        name, field = canonical_name(resource), f"{annotation}{sign}{resource}"
        if name in amounts:
            raise BadInputError(field, "cpu and vcore are the same resource", "keep cpu only")
        nano = nanos(field, quantity)
        if nano < 0:
            raise BadInputError(field, "is negative", "write zero or more")
        amounts[name] = {"value": amount(name, nano)}
    return canonical(annotation, {"resources": amounts}) if amounts else ""


def _quota_tag(annotations: dict[str, str]) -> str:
    """The namespace's quota: ``namespace.quota``, or else the deprecated annotations for CPU and memory."""
    written = annotations.get(names.ANNOTATION_NAMESPACE_QUOTA)
    if written:
        return _quota(names.ANNOTATION_NAMESPACE_QUOTA, go_json.quantities(names.ANNOTATION_NAMESPACE_QUOTA, written))
    pair = {"cpu": names.ANNOTATION_NAMESPACE_MAX_CPU, "memory": names.ANNOTATION_NAMESPACE_MAX_MEMORY}
    found = {name: annotations[key] for name, key in pair.items() if annotations.get(key)}
    return _quota("yunikorn.apache.org/namespace.max", found, ".")


def _guaranteed_tag(annotations: dict[str, str]) -> str:
    written = annotations.get(names.ANNOTATION_NAMESPACE_GUARANTEED)
    if not written:
        return ""
    return _quota(
        names.ANNOTATION_NAMESPACE_GUARANTEED, go_json.quantities(names.ANNOTATION_NAMESPACE_GUARANTEED, written)
    )


def _max_apps_tag(annotations: dict[str, str]) -> str:
    written = annotations.get(names.ANNOTATION_NAMESPACE_MAX_APPS, "")
    if written and not (written.isascii() and written.isdigit() and len(written) <= 18):
        raise BadInputError(
            names.ANNOTATION_NAMESPACE_MAX_APPS, f'"{written[:40]}" is not a number of applications', "write 0 or more"
        )
    return written


_READERS = {
    keys.APP_TAG_RESOURCE_QUOTA: _quota_tag,
    keys.APP_TAG_RESOURCE_GUARANTEED: _guaranteed_tag,
    keys.APP_TAG_RESOURCE_MAX_APPS: _max_apps_tag,
}


_QUOTAS: Final = {
    keys.APP_TAG_RESOURCE_QUOTA: names.ANNOTATION_NAMESPACE_QUOTA,
    keys.APP_TAG_RESOURCE_GUARANTEED: names.ANNOTATION_NAMESPACE_GUARANTEED,
}


def read_namespace(raw: Raw) -> Namespace | None:
    """Translates a namespace. Returns None if the object has no name."""
    metadata = mapping(raw.get("metadata"))
    name = text(metadata.get("name"))
    if not name:
        return None
    annotations = strings(metadata.get("annotations"))
    tags = {keys.APP_TAG_NAMESPACE: name}
    problems: list[str] = []
    if parent := annotations.get(names.ANNOTATION_PARENT_QUEUE):
        tags[keys.APP_TAG_PARENT_QUEUE] = parent
    for tag, read in _READERS.items():
        try:
            value = read(annotations)
        except BadInputError as error:
            problems.append(str(error))
        else:
            if value:
                tags[tag] = value
    is_leaving = bool(metadata.get("deletionTimestamp"))
    labels, uid = strings(metadata.get("labels")), text(metadata.get("uid"))
    misspelt = (*namespace_problems(metadata), *_unknown_resources(tags))
    return Namespace(name, tags, tuple(problems), is_leaving, labels, uid, misspelt)


def _unknown_resources(tags: Mapping[str, str]) -> Iterator[str]:
    """The resources in the quotas of a namespace that no pod requests."""
    for tag, annotation in _QUOTAS.items():
        if tag in tags:
            yield from unknown_resources(annotation, orjson.loads(tags[tag])["resources"])


def read_priority_class(raw: Raw) -> PriorityClassSeen | None:
    """Translates a priority class. Returns None if the object has no name. As in YuniKorn, only "false" opts out."""
    metadata = mapping(raw.get("metadata"))
    name = text(metadata.get("name"))
    if not name:
        return None
    written = strings(metadata.get("annotations")).get(names.ANNOTATION_ALLOW_PREEMPTION)
    return PriorityClassSeen(name, allow_preemption=written != "false")
