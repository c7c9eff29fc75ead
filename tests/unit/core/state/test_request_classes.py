"""The additional room of a class that did not fit is counted only on rows that may have some."""

from __future__ import annotations

import numpy as np

from muster_core.model.decisions import ReasonKind, UnschedulableReason
from muster_core.model.resources import Resources
from muster_core.state.request_classes import AskClass, UnschedulableClasses, class_of
from tests.unit.builders import an_ask

_WHY = UnschedulableReason(ReasonKind.NODES, "no node fits")


def _a_class(vcore: int = 1000) -> AskClass:
    return class_of(an_ask("ask", vcore=vcore), as_usual=True)


def _since(classes: UnschedulableClasses, kind: AskClass) -> list[int]:
    found = classes.get(kind)
    assert found is not None
    return sorted(classes.since(found).tolist())


def _rows(*rows: int) -> np.ndarray:
    return np.array(rows, dtype=np.int64)


def test_rows_that_were_counted_without_room_are_not_counted_again_before_they_gain() -> None:
    classes, kind = UnschedulableClasses(), _a_class()
    classes.put(kind, 0, _WHY)
    classes.gained(_rows(1, 2, 3), 10)
    classes.grow(kind)
    assert _since(classes, kind) == [1, 2, 3]
    classes.counted(kind, _rows(2), 1)
    assert kind in classes.grown
    assert _since(classes, kind) == [2]
    classes.gained(_rows(2, 5), 10)
    assert _since(classes, kind) == [2, 5]
    classes.counted(kind, _rows(), 0)
    assert not classes.grown
    assert _since(classes, kind) == []
    classes.gained(_rows(1), 10)
    assert _since(classes, kind) == [1]


def test_a_class_that_is_evaluated_again_forgets_the_rows_with_room() -> None:
    classes, kind = UnschedulableClasses(), _a_class()
    classes.put(kind, 0, _WHY)
    classes.gained(_rows(1), 10)
    classes.grow(kind)
    classes.counted(kind, _rows(1), 1)
    classes.put(kind, 0, _WHY)
    assert _since(classes, kind) == []


def test_additional_room_adds_to_the_room_of_the_last_evaluation() -> None:
    classes, kind = UnschedulableClasses(), _a_class()
    classes.put(kind, 2, _WHY)
    classes.gained(_rows(1), 10)
    classes.grow(kind)
    classes.counted(kind, _rows(1), 3)
    found = classes.get(kind)
    assert found is not None
    assert found.room == 5
    assert classes.within(Resources({"vcore": 1000, "pods": 1}).__getitem__) == [kind]
