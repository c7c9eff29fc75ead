"""Reads the values of the SI's string maps: tags of applications and asks, attributes of nodes.

A structure travels as canonical JSON (muster_si.keys), equal facts as equal
strings, so each distinct string is parsed once (semantics 21). Called by
si_decode.py; knows no messages. Everything is bounded: a text's size, and its
depth by its fixed shape (semantics 26). Raises Unfit, which names what is wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Final, TypeVar, cast

import orjson

from muster_core.edge.refusals import Unfit
from muster_core.model.constraints import ANYWHERE, Constraints, Requirement, Taint, Term, Toleration
from muster_core.model.ids import TaskGroup
from muster_core.model.placement import (
    UNBOUNDED,
    AllocationAffinity,
    PlacementConstraint,
    Target,
    TargetOperator,
)
from muster_core.model.resources import Resources
from muster_core.model.specs import Member

#: Longest JSON text of one map value, in characters.
TEXT_LIMIT: Final = 65_536
#: Largest quantity: two of them still add within int64 (semantics 3).
QUANTITY_LIMIT: Final = 2**62
#: Longest name of anything.
NAME_LIMIT: Final = 256

_OPERATORS: Final = frozenset({"In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"})
_TOLERATION_OPERATORS: Final = frozenset({"Equal", "Exists"})
_EFFECTS: Final = frozenset({"NoSchedule", "PreferNoSchedule", "NoExecute"})
_TARGET_OPERATORS: Final = frozenset(TargetOperator)
_DIGITS_OF_A_TIME: Final = 16
#: Distinct texts remembered; a class of pods has one.
_REMEMBERED: Final = 1024

Item = TypeVar("Item")
Object = Mapping[str, object]


@lru_cache(maxsize=_REMEMBERED)
def constraints(text: str) -> Constraints:
    """The value of `muster/constraints`."""
    return _constraints(_object(_parsed(text), "the value"))


@lru_cache(maxsize=_REMEMBERED)
def placement(text: str) -> PlacementConstraint:
    """The value of `muster/placement-constraint`; seed 001's composite constraints are not (the seed has them only
    as a comment).
    """
    found = _object(_parsed(text), "the value")
    _known(found, frozenset({"simpleConstraint"}))
    simple = _object(found.get("simpleConstraint"), "simpleConstraint")
    try:
        return _simple_placement(simple)
    except Unfit as unfit:
        raise unfit.inside("simpleConstraint") from unfit


@lru_cache(maxsize=_REMEMBERED)
def taints(text: str) -> tuple[Taint, ...]:
    """The value of `muster/taints`."""
    return _each(_parsed(text), "taints", _taint)


@lru_cache(maxsize=_REMEMBERED)
def members(text: str) -> tuple[Member, ...]:
    """The value of `muster/members`."""
    found = _each(_parsed(text), "members", _member)
    names = [member.group for member in found]
    if len(set(names)) < len(names):
        raise Unfit("members", "name a task group twice")
    return found


def moment_ns(text: str, unit_ns: int) -> int:
    """A moment since the epoch, given as a whole number of `unit_ns`."""
    if not text.isascii() or not text.isdigit() or len(text) > _DIGITS_OF_A_TIME:
        raise Unfit(text[:32] or "an empty text", "is not a time")
    moment = int(text) * unit_ns
    if moment > QUANTITY_LIMIT:
        raise Unfit(text, "is too far in the future")
    return moment


def span_ns(milliseconds: int, field: str) -> int:
    """A time-out in nanoseconds; 0 and less mean none (seed 003)."""
    if milliseconds <= 0:
        return 0
    if milliseconds > QUANTITY_LIMIT // 1_000_000:
        raise Unfit(field, f"is absurd: {milliseconds} ms")
    return milliseconds * 1_000_000


def resources(amounts: Mapping[str, int]) -> Resources:
    """An amount from outside: refuses negative and absurd quantities."""
    for name, amount in amounts.items():
        if amount < 0:
            raise Unfit(name[:NAME_LIMIT], f"is negative: {amount}")
        if amount > QUANTITY_LIMIT:
            raise Unfit(name[:NAME_LIMIT], f"is absurd: {amount}")
        if not name or len(name) > NAME_LIMIT:
            raise Unfit("a resource's name", "is empty or too long")
    return Resources(amounts)


def _parsed(text: str) -> object:
    if len(text) > TEXT_LIMIT:
        raise Unfit("the value", f"is longer than {TEXT_LIMIT} characters")
    try:
        return cast("object", orjson.loads(text))
    except orjson.JSONDecodeError as error:
        raise Unfit("the value", f"is not JSON: {error}") from error


def _constraints(found: Object) -> Constraints:
    _known(found, frozenset({"nodeSelector", "nodeAffinity", "tolerations", "nodeName"}))
    affinity = found.get("nodeAffinity")
    value = Constraints(
        node_selector=_pairs(found.get("nodeSelector"), "nodeSelector"),
        affinity=None if affinity is None else _each(affinity, "nodeAffinity", _term),
        tolerations=_each(found.get("tolerations") or [], "tolerations", _toleration),
        node_name=_text(found, "nodeName"),
    )
    return ANYWHERE if value == ANYWHERE else value


def _term(found: Object) -> Term:
    _known(found, frozenset({"matchExpressions", "matchFields"}))
    return Term(
        expressions=_each(found.get("matchExpressions") or [], "matchExpressions", _requirement),
        fields=_each(found.get("matchFields") or [], "matchFields", _requirement),
    )


def _requirement(found: Object) -> Requirement:
    _known(found, frozenset({"key", "operator", "values"}))
    values = found.get("values") or []
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise Unfit("values", "is not a list of texts")
    return Requirement(_text(found, "key"), _one_of(found, "operator", _OPERATORS), tuple(values))


def _toleration(found: Object) -> Toleration:
    _known(found, frozenset({"key", "operator", "value", "effect", "tolerationSeconds"}))
    return Toleration(
        key=_text(found, "key"),
        operator=_one_of(found, "operator", _TOLERATION_OPERATORS) if found.get("operator") else "Equal",
        value=_text(found, "value"),
        effect=_one_of(found, "effect", _EFFECTS) if found.get("effect") else "",
    )


def _taint(found: Object) -> Taint:
    return Taint(_text(found, "key"), _text(found, "value"), _one_of(found, "effect", _EFFECTS))


def _member(found: Object) -> Member:
    _known(found, frozenset({"name", "minMember", "resource", "constraints"}))
    name, count = _text(found, "name"), found.get("minMember")
    if not name or len(name) > NAME_LIMIT:
        raise Unfit("name", "is empty or too long")
    if not isinstance(count, int) or isinstance(count, bool) or not 0 < count < QUANTITY_LIMIT:
        raise Unfit("minMember", f"of {name!r} is not a positive number")
    amounts = _object(found.get("resource") or {}, "resource")
    if not all(isinstance(amount, int) and not isinstance(amount, bool) for amount in amounts.values()):
        raise Unfit("resource", f"of {name!r} holds something that is not a whole number")
    return Member(
        group=TaskGroup(name),
        count=count,
        resources=resources(cast("Mapping[str, int]", amounts)),
        constraints=_constraints(_object(found.get("constraints") or {}, "constraints")),
    )


def _simple_placement(found: Object) -> PlacementConstraint:
    nodes, allocations = "nodeAffinityConstraint", "allocationAffinityAttribute"
    _known(found, frozenset({nodes, allocations}))
    targets: tuple[Target, ...] = ()
    if found.get(nodes) is not None:
        part = _object(found[nodes], nodes)
        _known(part, frozenset({"targetExpressions"}))
        targets = _each(part.get("targetExpressions"), "targetExpressions", _target)
    affinity = _affinity(_object(found[allocations], allocations)) if found.get(allocations) is not None else None
    if not targets and affinity is None:
        raise Unfit(f"{nodes} or {allocations}", "is missing: the constraint says nothing")
    return PlacementConstraint(targets, affinity)


def _affinity(found: Object) -> AllocationAffinity:
    spellings = [name for name in ("tragetExpressions", "targetExpressions") if name in found]
    _known(found, frozenset({"scope", "minCardinality", "maxCardinality", "required", *spellings[:1]}))
    targets = _each(found.get(spellings[0]), spellings[0], _target) if spellings else ()
    at_least, at_most = _cardinality(found, "minCardinality", 0), _cardinality(found, "maxCardinality", UNBOUNDED)
    required = found.get("required", False)
    if not _text(found, "scope") or len(_text(found, "scope")) > NAME_LIMIT:
        raise Unfit("scope", "is missing or too long")
    if not targets:
        raise Unfit("tragetExpressions", "are missing")
    if at_least > at_most:
        raise Unfit("minCardinality", f"is more than maxCardinality: {at_least} > {at_most}")
    if at_least == 0 and at_most == UNBOUNDED:
        raise Unfit("minCardinality or maxCardinality", "is missing: neither bounds anything")
    if not isinstance(required, bool):
        raise Unfit("required", "is neither true nor false")
    return AllocationAffinity(_text(found, "scope"), targets, at_least, at_most, required)


def _cardinality(found: Object, field: str, default: int) -> int:
    value = found.get(field, default)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= UNBOUNDED:
        raise Unfit(field, "is not a whole number from 0 to 2147483647")
    return value


def _target(found: Object) -> Target:
    _known(found, frozenset({"targetOperator", "targetKey", "targetValues"}))
    key, values, operator_name = _text(found, "targetKey"), found.get("targetValues"), found.get("targetOperator")
    if not key or len(key) > NAME_LIMIT:
        raise Unfit("targetKey", "is missing or too long")
    values = [] if values is None else values
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise Unfit("targetValues", "is not a list of texts")
    operator = TargetOperator.IN
    if operator_name is not None:
        operator = TargetOperator(_one_of(found, "targetOperator", _TARGET_OPERATORS))
    if bool(values) != (operator in (TargetOperator.IN, TargetOperator.NOT_IN)):
        raise Unfit("targetValues", f"do not go with {operator.value}")
    return Target(key, operator, tuple(values))


def _each(found: object, field: str, read: Callable[[Object], Item]) -> tuple[Item, ...]:
    if not isinstance(found, list):
        raise Unfit(field, "is not a list")
    try:
        return tuple([read(_object(item, "an element")) for item in found])
    except Unfit as unfit:
        raise unfit.inside(field) from unfit


def _object(found: object, field: str) -> Object:
    if not isinstance(found, dict):
        raise Unfit(field, "is not an object")
    return found


def _pairs(found: object, field: str) -> tuple[tuple[str, str], ...]:
    pairs = _object(found or {}, field)
    if not all(isinstance(value, str) for value in pairs.values()):
        raise Unfit(field, "holds something that is not a text")
    return tuple(sorted(cast("Mapping[str, str]", pairs).items()))


def _text(found: Object, field: str) -> str:
    value = found.get(field)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise Unfit(field, "is not a text")
    return value


def _one_of(found: Object, field: str, allowed: frozenset[str]) -> str:
    value = _text(found, field)
    if value not in allowed:
        raise Unfit(field, f"is {value[:32]!r}, not one of {', '.join(sorted(allowed))}")
    return value


def _known(found: Object, fields: frozenset[str]) -> None:
    unknown = found.keys() - fields
    if unknown:
        raise Unfit(min(unknown)[:NAME_LIMIT], "is not known")
