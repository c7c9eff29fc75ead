"""A member and the slot of its gang that it can take are one request in all pending amounts."""

from dataclasses import replace

import pytest

from muster_core.model.resources import NOTHING, Resources
from muster_core.model.specs import GangPlacement
from tests.unit.builders import a_configuration, a_queue, resources
from tests.unit.core.scheduling import direct
from tests.unit.core.scheduling.auto import pod
from tests.unit.core.scheduling.direct import member, members
from tests.unit.core.scheduling.scenario import Scenario

WITHOUT_PODS = [GangPlacement.DIRECT, GangPlacement.AUTO]


def waiting(mode: GangPlacement, *, vcore: int = 500) -> Scenario:
    """A gang of three members of 1 core on one node of this size, next to a node that is full."""
    scenario = Scenario(a_configuration(a_queue("a")), nodes=1, vcore=vcore)
    scenario.add_full_node()
    gang = direct.a_gang(3)
    scenario.submit(replace(gang.spec, gang_placement=mode))
    return scenario


def cores(count: float) -> Resources:
    return resources(vcore=int(count * 1000))


def pending(scenario: Scenario) -> Resources:
    """The pending cores, which application and queues have in common."""
    amounts = [queue.pending for queue in scenario.app().queue.path_up]
    assert amounts == [scenario.app().pending] * len(amounts)
    return resources(vcore=amounts[0]["vcore"])


@pytest.mark.parametrize("mode", WITHOUT_PODS)
def test_a_gang_that_waits_without_pods_requests_its_members_once(mode: GangPlacement) -> None:
    scenario = waiting(mode)
    for present in range(4):
        assert (pending(scenario), scenario.app().pending_count) == (cores(3), 3), f"{present} members exist"
        scenario.ask(member(f"r{present}"))
    assert (pending(scenario), scenario.app().pending_count) == (cores(4), 4), "more members than slots"


@pytest.mark.parametrize("mode", WITHOUT_PODS)
def test_members_of_different_sizes_count_with_their_own_requests(mode: GangPlacement) -> None:
    scenario = waiting(mode)
    scenario.ask(member("r0", vcore=1500), member("r1", vcore=500), member("r2", vcore=8000))
    assert pending(scenario) == cores(10)


@pytest.mark.parametrize("mode", WITHOUT_PODS)
def test_a_member_that_is_deleted_leaves_the_request_of_its_slot(mode: GangPlacement) -> None:
    scenario = waiting(mode)
    scenario.ask(*members(3))
    scenario.release_ask("app-r0")
    assert (pending(scenario), scenario.app().pending_count) == (cores(3), 3)


@pytest.mark.parametrize("mode", WITHOUT_PODS)
def test_nothing_is_pending_once_the_members_run(mode: GangPlacement) -> None:
    scenario = waiting(mode, vcore=3000)
    scenario.ask(*members(3))
    assert (scenario.app().pending, scenario.app().pending_count) == (NOTHING, 0)
    assert scenario.partition.queues.root.allocated["vcore"] == 3000


def test_members_that_wait_for_a_partly_reserved_gang_request_only_what_is_not_reserved() -> None:
    scenario = waiting(GangPlacement.RESERVE, vcore=2000)
    scenario.ask(*(pod(f"p{index}") for index in range(3)))
    assert (scenario.partition.queues.root.allocated["vcore"], pending(scenario)) == (2000, cores(1))
    scenario.ask(*members(3))
    assert (scenario.partition.queues.root.allocated["vcore"], pending(scenario)) == (2000, cores(1))
    assert scenario.app().pending_count == 3, "pods without a node"


def test_a_larger_member_of_a_reserved_slot_requests_the_difference() -> None:
    scenario = waiting(GangPlacement.RESERVE, vcore=2000)
    scenario.ask(*(pod(f"p{index}") for index in range(3)))
    scenario.ask(member("r0", vcore=1500))
    assert pending(scenario) == cores(1 + 0.5)
