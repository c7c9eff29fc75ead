"""The decisions of the core on recorded histories do not change unnoticed (`make decisions`).

The histories are recordings of end-to-end runs and of a run with killed processes, and simulations of excerpts of
public traces: Philly (Microsoft, CC-BY), HPC2N (Ake Sandgren and Michael Jack, Parallel Workloads Archive), openb
(Alibaba, CC-BY).
"""

import pytest
from typer.testing import CliRunner

from tools import decisions

NAMES = decisions.names()
PREEMPTS = "guarantee-preempts"


def test_there_are_thirty_histories() -> None:
    assert len(NAMES) >= 30
    assert sorted(decisions.stored()) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_the_decisions_are_those_stored(name: str) -> None:
    found = decisions.changes(decisions.stored()[name], decisions.decided(name).summary())
    hint = 'make decisions ARGS="--compare main HEAD" shows each, and ARGS=--store accepts them'
    assert found == "the same", f"{name}: {found}; {hint}"


def test_each_difference_has_a_line() -> None:
    """Compared with the same history without the last node, which the core needs."""
    lines = [*decisions.lines_of(decisions.HISTORIES / f"{PREEMPTS}{decisions.SUFFIX}")]
    last = max(number for number, line in enumerate(lines) if b'"NodeAdded"' in line)
    before, after = decisions.replayed(lines), decisions.replayed(lines[:last] + lines[last + 1 :])
    found = decisions.differences(before, after)
    assert any("now not placed" in line for line in found), found
    assert any("released PREEMPTED_BY_SCHEDULER, now not" in line for line in found), found
    assert decisions.differences(before, before) == []


def test_an_unknown_history_is_named_with_the_known_ones() -> None:
    done = CliRunner().invoke(decisions.app, ["no-such"], env={"COLUMNS": "200"})
    assert done.exit_code == 2
    assert "no such history: no-such" in done.output
