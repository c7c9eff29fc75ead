"""A gang whose members are present starts completely or not at all, whatever its pods request."""

from collections import Counter
from dataclasses import dataclass, replace
from random import Random  # noqa: TID251 - each gang has its own seed

import pytest

from muster_core.model.constraints import (
    ANYWHERE,
    NAMESPACE,
    Constraints,
    InterPodConstraints,
    PodTerm,
    Taint,
    Toleration,
    TopologySpreadConstraint,
)
from muster_core.model.effects import AllocationResponse, Effect
from muster_core.model.events import AllocationReleased, ApplicationAdded, AskAdded, ClusterObjectsReported, NodeAdded
from muster_core.model.ids import AllocationKey, ApplicationId, NodeId, TaskGroup, Termination
from muster_core.model.limits import CLASSES_PER_GROUP
from muster_core.model.resources import Resources
from muster_core.model.specs import AskSpec, GangPlacement, HostPort, Member, NodeSpec, PodProperties, Volumes
from muster_core.model.storage import StorageFact
from muster_core.scheduling import invariants
from tests.amounts import amount
from tests.unit.builders import PARTITION, a_configuration, a_node, a_queue, an_allocation, an_application, an_ask
from tests.unit.core.placement.affinity_clusters import APP, HOST, ZONE, selecting
from tests.unit.core.placement.volumes.storage_clusters import a_volume, bound, on
from tests.unit.core.scheduling.scenario import Scenario, UncheckedScenario, notices, placed, releases, states, waits

MODES = tuple(GangPlacement)
CONFIGURATION = a_configuration(a_queue("a"), a_queue("b"))
GANGS = amount(400, 34_000)

#: Key and value of the taint of some nodes.
DEDICATED = Taint("dedicated", "gang", "NoSchedule")
TOLERATED = Toleration("dedicated", "Equal", "gang", "NoSchedule")


@dataclass(frozen=True)
class GangCase:
    """Nodes, and a gang with the requests of all its members."""

    nodes: tuple[NodeSpec, ...]
    #: Used cores per node.
    used: tuple[int, ...]
    groups: tuple[Member, ...]
    #: In the order of arrival; at least `count` of each group.
    members: tuple[AskSpec, ...]
    storage: tuple[StorageFact, ...]

    def requests(self, mode: GangPlacement) -> list[AskSpec]:
        """Return the requests of the members, and in `Reserve` those of the placeholder pods, which come last."""
        asks = list(self.members)
        if mode is GangPlacement.RESERVE:
            for group in self.groups:
                pod = an_ask("", group=group.group, placeholder=True)
                pod = replace(pod, resources=group.resources, constraints=group.constraints, namespace="ns")
                asks += [replace(pod, key=AllocationKey(f"p-{group.group}-{n}")) for n in range(group.count)]
        return asks


def a_case(seed: int) -> GangCase:
    random = Random(seed)
    size = random.randint(2, 7)
    nodes, used = [], []
    for index in range(size):
        labels = {HOST: f"n{index}", ZONE: random.choice("ab"), "disk": random.choice(["ssd", "hdd"])}
        node = a_node(f"n{index}", random.choice([2000, 4000, 8000]), random.choice([3, 100]), labels)
        node = replace(node, capacity=node.capacity + Resources({"gpu": random.choice([0, 0, 2])}))
        nodes.append(replace(node, taints=(DEDICATED,)) if random.random() < 0.2 else node)
        used.append(random.choice([0, 0, 1000]))
    groups, members = [], []
    storage: list[StorageFact] = []
    for number in range(random.randint(1, 3)):
        group = Member(
            TaskGroup(f"g{number}"),
            random.randint(1, 4),
            _amount(random),
            constraints=random.choice([ANYWHERE, ANYWHERE, Constraints(node_selector=(("disk", "ssd"),))]),
        )
        groups.append(group)
        common = _properties(random, number)
        for index in range(group.count + random.choice([0, 0, 0, 1, 2])):
            volumes = Volumes()
            if random.random() < 0.1:
                name = f"data-{number}-{index}"
                home = f"n{random.randrange(size)}"
                storage += bound(name, a_volume(f"pv-{name}", affinity=on(HOST, home)))
                volumes = Volumes(claims=(f"ns/{name}",))
            ask = an_ask(f"g{number}-{index}", group=group.group, tags={APP: f"g{number}", NAMESPACE: "ns"})
            is_alike = random.random() < 0.4
            ask = replace(
                ask,
                namespace="ns",
                resources=group.resources if is_alike else _amount(random),
                constraints=group.constraints if is_alike else _constraints(random),
                facts=replace(common, volumes=volumes),
            )
            members.append(ask)
    random.shuffle(members)
    return GangCase(tuple(nodes), tuple(used), tuple(groups), tuple(members), tuple(storage))


def _amount(random: Random) -> Resources:
    found = {"vcore": random.choice([500, 1000, 1500, 2000, 3000]), "pods": 1}
    if random.random() < 0.1:
        found["gpu"] = 1
    if random.random() < 0.2:
        found["memory"] = random.choice([1 << 30, 1 << 33])
    return Resources(found)


def _constraints(random: Random) -> Constraints:
    selector = random.choice([(), (), (), (("disk", "ssd"),), ((ZONE, "a"),)])
    tolerations = random.choice([(), (TOLERATED,)])
    return Constraints(node_selector=selector, tolerations=tolerations)


def _properties(random: Random, number: int) -> PodProperties:
    """Properties that all pods of a task group have."""
    match random.randrange(8):
        case 0:
            term = PodTerm(random.choice([HOST, ZONE]), selecting(app=f"g{number}"), ("ns",))
            return PodProperties(InterPodConstraints(anti_affinity=(term,)))
        case 1:
            spread = TopologySpreadConstraint(ZONE, 1, selecting(app=f"g{number}"), "ns")
            return PodProperties(InterPodConstraints(spread=(spread,)))
        case 2:
            return PodProperties(ports=(HostPort("0.0.0.0", "TCP", 80),))  # noqa: S104 - a request, not a server
        case 3:
            return PodProperties(InterPodConstraints(affinity=(PodTerm(ZONE, selecting(app="g0"), ("ns",)),)))
        case _:
            return PodProperties()


class Run:
    """A case in which the gang was submitted. `started`: members that got a node, per cycle."""

    def __init__(self, case: GangCase, mode: GangPlacement) -> None:
        self.case = case
        self.scenario = UncheckedScenario(CONFIGURATION)
        self.started: list[Counter[str]] = []
        #: Placeholder pods that the core releases.
        self.ending: list[tuple[str, Termination]] = []
        used = [
            an_allocation(f"used-{node.id}", node.id, vcore=vcore, foreign=True)
            for node, vcore in zip(case.nodes, case.used, strict=True)
            if vcore
        ]
        nodes = [NodeAdded(node, existing=tuple(one for one in used if one.node == node.id)) for node in case.nodes]
        self.scenario.send(*nodes, ClusterObjectsReported(PARTITION, case.storage))
        gang = an_application("app", placement=mode, timeout_s=3600)
        total = sum((one.resources.times(one.count) for one in case.groups), Resources({}))
        spec = replace(gang, members=case.groups, placeholder_ask=total, namespace="ns")
        self.note(self.scenario.send(ApplicationAdded(spec)))

    def note(self, effects: list[Effect]) -> None:
        """Record which members got a node, and check that they may run there."""
        groups: Counter[str] = Counter()
        for answer in (one for one in effects if isinstance(one, AllocationResponse)):
            for new in answer.new:
                if not new.ask.placeholder:
                    self.check(new.ask, new.node)
                    groups[new.ask.group] += 1
            # A placeholder pod ends before its member gets the node.
            self.ending += [(one.key, one.termination) for one in answer.released]
        if groups:
            self.started.append(groups)

    def end_placeholders(self) -> None:
        """Let the placeholder pods end that the core releases. All members that get their nodes started together."""
        before, self.started = self.started, []
        while self.ending:
            key, termination = self.ending.pop()
            self.note(self.scenario.release(key, why=termination))
        together = sum([*before, *self.started], Counter[str]())
        self.started = [together] if together else []

    def check(self, ask: AskSpec, node: NodeId) -> None:
        spec = self.scenario.partition.nodes.record(node).spec
        assert all(spec.labels.get(key) == value for key, value in ask.constraints.node_selector)
        assert not spec.taints or ask.constraints.tolerations
        if ask.facts.ports:
            there = [one for (_, _), one in self.scenario.partition.placed[node].items() if one.spec.facts.ports]
            assert len(there) == 1

    @property
    def is_whole_or_nothing(self) -> bool:
        """Whether the first cycle that started a member started `count` of each group."""
        return not self.started or all(self.started[0][one.group] >= one.count for one in self.case.groups)


@pytest.mark.thorough
@pytest.mark.parametrize("mode", MODES)
def test_members_start_together_or_not_at_all(mode: GangPlacement) -> None:
    outcomes: Counter[bool] = Counter()
    for seed in range(GANGS):
        case = a_case(seed)
        run = Run(case, mode)
        run.note(run.scenario.send(*(AskAdded(ask) for ask in case.requests(mode))))
        run.end_placeholders()
        assert run.is_whole_or_nothing, f"seed {seed}: {run.started}"
        assert invariants.check(run.scenario.scheduler_state) == []
        outcomes[bool(run.started)] += 1
    assert min(outcomes[True], outcomes[False]) > GANGS // 8, "both outcomes are tested"


@pytest.mark.thorough
@pytest.mark.parametrize("mode", [GangPlacement.AUTO, GangPlacement.DIRECT])
def test_members_that_arrive_one_by_one_start_together(mode: GangPlacement) -> None:
    """The gang may become complete before all members have arrived; those that are there then start together."""
    for seed in range(GANGS // 5):
        case = a_case(seed)
        run = Run(case, mode)
        arrived: Counter[str] = Counter()
        for member in case.members:
            arrived[member.group] += 1
            before = len(run.started)
            run.note(run.scenario.send(AskAdded(member)))
            if len(run.started) == 1 > before:
                present = {one.group: min(one.count, arrived[one.group]) for one in case.groups}
                assert all(run.started[0][group] >= count for group, count in present.items()), f"seed {seed}"


# -- examples of the same rule -------------------------------------------------------


def a_gang(count: int, mode: GangPlacement, queue: str = "root.a") -> ApplicationAdded:
    """Return a gang whose task group `workers` declares one core for each member."""
    return ApplicationAdded(an_application(gang=count, placement=mode, queue=queue, timeout_s=60))


def workers(count: int, vcore: int = 1000, first: int = 0) -> list[AskAdded]:
    return [AskAdded(an_ask(f"w{first + n}", vcore=vcore, group="workers")) for n in range(count)]


def pods(count: int) -> list[AskAdded]:
    return [AskAdded(an_ask(f"p{n}", group="workers", placeholder=True)) for n in range(count)]


@pytest.mark.parametrize("mode", [GangPlacement.AUTO, GangPlacement.DIRECT])
def test_pods_with_more_than_their_task_group_declares_wait_together(mode: GangPlacement) -> None:
    scenario = Scenario(CONFIGURATION, nodes=2)
    effects = scenario.send(a_gang(5, mode), *workers(5, vcore=2000))
    assert placed(effects) == {}
    assert waits(effects)["app/workers"][0] == "FAILED"
    assert len(placed(scenario.add_node("n2"))) == 5


@pytest.mark.parametrize("mode", [GangPlacement.AUTO, GangPlacement.DIRECT])
def test_absent_members_are_expected_to_request_what_their_siblings_do(mode: GangPlacement) -> None:
    scenario = Scenario(CONFIGURATION, nodes=2)
    scenario.send(a_gang(5, mode))
    for n in range(5):
        assert placed(scenario.send(*workers(1, vcore=2000, first=n))) == {}, "four would fit"
    assert len(placed(scenario.add_node("n2"))) == 5


def test_a_constraint_of_all_present_members_is_expected_of_the_absent_ones() -> None:
    scenario = Scenario(CONFIGURATION)
    scenario.send(NodeAdded(a_node("n0", 2000, labels={"disk": "ssd"})), NodeAdded(a_node("n1", 4000)))
    ssd = Constraints(node_selector=(("disk", "ssd"),))
    first = AskAdded(an_ask("w0", group="workers", constraints=ssd))
    assert placed(scenario.send(a_gang(3, GangPlacement.AUTO), first)) == {}
    assert placed(scenario.send(NodeAdded(a_node("n2", 1000, labels={"disk": "ssd"})))).keys() == {"w0"}


def test_members_beyond_the_minimum_do_not_keep_the_others_waiting() -> None:
    scenario = Scenario(CONFIGURATION, nodes=1)
    nowhere = Constraints(node_selector=(("disk", "none"),))
    lost = AskAdded(an_ask("lost", group="workers", constraints=nowhere))
    effects = scenario.send(a_gang(2, GangPlacement.AUTO), lost, *workers(2))
    assert set(placed(effects)) == {"w0", "w1"}


def test_a_gang_whose_pods_exceed_the_maximum_of_the_queue_ends_by_its_style() -> None:
    scenario = Scenario(a_configuration(a_queue("a", vcore=4000)), nodes=3)
    effects = scenario.send(a_gang(3, GangPlacement.AUTO), *workers(3, vcore=2000))
    assert placed(effects) == {}
    assert any("6" in notice for notice in notices(effects)), "what the pods request in total"
    assert "Resuming" in states(scenario.wait(61))


def test_no_member_of_a_reserve_gang_starts_while_one_cannot_use_its_reservation() -> None:
    scenario = Scenario(CONFIGURATION, nodes=1, vcore=4000)
    assert len(placed(scenario.send(a_gang(3, GangPlacement.RESERVE), *pods(3)))) == 3
    effects = scenario.send(*workers(2), *workers(1, vcore=3000, first=2))
    assert releases(effects) == {}
    state, reason = waits(effects)["w0"]
    assert state == "FAILED"
    assert "1 of 3 members of task group workers cannot use their reservations" in reason
    assert "Insufficient cpu" in reason
    effects = scenario.add_node("n1")
    assert placed(effects) == {"w2": "n1"}
    assert sorted(releases(effects).values()) == ["PLACEHOLDER_REPLACED", "PLACEHOLDER_REPLACED", "TIMEOUT"]


def test_a_larger_member_may_use_the_room_of_its_placeholder() -> None:
    scenario = Scenario(CONFIGURATION, nodes=1, vcore=4000)
    scenario.send(a_gang(3, GangPlacement.RESERVE), *pods(3))
    effects = scenario.send(*workers(2), *workers(1, vcore=1500, first=2))
    assert len(releases(effects)) == 3
    started: dict[str, str] = {}
    for pod, why in releases(effects).items():
        started |= placed(scenario.release(pod, why=why))
    assert set(started) == {"w0", "w1", "w2"}


def test_a_reservation_on_a_node_that_the_gang_fills_moves_to_another_node() -> None:
    scenario = Scenario(CONFIGURATION, nodes=20, vcore=4000)
    scenario.submit(an_application("full", queue="root.b"))
    for vcore in (3000, 1000):
        scenario.send(*(AskAdded(an_ask(f"f{vcore}-{n}", app="full", vcore=vcore)) for n in range(20)))
    small, large = Resources({"vcore": 3000, "pods": 1}), Resources({"vcore": 4000, "pods": 1})
    members = (Member(TaskGroup("small"), 1, small), Member(TaskGroup("large"), 1, large))
    gang = replace(an_application(timeout_s=3600), members=members, placeholder_ask=small + large)
    asks = [
        replace(an_ask(group.group, group=group.group, placeholder=True), resources=group.resources)
        for group in members
    ]
    scenario.send(ApplicationAdded(gang), AskAdded(asks[1]))
    scenario.wait(10)
    [(_, node)] = reserved(scenario)
    scenario.send(AskAdded(asks[0]), a_release(scenario, node))
    scenario.wait(10)
    used = {one.node for one in scenario.app().allocations.values()}
    assert len(used) == 1
    assert len(reserved(scenario)) == 1
    assert not used & {node for _, node in reserved(scenario)}


def reserved(scenario: Scenario) -> list[tuple[str, NodeId]]:
    return [(one.key, one.node) for one in scenario.partition.reservations.of(ApplicationId("app"))]


def a_release(scenario: Scenario, node: NodeId) -> AllocationReleased:
    """Return the end of the large pod on the node."""
    there = [one.spec for one in scenario.app("full").allocations.values() if one.node == node]
    [key] = [spec.key for spec in there if spec.resources["vcore"] == 3000]
    return AllocationReleased(PARTITION, ApplicationId("full"), key, None, Termination.STOPPED_BY_RM)


def test_very_different_members_are_planned_with_bounded_work() -> None:
    scenario = Scenario(CONFIGURATION, nodes=2, vcore=100_000)
    count = CLASSES_PER_GROUP + 20
    members = (AskAdded(an_ask(f"w{n}", vcore=100 + n, group="workers")) for n in range(count))
    effects = scenario.send(a_gang(count, GangPlacement.AUTO), *members)
    assert len(placed(effects)) == count
    assert len({one.spec.resources for one in scenario.app().allocations.values()}) == count
