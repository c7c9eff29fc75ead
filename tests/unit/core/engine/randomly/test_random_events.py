"""A seeded part of `make soak`: 2,000 random events and not one broken sentence (semantics 17, 19, 22)."""

from __future__ import annotations

import pytest

from tests.unit.core.engine.randomly.rounds import run_round

_EVENTS = 2_000


@pytest.mark.timeout(300)
def test_two_thousand_random_events_break_nothing() -> None:
    told, seed = 0, 1
    while told < _EVENTS:
        told += run_round(seed)
        seed += 1
