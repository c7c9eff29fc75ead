"""What a pod asks of the pods near it as the tag ``muster/pod-constraints`` (see muster_si.keys).

Inter-pod affinity and topology spread, of pods and task groups alike, with kube-scheduler's reading of what is absent:
no selector matches no pod and an empty one all of them; a term without namespaces is about the pod's own; one with an
empty namespace selector is about all. Source: Kubernetes documentation, "Assigning Pods to Nodes", "Pod Topology Spread
Constraints"; KEP-3633, KEP-3243.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from muster_operator.model.errors import BadInputError
from muster_operator.translate.canonical import canonical, remembered
from muster_operator.translate.raw import Raw, integer, items, mapping, objects, strings, text

_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
_KINDS: Final = ("podAffinity", "podAntiAffinity")
_ACTIONS: Final = frozenset({"DoNotSchedule", "ScheduleAnyway"})
_POLICIES: Final = {"nodeAffinityPolicy": "Honor", "nodeTaintsPolicy": "Ignore"}
_OPERATORS: Final = {"matchLabelKeys": "In", "mismatchLabelKeys": "NotIn"}
_MAX_WEIGHT: Final = 100


def _selector(value: Any) -> Raw | None:
    """A label selector, None where there is none."""
    if not isinstance(value, dict):
        return None
    selector: Raw = {}
    if labels := strings(value.get("matchLabels")):
        selector["matchLabels"] = labels
    if expressions := [_expression(entry) for entry in objects(value.get("matchExpressions"))]:
        selector["matchExpressions"] = expressions
    return selector


def _expression(raw: Raw) -> Raw:
    expression: Raw = {"key": text(raw.get("key")), "operator": text(raw.get("operator"))}
    if values := [text(value) for value in items(raw.get("values"))]:
        expression["values"] = values
    return expression


def _keys(raw: Raw, field: str) -> list[str]:
    return [text(key) for key in items(raw.get(field)) if isinstance(key, str)]


def _merge(selector: Raw | None, additions: Iterable[Raw]) -> None:
    """Let the selector ask for these too. Without a selector nothing matches, whatever is added."""
    if selector is not None and (added := list(additions)):
        selector["matchExpressions"] = [*selector.get("matchExpressions", []), *added]


def _of_labels(raw: Raw, labels: Mapping[str, str], field: str) -> Iterator[Raw]:
    """The pod's own labels of the named keys as expressions."""
    for key in _keys(raw, field):
        if key in labels:
            yield {"key": key, "operator": _OPERATORS[field], "values": [labels[key]]}


def _term(where: str, raw: Raw, namespace: str, labels: Mapping[str, str]) -> Raw:
    """A term of affinity. Where the API server has merged the label keys when the pod was made, that stands: later
    labels of the pod change nothing. In a task group nobody has.
    """
    term: Raw = {"topologyKey": _topology_key(where, raw)}
    selector = _selector(raw.get("labelSelector"))
    there = {(entry["key"], entry["operator"]) for entry in (selector or {}).get("matchExpressions", [])}
    of_labels = [entry for field in _OPERATORS for entry in _of_labels(raw, labels, field)]
    _merge(selector, [entry for entry in of_labels if (entry["key"], entry["operator"]) not in there])
    if selector is not None:
        term["labelSelector"] = selector
    among = _selector(raw.get("namespaceSelector"))
    names = sorted({text(name) for name in items(raw.get("namespaces")) if isinstance(name, str)})
    if not names and among is None:
        names = [namespace]
    if names:
        term["namespaces"] = names
    if among is not None:
        term["namespaceSelector"] = among
    return term


def _topology_key(where: str, raw: Raw) -> str:
    key = text(raw.get("topologyKey"))
    if not key:
        raise BadInputError(f"{where}.topologyKey", "is missing", "name a label of nodes")
    return key


def _spread(index: int, raw: Raw, labels: Mapping[str, str]) -> Raw:
    """A spread constraint with its defaults. kube-scheduler merges the label keys itself, with the labels of now."""
    found: Raw = {
        "maxSkew": max(integer(raw.get("maxSkew"), 1), 1),
        "topologyKey": _topology_key(f"topologySpreadConstraints[{index}]", raw),
        "whenUnsatisfiable": raw["whenUnsatisfiable"],
        "minDomains": max(integer(raw.get("minDomains"), 1), 1),
    }
    for field, default in _POLICIES.items():
        found[field] = raw[field] if raw.get(field) in ("Honor", "Ignore") else default
    selector = _selector(raw.get("labelSelector"))
    there = (selector or {}).get("matchExpressions", [])
    _merge(selector, [entry for entry in _of_labels(raw, labels, "matchLabelKeys") if entry not in there])
    if selector is not None:
        found["labelSelector"] = selector
    return found


def _weighed(kind: str, raw: Raw, namespace: str, labels: Mapping[str, str]) -> Iterator[Raw]:
    for index, entry in enumerate(objects(raw.get(_PREFERRED))):
        weight = integer(entry.get("weight"))
        if 0 < weight <= _MAX_WEIGHT:
            term = _term(f"{kind}.preferred[{index}]", mapping(entry.get("podAffinityTerm")), namespace, labels)
            yield {"weight": weight if kind == "podAffinity" else -weight, **term}


def _tag(parts: Raw) -> str:
    namespace, labels = parts["namespace"], parts.get("labels", {})
    facts: dict[str, list[Raw]] = {"preferred": []}
    for kind, field in zip(_KINDS, ("affinity", "antiAffinity"), strict=True):
        raw = mapping(parts.get(kind))
        facts[field] = [
            _term(f"{kind}[{index}]", term, namespace, labels) for index, term in enumerate(objects(raw.get(_REQUIRED)))
        ]
        facts["preferred"] += _weighed(kind, raw, namespace, labels)
    facts["spread"] = [
        _spread(index, raw, labels)
        for index, raw in enumerate(objects(parts.get("spread")))
        if text(raw.get("whenUnsatisfiable")) in _ACTIONS
    ]
    said = {field: value for field, value in facts.items() if value}
    return canonical("affinity", said) if said else ""


_remembered_tag: Final = remembered("pod affinity and topology spread constraints", _tag)


def _looks_at_labels(parts: Raw) -> bool:
    """Whether any term names labels of the pod itself: only then do pods of other labels have other facts."""
    terms = [term for kind in _KINDS for term in objects(mapping(parts.get(kind)).get(_REQUIRED))]
    terms += [
        mapping(entry.get("podAffinityTerm"))
        for kind in _KINDS
        for entry in objects(mapping(parts.get(kind)).get(_PREFERRED))
    ]
    return any(field in term for term in (*terms, *objects(parts.get("spread"))) for field in _OPERATORS)


def company_tag(spec: Raw, namespace: str, labels: Mapping[str, str]) -> str:
    """The tag's value, empty when the pod does not mind who is near. ``spec`` is a pod's or a task group's.

    Raises:
        BadInputError: a topology key is missing, or the facts cannot be written as JSON.
    """
    parts: Raw = {}
    if "affinity" in spec:
        affinity = mapping(spec["affinity"])
        parts = {kind: affinity[kind] for kind in _KINDS if affinity.get(kind)}
    if spec.get("topologySpreadConstraints"):
        parts["spread"] = spec["topologySpreadConstraints"]
    if not parts:
        return ""
    parts["namespace"] = namespace
    if _looks_at_labels(parts):
        parts["labels"] = dict(labels)
    return _remembered_tag(parts)
