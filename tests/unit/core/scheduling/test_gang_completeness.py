"""Random gangs that can be placed by construction: the share that the scheduler places, by kind of gang.

The members are put on the nodes first, by the rules of their kind; then the nodes get capacities that leave little
more room than that. `python -m tests.unit.core.scheduling.test_gang_completeness` prints the share of 1,000 gangs.
"""

import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from random import Random  # noqa: TID251 - of a fixed seed

import pytest

from muster_core.model.constraints import NAMESPACE, InterPodConstraints, TopologySpreadConstraint
from muster_core.model.events import ApplicationAdded, AskAdded, NodeAdded
from muster_core.model.ids import TaskGroup
from muster_core.model.resources import NOTHING, Resources
from muster_core.model.specs import GangPlacement, Member, NodeSpec, PodProperties, Topology
from tests.amounts import amount
from tests.unit.builders import a_configuration, a_node, a_queue, an_application, an_ask, resources
from tests.unit.core.placement.affinity_clusters import APP, HOST, ZONE, selecting, term
from tests.unit.core.scheduling.scenario import Scenario

Size = tuple[int, int]


@dataclass
class Problem:
    """A cluster and a gang. `groups`: the size of a member, its terms and the node of each member."""

    zones: list[str]
    groups: dict[str, tuple[Size, InterPodConstraints, list[int]]]
    topology: Topology | None = None
    slack: list[Size] = field(default_factory=list)

    def is_placed(self) -> bool:
        """Whether the scheduler places all members in one plan."""
        scenario = Scenario(a_configuration(a_queue("a")))
        used = [NOTHING] * len(self.zones)
        members, asks = [], []
        for name, (size, terms, nodes) in self.groups.items():
            labels = {APP: name, NAMESPACE: "red"}
            facts = PodProperties(terms)
            members.append(
                Member(TaskGroup(name), len(nodes), resources(*size, 1), tags=tuple(labels.items()), facts=facts)
            )
            for index, node in enumerate(nodes):
                ask = replace(an_ask(f"{name}{index}", group=name, tags=labels), resources=resources(*size, 1))
                asks.append(AskAdded(replace(ask, facts=facts, namespace="red")))
                used[node] += resources(*size, 1)
        scenario.send(*(NodeAdded(a_node_of(i, zone, used[i], self.slack[i])) for i, zone in enumerate(self.zones)))
        total = sum((one.resources.times(one.count) for one in members), NOTHING)
        spec = replace(an_application(gang=1), members=tuple(members), placeholder_ask=total, topology=self.topology)
        scenario.send(ApplicationAdded(replace(spec, gang_placement=GangPlacement.DIRECT)), *asks)
        return len(scenario.app().allocations) == len(asks)


def a_node_of(index: int, zone: str, used: Resources, slack: Size) -> NodeSpec:
    capacity = used + resources(*slack, 100)
    return replace(a_node(f"n{index}", labels={ZONE: zone, HOST: f"n{index}"}), capacity=capacity)


def a_cluster(rnd: Random) -> list[str]:
    return [rnd.choice("abc") for _ in range(rnd.randint(3, 30))]


def some_slack(rnd: Random, zones: list[str]) -> list[Size]:
    """What is free beside the members: mostly nothing, sometimes a part of a member."""
    return [(rnd.choice([0, 0, 0, 1, 2]), rnd.choice([0, 0, 0, 1, 2])) for _ in zones]


def a_size(rnd: Random) -> Size:
    return rnd.randint(1, 8), rnd.randint(1, 8)


def equal(rnd: Random) -> Problem:
    zones = a_cluster(rnd)
    nodes = rnd.choices(range(len(zones)), k=rnd.randint(2, 40))
    return Problem(zones, {"w": (a_size(rnd), InterPodConstraints(), nodes)})


def unequal(rnd: Random) -> Problem:
    zones = a_cluster(rnd)
    groups = {
        f"g{index}": (
            a_size(rnd),
            InterPodConstraints(),
            rnd.choices(range(len(zones)), k=rnd.randint(1, 15)),
        )
        for index in range(rnd.randint(2, 5))
    }
    return Problem(zones, groups)


def with_affinity(rnd: Random) -> Problem:
    """Workers in the zone, or on the node, of their driver."""
    zones = a_cluster(rnd)
    key = rnd.choice([ZONE, ZONE, HOST])
    home = rnd.randrange(len(zones))
    inside = [node for node, zone in enumerate(zones) if (zone == zones[home] if key == ZONE else node == home)]
    affinity = InterPodConstraints(affinity=(term("driver", key),))
    workers = rnd.choices(inside, k=rnd.randint(1, 12))
    others = rnd.choices(range(len(zones)), k=rnd.randint(0, 8))
    groups = {
        "driver": (a_size(rnd), InterPodConstraints(), [home]),
        "worker": (a_size(rnd), affinity, workers),
    }
    return Problem(zones, groups | ({"other": (a_size(rnd), InterPodConstraints(), others)} if others else {}))


def spread_out(rnd: Random) -> Problem:
    """One member per node, or zones that differ by one member at most."""
    zones = a_cluster(rnd)
    others = rnd.choices(range(len(zones)), k=rnd.randint(0, 8))
    if rnd.random() < 0.5:
        terms = InterPodConstraints(anti_affinity=(term("w", HOST),))
        nodes = rnd.sample(range(len(zones)), rnd.randint(2, len(zones)))
    else:
        spread = TopologySpreadConstraint(ZONE, 1, selecting(app="w"), "red")
        terms = InterPodConstraints(spread=(spread,))
        each = rnd.randint(1, 5)
        names = sorted(set(zones))
        more = rnd.sample(names, rnd.randrange(len(names)))
        nodes = [
            rnd.choice([node for node, zone in enumerate(zones) if zone == name])
            for name in names
            for _ in range(each + (name in more))
        ]
    groups = {"w": (a_size(rnd), terms, nodes)}
    return Problem(zones, groups | ({"other": (a_size(rnd), InterPodConstraints(), others)} if others else {}))


def in_one_domain(rnd: Random) -> Problem:
    zones = a_cluster(rnd)
    home = rnd.choice(zones)
    inside = [node for node, zone in enumerate(zones) if zone == home]
    groups = {
        f"g{index}": (a_size(rnd), InterPodConstraints(), rnd.choices(inside, k=rnd.randint(1, 12)))
        for index in range(rnd.randint(1, 4))
    }
    return Problem(zones, groups, Topology((ZONE,), required=True))


KINDS: tuple[Callable[[Random], Problem], ...] = (equal, unequal, with_affinity, spread_out, in_one_domain)


def missed(count: int, seed: int = 1) -> dict[str, list[int]]:
    """By kind: the numbers of the gangs that are not placed."""
    found: dict[str, list[int]] = {kind.__name__: [] for kind in KINDS}
    for index in range(count):
        if not a_problem(index, seed).is_placed():
            found[KINDS[index % len(KINDS)].__name__].append(index)
    return found


def a_problem(index: int, seed: int = 1) -> Problem:
    rnd = Random(f"{seed} {index}")
    problem = KINDS[index % len(KINDS)](rnd)
    problem.slack = some_slack(rnd, problem.zones)
    return problem


@pytest.mark.thorough
def test_at_least_99_percent_of_the_gangs_that_can_be_placed_are_placed() -> None:
    count = amount(100, 1_000)
    assert sum(map(len, missed(count).values())) <= count // 100


def main() -> None:
    """Print the share of each kind. Arguments: number of gangs, seed."""
    total, seed = (int(one) for one in (*sys.argv[1:], *("1000", "1")[len(sys.argv) - 1 :]))
    result = missed(total, seed)
    each = Counter(KINDS[index % len(KINDS)].__name__ for index in range(total))
    lines = [f"{kind:15} {each[kind] - len(found)} of {each[kind]} {found[:10]}" for kind, found in result.items()]
    sys.stdout.write("\n".join([*lines, f"{'all':15} {total - sum(map(len, result.values()))} of {total}\n"]))


if __name__ == "__main__":
    main()
