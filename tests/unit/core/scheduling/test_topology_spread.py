"""Requests with topology spread constraints over time: requeueing, gangs, and placeholder replacement."""

from __future__ import annotations

from dataclasses import replace

from muster_core.model.constraints import (
    ANYWHERE,
    NAMESPACE,
    TERMINATING,
    Constraints,
    InterPodConstraints,
    Taint,
    Target,
    TopologySpreadConstraint,
)
from muster_core.model.events import AllocationReported, ApplicationAdded, AskAdded, NodeAction, NodeAdded, NodeUpdated
from muster_core.model.ids import Termination
from muster_core.model.specs import AllocationSpec, AskSpec, NodeSpec, PodProperties
from tests.unit.builders import a_configuration, a_node, a_queue, an_allocation, an_application, an_ask
from tests.unit.core.scheduling.scenario import Scenario, placed, releases, waits

WEB = {"app": "web", NAMESPACE: "ns"}
EVENLY = TopologySpreadConstraint("zone", 1, (Target("app", values=("web",)),), "ns")
IN_B = Constraints(node_selector=(("zone", "b"),))


def a_web(
    key: str,
    *,
    vcore: int = 1000,
    where: Constraints = ANYWHERE,
    by: TopologySpreadConstraint | None = EVENLY,
    group: str = "",
) -> AskSpec:
    facts = PodProperties(InterPodConstraints(spread=(by,) if by else ()))
    ask = an_ask(key, vcore=vcore, constraints=where, group=group, placeholder=bool(group) and key.startswith("p"))
    return replace(ask, tags=WEB, facts=facts)


def zoned(name: str, zone: str, vcore: int = 4000) -> NodeSpec:
    return a_node(name, vcore, labels={"zone": zone})


def a_foreigner(node: str, **tags: str) -> AllocationSpec:
    """A pod of another scheduler that takes nothing."""
    return replace(an_allocation("f", node, vcore=0, foreign=True), tags={NAMESPACE: "ns", **tags})


def waiting(by: TopologySpreadConstraint = EVENLY) -> Scenario:
    """`w0` runs in zone a; `w1` waits, because zone b is full, and zone a already has one more."""
    scenario = Scenario(a_configuration(a_queue("a")))
    scenario.send(NodeAdded(zoned("n0", "a")), NodeAdded(zoned("n1", "b", 500)), ApplicationAdded(an_application()))
    effects = scenario.ask(a_web("w0", by=by), a_web("w1", by=by))
    assert placed(effects) == {"w0": "n0"}
    assert waits(effects)["w1"][1] == (
        "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) didn't match pod topology spread constraints."
    )
    return scenario


def test_an_ask_is_placed_when_a_pod_is_added_to_the_emptiest_domain() -> None:
    scenario = waiting()
    assert placed(scenario.ask(a_web("small", vcore=100, where=IN_B, by=None))) == {"small": "n1", "w1": "n0"}


def test_an_ask_is_placed_when_a_pod_is_deleted_from_the_full_domain() -> None:
    assert placed(waiting().release("w0")) == {"w1": "n0"}


def test_an_ask_is_placed_when_labels_of_a_running_pod_change() -> None:
    scenario = waiting()
    assert placed(scenario.send(AllocationReported(a_foreigner("n1")))) == {}
    assert placed(scenario.send(AllocationReported(a_foreigner("n1", app="web")))) == {"w1": "n0"}


def test_an_ask_is_placed_when_a_pod_of_the_full_domain_terminates() -> None:
    scenario = Scenario(a_configuration(a_queue("a")))
    scenario.send(NodeAdded(zoned("n0", "a")), NodeAdded(zoned("n1", "b", 500)), ApplicationAdded(an_application()))
    scenario.send(AllocationReported(a_foreigner("n0", app="web")))
    assert placed(scenario.ask(a_web("w"))) == {}
    assert placed(scenario.send(AllocationReported(a_foreigner("n0", app="web", **{TERMINATING: "true"})))) == {
        "w": "n0"
    }


def test_an_ask_is_placed_when_the_last_node_of_the_emptiest_domain_is_removed() -> None:
    assert placed(waiting().node("n1", NodeAction.DECOMMISSION)) == {"w1": "n0"}


def test_an_ask_is_placed_when_a_node_changes_its_domain() -> None:
    assert placed(waiting().send(NodeUpdated(zoned("n1", "a", 500)))) == {"w1": "n0"}


def test_an_ask_that_honors_taints_is_placed_when_the_emptiest_domain_is_tainted() -> None:
    scenario = waiting(by=replace(EVENLY, honors_taints=True))
    tainted = replace(zoned("n1", "b", 500), taints=(Taint("dedicated", "", "NoSchedule"),))
    assert placed(scenario.send(NodeUpdated(tainted))) == {"w1": "n0"}


def test_an_ask_is_placed_when_a_node_is_added_to_the_emptiest_domain() -> None:
    scenario = waiting()
    assert placed(scenario.send(NodeAdded(zoned("n2", "a")))) == {}
    assert placed(scenario.send(NodeAdded(zoned("n3", "b")))) == {"w1": "n3"}


def test_the_cached_result_of_an_unused_class_is_dropped_when_domains_change() -> None:
    scenario = waiting()
    scenario.release_ask("w1")
    scenario.node("n1", NodeAction.DECOMMISSION)
    assert placed(scenario.ask(a_web("w2"))) == {"w2": "n0"}


def gang(scenario: Scenario, *placeholders: AskSpec) -> dict[str, str]:
    """An application with these placeholders; where they are."""
    members = ApplicationAdded(an_application(gang=len(placeholders), each=placeholders[0].resources))
    return placed(scenario.send(members, *(AskAdded(one) for one in placeholders)))


def test_gang_members_spread_and_replace_placeholders_in_their_domain() -> None:
    scenario = Scenario(a_configuration(a_queue("a")))
    scenario.send(NodeAdded(zoned("n0", "a", 2000)), NodeAdded(zoned("n1", "b", 2000)))
    held = gang(scenario, *(a_web(f"p{index}", group="workers") for index in range(4)))
    assert sorted(held.values()) == ["n0", "n0", "n1", "n1"]
    for index in range(4):
        [gone] = releases(scenario.ask(a_web(f"r{index}", group="workers")))
        effects = scenario.release(gone, why=Termination.PLACEHOLDER_REPLACED)
        assert placed(effects) == {f"r{index}": held[gone]}


def test_members_replace_placeholders_that_are_spread_unevenly() -> None:
    """Placeholders count only until they are replaced; the real members must be spread evenly."""
    scenario = Scenario(a_configuration(a_queue("a")))
    scenario.send(NodeAdded(zoned("n0", "a", 3000)), NodeAdded(zoned("n1", "b", 500)))
    held = gang(scenario, *(a_web(f"p{index}", by=None, group="workers") for index in range(3)))
    assert set(held.values()) == {"n0"}
    wide = replace(EVENLY, max_skew=2)
    first, *others = (a_web(f"r{index}", by=wide, group="workers") for index in range(3))
    effects = [*scenario.ask(first), *scenario.ask(*others)]
    assert len(releases(effects)) == 2
    assert list(waits(effects)) == ["r2"]
    # The third one is placed on a node in the emptier zone.
    assert len(releases(scenario.send(NodeAdded(zoned("n2", "b"))))) == 1


def test_a_class_counts_replacements_of_its_gang_in_the_same_plan() -> None:
    scenario = Scenario(a_configuration(a_queue("a")))
    scenario.send(NodeAdded(zoned("n0", "a", 2000)), NodeAdded(zoned("n1", "b", 2000)))
    held = gang(scenario, *(replace(a_web(f"p{index}", by=None, group="workers"), tags={}) for index in range(4)))
    first = replace(a_web("r0", by=None, group="workers"), priority=10)
    effects = scenario.ask(first, a_web("r1", group="workers"))
    assert {held[one] for one in releases(effects)} == {"n0", "n1"}
