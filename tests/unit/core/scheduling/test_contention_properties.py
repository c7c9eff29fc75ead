"""Properties of gangs of random sizes that contend for the same resources.

Nothing arrives and nothing fails meanwhile, and every released placeholder is confirmed and created again.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import count

from hypothesis import given, settings
from hypothesis import strategies as st

from muster_core.model.config import Configuration, Timing
from muster_core.model.constraints import ANYWHERE, Constraints
from muster_core.model.effects import Effect
from muster_core.model.events import ApplicationAdded, NodeAdded
from muster_core.model.ids import ApplicationId, Termination
from muster_core.model.specs import GangPlacement
from muster_core.state.applications import Allocation, Application
from tests.amounts import amount
from tests.unit.builders import SECOND, a_configuration, a_node, a_queue, an_application, an_ask, resources
from tests.unit.core.scheduling.preemption_scenario import pods, victims
from tests.unit.core.scheduling.scenario import Scenario

PREEMPTED = Termination.PREEMPTED_BY_SCHEDULER
TIMING = Timing(starvation_age_ns=3600 * SECOND)
PARENTS = ("p", "q")
#: Timers of failed take-overs are at most so far apart.
STEP_S = 20
TIMEOUT_S = 1_000


@dataclass(frozen=True)
class AGang:
    """A gang in a separate leaf below a parent; sizes in cores."""

    members: int
    size: int
    parent: str
    priority: int
    placement: GangPlacement
    pool: str = ""


SKEWED = st.one_of(st.integers(1, 3), st.integers(1, 12), st.sampled_from([20, 40]))
GANGS = st.builds(
    AGang, SKEWED, st.integers(1, 4), st.sampled_from(PARENTS), st.integers(0, 2), st.sampled_from(list(GangPlacement))
)
NODES = st.lists(st.integers(1, 9), min_size=1, max_size=6)


class ContendingGangs:
    """The scenario, and the keys that are requested again."""

    def __init__(self, gangs: list[AGang], nodes: dict[str, list[int]], maxima: dict[str, int], busy: int) -> None:
        self.gangs = {f"g{index}": gang for index, gang in enumerate(gangs)}
        self.scenario = Scenario(_configuration(self.gangs, maxima))
        self.numbers = count()
        for pool, sizes in nodes.items():
            for index, size in enumerate(sizes):
                labels = {"pool": pool} if pool else {}
                self.scenario.send(NodeAdded(a_node(f"n{pool}{index}", size * 1000, labels=labels)))
        if busy:
            self.scenario.send(ApplicationAdded(an_application("busy", queue="root.busy")))
            self.scenario.ask(*(replace(pod, application=ApplicationId("busy")) for pod in pods("b", busy)))

    def submit(self) -> None:
        """All gangs, their requests one by one in turns, as controllers make them."""
        waiting: dict[str, int] = {}
        effects: list[Effect] = []
        for index, (name, gang) in enumerate(self.gangs.items()):
            spec = an_application(
                name,
                queue=f"root.{gang.parent}.{name}",
                gang=gang.members,
                each=resources(vcore=gang.size * 1000, pods=1),
                placement=gang.placement,
                created_s=900 + index,
                timeout_s=TIMEOUT_S,
            )
            member = replace(spec.members[0], constraints=_constraints(gang), priority=gang.priority)
            effects += self.scenario.send(ApplicationAdded(replace(spec, members=(member,))))
            if ApplicationId(name) in self.scenario.partition.applications:
                if spec.uses_virtual_placeholders:
                    effects += self.ask(name, placeholder=False)
                pods_of_absent = {GangPlacement.AUTO: gang.members // 2, GangPlacement.DIRECT: 0}
                waiting[name] = pods_of_absent.get(gang.placement, gang.members)
        while waiting := {name: left for name, left in waiting.items() if left}:
            for name in waiting:
                effects += self.ask(name)
                waiting[name] -= 1
        self.run_until_idle(effects)

    def ask(self, name: str, *, placeholder: bool = True) -> list[Effect]:
        gang = self.gangs[name]
        key, vcore = f"{name}-{next(self.numbers)}", gang.size * 1000
        ask = an_ask(key, app=name, vcore=vcore, group="workers", placeholder=placeholder, priority=gang.priority)
        return self.scenario.ask(replace(ask, constraints=_constraints(gang)))

    def run_until_idle(self, effects: list[Effect]) -> None:
        """Confirm releases until there are none; the number of rounds is bounded."""
        quiet = 0
        for _ in range(12 + 6 * len(self.gangs)):
            victim_keys = victims(effects)
            quiet = 0 if victim_keys else quiet + 1
            if quiet > 3:
                return
            effects = []
            for name, app in list(self.scenario.partition.applications.items()):
                for key in [one.spec.key for one in app.allocations.values() if one.spec.key in victim_keys]:
                    effects += self.scenario.release(key, app=name, why=PREEMPTED)
                    effects += self.ask(name)
            effects += self.scenario.wait(STEP_S)
        raise AssertionError("reservations are taken over forever")

    def incomplete(self) -> list[Application]:
        """In the order of keys."""
        found = [app for app in self.scenario.partition.applications.values() if app.is_reserving]
        return sorted(found, key=lambda app: app.gang.key or (0, 0, app.id))

    def complete(self) -> set[str]:
        return {
            name for name, app in self.scenario.partition.applications.items() if app.spec.is_gang and app.gang.over
        }


def _configuration(gangs: dict[str, AGang], maxima: dict[str, int]) -> Configuration:
    parents = [
        a_queue(
            parent,
            *(a_queue(name) for name, gang in gangs.items() if gang.parent == parent),
            a_queue("none"),
            vcore=maxima[parent] * 1000 if parent in maxima else None,
        )
        for parent in PARENTS
    ]
    return a_configuration(*parents, a_queue("busy"), timing=TIMING)


def _constraints(gang: AGang) -> Constraints:
    return Constraints(node_selector=(("pool", gang.pool),)) if gang.pool else ANYWHERE


def fits(scheduler_state: ContendingGangs, app: Application) -> bool:
    """Whether the gang fits next to bound pods, complete gangs and the reservations of earlier gangs: by counting."""
    partition = scheduler_state.scenario.partition
    order = [other.id for other in scheduler_state.incomplete()]
    later = set(order[order.index(app.id) :])
    gang = scheduler_state.gangs[app.id]
    others = [other for other in partition.applications.values() if other.id not in later]
    taken: Counter[str] = Counter()
    for other in others:
        for one in other.allocations.values():
            taken[one.node] += one.spec.resources["vcore"]
        for hold in partition.reservations.of(other.id):
            taken[hold.node] += hold.resources["vcore"]
    room = sum(
        max(partition.nodes.record(node).spec.capacity["vcore"] - taken[node], 0) // (gang.size * 1000)
        for node in partition.nodes
    )
    return room >= gang.members and all(left >= gang.members * gang.size * 1000 for left in _quotas(app, others))


def _quotas(app: Application, others: list[Application]) -> Iterator[int]:
    for queue in app.queue.path_up:
        most = queue.max.get("vcore")
        if most is not None:
            inside = [other for other in others if queue in other.queue.path_up]
            used = sum(one.spec.resources["vcore"] for other in inside for one in other.allocations.values())
            yield most - used - sum(other.gang.quota_reservation["vcore"] for other in inside)


@settings(max_examples=amount(12, 25), deadline=None)
@given(
    gangs=st.lists(GANGS, min_size=2, max_size=6),
    nodes=NODES,
    maxima=st.dictionaries(st.sampled_from(PARENTS), st.integers(2, 20)),
    busy=st.integers(0, 4),
)
def test_no_gang_waits_if_it_fits_next_to_complete_and_earlier_gangs(
    gangs: list[AGang], nodes: list[int], maxima: dict[str, int], busy: int
) -> None:
    scheduler_state = ContendingGangs(gangs, {"": nodes}, maxima, busy)
    scheduler_state.submit()
    assert [app.id for app in scheduler_state.incomplete() if fits(scheduler_state, app)] == []
    for name in [one.spec.key for one in _of(scheduler_state, "busy")]:
        scheduler_state.run_until_idle(scheduler_state.scenario.release(name, app="busy"))
    assert [app.id for app in scheduler_state.incomplete() if fits(scheduler_state, app)] == []


@settings(max_examples=amount(5, 10), deadline=None)
@given(
    ours=st.lists(GANGS, min_size=1, max_size=3),
    theirs=st.lists(GANGS, min_size=1, max_size=3),
    nodes=st.tuples(NODES, NODES),
)
def test_gangs_that_share_neither_nodes_nor_quotas_do_not_delay_each_other(
    ours: list[AGang], theirs: list[AGang], nodes: tuple[list[int], list[int]]
) -> None:
    pools = dict(zip("xy", nodes, strict=True))
    ours = [replace(gang, parent="p", pool="x") for gang in ours]
    theirs = [replace(gang, parent="q", pool="y") for gang in theirs]
    alone = ContendingGangs(ours, pools, {"p": 12}, busy=0)
    alone.submit()
    beside = ContendingGangs([*ours, *theirs], pools, {"p": 12}, busy=0)
    beside.submit()
    assert beside.complete() & set(alone.gangs) == alone.complete()


@settings(max_examples=amount(5, 10), deadline=None)
@given(gangs=st.lists(GANGS, min_size=2, max_size=6), nodes=NODES, busy=st.integers(0, 4))
def test_no_incomplete_gang_keeps_reservations_after_its_timeout(
    gangs: list[AGang], nodes: list[int], busy: int
) -> None:
    scheduler_state = ContendingGangs(gangs, {"": nodes}, {}, busy)
    scheduler_state.submit()
    holding = {app.id for app in scheduler_state.incomplete() if app.gang.allocated}
    scheduler_state.scenario.wait(TIMEOUT_S)
    assert holding.isdisjoint(app.id for app in scheduler_state.incomplete())


def _of(scheduler_state: ContendingGangs, name: str) -> list[Allocation]:
    app = scheduler_state.scenario.partition.applications.get(ApplicationId(name))
    return list(app.allocations.values()) if app is not None else []
