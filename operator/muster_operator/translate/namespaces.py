"""A raw namespace becomes the tags of its applications; a raw priority class the one thing read of it.

Contract 1.6, 1.7, 1.9. A quota with one bad value is ignored whole.
"""

from __future__ import annotations

from collections.abc import Mapping

import orjson

from muster_operator.model import vocabulary as words
from muster_operator.model.errors import BadInputError
from muster_operator.model.facts import PriorityClassSeen
from muster_operator.model.namespaces import Namespace
from muster_operator.translate.canonical import canonical
from muster_operator.translate.quantities import amount, canonical_name, nanos
from muster_operator.translate.raw import Raw, mapping, strings, text
from muster_si import keys


def _quota(annotation: str, quantities: Mapping[str, object], sign: str = ": ") -> str:
    """The quota as the tag carries it: the Resource message of the interface, in canonical JSON.

    ``sign`` stands between annotation and resource where one of them is named.
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


def _decoded(annotation: str, written: str) -> dict[str, object]:
    try:
        value = orjson.loads(written)
    except (orjson.JSONDecodeError, RecursionError) as error:
        raise BadInputError(annotation, f"is not JSON ({error})", 'write for example {"cpu": "64"}') from error
    if not isinstance(value, dict):
        raise BadInputError(annotation, "is not a JSON object", 'write for example {"cpu": "64"}')
    return value


def _quota_tag(annotations: dict[str, str]) -> str:
    """The namespace's quota, from the annotation in force or the deprecated pair (contract 1.6)."""
    written = annotations.get(words.ANNOTATION_NAMESPACE_QUOTA)
    if written:
        return _quota(words.ANNOTATION_NAMESPACE_QUOTA, _decoded(words.ANNOTATION_NAMESPACE_QUOTA, written))
    pair = {"cpu": words.ANNOTATION_NAMESPACE_MAX_CPU, "memory": words.ANNOTATION_NAMESPACE_MAX_MEMORY}
    found = {name: annotations[key] for name, key in pair.items() if annotations.get(key)}
    return _quota("yunikorn.apache.org/namespace.max", found, ".")


def _guaranteed_tag(annotations: dict[str, str]) -> str:
    written = annotations.get(words.ANNOTATION_NAMESPACE_GUARANTEED)
    if not written:
        return ""
    return _quota(words.ANNOTATION_NAMESPACE_GUARANTEED, _decoded(words.ANNOTATION_NAMESPACE_GUARANTEED, written))


def _max_apps_tag(annotations: dict[str, str]) -> str:
    written = annotations.get(words.ANNOTATION_NAMESPACE_MAX_APPS, "")
    if written and not (written.isascii() and written.isdigit() and len(written) <= 18):
        raise BadInputError(words.ANNOTATION_NAMESPACE_MAX_APPS, f'"{written[:40]}" is no count', "write 0 or more")
    return written


_READERS = {
    keys.APP_TAG_RESOURCE_QUOTA: _quota_tag,
    keys.APP_TAG_RESOURCE_GUARANTEED: _guaranteed_tag,
    keys.APP_TAG_RESOURCE_MAX_APPS: _max_apps_tag,
}


def read_namespace(raw: Raw) -> Namespace | None:
    """The namespace, None for an object that is none."""
    metadata = mapping(raw.get("metadata"))
    name = text(metadata.get("name"))
    if not name:
        return None
    annotations = strings(metadata.get("annotations"))
    tags = {keys.APP_TAG_NAMESPACE: name}
    problems: list[str] = []
    if parent := annotations.get(words.ANNOTATION_PARENT_QUEUE):
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
    return Namespace(name, tags, tuple(problems), is_leaving, strings(metadata.get("labels")))


def read_priority_class(raw: Raw) -> PriorityClassSeen | None:
    """The priority class, None for an object that is none. Only "false" opts out (contract 1.7)."""
    metadata = mapping(raw.get("metadata"))
    name = text(metadata.get("name"))
    if not name:
        return None
    written = strings(metadata.get("annotations")).get(words.ANNOTATION_ALLOW_PREEMPTION)
    return PriorityClassSeen(name, allow_preemption=written != "false")
