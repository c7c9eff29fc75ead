"""A pod's hard constraints as the tag ``muster/constraints`` (see muster_si.keys), for pods and task groups alike."""

from __future__ import annotations

from typing import Any, Final

from muster_operator.translate.canonical import canonical
from muster_operator.translate.raw import Raw, items, mapping, objects, strings, text

_TOLERATION_FIELDS: Final = ("key", "operator", "value", "effect")
_TERM_FIELDS: Final = ("matchExpressions", "matchFields")


def _requirement(raw: Raw) -> Raw:
    return {
        "key": text(raw.get("key")),
        "operator": text(raw.get("operator")),
        "values": [text(value) for value in items(raw.get("values"))],
    }


def _term(raw: Raw) -> Raw:
    return {
        field: [_requirement(entry) for entry in objects(raw.get(field))] for field in _TERM_FIELDS if raw.get(field)
    }


def _required_terms(spec: Raw) -> list[Raw] | None:
    """The terms of the required node affinity, None when there is none."""
    node_affinity = mapping(mapping(spec.get("affinity")).get("nodeAffinity"))
    required = node_affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    if not isinstance(required, dict):
        return None
    return [_term(term) for term in objects(required.get("nodeSelectorTerms"))]


def constraint_facts(spec: Raw) -> Raw:
    """The facts that decide where the pod may go, absent ones left out. ``spec`` is a pod's or a task group's."""
    facts: dict[str, Any] = {}
    if selector := strings(spec.get("nodeSelector")):
        facts["nodeSelector"] = selector
    terms = _required_terms(spec)
    if terms is not None:
        facts["nodeAffinity"] = terms
    tolerations = [
        {field: text(entry.get(field)) for field in _TOLERATION_FIELDS if entry.get(field)}
        for entry in objects(spec.get("tolerations"))
    ]
    if tolerations:
        facts["tolerations"] = tolerations
    return facts


def constraints_tag(spec: Raw) -> str:
    """The tag's value, empty when the pod may go anywhere.

    Raises:
        BadInputError: the facts cannot be written as JSON.
    """
    facts = constraint_facts(spec)
    return canonical("constraints", facts) if facts else ""


def required_node(metadata: Raw, spec: Raw) -> str:
    """The one node that a DaemonSet's pod is made for, empty for others (contract 1.9)."""
    if not any(owner.get("kind") == "DaemonSet" for owner in objects(metadata.get("ownerReferences"))):
        return ""
    for term in _required_terms(spec) or []:
        for requirement in term.get("matchFields", []):
            named = requirement["values"] if requirement["operator"] == "In" else []
            if requirement["key"] == "metadata.name" and len(named) == 1:
                return str(named[0])
    return ""
