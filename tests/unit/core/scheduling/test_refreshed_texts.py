"""Reported reasons follow the nodes: one number of nodes in all texts, without a storm of messages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import pytest

from muster_core.model.constraints import Constraints, Toleration
from muster_core.model.effects import Effect, SchedulingStateChanged
from muster_core.model.events import ApplicationAdded, AskAdded, NodeAction
from muster_core.model.ids import TaskGroup
from muster_core.model.limits import REFRESHES_PER_S
from muster_core.model.specs import NO_PROPERTIES, HostPort, PodProperties
from tests.unit.builders import a_configuration, a_queue, an_application, an_ask
from tests.unit.core.scheduling import auto, direct
from tests.unit.core.scheduling.scenario import Scenario, waits

QUEUES = a_configuration(a_queue("a"), a_queue("b"))
FULL = "0/{0} nodes are available: {0} Insufficient cpu."


class Unchecked(Scenario):
    """A scenario with so many pods that its invariants are not checked after each event."""

    def _check(self) -> None:
        pass


def crowded(pods: int, classes: int = 1, nodes: int = 3) -> Scenario:
    """Full nodes and waiting pods, which fit on no node."""
    scenario = Scenario(QUEUES) if pods < 1000 else Unchecked(QUEUES)
    for index in range(nodes):
        scenario.add_full_node(f"n{index}")
    scenario.send(ApplicationAdded(an_application()))
    scenario.send(*(AskAdded(an_ask(f"x{index}", vcore=1000 + index % classes)) for index in range(pods)))
    return scenario


def texts(scenario: Scenario, seconds: float) -> dict[str, str]:
    return {key: reason for key, (_, reason) in waits(scenario.wait(seconds)).items()}


def test_the_number_of_nodes_follows_when_a_full_node_is_added() -> None:
    scenario = crowded(1)
    added = scenario.add_full_node("n3")
    assert {**waits(added), **waits(scenario.wait(10))}["x0"] == ("FAILED", FULL.format(4))
    assert next(iter(scenario.app().refusals.values())).text() == FULL.format(4), "for explain and REST, too"


def test_the_number_of_nodes_follows_when_a_node_is_removed() -> None:
    scenario = crowded(1)
    scenario.wait(10)
    removed = scenario.node("n0", NodeAction.DECOMMISSION)
    assert {**waits(removed), **waits(scenario.wait(10))}["x0"] == ("FAILED", FULL.format(2))


def test_a_reason_follows_when_a_node_is_cordoned() -> None:
    scenario = crowded(1)
    scenario.wait(10)
    cordoned = scenario.node("n0", NodeAction.DRAIN)
    expected = "0/3 nodes are available: 1 node(s) were unschedulable, 2 Insufficient cpu."
    assert {**waits(cordoned), **waits(scenario.wait(10))}["x0"] == ("FAILED", expected)


def test_nothing_is_sent_again_while_nodes_and_reasons_stay() -> None:
    scenario = crowded(5, classes=5)
    scenario.wait(10)
    scenario.ask(an_ask("other"))
    assert texts(scenario, 60) == {}


def test_a_pod_with_a_reserved_node_keeps_it_in_the_new_text() -> None:
    scenario = Scenario(QUEUES, nodes=1)
    scenario.send(ApplicationAdded(an_application("busy", queue="root.b")), ApplicationAdded(an_application()))
    scenario.ask(*(an_ask(f"b{index}", app="busy") for index in range(4)))
    scenario.ask(an_ask("x0"))
    scenario.wait(10)
    [reservation] = scenario.partition.reservations.by_ask.values()
    effects = [*scenario.add_full_node("n9"), *scenario.wait(10)]
    mine = [(str(one.state), one.reason) for one in effects if isinstance(one, SchedulingStateChanged)]
    assert mine[-2][0] == "FAILED"
    assert mine[-1] == ("RESERVED", f"node {reservation.node} is reserved for the pod until enough resources are free")


@pytest.mark.parametrize("classes", [1, 2_000])
def test_flapping_nodes_cost_a_bounded_number_of_messages_with_10000_waiting_pods(classes: int) -> None:
    scenario = crowded(10_000, classes)
    scenario.wait(30)
    per_second: Counter[int] = Counter()
    per_pod: Counter[str] = Counter()
    for second in range(120):
        effects: list[Effect] = []
        if second % 2:
            effects += scenario.node("flap", NodeAction.DECOMMISSION)
        else:
            effects += scenario.add_full_node("flap")
        effects += scenario.wait(1)
        sent = [one.key for one in effects if isinstance(one, SchedulingStateChanged)]
        per_second[second] += len(sent)
        per_pod.update(sent)
    assert sum(per_second.values()) <= 121 * REFRESHES_PER_S
    assert max(per_second.values()) <= 3 * REFRESHES_PER_S
    assert max(per_pod.values()) <= 120 / 5 + 1
    assert sum(per_second.values()) > 10 * REFRESHES_PER_S, "the texts do follow"


def test_all_pods_get_the_last_text_when_the_nodes_stay() -> None:
    scenario = crowded(300, classes=3)
    scenario.wait(10)
    shown = {f"x{index}": FULL.format(3) for index in range(300)}
    for number in range(3, 8):
        shown |= {key: reason for key, (_, reason) in waits(scenario.add_full_node(f"n{number}")).items()}
        shown |= texts(scenario, 2)
    shown |= texts(scenario, 60)
    assert set(shown.values()) == {FULL.format(8)}


def test_a_step_lists_a_part_of_many_applications() -> None:
    """Otherwise one cycle takes longer the more applications there are, with room for all of them, too."""
    scenario = Unchecked(QUEUES)
    scenario.add_full_node("n0")
    names = [f"app-{index}" for index in range(5_000)]
    scenario.send(*(ApplicationAdded(an_application(name)) for name in names))
    shown = waits(scenario.send(*(AskAdded(an_ask(f"x-{name}", app=name)) for name in names)))
    shown |= waits(scenario.wait(60))
    assert len(shown) == len(names)
    shown = waits(scenario.add_full_node("n1"))
    searched = scenario.partition.texts
    assert 0 < len(searched.applications) < len(names)
    shown |= waits(scenario.wait(600))
    assert not searched.is_searching
    assert {reason for _, reason in shown.values()} == {FULL.format(2)}
    assert len(shown) == len(names)


# -- gangs -----------------------------------------------------------------------------


def test_members_and_placeholders_of_a_gang_never_have_different_texts() -> None:
    scenario = Scenario(auto.CONFIGURATION)
    scenario.add_node("free", vcore=2000)
    scenario.add_full_node("n1")
    other = Constraints(tolerations=(Toleration(key="tenant"),))  # another class than that of absent members
    shown = {key: reason for key, (_, reason) in waits(scenario.send(*direct.with_members(auto.a_gang(3)))).items()}
    assert shown["app/workers"].startswith("2 of 3 members")
    for effects in (
        scenario.ask(replace(auto.pod("p0"), constraints=other)),
        scenario.wait(1),
        scenario.add_full_node("n2"),
        scenario.wait(3),
        scenario.ask(replace(auto.pod("p1"), constraints=other)),
        scenario.wait(10),
    ):
        shown |= {key: reason for key, (_, reason) in waits(effects).items()}
        assert len(set(shown.values())) == 1, shown
        assert shown["app/workers"].startswith("2 of 3 members of task group workers fit: 0/"), "they do"
    assert shown.keys() == {"app/workers", "p0", "p1"}
    assert "0/3 nodes" in shown["p1"]


@pytest.mark.parametrize("a_gang", [auto.a_gang, direct.a_gang])
@pytest.mark.parametrize("ports", [(), (HostPort("10.0.0.1", "TCP", 80),)], ids=["resources", "host ports"])
def test_the_number_of_members_that_fit_follows_when_a_node_is_cordoned(
    a_gang: Callable[[int], ApplicationAdded], ports: tuple[HostPort, ...]
) -> None:
    scenario = Scenario(auto.CONFIGURATION)
    scenario.add_node("n0", vcore=1000)
    scenario.add_node("n1", vcore=1000)
    scenario.add_full_node("n2")
    member = replace(direct.member("r0"), facts=PodProperties(ports=ports) if ports else NO_PROPERTIES)
    shown = [reason for _, reason in waits(scenario.send(a_gang(3), AskAdded(member))).values()]
    for action in (NodeAction.DRAIN, NodeAction.OPEN):
        effects = [*scenario.node("n0", action), *scenario.send(), *scenario.wait(10)]
        shown += [reason for _, reason in waits(effects).values()]
    assert [text.partition(":")[0] for text in dict.fromkeys(shown)] == [
        "2 of 3 members of task group workers fit",
        "1 of 3 members of task group workers fit",
    ]
    assert shown[-1] == shown[0]
    counts = "1 Insufficient cpu, 1 node(s) didn't have free ports" if ports else "2 Insufficient cpu"
    assert counts in shown[-2], "next to the member that fits"
    assert "1 node(s) were unschedulable" in shown[-2]


def test_a_task_group_that_fits_only_without_the_others_says_so() -> None:
    scenario = Scenario(auto.CONFIGURATION)
    scenario.add_node("free", vcore=3000)
    scenario.add_full_node("n1")
    gang = auto.a_gang(2).spec
    groups = (*gang.members, replace(gang.members[0], group=TaskGroup("servers"), count=2))
    effects = scenario.send(ApplicationAdded(replace(gang, members=groups)), AskAdded(direct.member("r0")))
    found = {reason for _, reason in waits(effects).values()}
    assert len(found) == 1
    assert "1 of 2 members" in next(iter(found))
    assert "fit together with the others" in next(iter(found))
