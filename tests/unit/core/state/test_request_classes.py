"""Classes that do not fit are woken by their requests, all at once, and evaluated in turn."""

from __future__ import annotations

from dataclasses import replace

from muster_core.model.decisions import ReasonKind, UnschedulableReason
from muster_core.model.resources import Resources
from muster_core.state.columns import AmountIndex
from muster_core.state.request_classes import AskClass, UnschedulableClasses, class_of
from tests.unit.builders import an_ask

_WHY = UnschedulableReason(ReasonKind.NODES, "no node fits")


def _a_class(vcore: int = 1000) -> AskClass:
    return class_of(an_ask("ask", vcore=vcore), as_usual=True)


def test_a_class_that_is_evaluated_again_sleeps() -> None:
    classes, kind = UnschedulableClasses(), _a_class()
    classes.offer(kind.resources)
    classes.put(kind, 0, _WHY)
    classes.independent.wake({"vcore": 1000, "pods": 1}.get)
    assert classes.is_any_woken
    assert classes.is_woken(kind)
    classes.put(kind, 0, _WHY)
    assert not classes.is_any_woken


def test_a_class_waits_for_one_missing_resource_after_the_other() -> None:
    classes = UnschedulableClasses()
    kind = class_of(replace(an_ask("ask"), resources=Resources({"a": 1, "b": 1, "c": 1})), as_usual=True)
    classes.put(kind, 0, _WHY)
    for offered in ("b", "ab"):
        classes.offer(Resources(dict.fromkeys(offered, 1)))
        classes.independent.wake({"a": 9, "b": 9, "c": 9}.get)
        assert classes.take(9) == []
    classes.offer(Resources({"a": 1, "b": 1, "c": 1}))
    assert classes.is_any_woken
    assert classes.take(9) == [kind]
    assert classes.take(9) == []
    classes.independent.wake({"a": 9, "b": 9, "c": 9}.get)
    assert classes.take(9) == [kind]
    classes.drop(kind)
    assert classes.take(9) == []


def _an_index(*amounts: int) -> AmountIndex[int]:
    index: AmountIndex[int] = AmountIndex()
    for amount in amounts:
        index.put(amount, Resources({"vcore": amount}), mark=amount % 2)
    return index


def test_amounts_within_the_bounds_are_woken() -> None:
    index = _an_index(1, 2, 3, 4, 5)
    index.drop(2)
    index.wake({"vcore": 4}.get)
    assert index.take(9) == [1, 3, 4]
    assert not index.is_any_woken
    index.wake({"memory": 0}.get, marks=[2])
    assert index.take(9) == [4]


def test_woken_amounts_have_their_turn_even_if_others_are_woken_again() -> None:
    index = _an_index(1, 3, 5, 7, 9)
    found = []
    for _ in range(3):
        index.wake({"vcore": 9}.get)
        found += index.take(2)
    assert found == [1, 3, 5, 7, 9, 1]
    index.set_woken(9, value=False)
    assert index.take(9) == [3, 5, 7]
