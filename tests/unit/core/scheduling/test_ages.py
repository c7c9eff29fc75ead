"""Age orders the requests of an application and the applications of a FIFO leaf, in any order of arrival."""

from dataclasses import replace

import pytest

from muster_core.model.events import AskAdded
from muster_core.model.records import Notice
from muster_core.model.specs import AskSpec
from tests.unit.builders import SECOND, a_configuration, a_queue, an_allocation, an_application, an_ask
from tests.unit.core.scheduling.scenario import Scenario, placed, waits


def at(created_s: int, ask: AskSpec) -> AskSpec:
    return replace(ask, created_ns=created_s * SECOND)


def order(scenario: Scenario, places: int) -> list[str]:
    """Return the keys in the order of their allocation, with one free slot at a time."""
    keys: list[str] = []
    for number in range(places):
        keys += placed(scenario.add_node(f"one{number}", vcore=1000))
    return keys


def waiting(*asks: AskSpec) -> Scenario:
    """Send the asks of one application to a cluster without nodes."""
    scenario = Scenario(a_configuration(a_queue("a")), an_application())
    scenario.ask(*asks)
    return scenario


def test_equal_requests_go_by_their_creation_time() -> None:
    scenario = waiting(*(at(created_s, an_ask(f"r{created_s}")) for created_s in (30, 10, 20)))
    assert order(scenario, 3) == ["r10", "r20", "r30"]


def test_a_late_request_is_scheduled_before_younger_unschedulable_requests() -> None:
    scenario = waiting(at(20, an_ask("r20")), at(30, an_ask("r30")))
    reported = waits(scenario.ask(at(10, an_ask("r10"))))
    assert list(reported) == ["r10"], "its own reason is reported"
    assert reported["r10"][0] == "FAILED"
    assert order(scenario, 3) == ["r10", "r20", "r30"]


def test_a_request_that_is_sent_again_with_another_creation_time_moves() -> None:
    scenario = waiting(*(at(created_s, an_ask(f"r{created_s}")) for created_s in (10, 20, 30)))
    scenario.ask(at(5, an_ask("r30")))
    assert order(scenario, 3) == ["r30", "r10", "r20"]


def test_requests_without_a_creation_time_are_as_old_as_their_arrival() -> None:
    scenario = waiting(an_ask("arrived"), at(10, an_ask("created")))
    assert order(scenario, 2) == ["created", "arrived"]


def test_equally_old_requests_go_in_the_order_of_arrival() -> None:
    scenario = waiting(*(at(10, an_ask(key)) for key in "cab"))
    assert order(scenario, 3) == ["c", "a", "b"]


def test_request_classes_are_ordered_by_priority_then_by_their_oldest_request() -> None:
    first, high = at(10, an_ask("old", vcore=900)), at(30, an_ask("high", vcore=800, priority=1))
    scenario = waiting(at(20, an_ask("young")), first, high)
    assert order(scenario, 3) == ["high", "old", "young"]


def test_a_request_class_takes_the_age_of_its_next_request_after_a_placement() -> None:
    scenario = waiting(at(10, an_ask("wide10")), at(20, an_ask("slim20", vcore=900)))
    assert order(scenario, 1) == ["wide10"]
    scenario.ask(at(30, an_ask("wide30")))
    assert order(scenario, 2)[-1:] == ["slim20"]


@pytest.mark.parametrize("step", [5, 7, 11])
def test_the_order_of_many_requests_does_not_depend_on_the_order_of_arrival(step: int) -> None:
    asks = [at(100 + index, an_ask(f"r{index}")) for index in range(12)]
    scenario = waiting()
    mixed = [asks[index * step % len(asks)] for index in range(len(asks))]
    scenario.ask(*mixed[:6])
    first = order(scenario, 2)
    scenario.ask(*mixed[6:])
    rest = [ask.key for ask in asks if ask.key not in first]
    more = [key for number in range(10) for key in placed(scenario.add_node(f"more{number}", vcore=1000))]
    assert first == [ask.key for ask in sorted(mixed[:6], key=lambda ask: ask.created_ns)[:2]]
    assert more == rest


def submit(scenario: Scenario, name: str, submitted_s: int = 0) -> None:
    scenario.submit(an_application(name, created_s=submitted_s))


def test_an_application_is_as_old_as_its_oldest_request() -> None:
    scenario = Scenario(a_configuration(a_queue("a")))
    for name, submitted_s, created_s in (("first", 10, 10), ("second", 20, 5)):
        submit(scenario, name, submitted_s)
        scenario.ask(at(created_s, an_ask(name, app=name)))
    assert order(scenario, 2) == ["second", "first"]


def test_an_older_request_moves_an_application_that_waits_already() -> None:
    scenario = Scenario(a_configuration(a_queue("a")))
    for name in ("first", "second"):
        submit(scenario, name)
        scenario.ask(an_ask(name, app=name))
    scenario.ask(at(5, an_ask("older", app="second")))
    assert order(scenario, 3) == ["older", "second", "first"]


def test_an_application_is_as_old_as_its_oldest_allocation_after_a_restart() -> None:
    scenario = Scenario(a_configuration(a_queue("a")))
    scenario.add_node("full", vcore=1000)
    for name in ("first", "second"):
        submit(scenario, name, 10)
    scenario.report(replace(an_allocation("bound", "full", app="second"), created_ns=5 * SECOND))
    scenario.send(*(AskAdded(at(20, an_ask(name, app=name))) for name in ("first", "second")))
    assert order(scenario, 2) == ["second", "first"]


def test_an_application_keeps_its_age_when_its_oldest_request_is_cancelled() -> None:
    scenario = Scenario(a_configuration(a_queue("a")))
    for name, created_s in (("first", 10), ("second", 5)):
        submit(scenario, name, 10)
        scenario.ask(at(created_s, an_ask(f"{name}0", app=name)), at(20, an_ask(f"{name}1", app=name)))
    scenario.release_ask("second0", app="second")
    assert order(scenario, 1) == ["second1"]


def test_the_key_of_a_gang_keeps_the_time_of_its_originator() -> None:
    scenario = Scenario(a_configuration(a_queue("a")), an_application(gang=2, created_s=10))
    scenario.ask(at(5, an_ask("p0", group="workers", placeholder=True)))
    key = scenario.app().gang.key
    assert key is not None
    assert key[1] == 10 * SECOND
    assert scenario.app().oldest_ns == 5 * SECOND


def test_the_reason_of_a_waiting_application_names_its_oldest_request_first() -> None:
    """The application may not run, so there was no attempt that sorted its requests."""
    scenario = Scenario(a_configuration(a_queue("a", max_applications=1)), nodes=1)
    scenario.submit(an_application("running"), an_ask("first"))
    scenario.submit(an_application("waiting"))
    scenario.records.clear()
    reported = waits(scenario.ask(*(at(created_s, an_ask(f"r{created_s}", app="waiting")) for created_s in (9, 3, 6))))
    assert list(reported) == ["r9", "r6", "r3"], "newest first"
    [record] = [one for one in scenario.records if one.about is Notice.REQUEST]
    assert record.subject == "r3"
