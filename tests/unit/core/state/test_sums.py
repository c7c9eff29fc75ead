"""A cached sum equals a plain addition at any time, and adds runs of equal amounts once."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from muster_core.model.resources import NOTHING, Resources
from muster_core.state.ordering import dominant
from muster_core.state.queues import LazySum

AMOUNTS = [Resources({"vcore": 1}), Resources({"vcore": 2, "memory": 3}), NOTHING, Resources({"vcore": 1})]


@given(st.lists(st.tuples(st.sampled_from(AMOUNTS), st.integers(-3, 3), st.booleans())))
def test_a_sum_equals_all_additions_minus_all_subtractions(steps: list[tuple[Resources, int, bool]]) -> None:
    total, plain = LazySum(), NOTHING
    for amount, times, is_read in steps:
        total.add(amount, times)
        plain += amount.times(times)
        if is_read:
            assert total.value == plain
    assert total.value == plain


def test_the_dominant_share_is_that_of_the_whole_sum_and_one_without_capacity() -> None:
    total, whole = LazySum(), Resources({"vcore": 8, "memory": 30})
    assert total.dominant(whole) == 0
    total.add(AMOUNTS[1], 3)
    assert total.dominant(whole) == dominant(total.value, whole) == 6 / 8
    total.add(Resources({"example.com/none": 1}), 1)
    assert total.dominant(whole) == dominant(total.value, whole) == 1


def test_some_amounts_are_those_of_the_first_names_and_few_others() -> None:
    total = LazySum()
    for name in "abcd":
        total.add(Resources({name: 1}), 1)
    assert total.some(["c", "x"], 2) == Resources({"c": 1, "a": 1, "b": 1})
