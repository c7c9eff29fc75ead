"""Rounds of random events, each with its own seed. The unit tests run a few, `make soak` (tools/soak.py) many."""

import tempfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import ClassVar, Final

from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.errors import FlakyStrategyDefinition
from hypothesis.stateful import run_state_machine_as_test

from muster_core.main import install_extensions
from tests.unit.core.scheduling.random_events.base import Profile
from tests.unit.core.scheduling.random_events.simulated_core import Tally
from tests.unit.core.scheduling.random_events.state_machine import RandomEvents

install_extensions()

_SETTINGS: Final = settings(
    max_examples=40,
    stateful_step_count=40,
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
)
_GENERATE: Final = (Phase.generate,)
#: One round in ten has thousands of queues, another one gangs of thousands of members.
_EVERY: Final = 10


def journal_of(number: int) -> str:
    """Return the path of the journal of a failed round in real time."""
    return f"{tempfile.gettempdir()}/soak-{number}.journal"


def profile_of(number: int, clock: Callable[[], float] | None = None) -> Profile:
    """Return the parameters of the round with this seed."""
    usual = Profile(clock=clock, journal=journal_of(number) if clock is not None else "")
    if number % _EVERY == 0:
        return replace(usual, queues=3_000)
    if number % _EVERY == _EVERY // 2:
        return replace(usual, members=(*usual.members, 300, 2_000, 10_000))
    return usual


def run_round(number: int, clock: Callable[[], float] | None = None, *, shrinks: bool = True, part: int = 1) -> Tally:
    """Run one round by its seed and return its counts.

    `part`: only one n-th of its examples runs. Raises the failure that Hypothesis found, shrunk unless a real `clock`
    provides the budget of each cycle.
    """

    class Seeded(RandomEvents):
        tally: ClassVar[Tally] = Tally()
        profile: ClassVar[Profile] = profile_of(number, clock)

    is_large = number % (_EVERY // 2) == 0
    chosen = settings(_SETTINGS, max_examples=4) if is_large else _SETTINGS
    chosen = settings(chosen, max_examples=chosen.max_examples // part)
    if clock is not None:
        _run_timed(Seeded, number, chosen)
        return Seeded.tally
    if not shrinks:
        chosen = settings(chosen, phases=_GENERATE)
    run_state_machine_as_test(seed(number)(Seeded), settings=chosen)
    return Seeded.tally


def _run_timed(machine: type[RandomEvents], number: int, chosen: settings) -> None:
    """Run each example separately, because real time makes equal examples differ, which Hypothesis does not allow."""
    alone = settings(chosen, max_examples=2, phases=_GENERATE)
    for index in range(chosen.max_examples):
        with suppress(FlakyStrategyDefinition):
            run_state_machine_as_test(seed(number * chosen.max_examples + index)(machine), settings=alone)
