"""Reads the values of the SI's string maps: tags of applications and asks, attributes of nodes.

A structure travels as canonical JSON (muster_si.keys), equal facts as equal
strings, so each distinct string is parsed once (semantics 21). Called by
si_decode.py; knows no messages. Everything is bounded: a text's size, and its
depth by its fixed shape (semantics 26). Raises Unfit, which names what is wrong.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from muster_core.edge.reading import (
    NAME_LIMIT,
    Object,
    an_object,
    each,
    one_of,
    only,
    pairs,
    parsed,
    remembered,
    text_of,
    texts,
)
from muster_core.edge.refusals import Unfit
from muster_core.model import limits
from muster_core.model.constraints import ANYWHERE, Constraints, Requirement, Taint, Term, Toleration
from muster_core.model.placement import (
    UNBOUNDED,
    AllocationAffinity,
    PlacementConstraint,
    Target,
    TargetOperator,
)
from muster_core.model.resources import Resources
from muster_core.model.specs import Topology

#: Largest quantity: two of them still add within int64 (semantics 3).
QUANTITY_LIMIT: Final = 2**62

_OPERATORS: Final = frozenset({"In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"})
_TOLERATION_OPERATORS: Final = frozenset({"Equal", "Exists"})
_EFFECTS: Final = frozenset({"NoSchedule", "PreferNoSchedule", "NoExecute"})
_TARGET_OPERATORS: Final = frozenset(TargetOperator)
_DIGITS_OF_A_TIME: Final = 16


@remembered
def constraints(text: str) -> Constraints:
    """The value of `muster/constraints`."""
    return constraints_of(an_object(parsed(text), "the value"))


@remembered
def placement(text: str) -> PlacementConstraint:
    """The value of `muster/placement-constraint`; seed 001's composite constraints are not (the seed has them only
    as a comment).
    """
    found = an_object(parsed(text), "the value")
    only(found, frozenset({"simpleConstraint"}))
    simple = an_object(found.get("simpleConstraint"), "simpleConstraint")
    try:
        return _simple_placement(simple)
    except Unfit as unfit:
        raise unfit.inside("simpleConstraint") from unfit


@remembered
def taints(text: str) -> tuple[Taint, ...]:
    """The value of `muster/taints`."""
    return each(parsed(text), "taints", _taint)


@remembered
def topology(text: str) -> Topology:
    """The value of `muster/gang-topology`."""
    found = an_object(parsed(text), "the value")
    only(found, frozenset({"key", "required"}))
    key, required = text_of(found, "key"), found.get("required", False)
    if not key or len(key) > NAME_LIMIT:
        raise Unfit("key", "is missing or too long")
    if not isinstance(required, bool):
        raise Unfit("required", "is neither true nor false")
    return Topology(key, required)


@remembered
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


def resources(amounts: Mapping[str, int], most: int = QUANTITY_LIMIT, *, counts: bool = False) -> Resources:
    """An amount from outside: refuses negative quantities, those of more than `most`, and too many. `counts`: it is of
    something that is there and has to count; what is too much of it is left out.
    """
    if counts:
        amounts = {name: min(amount, most) for name, amount in sorted(amounts.items())[: limits.RESOURCE_NAMES]}
    if len(amounts) > limits.RESOURCE_NAMES:
        raise Unfit(
            "the amount",
            f"names {len(amounts)} resources, the limit is {limits.RESOURCE_NAMES}: request fewer resources",
        )
    for name, amount in amounts.items():
        if amount < 0:
            raise Unfit(name[:NAME_LIMIT], f"is negative: {amount}")
        if amount > most:
            raise Unfit(name[:NAME_LIMIT], f"is absurd: {amount}, at most {most} is taken")
        if not name or len(name) > NAME_LIMIT:
            raise Unfit("a resource's name", "is empty or too long")
    return Resources(amounts)


def constraints_of(found: Object) -> Constraints:
    """The same, of a part of another value."""
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
    """A node selector term."""
    only(found, frozenset({"matchExpressions", "matchFields"}))
    return Term(
        expressions=each(found.get("matchExpressions") or [], "matchExpressions", requirement),
        fields=each(found.get("matchFields") or [], "matchFields", requirement),
    )


def requirement(found: Object) -> Requirement:
    """One expression of a term."""
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
        raise Unfit(f"{nodes} or {allocations}", "is missing: the constraint says nothing")
    return PlacementConstraint(targets, affinity)


def _affinity(found: Object) -> AllocationAffinity:
    spellings = [name for name in ("tragetExpressions", "targetExpressions") if name in found]
    only(found, frozenset({"scope", "minCardinality", "maxCardinality", "required", *spellings[:1]}))
    targets = each(found.get(spellings[0]), spellings[0], _target) if spellings else ()
    at_least, at_most = _cardinality(found, "minCardinality", 0), _cardinality(found, "maxCardinality", UNBOUNDED)
    required = found.get("required", False)
    if not text_of(found, "scope") or len(text_of(found, "scope")) > NAME_LIMIT:
        raise Unfit("scope", "is missing or too long")
    if not targets:
        raise Unfit("tragetExpressions", "are missing")
    if at_least > at_most:
        raise Unfit("minCardinality", f"is more than maxCardinality: {at_least} > {at_most}")
    if at_least == 0 and at_most == UNBOUNDED:
        raise Unfit("minCardinality or maxCardinality", "is missing: neither bounds anything")
    if not isinstance(required, bool):
        raise Unfit("required", "is neither true nor false")
    return AllocationAffinity(text_of(found, "scope"), targets, at_least, at_most, required)


def _cardinality(found: Object, field: str, default: int) -> int:
    value = found.get(field, default)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= UNBOUNDED:
        raise Unfit(field, "is not a whole number from 0 to 2147483647")
    return value


def _target(found: Object) -> Target:
    only(found, frozenset({"targetOperator", "targetKey", "targetValues"}))
    key, values, operator_name = text_of(found, "targetKey"), found.get("targetValues"), found.get("targetOperator")
    if not key or len(key) > NAME_LIMIT:
        raise Unfit("targetKey", "is missing or too long")
    values = [] if values is None else values
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise Unfit("targetValues", "is not a list of texts")
    operator = TargetOperator.IN
    if operator_name is not None:
        operator = TargetOperator(one_of(found, "targetOperator", _TARGET_OPERATORS))
    if bool(values) != (operator in (TargetOperator.IN, TargetOperator.NOT_IN)):
        raise Unfit("targetValues", f"do not go with {operator.value}")
    return Target(key, operator, tuple(values))
