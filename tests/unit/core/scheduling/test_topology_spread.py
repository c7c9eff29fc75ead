"""Requests with topology spread constraints over time: requeueing, gangs, and placeholder replacement."""

from dataclasses import replace

import pytest

from muster_core.model.constraints import (
    ANYWHERE,
    NAMESPACE,
    TERMINATING,
    Constraints,
    InterPodConstraints,
    PodTerm,
    Taint,
    Target,
    TopologySpreadConstraint,
)
from muster_core.model.events import (
    AllocationReleased,
    AllocationReported,
    ApplicationAdded,
    AskAdded,
    ClusterObjectsReported,
    Event,
    NodeAction,
    NodeActionReported,
    NodeAdded,
    NodeUpdated,
)
from muster_core.model.ids import AllocationKey, ApplicationId, NodeId, Termination
from muster_core.model.specs import NO_PROPERTIES, AllocationSpec, AskSpec, HostPort, NodeSpec, PodProperties
from muster_core.model.storage import NamespaceLabels
from tests.unit.builders import PARTITION, a_configuration, a_node, a_queue, an_allocation, an_application, an_ask
from tests.unit.core.placement.affinity_clusters import HOST, ZONE, among, term
from tests.unit.core.scheduling.preemption_scenario import run, with_preemption
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
    assert placed(scenario.report(a_foreigner("n1"))) == {}
    assert placed(scenario.report(a_foreigner("n1", app="web"))) == {"w1": "n0"}


def test_an_ask_is_placed_when_a_pod_of_the_full_domain_terminates() -> None:
    scenario = Scenario(a_configuration(a_queue("a")))
    scenario.send(NodeAdded(zoned("n0", "a")), NodeAdded(zoned("n1", "b", 500)), ApplicationAdded(an_application()))
    scenario.report(a_foreigner("n0", app="web"))
    assert placed(scenario.ask(a_web("w"))) == {}
    assert placed(scenario.report(a_foreigner("n0", app="web", **{TERMINATING: "true"}))) == {"w": "n0"}


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


# -- Pods with the same host port: one per node, in the order in which nodes become free.

WEB_PORT = PodProperties(ports=(HostPort("10.0.0.1", "TCP", 80),))


def on_port(ask: AskSpec) -> AskSpec:
    return replace(ask, facts=WEB_PORT)


def test_a_pod_whose_port_is_in_use_waits_until_it_is_free() -> None:
    scenario = Scenario(with_preemption(a_queue("a"), a_queue("b")), nodes=2)
    assert placed(run(scenario, "root.a", *(on_port(an_ask(f"r{i}")) for i in range(3)))) == {"r0": "n0", "r1": "n1"}
    assert placed(scenario.release("r1", app="a")) == {"r2": "n1"}


def test_a_member_replaces_its_placeholder_with_the_same_port() -> None:
    scenario = Scenario(with_preemption(a_queue("a"), a_queue("b")), an_application(gang=2), nodes=2)
    placeholders = (an_ask(f"p{i}", group="workers", placeholder=True) for i in range(2))
    assert placed(scenario.ask(*(on_port(ask) for ask in placeholders))) == {"p0": "n0", "p1": "n1"}
    effects = scenario.ask(on_port(an_ask("r0", group="workers")))
    assert releases(effects) == {"p0": Termination.PLACEHOLDER_REPLACED}
    assert placed(scenario.release("p0", why=Termination.PLACEHOLDER_REPLACED)) == {"r0": "n0"}


# -- Pods with inter-pod (anti-)affinity are requeued when matching pods arrive or leave.

#: Pods of namespaces with the label team=one.
TEAM = among("team", "one")


def affinity(*terms: PodTerm) -> PodProperties:
    return PodProperties(InterPodConstraints(affinity=terms))


def anti_affinity(*terms: PodTerm) -> PodProperties:
    return PodProperties(InterPodConstraints(anti_affinity=terms))


def tags(app: str) -> dict[str, str]:
    return {"kubernetes.io/label/app": app, NAMESPACE: "red"}


def pod(
    key: str, app: str, facts: PodProperties = NO_PROPERTIES, group: str = "", *, placeholder: bool = False
) -> AskSpec:
    return replace(an_ask(key, tags=tags(app), group=group, placeholder=placeholder), facts=facts)


def running(
    app: str, facts: PodProperties = NO_PROPERTIES, node: str = "n0", *, foreign: bool = False
) -> AllocationSpec:
    return replace(an_allocation("b", node, foreign=foreign), tags=tags(app), facts=facts)


def in_zone(name: str, zone: str) -> NodeSpec:
    """Of 4 cores; an empty zone = in none."""
    return a_node(name, labels={HOST: name} | ({ZONE: zone} if zone else {}))


def a_scenario(*zones: str) -> Scenario:
    """n0, n1, ... in these zones, an application, and a namespace with a label."""
    scenario = Scenario(a_configuration(a_queue("a")))
    scenario.send(*(NodeAdded(in_zone(f"n{index}", zone)) for index, zone in enumerate(zones)))
    scenario.send(ApplicationAdded(an_application()), namespace(team="one"))
    return scenario


def namespace(**labels: str) -> ClusterObjectsReported:
    return ClusterObjectsReported(PARTITION, (NamespaceLabels("red", labels),))


def released(app: str = "app") -> AllocationReleased:
    return AllocationReleased(PARTITION, ApplicationId(app), AllocationKey("b"), None, Termination.STOPPED_BY_RM)


WEB_IN_TEAM = term("web", namespaces=(), of=TEAM)
CACHE_IN_TEAM = term("cache", namespaces=(), of=TEAM)


@pytest.mark.parametrize(
    "event, node",
    [
        (AskAdded(pod("other", "web")), "n0"),
        (AllocationReported(running("web", node="n1")), "n1"),
        (AllocationReported(running("web", node="n1", foreign=True)), "n1"),
        (NodeAdded(in_zone("n9", "b"), existing=(running("web", node="n9"),)), "n1"),
    ],
)
def test_an_ask_with_affinity_is_placed_when_a_matching_pod_exists(event: Event, node: str) -> None:
    scenario = a_scenario("a", "b")
    effects = scenario.ask(pod("w", "cache", affinity(WEB_IN_TEAM)))
    assert waits(effects)["w"][1] == "0/2 nodes are available: 2 node(s) didn't match pod affinity rules."
    assert placed(scenario.send(event))["w"] == node


def test_changed_labels_nodes_or_namespaces_satisfy_an_affinity() -> None:
    for foreign in (False, True):
        scenario = a_scenario("a", "")
        scenario.report(running("db", foreign=foreign))
        assert placed(scenario.ask(pod("w", "cache", affinity(WEB_IN_TEAM)))) == {}
        assert placed(scenario.report(running("web", foreign=foreign))) == {"w": "n0"}
    scenario = a_scenario("", "a")
    scenario.report(running("web"))
    assert placed(scenario.ask(pod("w", "cache", affinity(WEB_IN_TEAM)))) == {}
    assert placed(scenario.send(NodeUpdated(in_zone("n0", "b")))) == {"w": "n0"}
    scenario = a_scenario("a", "b")
    scenario.send(AllocationReported(running("web")), namespace(team="two"))
    assert placed(scenario.ask(pod("w", "cache", affinity(WEB_IN_TEAM)))) == {}
    assert placed(scenario.send(namespace(team="one"))) == {"w": "n0"}


def test_self_affine_pods_start_in_another_zone_after_the_last_is_deleted() -> None:
    scenario = a_scenario("a", "b")
    scenario.report(running("web"))
    scenario.send(*(AllocationReported(an_allocation(f"full{index}", "n0")) for index in range(4)))
    assert placed(scenario.ask(pod("w", "web", affinity(term())))) == {}
    assert placed(scenario.send(released())) == {"w": "n1"}


OWN = running("web"), pod("w", "cache", anti_affinity(WEB_IN_TEAM))
THEIRS = running("web", anti_affinity(CACHE_IN_TEAM)), pod("w", "cache")


@pytest.mark.parametrize("there, waiting", [OWN, THEIRS], ids=["its own terms", "terms of the one that is there"])
@pytest.mark.parametrize("foreign", [False, True], ids=["ours", "foreign"])
@pytest.mark.parametrize(
    "event, node",
    [
        (released(), "n1"),
        (AllocationReported(running("db")), "n1"),
        (namespace(team="two"), "n1"),
        (NodeUpdated(in_zone("n1", "b")), "n1"),
        (NodeUpdated(in_zone("n1", "")), "n1"),
        (NodeUpdated(in_zone("n0", "b")), "n1"),  # the other node is now in a zone without pods
        (NodeAdded(in_zone("n9", "b")), "n9"),
        (NodeActionReported(PARTITION, NodeId("n0"), NodeAction.DECOMMISSION), "n1"),
    ],
)
def test_an_ask_is_placed_when_no_anti_affinity_excludes_it_anymore(
    there: AllocationSpec,
    waiting: AskSpec,
    foreign: bool,  # noqa: FBT001
    event: Event,
    node: str,
) -> None:
    scenario = a_scenario("a", "a")
    scenario.report(replace(there, foreign=foreign))
    scenario.report(an_allocation("full", "n0", vcore=3000))
    effects = scenario.ask(waiting)
    assert "anti-affinity rules" in waits(effects)["w"][1]
    if isinstance(event, AllocationReported):
        event = AllocationReported(replace(event.spec, foreign=foreign))
    assert placed(scenario.send(event)) == {"w": node}


def test_affinity_terms_apply_between_asks_of_one_pass() -> None:
    scenario = a_scenario("a", "a", "b")
    effects = scenario.ask(
        pod("w", "web", anti_affinity(term("cache"))), pod("c", "cache"), pod("d", "cache", affinity(term("cache")))
    )
    assert placed(effects) == {"w": "n0", "c": "n2", "d": "n2"}


def test_gang_anti_affinity_applies_to_other_pods_and_its_members() -> None:
    scenario = a_scenario("a", "b", "c")
    scenario.report(running("db", node="n1"))
    lonely = anti_affinity(term("web", topology=HOST), term("db", topology=HOST))
    members = (pod(f"p{index}", "web", lonely, "workers", placeholder=True) for index in range(2))
    scenario.submit(an_application("gang", gang=2))
    effects = scenario.ask(*(replace(member, application=ApplicationId("gang")) for member in members))
    assert placed(effects) == {"p0": "n0", "p1": "n2"}


def in_gang(ask: AskSpec) -> AskSpec:
    return replace(ask, application=ApplicationId("gang"))


@pytest.mark.parametrize(
    "there, real",
    [
        (running("db"), pod("r", "web", anti_affinity(term("db", topology=HOST)), "workers")),
        (running("db", anti_affinity(term("web", topology=HOST))), pod("r", "web", group="workers")),
    ],
    ids=["its own terms", "terms of the one that is there"],
)
def test_a_real_pod_excluded_from_its_placeholder_node_runs_on_another_node(
    there: AllocationSpec, real: AskSpec
) -> None:
    scenario = a_scenario("a", "b")
    scenario.submit(an_application("gang", gang=1))
    assert placed(scenario.ask(in_gang(pod("p", "holder", group="workers", placeholder=True)))) == {"p": "n0"}
    scenario.report(there)
    effects = scenario.ask(in_gang(real))
    assert releases(effects) == {"p": Termination.PLACEHOLDER_REPLACED}
    assert placed(scenario.release("p", "gang", Termination.PLACEHOLDER_REPLACED)) == {"r": "n1"}


def test_a_real_pod_replaces_a_placeholder_with_the_same_terms() -> None:
    scenario = a_scenario("a")
    lonely = anti_affinity(term("web", topology=HOST))
    scenario.submit(an_application("gang", gang=1))
    assert placed(scenario.ask(in_gang(pod("p", "web", lonely, "workers", placeholder=True)))) == {"p": "n0"}
    assert releases(scenario.ask(in_gang(pod("r", "web", lonely, "workers")))) == {
        "p": Termination.PLACEHOLDER_REPLACED
    }
    assert placed(scenario.release("p", "gang", Termination.PLACEHOLDER_REPLACED)) == {"r": "n0"}
    assert placed(scenario.ask(pod("late", "web", lonely))) == {}
