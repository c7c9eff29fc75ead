"""A pod's hard constraints as the tag ``muster/constraints`` (see muster_si.keys), for pods and task groups alike."""

from __future__ import annotations

from typing import Any, Final

from muster_operator.translate.canonical import canonical, remembered
from muster_operator.translate.features import required_features
from muster_operator.translate.raw import Raw, items, mapping, objects, strings, text

_TOLERATION_FIELDS: Final = ("key", "operator", "value", "effect")
_TERM_FIELDS: Final = ("matchExpressions", "matchFields")


def _requirement(raw: Raw) -> Raw:
    return {
        "key": text(raw.get("key")),
        "operator": text(raw.get("operator")),
        "values": [text(value) for value in items(raw.get("values"))],
    }


def node_term(raw: Raw) -> Raw:
    """A term of a node selector or of a node preference."""
    return {
        field: [_requirement(entry) for entry in objects(raw.get(field))] for field in _TERM_FIELDS if raw.get(field)
    }


def _required(spec: Raw) -> Raw | None:
    """The required node affinity as written, None when there is none."""
    node_affinity = mapping(mapping(spec.get("affinity")).get("nodeAffinity"))
    required = node_affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    return required if isinstance(required, dict) else None


def _terms(required: Raw) -> list[Raw]:
    return [node_term(term) for term in objects(required.get("nodeSelectorTerms"))]


def _parts(spec: Raw) -> Raw:
    """What the pod says of nodes, as written; what says nothing is left out."""
    parts = {field: spec[field] for field in ("nodeSelector", "tolerations") if spec.get(field)}
    if "affinity" in spec and (required := _required(spec)) is not None:
        parts["required"] = required
    if features := required_features(spec):
        parts["features"] = features
    return parts


def _tag(parts: Raw) -> str:
    facts: dict[str, Any] = {}
    if selector := strings(parts.get("nodeSelector")):
        facts["nodeSelector"] = selector
    if "required" in parts:
        facts["nodeAffinity"] = _terms(parts["required"])
    tolerations = [
        {field: text(entry.get(field)) for field in _TOLERATION_FIELDS if entry.get(field)}
        for entry in objects(parts.get("tolerations"))
    ]
    if tolerations:
        facts["tolerations"] = tolerations
    if "features" in parts:
        facts["features"] = parts["features"]
    return canonical("constraints", facts) if facts else ""


_remembered_tag: Final = remembered("node constraints", _tag)


def constraints_tag(spec: Raw) -> str:
    """The tag's value, empty when the pod may go anywhere. ``spec`` is a pod's or a task group's.

    Raises:
        BadInputError: the facts cannot be written as JSON.
    """
    parts = _parts(spec)
    return _remembered_tag(parts) if parts else ""


def required_node(metadata: Raw, spec: Raw) -> str:
    """The one node that a DaemonSet's pod is made for, empty for others (contract 1.9)."""
    if not any(owner.get("kind") == "DaemonSet" for owner in objects(metadata.get("ownerReferences"))):
        return ""
    names: set[str] = set()
    for term in _terms(_required(spec) or {}):
        named = [set(one["values"]) for one in term.get("matchFields", []) if _is_name(one)]
        if not named:
            return ""  # this term is for nodes of any name
        names |= set.intersection(*named)
    return names.pop() if len(names) == 1 else ""


def _is_name(requirement: Raw) -> bool:
    return (requirement["key"], requirement["operator"]) == ("metadata.name", "In")
