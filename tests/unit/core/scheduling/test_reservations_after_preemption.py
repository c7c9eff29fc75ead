"""After preemption: a reservation takes the first free resources, and a gang that lost a member requests it again."""

from __future__ import annotations

from muster_core.model.events import ApplicationAdded, ConfigurationReplaced
from muster_core.model.resources import NOTHING
from tests.unit.builders import RM, a_limit, a_queue, an_application, resources
from tests.unit.core.scheduling.preemption_scenario import a_daemon, pods, run, victims, with_preemption
from tests.unit.core.scheduling.scenario import Scenario, placed


def test_a_new_node_serves_an_ask_with_a_reservation_that_fills_its_queue() -> None:
    queues = with_preemption(a_queue("a", vcore=1000, guaranteed=1000), a_queue("b"))
    scenario = Scenario(queues, nodes=1)
    run(scenario, "root.b", *pods("b", 4))
    run(scenario, "root.a", *pods("a", 1))
    assert len(victims(scenario.wait(31))) == 1  # release requested, not confirmed
    scenario.send(ConfigurationReplaced(RM, queues))  # what was remembered of nodes is forgotten
    assert placed(scenario.add_node("n1")) == {"a0": "n1"}


def test_a_gang_that_loses_a_placeholder_gets_a_quota_reservation() -> None:
    scenario = Scenario(with_preemption(a_queue("a"), a_queue("b")), nodes=1, vcore=2000)
    scenario.gang(ApplicationAdded(an_application("gang", queue="root.b", gang=2)), 3)  # one more than announced
    gang = scenario.app("gang").gang
    assert (gang.reserved["vcore"], gang.quota_reservation) == (2000, NOTHING)
    effects = run(scenario, "root.a", a_daemon("daemon", "n0", priority=1))
    assert len(victims([*effects, *scenario.wait(1)])) == 1
    assert gang.quota_reservation == resources(vcore=1000, pods=1)


def test_two_reservations_of_one_user_share_the_user_limit() -> None:
    limits = (a_limit(users=("kim",), vcore=1000),)
    scenario = Scenario(with_preemption(a_queue("a", guaranteed=2000, limits=limits), a_queue("b")), nodes=1)
    run(scenario, "root.b", *pods("b", 4))
    run(scenario, "root.a", *pods("a", 2))
    assert len(victims(scenario.wait(60))) == 2  # release requested, not confirmed
    assert placed(scenario.add_node("n1")) == {"a0": "n1"}
