"""Controller and engine after a change of the default placement: the gangs of the earlier default complete."""

import pytest

from muster_operator.model.pods import Placement
from muster_operator.model.settings import Settings
from tests.unit.contract import gangs
from tests.unit.contract.agent_and_core import Both
from tests.unit.contract.test_restarts import Kill, both_of_them, the_operator
from tests.unit.operator.controller.objects import a_container, a_pod

MEMBERS = 4
STEPS = range(0, 120, 5)


def began(cpu: str = "", other: str = "") -> Both:
    """Return the members of a gang without a placement, on two nodes of eight CPUs, when `Reserve` was the default.

    `other`: CPUs that another pod uses.
    """
    both = Both()
    both.settings = Settings(gang_placement=Placement.RESERVE)
    both.kubernetes.add_nodes(2)
    both.start()
    if other:
        pod = a_pod("other", app="other")
        pod["spec"]["containers"] = [a_container(cpu=other, memory="1Gi")]
        gangs.add(both, pod)
    both.kubernetes.add(*(gangs.a_member(both, f"w{number}", "", count=MEMBERS, cpu=cpu) for number in range(MEMBERS)))
    return both


every_kill = pytest.mark.parametrize("kill", [the_operator, both_of_them], ids=lambda kill: kill.__name__)


def restart(both: Both, kill: Kill) -> None:
    """Restart with the default placement of the name muster."""
    both.settings = Settings()
    kill(both)
    both.run()


def is_complete(both: Both) -> bool:
    """Whether all members are bound and no placeholder is left."""
    nodes = [both.kubernetes.node_of(f"w{number}") for number in range(MEMBERS)]
    return all(nodes) and not both.kubernetes.placeholders()


@every_kill
@pytest.mark.parametrize("steps", STEPS)
def test_a_gang_that_began_in_reserve_completes_in_auto(steps: int, kill: Kill) -> None:
    both = began()
    for _ in range(steps):
        both.step()
    restart(both, kill)
    both.wait(10)
    assert is_complete(both)


@every_kill
def test_a_gang_with_a_partial_reservation_completes_in_auto_when_the_rest_fits(kill: Kill) -> None:
    both = began(cpu="3", other="6")
    both.run()
    reserved = [pod for pod in both.kubernetes.placeholders() if both.kubernetes.node_of(pod["metadata"]["name"])]
    assert len(reserved) == 2
    restart(both, kill)
    both.wait(10)
    assert not any(both.kubernetes.node_of(f"w{number}") for number in range(MEMBERS))
    both.kubernetes.change("other", phase="Succeeded")
    both.run()
    both.wait(10)
    assert is_complete(both)
