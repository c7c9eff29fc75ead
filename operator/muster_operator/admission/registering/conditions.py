"""Which requests are sent to us, as conditions of the API server (CEL): what is said here in text, `decide` says again.

The API server does not ask us about anything else, so these decide what Muster can hold up when it is down. Objects
reach CEL without their empty fields, so each step that may be missing is asked for first; a condition that failed would
refuse the request.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from muster_operator.admission.kinds import Kind
from muster_operator.model import vocabulary as words

Condition = tuple[str, str]
"""Its name and its expression."""

_USER_INFO: Final = words.ANNOTATION_USER_INFO
_INTERNAL: Final = words.INTERNAL_PREFIX


def is_guarded(annotation: str) -> bool:
    """Whether users may not write it, or not for others; a request that changes such an annotation is sent to us."""
    return annotation == _USER_INFO or annotation.startswith(_INTERNAL)


@dataclass(frozen=True, slots=True)
class Ours:
    """What tells our own from others': scheduler names that are served, our account, our namespace."""

    scheduler_names: frozenset[str]
    account: str
    home: str


def of_strangers(ours: Ours) -> list[Condition]:
    """Not of kubelets, whose static pods must start without us, and not of ourselves: a placeholder costs no question.

    Only the API server says who is who; nothing that a user can write counts here.
    """
    return [
        ("not-of-a-kubelet", "!has(request.userInfo.groups) || !('system:nodes' in request.userInfo.groups)"),
        ("not-of-muster", f"request.userInfo.username != {ours.account!r}"),
    ]


def claims_us(kind: Kind, ours: Ours) -> Condition:
    """A new pod that names us. A new template that names us or has a guarded annotation, and what changes it so.

    A template of nobody's that names us and changes gets its owner then, so that is asked about too.
    """
    new, old = (_description(root, kind) for root in ("object", "oldObject"))
    if kind.is_pod:
        return ("names-us", f"{_names(new, ours)} && (request.operation == 'CREATE' || {_changes(new, old)})")
    is_owned_anew = f"({_names(new, ours)} && {_is_nobodys(new)} && {new} != {old})"
    changed = f"{_changes(new, old)} || {is_owned_anew}"
    return ("claims-us", f"request.operation == 'CREATE' ? ({_claims(new, ours)}) : ({changed})")


def claims_nothing(kind: Kind, ours: Ours) -> Condition:
    """The rest of what is new or, if it is a template, changes."""
    new, old = (_description(root, kind) for root in ("object", "oldObject"))
    if kind.is_pod:
        return ("does-not-name-us", f"!{_names(new, ours)}")
    return ("claims-nothing", f"!({_claims(new, ours)}) && (request.operation == 'CREATE' || {new} != {old})")


def writes_guarded() -> Condition:
    """A binding with a guarded annotation, be it empty: the API server merges those of a binding into the pod's."""
    way = "object.metadata.annotations"
    written = f"{way}.exists(key, key == '{_USER_INFO}' || key.startsWith('{_INTERNAL}'))"
    return ("writes-guarded", f"{_has(way)} && {written}")


def is_called(names: frozenset[str]) -> Condition:
    """An object of one of these names."""
    return ("is-ours", f"object.metadata.name in {_listed(names)}")


def _claims(new: str, ours: Ours) -> str:
    has_internal = f"{_annotations(new)}.exists(key, key.startsWith('{_INTERNAL}'))"
    return " || ".join([_names(new, ours), f"{_annotation(new, _USER_INFO)} != ''", has_internal])


def _is_nobodys(description: str) -> str:
    return f"{_annotation(description, _USER_INFO)} == ''"


def _changes(new: str, old: str) -> str:
    """Whether a guarded annotation is added, changed or taken away."""
    has_other_user = f"{_annotation(new, _USER_INFO)} != {_annotation(old, _USER_INFO)}"
    return " || ".join([has_other_user, _has_other_internal(new, old), _has_other_internal(old, new)])


def _has_other_internal(one: str, other: str) -> str:
    """Whether `one` has an annotation of the internal prefix that `other` has not, or not with this value."""
    here, there = _annotations(one), _annotations(other)
    is_same = f"key in {there} && {there}[key] == {here}[key]"
    return f"{here}.exists(key, key.startsWith('{_INTERNAL}') && !({is_same}))"


def _differ(new: str, old: str) -> str:
    """Whether they are two."""
    return f"({_has(new)} && {_has(old)} && {new} != {old})"


def _names(description: str, ours: Ours) -> str:
    """Whether it names one of our schedulers."""
    way = f"{description}.spec.schedulerName"
    return f"({_has(way)} && {way} in {_listed(ours.scheduler_names)})"


def _annotation(description: str, key: str) -> str:
    """Its value, empty where there is none."""
    way = f"{description}.metadata.annotations"
    return f"({_has(way)} && '{key}' in {way} ? {way}['{key}'] : '')"


def _annotations(description: str) -> str:
    """Its annotations, empty where there are none."""
    way = f"{description}.metadata.annotations"
    return f"({_has(way)} ? {way} : {{}})"


def _has(way: str) -> str:
    """Whether every step of the way is there."""
    steps = way.split(".")
    return " && ".join(f"has({'.'.join(steps[:end])})" for end in range(2, len(steps) + 1))


def _description(root: str, kind: Kind) -> str:
    return ".".join((root, *kind.template))


def _listed(names: frozenset[str]) -> str:
    return f"[{', '.join(repr(name) for name in sorted(names))}]"
