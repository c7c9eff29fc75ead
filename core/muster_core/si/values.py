"""Decodes values in messages and in their string maps: names, resources, constraints, times."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache, wraps
from typing import Final, TypeVar, TypeVarTuple, Unpack, cast

import orjson

from muster_core.model import limits
from muster_core.model.constraints import (
    ANYWHERE,
    UNBOUNDED,
    AllocationAffinity,
    Constraints,
    PlacementConstraint,
    Requirement,
    Taint,
    Target,
    TargetOperator,
    Term,
    Toleration,
)
from muster_core.model.ids import AllocationKey, ApplicationId, TaskGroup
from muster_core.model.resources import Resources
from muster_core.model.specs import Topology


class InvalidField(Exception):
    """`field` of an item is missing or out of bounds. `why` continues the sentence that names it."""

    def __init__(self, field: str, why: str) -> None:
        super().__init__(f"{field} {why}")
        self.field = field
        self.why = why

    def inside(self, field: str) -> InvalidField:
        """Returns the same error for the field that contains this one."""
        return InvalidField(f"{field}: {self.field}", self.why)


#: Longest JSON text of one map value in characters.
TEXT_LIMIT: Final = 65_536

#: Longest name of any object.
NAME_LIMIT: Final = 256

#: Number of cached texts. Pods of one class share one text.
CACHED_VALUES: Final = 1024
Item = TypeVar("Item")
Value = TypeVar("Value")
Arguments = TypeVarTuple("Arguments")
Object = Mapping[str, object]


def memoized(read: Callable[[Unpack[Arguments]], Value]) -> Callable[[Unpack[Arguments]], Value]:
    """Cache the results for short texts, so that equal texts share one value. Longer texts are decoded each time and
    never cached, so that users cannot fill the memory.
    """
    short = lru_cache(maxsize=CACHED_VALUES)(read)

    @wraps(read)
    def reading(*texts: *Arguments) -> Value:
        return read(*texts) if _characters(texts) > limits.CACHED_CHARACTERS else short(*texts)

    return reading


def _characters(texts: tuple[object, ...]) -> int:
    """Total length of all texts, including those in tuples."""
    return sum(
        len(text) if isinstance(text, str) else _characters(text) if isinstance(text, tuple) else 0 for text in texts
    )


def parsed(text: str, at_most: int = TEXT_LIMIT) -> object:
    """Parses a map value as JSON, with at most `at_most` characters."""
    if len(text) > at_most:
        raise InvalidField("the value", f"is longer than {at_most} characters")
    try:
        return cast("object", orjson.loads(text))
    except orjson.JSONDecodeError as error:
        raise InvalidField("the value", f"is not JSON: {error}") from error


def each(found: object, field: str, read: Callable[[Object], Item]) -> tuple[Item, ...]:
    """Decodes every element of a list of objects."""
    if not isinstance(found, list):
        raise InvalidField(field, "is not a list")
    try:
        return tuple([read(an_object(item, "an element")) for item in found])
    except InvalidField as unfit:
        raise unfit.inside(field) from unfit


def an_object(found: object, field: str) -> Object:
    """Returns an object, or raises InvalidField."""
    if not isinstance(found, dict):
        raise InvalidField(field, "is not an object")
    return found


def pairs(found: object, field: str) -> tuple[tuple[str, str], ...]:
    """Returns an object of texts as sorted pairs."""
    pairs = an_object(found or {}, field)
    if not all(isinstance(value, str) for value in pairs.values()):
        raise InvalidField(field, "contains a value that is not text")
    return tuple(sorted(cast("Mapping[str, str]", pairs).items()))


def text_of(found: Object, field: str) -> str:
    """Returns a text; absent = empty."""
    value = found.get(field)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise InvalidField(field, "is not a text")
    return value


def one_of(found: Object, field: str, allowed: frozenset[str]) -> str:
    """Returns one of the allowed texts."""
    value = text_of(found, field)
    if value not in allowed:
        raise InvalidField(field, f"is {value[:32]!r}, not one of {', '.join(sorted(allowed))}")
    return value


def only(found: Object, fields: frozenset[str]) -> None:
    """Rejects unknown fields, because the sender expects them to have an effect."""
    unknown = found.keys() - fields
    if unknown:
        raise InvalidField(min(unknown)[:NAME_LIMIT], "is not known")


def texts(found: Object, field: str) -> tuple[str, ...]:
    """Returns a list of texts; absent = empty."""
    values = found.get(field) or []
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise InvalidField(field, "is not a list of texts")
    return tuple(values)


def number(found: Object, field: str, default: int = 0, *, least: int = 0, most: int = 2**62) -> int:
    """Returns an integer within bounds; absent = `default`."""
    value = found.get(field, default)
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise InvalidField(field, f"is not a whole number from {least} to {most}")
    return value


def flag(found: Object, field: str, *, default: bool = False) -> bool:
    """Returns a bool; absent = `default`."""
    value = found.get(field, default)
    if not isinstance(value, bool):
        raise InvalidField(field, "is neither true nor false")
    return value


#: Largest quantity. The sum of two of them still fits into int64.
QUANTITY_LIMIT: Final = 2**62
_OPERATORS: Final = frozenset({"In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"})
_TOLERATION_OPERATORS: Final = frozenset({"Equal", "Exists"})
_EFFECTS: Final = frozenset({"NoSchedule", "PreferNoSchedule", "NoExecute"})
_TARGET_OPERATORS: Final = frozenset(TargetOperator)
_DIGITS_OF_A_TIME: Final = 16


@memoized
def constraints(text: str) -> Constraints:
    """Decodes `muster/constraints`."""
    return constraints_of(an_object(parsed(text), "the value"))


@memoized
def placement(text: str) -> PlacementConstraint:
    """The value of `muster/placement-constraint`. Composite constraints are not supported, because the first version of
    the Scheduler Interface has them only in a comment.
    """
    found = an_object(parsed(text), "the value")
    only(found, frozenset({"simpleConstraint"}))
    simple = an_object(found.get("simpleConstraint"), "simpleConstraint")
    try:
        return _simple_placement(simple)
    except InvalidField as unfit:
        raise unfit.inside("simpleConstraint") from unfit


@memoized
def taints(text: str) -> tuple[Taint, ...]:
    """Decodes `muster/taints`."""
    return each(parsed(text), "taints", _taint)


@memoized
def topology(text: str) -> Topology:
    """Decodes `muster/gang-topology`."""
    found = an_object(parsed(text), "the value")
    only(found, frozenset({"key", "required"}))
    key, required = text_of(found, "key"), found.get("required", False)
    if not key or len(key) > NAME_LIMIT:
        raise InvalidField("key", "is missing or too long")
    if not isinstance(required, bool):
        raise InvalidField("required", "is neither true nor false")
    return Topology(key, required)


@memoized
def moment_ns(text: str, unit_ns: int) -> int:
    """Converts a time since the epoch, given as an integer of `unit_ns`."""
    if not text.isascii() or not text.isdigit() or len(text) > _DIGITS_OF_A_TIME:
        raise InvalidField(text[:32] or "an empty string", "is not a time")
    moment = int(text) * unit_ns
    if moment > QUANTITY_LIMIT:
        raise InvalidField(text, "is too far in the future")
    return moment


def span_ns(milliseconds: int, field: str) -> int:
    """Converts a timeout to nanoseconds; 0 and less = none."""
    if milliseconds <= 0:
        return 0
    if milliseconds > QUANTITY_LIMIT // 1_000_000:
        raise InvalidField(field, f"is out of range: {milliseconds} ms")
    return milliseconds * 1_000_000


def resources(amounts: Mapping[str, int], most: int = QUANTITY_LIMIT, *, counts: bool = False) -> Resources:
    """An amount from outside: refuses negative quantities, those of more than `most`, and too many. `counts`: it is of
    something that is there and has to count; what is too much of it is left out.
    """
    if counts:
        amounts = {name: min(amount, most) for name, amount in sorted(amounts.items())[: limits.RESOURCE_NAMES]}
    if len(amounts) > limits.RESOURCE_NAMES:
        raise InvalidField(
            "the amount",
            f"names {len(amounts)} resources, the limit is {limits.RESOURCE_NAMES}: request fewer resources",
        )
    for name, amount in amounts.items():
        if amount < 0:
            raise InvalidField(name[:NAME_LIMIT], f"is negative: {amount}")
        if amount > most:
            raise InvalidField(name[:NAME_LIMIT], f"is out of range: {amount}, at most {most} is accepted")
        if not name or len(name) > NAME_LIMIT:
            raise InvalidField("a resource's name", "is empty or too long")
    return Resources(amounts)


def constraints_of(found: Object) -> Constraints:
    """Like `constraints`, for a part of another value."""
    only(found, frozenset({"nodeSelector", "nodeAffinity", "tolerations", "nodeName", "features"}))
    affinity = found.get("nodeAffinity")
    value = Constraints(
        node_selector=pairs(found.get("nodeSelector"), "nodeSelector"),
        affinity=None if affinity is None else each(affinity, "nodeAffinity", term),
        tolerations=each(found.get("tolerations") or [], "tolerations", _toleration),
        node_name=text_of(found, "nodeName"),
        features=texts(found, "features"),
    )
    return ANYWHERE if value == ANYWHERE else value


def term(found: Object) -> Term:
    """Decodes a node selector term."""
    only(found, frozenset({"matchExpressions", "matchFields"}))
    return Term(
        expressions=each(found.get("matchExpressions") or [], "matchExpressions", requirement),
        fields=each(found.get("matchFields") or [], "matchFields", requirement),
    )


def requirement(found: Object) -> Requirement:
    """Decodes one expression of a term."""
    only(found, frozenset({"key", "operator", "values"}))
    return Requirement(text_of(found, "key"), one_of(found, "operator", _OPERATORS), texts(found, "values"))


def _toleration(found: Object) -> Toleration:
    only(found, frozenset({"key", "operator", "value", "effect", "tolerationSeconds"}))
    return Toleration(
        key=text_of(found, "key"),
        operator=one_of(found, "operator", _TOLERATION_OPERATORS) if found.get("operator") else "Equal",
        value=text_of(found, "value"),
        effect=one_of(found, "effect", _EFFECTS) if found.get("effect") else "",
    )


def _taint(found: Object) -> Taint:
    return Taint(text_of(found, "key"), text_of(found, "value"), one_of(found, "effect", _EFFECTS))


def _simple_placement(found: Object) -> PlacementConstraint:
    nodes, allocations = "nodeAffinityConstraint", "allocationAffinityAttribute"
    only(found, frozenset({nodes, allocations}))
    targets: tuple[Target, ...] = ()
    if found.get(nodes) is not None:
        part = an_object(found[nodes], nodes)
        only(part, frozenset({"targetExpressions"}))
        targets = each(part.get("targetExpressions"), "targetExpressions", _target)
    affinity = _affinity(an_object(found[allocations], allocations)) if found.get(allocations) is not None else None
    if not targets and affinity is None:
        raise InvalidField(f"{nodes} or {allocations}", "is missing: the constraint is empty")
    return PlacementConstraint(targets, affinity)


def _affinity(found: Object) -> AllocationAffinity:
    spellings = [name for name in ("tragetExpressions", "targetExpressions") if name in found]
    only(found, frozenset({"scope", "minCardinality", "maxCardinality", "required", *spellings[:1]}))
    targets = each(found.get(spellings[0]), spellings[0], _target) if spellings else ()
    at_least, at_most = _cardinality(found, "minCardinality", 0), _cardinality(found, "maxCardinality", UNBOUNDED)
    required = found.get("required", False)
    if not text_of(found, "scope") or len(text_of(found, "scope")) > NAME_LIMIT:
        raise InvalidField("scope", "is missing or too long")
    if not targets:
        raise InvalidField("tragetExpressions", "are missing")
    if at_least > at_most:
        raise InvalidField("minCardinality", f"is more than maxCardinality: {at_least} > {at_most}")
    if at_least == 0 and at_most == UNBOUNDED:
        raise InvalidField("minCardinality or maxCardinality", "is missing: neither bounds anything")
    if not isinstance(required, bool):
        raise InvalidField("required", "is neither true nor false")
    return AllocationAffinity(text_of(found, "scope"), targets, at_least, at_most, required)


def _cardinality(found: Object, field: str, default: int) -> int:
    value = found.get(field, default)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= UNBOUNDED:
        raise InvalidField(field, "is not a whole number from 0 to 2147483647")
    return value


def _target(found: Object) -> Target:
    only(found, frozenset({"targetOperator", "targetKey", "targetValues"}))
    key, values, operator_name = text_of(found, "targetKey"), found.get("targetValues"), found.get("targetOperator")
    if not key or len(key) > NAME_LIMIT:
        raise InvalidField("targetKey", "is missing or too long")
    values = [] if values is None else values
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise InvalidField("targetValues", "is not a list of texts")
    operator = TargetOperator.IN
    if operator_name is not None:
        operator = TargetOperator(one_of(found, "targetOperator", _TARGET_OPERATORS))
    if bool(values) != (operator in (TargetOperator.IN, TargetOperator.NOT_IN)):
        raise InvalidField("targetValues", f"do not go with {operator.value}")
    return Target(key, operator, tuple(values))


def shown(name: str) -> ApplicationId:
    """Returns a name for use in a response."""
    return ApplicationId(name[:NAME_LIMIT])


def bounded(name: str, label: str) -> str:
    """Returns a name with limited length that may be empty."""
    if len(name) > NAME_LIMIT:
        raise InvalidField(label, f"is longer than {NAME_LIMIT} characters")
    return name


def named(name: str, label: str) -> str:
    """Returns a required name."""
    if not name:
        raise InvalidField(label, "is missing")
    return bounded(name, label)


def long_name(name: str, label: str) -> str:
    """Returns the name of a namespaced object, which may be twice as long."""
    if not name or len(name) > 2 * NAME_LIMIT:
        raise InvalidField(label, f"is missing or longer than {2 * NAME_LIMIT} characters")
    return name


def application_id(name: str) -> ApplicationId:
    """Decodes an application ID."""
    return ApplicationId(named(name, "applicationID"))


def allocation_key(name: str) -> AllocationKey:
    """Decodes an allocation key."""
    return AllocationKey(named(name, "allocationKey"))


def group(name: str) -> TaskGroup:
    """Decodes a task group name; empty = none."""
    return TaskGroup(bounded(name, "taskGroupName"))


def moment_of(tags: Mapping[str, str], tag: str, unit_ns: int) -> int:
    """Returns the time in `tag` in nanoseconds since the epoch; 0 = not set."""
    text = tags.get(tag)
    if not text:
        return 0
    try:
        return moment_ns(text, unit_ns)
    except InvalidField as unfit:
        raise unfit.inside(tag) from unfit
