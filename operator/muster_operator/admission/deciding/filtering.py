"""Which namespaces are served, and in which of them applications get ids (contract 1.6, 7).

A namespace's own annotation wins over the lists of expressions.
"""

from __future__ import annotations

from collections.abc import Mapping

from muster_operator.model import vocabulary as words
from muster_operator.model.admission import NamespaceRules, Patterns


def is_served(namespace: str, annotations: Mapping[str, str], rules: NamespaceRules) -> bool:
    """Whether pods of the namespace become ours without naming us."""
    said = _said(annotations, words.ANNOTATION_NAMESPACE_ENABLE)
    return said if said is not None else _is_listed(namespace, rules.process, rules.bypass)


def is_labelled(namespace: str, annotations: Mapping[str, str], rules: NamespaceRules) -> bool:
    """Whether pods that name no application get one written on them."""
    said = _said(annotations, (words.ANNOTATION_NAMESPACE_GENERATE_APP_ID,))
    return said if said is not None else _is_listed(namespace, rules.label, rules.no_label)


def is_found(patterns: Patterns, name: str) -> bool:
    """Whether one of the expressions is found in the name."""
    return any(pattern.search(name) is not None for pattern in patterns)


def _said(annotations: Mapping[str, str], keys: tuple[str, ...]) -> bool | None:
    """None = nothing. Anything but "true" is a no (contract 1.6)."""
    return next((annotations[key] == "true" for key in keys if annotations.get(key)), None)


def _is_listed(namespace: str, listed: Patterns, excepted: Patterns) -> bool:
    return (not listed or is_found(listed, namespace)) and not is_found(excepted, namespace)
