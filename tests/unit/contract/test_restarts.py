"""Controller and engine after a kill: reservations of a partly completed gang in each mode."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.unit.contract import gangs
from tests.unit.contract.agent_and_core import Both
from tests.unit.contract.random_events import PLACEMENTS
from tests.unit.operator.controller.objects import Raw

APP = "dev/half"
MEMBERS = 4
LONG_S = 600

Kill = Callable[[Both], None]


def the_operator(both: Both) -> None:
    both.kill_operator(lose_commands=True)


def the_core(both: Both) -> None:
    both.kill_core()


def both_of_them(both: Both) -> None:
    both.kill_core()
    both.kill_operator(lose_commands=True)


every_kill = pytest.mark.parametrize("kill", [the_operator, the_core, both_of_them], ids=lambda kill: kill.__name__)
every_placement = pytest.mark.parametrize("placement", PLACEMENTS)


def a_member(both: Both, number: int, placement: str, words: str = "") -> Raw:
    parameters = f"gangPlacement={placement} placeholderTimeoutInSeconds={LONG_S} {words}".strip()
    return gangs.a_member(both, f"w{number}", parameters, app=APP, count=MEMBERS)


def began(placement: str, *numbers: int, nodes: int = 1) -> Both:
    """Return nodes of eight CPUs, and these members of a gang of four with one CPU each."""
    both = gangs.on_nodes(nodes)
    return gangs.add(both, *(a_member(both, number, placement) for number in numbers))


def placeholder_count(both: Both) -> int:
    """Return the number of placeholders of the gang, with or without pods."""
    app = both.real.applications_there[APP]
    return sum(allocation.spec.placeholder for allocation in app.allocations.values())


def used_cpu(both: Both) -> int:
    """Return the allocated CPUs in the core."""
    return sum(leaf.allocated["vcore"] for leaf in both.real.partition.queues.leaves()) // 1000


@every_kill
@every_placement
def test_a_restart_keeps_the_reservation_only_for_members_still_missing(placement: str, kill: Kill) -> None:
    """Of four members one has ended, one runs, and two are missing."""
    both = began(placement, 0, 1)
    both.wait(5)
    both.kubernetes.change("w0", phase="Succeeded")
    both.run()
    assert placeholder_count(both) == 2
    kill(both)
    both.run()
    assert (placeholder_count(both), used_cpu(both)) == (2, 3)
    both.kubernetes.add(a_member(both, 2, placement), a_member(both, 3, placement))
    both.run()
    assert (placeholder_count(both), used_cpu(both)) == (0, 3)
    assert both.kubernetes.placeholders() == []


@every_kill
@every_placement
def test_a_gang_with_only_finished_members_keeps_its_reservation_after_a_kill(placement: str, kill: Kill) -> None:
    """All in one second, because a later pod could belong to another gang with the same ID."""
    both = began(placement, 0, 1)
    for name in ("w0", "w1"):
        both.kubernetes.change(name, phase="Succeeded")
    both.kubernetes.add(a_member(both, 2, placement))
    made = both.kubernetes.writes["CreatePlaceholder"]
    kill(both)
    both.run()
    assert both.kubernetes.node_of("w2")
    assert (placeholder_count(both), used_cpu(both)) == (1, 2)
    assert both.kubernetes.writes["CreatePlaceholder"] == made


@every_kill
@every_placement
def test_unused_reservations_expire_after_the_timeout_also_after_a_kill(placement: str, kill: Kill) -> None:
    both = began(placement, 0)
    both.wait(LONG_S / 2)
    kill(both)
    both.run()
    assert placeholder_count(both) == MEMBERS - 1
    both.wait(LONG_S / 2 + 10)
    assert (placeholder_count(both), used_cpu(both)) == (0, 1)


@every_kill
@every_placement
def test_members_waiting_for_nodes_continue_after_the_originator_is_deleted(placement: str, kill: Kill) -> None:
    both = began(placement, 0, 1, 2, 3, 4, nodes=0)
    both.kubernetes.delete_by_name("w0")
    both.run()
    kill(both)
    both.run()
    both.kubernetes.add_nodes(1)
    both.run()
    both.wait(60)
    assert all(both.kubernetes.node_of(f"w{number}") for number in range(1, 5))
    assert both.kubernetes.placeholders() == []
