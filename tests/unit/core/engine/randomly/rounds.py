"""Rounds of random events, each with a seed of its own: the unit tests run a few, `make soak` (tools/soak.py) many."""

from __future__ import annotations

from typing import ClassVar

from hypothesis import HealthCheck, seed, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.unit.core.engine.randomly.machine import RandomEvents
from tests.unit.core.engine.randomly.stage import Tally

_SETTINGS = settings(
    max_examples=40,
    stateful_step_count=40,
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
)


def run_round(number: int) -> int:
    """One round by its seed; returns how many events it told. Raises what Hypothesis found, shrunk."""

    class Seeded(RandomEvents):
        tally: ClassVar[Tally] = Tally()

    run_state_machine_as_test(seed(number)(Seeded), settings=_SETTINGS)
    return Seeded.tally.events
