"""The victims of gangs in random small clusters, compared with the fewest that an exhaustive search finds."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import combinations
from random import Random  # noqa: TID251 - of a fixed seed

import pytest

from muster_core.model.events import ApplicationAdded, AskAdded, NodeAdded
from muster_core.model.ids import TaskGroup
from muster_core.model.resources import NOTHING, Resources
from muster_core.model.specs import GangPlacement, Member
from tests.amounts import amount
from tests.unit.builders import a_configuration, a_node, a_queue, an_allocation, an_application, an_ask, resources
from tests.unit.core.scheduling.preemption_scenario import victims
from tests.unit.core.scheduling.scenario import Scenario

_NEVER = 2**30


@dataclass(frozen=True)
class Case:
    """Cores of each node, of the running pods (node, cores), and of the members."""

    nodes: tuple[int, ...]
    running: tuple[tuple[int, int], ...]
    members: tuple[int, ...]

    def fits(self, gone: tuple[int, ...]) -> bool:
        free = list(self.nodes)
        for index, (node, cores) in enumerate(self.running):
            free[node] -= 0 if index in gone else cores
        return _fits(tuple(sorted(free)), tuple(sorted(self.members, reverse=True)))

    def fewest(self) -> int | None:
        """The fewest pods whose end makes room for all members; None = there is no room at all."""
        everyone = range(len(self.running))
        return next((n for n in (*everyone, len(everyone)) if any(map(self.fits, combinations(everyone, n)))), None)

    def fewest_of_equal(self) -> int | None:
        """As `fewest`, for any number of equal members: a node frees the most with its largest pods."""
        least = [0, *[_NEVER] * len(self.members)]
        for node, cores in enumerate(self.nodes):
            sizes = sorted((size for where, size in self.running if where == node), reverse=True)
            rooms = [(cores - sum(sizes[gone:])) // self.members[0] for gone in range(len(sizes) + 1)]
            least = [
                min(least[max(count - room, 0)] + gone for gone, room in enumerate(rooms))
                for count in range(len(least))
            ]
        return least[-1] if least[-1] < _NEVER else None

    def taken(self) -> int | None:
        """The number of victims that the scheduler selects; None = none."""
        total = sum(self.nodes) * 1000
        scenario = Scenario(a_configuration(a_queue("a", guaranteed=total), a_queue("b")))
        scenario.submit(replace(an_application("b", queue="root.b"), forced=True))
        for node, cores in enumerate(self.nodes):
            existing = tuple(
                an_allocation(f"b{index}", f"n{node}", app="b", vcore=size * 1000, allocated_s=index)
                for index, (where, size) in enumerate(self.running)
                if where == node
            )
            scenario.send(NodeAdded(a_node(f"n{node}", cores * 1000), existing=existing))
        members, asks = [], []
        for group in sorted(set(self.members)):
            count, each = self.members.count(group), resources(vcore=group * 1000, pods=1)
            members.append(Member(TaskGroup(f"g{group}"), count, each))
            asks += [an_ask(f"g{group}-{i}", app="a", vcore=group * 1000, group=f"g{group}") for i in range(count)]
        ask = sum((one.resources.times(one.count) for one in members), NOTHING)
        spec = replace(an_application("a", queue="root.a", gang=1), members=tuple(members), placeholder_ask=ask)
        spec = replace(spec, gang_placement=GangPlacement.DIRECT)
        scenario.send(ApplicationAdded(spec), *map(AskAdded, asks))
        if scenario.app("a").allocations:
            return 0
        for _ in range(8):
            if found := victims(scenario.wait(31)):
                return len(found)
        return None


def _fits(free: tuple[int, ...], members: tuple[int, ...]) -> bool:
    if not members:
        return True
    tried: set[int] = set()
    for index, left in enumerate(free):
        if left >= members[0] and left not in tried:
            tried.add(left)
            if _fits(tuple(sorted((*free[:index], left - members[0], *free[index + 1 :]))), members[1:]):
                return True
    return False


def cases(seed: int, count: int) -> Iterator[Case]:
    rnd = Random(seed)
    for _ in range(count):
        nodes = tuple(rnd.randint(2, 8) for _ in range(rnd.randint(1, 3)))
        running: list[tuple[int, int]] = []
        for node, cores in enumerate(nodes):
            free = cores - rnd.choice([0, 0, 0, 1, 2])
            while free > 0 and len(running) < 10:
                size = min(rnd.randint(1, 4), free)
                running.append((node, size))
                free -= size
        rnd.shuffle(running)
        kinds = rnd.sample(range(1, 6), rnd.randint(1, 2))
        members = tuple(kind for kind in kinds for _ in range(rnd.randint(1, 2)))
        yield Case(nodes, tuple(running), members)


@pytest.mark.thorough
def test_a_gang_never_preempts_more_pods_than_it_has_to() -> None:
    found = [(case, case.fewest(), case.taken()) for case in cases(1, amount(60, 1_000))]
    assert [one for one in found if one[2] is not None and one[1] != one[2]] == []
    assert [one for one in found if one[1] is not None and one[2] is None] == []


def large_cases(seed: int, count: int) -> Iterator[Case]:
    """Gangs of 65 to 300 equal members on small nodes, which are mostly full."""
    rnd = Random(seed)
    for _ in range(count):
        size, members = rnd.randint(1, 4), rnd.randint(65, 300)
        nodes: list[int] = []
        running: list[tuple[int, int]] = []
        while sum(cores // size for cores in nodes) < members * rnd.uniform(0.95, 2):
            free = rnd.randint(4, 24)
            nodes.append(free)
            free -= rnd.choice([0, 0, 0, 1, 2])
            while free > 0:
                running.append((len(nodes) - 1, min(rnd.randint(1, 6), free)))
                free -= running[-1][1]
        yield Case(tuple(nodes), tuple(running), (size,) * members)


@pytest.mark.thorough
def test_a_large_gang_of_equal_members_preempts_no_more_pods_than_it_has_to() -> None:
    found = [(case, case.fewest_of_equal(), case.taken()) for case in large_cases(1, amount(5, 200))]
    assert [one for one in found if one[1] != one[2]] == []


@pytest.mark.parametrize("members", [2, 8, 40])
@pytest.mark.parametrize("large", [resources(vcore=4000, pods=1), resources(vcore=500, gpu=2, pods=1)])
def test_pods_that_have_what_others_free_anyway_are_no_victims(members: int, large: Resources) -> None:
    """The only node is full: 20 large pods have much of one resource, and others what a member needs."""
    each = resources(vcore=1000, gpu=1, pods=1)
    held = [large] * 20 + [each] * members
    existing = tuple(
        replace(an_allocation(f"b{number}", "n0", app="b", allocated_s=number), resources=one)
        for number, one in enumerate(held)
    )
    node = replace(a_node("n0"), capacity=sum(held, resources(pods=100)))
    gang = replace(
        an_application("a", queue="root.a", gang=1, placement=GangPlacement.DIRECT),
        members=(Member(TaskGroup("w"), members, each),),
        placeholder_ask=each.times(members),
    )
    scenario = Scenario(a_configuration(a_queue("a", guaranteed=10**6), a_queue("b")))
    scenario.submit(replace(an_application("b", queue="root.b"), forced=True))
    scenario.send(NodeAdded(node, existing=existing))
    asks = [replace(an_ask(f"w{number}", app="a", group="w"), resources=each) for number in range(members)]
    scenario.send(ApplicationAdded(gang), *map(AskAdded, asks))
    assert next(filter(None, (len(victims(scenario.wait(31))) for _ in range(8)))) == members


@pytest.mark.parametrize("leaves, pods, members", [(20, 10, 30), (40, 40, 60)])
def test_a_gang_gets_what_many_guarantees_leave(leaves: int, pods: int, members: int) -> None:
    """Each leaf has a full node of its own, where its guarantee leaves two pods to preempt."""
    others = [a_queue(f"b{number}", guaranteed=(pods - 2) * 1000) for number in range(leaves)]
    scenario = Scenario(a_configuration(a_queue("a", guaranteed=members * 1000), *others))
    for queue in others:
        name = queue.name
        scenario.submit(replace(an_application(name, queue=f"root.{name}"), forced=True))
        existing = (an_allocation(f"{name}-{index}", name, app=name, allocated_s=index) for index in range(pods))
        scenario.send(NodeAdded(a_node(name, pods * 1000), existing=tuple(existing)))
    spec = an_application("a", queue="root.a", gang=members, placement=GangPlacement.DIRECT)
    group = spec.members[0].group
    scenario.send(
        ApplicationAdded(spec), *(AskAdded(an_ask(f"w{one}", app="a", group=group)) for one in range(members))
    )
    assert next(filter(None, (len(victims(scenario.wait(31))) for _ in range(12)))) == members
