"""Placement rules: their form, and whether what is fixed in them agrees with the queues.

Source: contract 2.10. How they choose a queue: plan/placement.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from muster_core.edge.config.document import below
from muster_core.edge.config.filters import rule_filter
from muster_core.edge.config.notes import Notes
from muster_core.edge.config.queues import queue_name
from muster_core.edge.config.schema import RuleForm
from muster_core.model.config import PlacementRule, QueueConfig
from muster_core.model.errors import ConfigurationError
from muster_core.model.ids import ROOT

_NAMES: Final = ("provided", "user", "fixed", "tag")
_FIXED: Final = "fixed"
_QUALIFIED: Final = f"{ROOT}."


def rules(forms: Sequence[RuleForm], path: str, root: QueueConfig, notes: Notes) -> tuple[PlacementRule, ...]:
    """The rules in their order. What is wrong is noted."""
    found = []
    for index, form in enumerate(forms):
        spot = below(path, index)
        with notes.collecting():
            rule = _rule(form, spot, notes)
            _check_fixed_part(rule, spot, root)
            found.append(rule)
    return tuple(found)


def _rule(form: RuleForm, path: str, notes: Notes) -> PlacementRule:
    name = form.name.lower()
    if name not in _NAMES:
        raise ConfigurationError(
            below(path, "name"), form.name, "is not a placement rule", f"choose one of {', '.join(_NAMES)}"
        )
    value = _value(name, form.value, below(path, "value"))
    parent = None if form.parent is None else _rule(form.parent, below(path, "parent"), notes)
    if name == _FIXED and parent is not None and value.startswith(_QUALIFIED):
        raise ConfigurationError(
            below(path, "value"), form.value, "starts at root and has a parent rule too", "drop the one or the other"
        )
    who = None if form.filter is None else rule_filter(form.filter, below(path, "filter"), notes)
    return PlacementRule(name, create=form.create, value=value, parent=parent, filter=who)


def _value(name: str, value: str, path: str) -> str:
    if name == _FIXED:
        if not value:
            raise ConfigurationError(path, value, "is required by the rule fixed", "write the path of a queue")
        return ".".join(queue_name(part, path) for part in value.split("."))
    if name == "tag" and not value:
        raise ConfigurationError(path, value, "is required by the rule tag", "write a tag, such as namespace")
    return value


def _check_fixed_part(rule: PlacementRule, path: str, root: QueueConfig) -> None:
    """The fixed beginning of a chain must be places in the tree, or ones that may be made."""
    place: str = ROOT
    for step in _innermost_first(rule):
        if step.name != _FIXED:
            break
        place = _joined(place, step.value)
        _check_place(place, path, root, create=step.create, is_target=step is rule)


def _innermost_first(rule: PlacementRule) -> Iterator[PlacementRule]:
    if rule.parent is not None:
        yield from _innermost_first(rule.parent)
    yield rule


def _joined(place: str, value: str) -> str:
    return value if value == ROOT or value.startswith(_QUALIFIED) else f"{place}.{value}"


def _check_place(place: str, path: str, root: QueueConfig, *, create: bool, is_target: bool) -> None:
    queue = root
    for name in place.split(".")[1:]:
        child = next((child for child in queue.children if child.name == name), None)
        if child is None:
            if not queue.parent:
                raise ConfigurationError(path, place, f"would lie below the leaf {queue.name}", "name another queue")
            if not create:
                raise ConfigurationError(path, place, "is not a queue", "add it under queues, or write create: true")
            return
        queue = child
    if is_target and queue.parent:
        raise ConfigurationError(path, place, "is a parent queue and runs no application", "name a leaf")
    if not is_target and not queue.parent:
        raise ConfigurationError(path, place, "is a leaf and can have no queue below it", "name a parent queue")
