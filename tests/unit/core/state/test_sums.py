"""A cached sum equals a plain addition at any time, and adds runs of equal amounts once."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from muster_core.model.resources import NOTHING, Resources
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


def test_the_value_of_a_sum_is_one_object_until_something_is_added() -> None:
    total = LazySum()
    total.add(AMOUNTS[0], 5)
    assert total.value is total.value
    before = total.value
    total.add(AMOUNTS[0], 1)
    assert total.value is not before
