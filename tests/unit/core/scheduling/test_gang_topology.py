"""Gangs that are packed by a node label, and the messages of those that wait."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pytest

from muster_core.model.constraints import NAMESPACE, InterPodConstraints
from muster_core.model.events import (
    ApplicationAdded,
    AskAdded,
    ManagerRegistered,
    NodeAction,
    NodeActionReported,
    NodeAdded,
    RecoveryBarrierPassed,
)
from muster_core.model.ids import NodeId, TaskGroup
from muster_core.model.specs import (
    NO_PROPERTIES,
    ApplicationSpec,
    GangPlacement,
    HostPort,
    Member,
    PodProperties,
    Topology,
)
from tests.unit.builders import (
    PARTITION,
    RM,
    a_configuration,
    a_node,
    a_queue,
    an_allocation,
    an_application,
    an_ask,
    resources,
)
from tests.unit.core.placement.affinity_clusters import term
from tests.unit.core.scheduling.preemption_scenario import confirm, victims
from tests.unit.core.scheduling.scenario import Scenario, notices, placed, states, waits

ZONE = Topology(("zone",), required=True)
RACKS = Topology(("zone", "rack"), required=True)
OUTSIDE = "node(s) were outside the gang's topology domain"


def a_scenario(**zones: int) -> Scenario:
    """One node per zone, with this number of cores."""
    scenario = Scenario(a_configuration(a_queue("a"), a_queue("b")))
    scenario.send(
        *(NodeAdded(a_node(f"n-{zone}", cores * 1000, labels={"zone": zone})) for zone, cores in zones.items())
    )
    return scenario


def packed(members: int, name: str = "app", queue: str = "root.a", topology: Topology = ZONE) -> ApplicationSpec:
    return replace(an_application(name, queue=queue, gang=members), topology=topology)


def nodes_of(scenario: Scenario, name: str = "app") -> set[str]:
    return {allocation.node for allocation in scenario.app(name).allocations.values()}


def test_placeholders_that_arrive_one_by_one_use_a_domain_that_fits_all_of_them() -> None:
    scenario = a_scenario(a=2, b=5, c=9)
    scenario.submit(packed(4))
    for index in range(4):
        assert placed(scenario.ask(an_ask(f"p{index}", group="workers", placeholder=True))) == {f"p{index}": "n-b"}
    assert scenario.app().state == "Running"


def test_a_gang_that_fits_no_domain_waits_and_reports_the_best_domain() -> None:
    scenario = a_scenario(a=2, b=3)
    effects = scenario.gang(packed(4), 4)
    assert nodes_of(scenario) == {"n-b"}, "what fits is reserved"
    about = "3 of 4 members of task group workers fit in zone=b (at most 2 in zone=a)"
    [(state, text)] = {tuple(one) for one in waits(effects).values()}
    assert state == "FAILED"
    assert text.startswith(f"{about}: 0/2 nodes are available")
    [notice] = notices(effects)
    assert (
        "1 of 4 members of task group workers would not fit in zone=b (at most 2 in zone=a): 0/2 nodes are available"
        in notice
    )
    grown = scenario.send(NodeAdded(a_node("n-b2", 1000, labels={"zone": "b"})))
    assert states(grown) == ["Running"]
    assert nodes_of(scenario) == {"n-b", "n-b2"}


def test_a_lost_placeholder_is_replaced_in_the_domain_of_the_others() -> None:
    scenario = a_scenario(a=3, b=4, c=3)
    scenario.submit(packed(4))
    scenario.ask(*(an_ask(f"p{index}", group="workers", placeholder=True) for index in range(3)))
    assert nodes_of(scenario) == {"n-b"}
    scenario.release("p0")
    assert placed(scenario.ask(an_ask("p4", group="workers", placeholder=True))) == {"p4": "n-b"}


def test_after_a_restart_missing_members_use_the_domain_of_the_gang() -> None:
    scenario = a_scenario(b=9)
    spec = replace(packed(3), forced=True)
    scenario.submit(spec)
    scenario.send(
        NodeAdded(
            a_node("n-a", 4000, labels={"zone": "a"}),
            existing=(an_allocation("p0", "n-a", group="workers", placeholder=True),),
        )
    )
    asks = (an_ask(f"p{index}", group="workers", placeholder=True) for index in (1, 2))
    assert set(placed(scenario.ask(*asks)).values()) == {"n-a"}


def test_a_gang_with_a_preferred_topology_uses_two_domains_when_one_is_too_small() -> None:
    scenario = a_scenario(a=1, b=4, c=2)
    effects = scenario.gang(packed(6, topology=Topology(("zone",))), 6)
    assert states(effects) == ["Accepted", "Running"]
    assert nodes_of(scenario) == {"n-b", "n-c"}


def test_a_full_domain_of_one_gang_does_not_block_members_of_the_same_class() -> None:
    scenario = a_scenario(a=2, b=9)
    scenario.submit(packed(3))
    scenario.ask(an_ask("p0", group="workers", placeholder=True))
    scenario.send(NodeAdded(a_node("n-b2", 1000, labels={"zone": "b"})))
    other = scenario.gang(packed(5, "other", "root.b", Topology(("zone",))), 5)
    assert states(other, "other") == ["Accepted", "Running"]


def test_a_gang_of_two_shapes_reports_which_members_do_not_fit_with_the_others() -> None:
    """Each of them fits alone; the gang wants all or nothing, so they wait whole."""
    scenario = a_scenario(a=4)
    scenario.send(NodeAdded(a_node("n-big", 1000)))
    scenario.ask(an_ask("busy", vcore=1000, app=_busy(scenario)))
    gang = replace(_of_two_shapes(), gang_placement=GangPlacement.DIRECT)
    effects = scenario.send(ApplicationAdded(gang), AskAdded(an_ask("s0", app="two", group="small")))
    text = (
        "1 of 2 members of task group small fit together with the others: 0/2 nodes are available: 2 Insufficient cpu."
    )
    assert {reason for _, reason in waits(effects).values()} == {text}


def _busy(scenario: Scenario) -> str:
    scenario.submit(an_application("busy", queue="root.b"))
    return "busy"


def test_small_members_that_arrive_first_leave_resources_for_the_large_member() -> None:
    """Members are reserved as they arrive; the core knows the sizes of the announced members."""
    scenario = a_scenario(a=3, b=2)
    scenario.submit(replace(_of_two_shapes(), queue="root.a"))
    for index in range(2):
        small = an_ask(f"s{index}", app="two", group="small", placeholder=True)
        assert placed(scenario.ask(small)) == {f"s{index}": "n-b"}
    assert placed(scenario.ask(an_ask("big", app="two", vcore=3000, group="big", placeholder=True))) == {"big": "n-a"}
    assert scenario.app("two").state == "Running"


def _of_two_shapes() -> ApplicationSpec:
    small, big = resources(vcore=1000, pods=1), resources(vcore=3000, pods=1)
    members = (Member(TaskGroup("big"), 1, big), Member(TaskGroup("small"), 2, small))
    return replace(an_application("two", queue="root.b", gang=1), members=members, placeholder_ask=small.times(2) + big)


def test_members_of_a_large_gang_that_come_early_are_placed_a_few_at_a_time() -> None:
    """Each plan covers the complete gang; one plan per request would take seconds for a thousand members."""
    scenario = a_scenario(a=20, b=40)
    scenario.submit(packed(26))
    plans = 0
    for index in range(26):
        plans += bool(placed(scenario.ask(an_ask(f"p{index}", group="workers", placeholder=True))))
    assert plans == 16
    assert scenario.app().state == "Running"
    assert nodes_of(scenario) == {"n-b"}


def test_a_driver_is_placed_where_announced_workers_with_affinity_to_it_fit() -> None:
    """The least used zone is too small for its workers, which were announced but not requested."""
    scenario = a_scenario(a=3, b=5, c=3)
    affinity = term("driver", "zone")
    labels = {name: {NAMESPACE: "red", "kubernetes.io/label/app": name} for name in ("driver", "worker")}
    one = resources(vcore=1000, pods=1)
    members = (
        Member(TaskGroup("driver"), 1, one, tags=tuple(labels["driver"].items())),
        Member(
            TaskGroup("worker"),
            4,
            one,
            tags=tuple(labels["worker"].items()),
            facts=PodProperties(InterPodConstraints(affinity=(affinity,))),
        ),
    )
    scenario.submit(replace(an_application(gang=5), members=members))
    driver = an_ask("driver", group="driver", placeholder=True, tags=labels["driver"])
    assert placed(scenario.ask(driver)) == {"driver": "n-b"}
    for index in range(4):
        worker = an_ask(f"w{index}", group="worker", placeholder=True, tags=labels["worker"])
        effects = scenario.ask(replace(worker, facts=PodProperties(InterPodConstraints(affinity=(affinity,)))))
        assert placed(effects) == {f"w{index}": "n-b"}
    assert scenario.app().state == "Running"


def a_hall() -> Scenario:
    """Zone a has two racks of three nodes with two cores, and zone b has one rack of three nodes with five cores."""
    scenario = Scenario(a_configuration(a_queue("a"), a_queue("b")))
    for zone, racks in {"a": "rs", "b": "t"}.items():
        for rack in racks:
            labels = {"zone": zone, "rack": rack}
            scenario.send(
                *(NodeAdded(a_node(f"n-{rack}{i}", 2000 if zone == "a" else 5000, labels=labels)) for i in range(3))
            )
    return scenario


def start(scenario: Scenario, name: str, members: int, topology: Topology) -> None:
    """Start a gang without placeholder pods."""
    spec = replace(packed(members, name, topology=topology), gang_placement=GangPlacement.DIRECT)
    spec = replace(spec, members=(Member(TaskGroup("workers"), members, resources(vcore=1000, pods=1)),))
    asks = (AskAdded(an_ask(f"{name}{index}", app=name, group="workers")) for index in range(members))
    scenario.send(ApplicationAdded(spec), *asks)


def racks_of(scenario: Scenario, name: str) -> set[str]:
    return {node[2] for node in nodes_of(scenario, name)}


def test_a_gang_uses_the_fewest_racks_of_the_one_zone_that_it_requires() -> None:
    scenario = a_hall()
    start(scenario, "one", 6, RACKS)
    start(scenario, "two", 6, RACKS)
    assert sorted(racks_of(scenario, "one") | racks_of(scenario, "two")) == ["r", "s"]
    start(scenario, "three", 3, RACKS)
    assert racks_of(scenario, "three") == {"t"}


def test_members_beyond_the_minimum_stay_in_the_required_domain_and_wait_if_it_is_full() -> None:
    scenario = a_hall()
    start(scenario, "app", 10, ZONE)
    assert racks_of(scenario, "app") == {"r", "s"}
    effects = scenario.ask(*(an_ask(f"late{index}", group="workers") for index in range(3)))
    assert {node[2] for node in placed(effects).values()} <= {"r", "s"}
    assert len(placed(effects)) == 2
    [(_, why)] = waits(effects).values()
    assert f"3 {OUTSIDE}" in why
    scenario.release("app0")
    assert racks_of(scenario, "app") == {"r", "s"}
    assert len(nodes_of(scenario)) == 6


def test_a_member_beyond_the_minimum_of_a_preferred_topology_stays_near_the_others_while_there_is_room() -> None:
    scenario = a_hall()
    start(scenario, "app", 5, Topology(("zone", "rack")))
    first = racks_of(scenario, "app")
    assert len(first) == 1
    late = [placed(scenario.ask(an_ask(f"late{index}", group="workers")))[f"late{index}"][2] for index in range(8)]
    assert late[0] in first
    zone = "rs" if first < {"r", "s"} else "t"
    assert set(late[:7]) == set(zone), "the same zone, while it has room"
    assert late[7] == "t"


def test_a_replacement_stays_in_the_required_domain_also_after_a_restart() -> None:
    scenario = a_hall()
    spec = replace(packed(3, topology=RACKS), gang_placement=GangPlacement.DIRECT, forced=True)
    scenario.submit(spec)
    node = a_node("n-u", 3000, labels={"zone": "u", "rack": "u"})
    running = (an_allocation(f"p{index}", "n-u", group="workers") for index in range(3))
    scenario.send(NodeAdded(node, existing=tuple(running)))
    scenario.release("p0")
    assert placed(scenario.ask(an_ask("p3", group="workers"))) == {"p3": "n-u"}
    [(_, why)] = waits(scenario.ask(an_ask("p4", group="workers"))).values()
    assert OUTSIDE in why


def test_a_gang_whose_members_have_all_ended_may_use_another_domain() -> None:
    scenario = a_hall()
    start(scenario, "app", 10, ZONE)
    assert waits(scenario.ask(*(an_ask(f"late{index}", group="workers") for index in range(3))))
    for node in sorted(nodes_of(scenario)):
        scenario.send(NodeActionReported(PARTITION, NodeId(node), NodeAction.DECOMMISSION))
    assert racks_of(scenario, "app") == {"t"}


def _with_a_driver(how: str) -> Scenario:
    """A gang of three in zone u, and a pod of the same application without task group in zone d."""
    scenario = Scenario(a_configuration(a_queue("a")))
    zone_u, zone_d = (a_node(f"n-{zone}", 3000, labels={"zone": zone}) for zone in "ud")
    if how == "live":
        scenario.send(NodeAdded(zone_u))
        start(scenario, "app", 3, ZONE)
        scenario.send(NodeAdded(zone_d), AskAdded(an_ask("driver")))
    else:
        spec = replace(packed(3, topology=ZONE), gang_placement=GangPlacement.DIRECT, forced=True)
        members = tuple(an_allocation(f"app{index}", "n-u", group="workers") for index in range(3))
        scenario.submit(spec)
        with_driver = NodeAdded(zone_d, existing=(an_allocation("driver", "n-d"),))
        with_members = NodeAdded(zone_u, existing=members)
        for events in [[with_driver], [with_members]] if how == "node by node" else [[with_driver, with_members]]:
            scenario.send(*events)
    return scenario


@pytest.mark.parametrize("how", ["live", "after a restart", "node by node"])
def test_only_members_decide_and_keep_the_required_domain(how: str) -> None:
    scenario = _with_a_driver(how)
    assert {key[:3]: one.node for key, one in scenario.app().allocations.items()} == {"app": "n-u", "dri": "n-d"}
    scenario.release("app0")
    assert placed(scenario.ask(an_ask("later", group="workers"))) == {"later": "n-u"}
    scenario.node("n-u", NodeAction.DECOMMISSION)
    assert nodes_of(scenario) <= {"n-d"}, "members may use the domain of the driver now"
    assert not waits(scenario.ask(an_ask("last", group="workers")))


@pytest.mark.parametrize(
    "members, home",
    [
        ({"a": 1, "b": 2}, "n-b"),
        ({"b": 2, "a": 1}, "n-b"),
        ({"b": 1, "a": 1}, "n-a"),
        ({"none": 3, "b": 1}, "n-b"),
    ],
)
def test_after_a_restart_most_members_decide_the_required_domain(members: dict[str, int], home: str) -> None:
    """A user bound a member, or a label of a node changed. The order of the report does not count."""
    configuration = a_configuration(a_queue("a"))
    scenario = Scenario(configuration, ManagerRegistered(RM, configuration, awaits_barrier=True))
    scenario.submit(replace(packed(3), gang_placement=GangPlacement.DIRECT, forced=True))
    for zone, count in members.items():
        labels = {} if zone == "none" else {"zone": zone}
        running = (an_allocation(f"{zone}{index}", f"n-{zone}", group="workers") for index in range(count))
        scenario.send(NodeAdded(a_node(f"n-{zone}", 9000, labels=labels), existing=tuple(running)))
    scenario.send(RecoveryBarrierPassed(RM))
    assert placed(scenario.ask(an_ask("later", group="workers"))) == {"later": home}


# -- A gang that requires one domain preempts in one domain.


def crowded(protected: int = 0, **zones: int) -> Scenario:
    """Zones with this number of nodes of 4 cores, full with pods of root.b that root.a may preempt. Those of the first
    zone are the youngest. `protected`: those of this number of first zones have a higher priority.
    """
    scenario = Scenario(a_configuration(a_queue("a", guaranteed=100_000), a_queue("b")))
    scenario.submit(replace(an_application("b", queue="root.b"), forced=True))
    for index, (zone, nodes) in enumerate(zones.items()):
        for number in range(nodes):
            node = f"n-{zone}-{number}"
            priority, age = 9 if index < protected else 0, 100 - index
            there = (an_allocation(f"{zone}-{number}-{one}", node, app="b", allocated_s=age) for one in range(4))
            existing = tuple(replace(one, priority=priority) for one in there)
            scenario.send(NodeAdded(a_node(node, 4000, labels={"zone": zone}), existing=existing))
    return scenario


@pytest.mark.parametrize("facts", [NO_PROPERTIES, PodProperties(ports=(HostPort("0.0.0.0", "TCP", 80),))])  # noqa: S104
@pytest.mark.parametrize(
    "make, zones",
    [
        (partial(crowded, first=1, roomy=3), {"roomy"}),
        (partial(crowded, first=1, roomy=2), set()),
        (partial(crowded, 1, safe=3, first=2, other=3), {"other"}),
        (partial(crowded, 2, safe=3, also=3, first=2), set()),
    ],
    ids=["one-domain-fits", "none-is-large-enough", "one-domain-has-victims", "none-has-victims"],
)
def test_a_gang_that_requires_one_domain_preempts_inside_one(
    make: Callable[[], Scenario], zones: set[str], facts: PodProperties
) -> None:
    scenario = make()
    each = resources(vcore=3000, pods=1)
    spec = replace(an_application(gang=3, each=each, placement=GangPlacement.DIRECT), topology=ZONE)
    spec = replace(spec, members=(replace(spec.members[0], facts=facts),))
    asks = (an_ask(f"m{index}", vcore=3000, group="workers") for index in range(3))
    scenario.send(ApplicationAdded(spec), *(AskAdded(replace(one, facts=facts)) for one in asks))
    effects = scenario.wait(60)
    assert {key.split("-")[0] for key in victims(effects)} == zones
    assert len(victims(effects)) == (9 if zones else 0)
    confirm(scenario, effects)
    assert len(nodes_of(scenario)) == (3 if zones else 0)
