"""A seeded part of `make soak`: thousands of random events violate no invariant.

Each round runs a fixed number of examples, so the counts below are equal on every machine.
"""

import pytest

from muster_core.model.events import Event
from muster_core.scheduling import ledger
from tests.amounts import amount
from tests.unit.core.scheduling.many_pods import FIRST_SELECTOR, REMOVED, from_nothing
from tests.unit.core.scheduling.random_events.rounds import run_round
from tests.unit.core.scheduling.random_events.simulated_core import Stage, Tally

#: A normal round, and one with gangs of thousands of members. `make soak` also runs those with thousands of queues.
_SEEDS = (16, 15)
#: Complete rounds that found a defect. 8003: applications requeued after a failed commit waited for the next event.
_FOUND = (8003,) if amount(0, 1) else ()


@pytest.mark.thorough
@pytest.mark.timeout(300)
@pytest.mark.parametrize("seed", [*_SEEDS, *_FOUND])
def test_random_events_violate_no_invariant(seed: int) -> None:
    tally = run_round(seed, part=amount(2, 1))
    assert tally.events


@pytest.mark.parametrize("name", ["charge", "count_pending", "end_preemption", "unreserve"])
def test_random_events_detect_a_missing_write(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """So the part that runs here is large enough."""
    monkeypatch.setattr(ledger, name, lambda *_, **__: None)
    with pytest.raises(AssertionError):
        run_round(_SEEDS[0], shrinks=False)


@pytest.mark.parametrize("event", [REMOVED, FIRST_SELECTOR], ids=["removal", "selector"])
def test_d19_an_event_in_parts_is_done_over_in_the_same_parts(event: Event) -> None:
    stage = Stage(Tally())
    stage.send(*from_nothing(event))
    stage.do_over()
    stage.do_over_from_file()
    assert b'"continued"' in stage.journal()
