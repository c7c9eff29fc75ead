"""Core or operator is killed while the nodes of bound members are deleted: the gang continues."""

import pytest

from tests.unit.operator.controller.objects import Raw, a_group, a_node, a_pod, gang_annotations
from tests.unit.operator.controller.simulation import Simulation
from tests.unit.operator.controller.test_direct_restarts import DIRECT
from tests.unit.operator.controller.test_restarts import APP, MEMBERS, Kill, at_rest, bound, every_kill

every_placement = pytest.mark.parametrize("parameters", ["", DIRECT])


def a_member(number: int, parameters: str) -> Raw:
    annotations = gang_annotations(a_group("g", MEMBERS), parameters=parameters, member_of="g")
    return a_pod(f"w{number}", app=APP, annotations=annotations)


@every_kill
@every_placement
def test_a_new_member_is_bound_after_the_nodes_of_the_other_members_were_deleted(parameters: str, kill: Kill) -> None:
    """Those members were not reported to the core, which waits for the complete gang, so they are requested."""
    simulation = Simulation()
    simulation.kubernetes.add_nodes(2)
    simulation.start()
    simulation.kubernetes.add(*(a_member(number, parameters) for number in range(MEMBERS)))
    at_rest(simulation)
    assert bound(simulation, placeholders=False) == MEMBERS
    for name in ("n0", "n1"):
        simulation.kubernetes.lose_node(name)
    simulation.kubernetes.add_node(a_node("n2"))
    kill(simulation)
    simulation.kubernetes.add(a_member(MEMBERS, parameters))
    at_rest(simulation)
    assert simulation.kubernetes.node_of(f"w{MEMBERS}") == "n2"
    assert simulation.core.refused == []


@every_kill
@every_placement
def test_members_of_a_node_that_is_added_again_rejoin_their_gang(parameters: str, kill: Kill) -> None:
    simulation = Simulation()
    simulation.kubernetes.add_nodes(1)
    simulation.start()
    simulation.kubernetes.add(*(a_member(number, parameters) for number in range(MEMBERS)))
    at_rest(simulation)
    simulation.kubernetes.lose_node("n0")
    kill(simulation)
    simulation.run()
    simulation.kubernetes.add_node(a_node("n0"))
    simulation.kubernetes.add(a_member(MEMBERS, parameters))
    at_rest(simulation)
    assert {f"uid-w{number}" for number in range(MEMBERS + 1)} <= simulation.core.apps[APP].held.keys()
    assert bound(simulation, placeholders=False) == MEMBERS + 1
    assert all(count == 1 for count in simulation.kubernetes.binds.values())
