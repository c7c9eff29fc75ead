"""An autoscaler sees only as many requests that wait for nodes as the quotas allow; the others wait for quota."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from random import Random  # noqa: TID251 - with a fixed seed

import pytest

from muster_core.model.config import Configuration, QueueConfig, QueuePolicies, Timing
from muster_core.model.constraints import ANYWHERE, Constraints
from muster_core.model.effects import AllocationResponse, ApplicationUpdated, Effect
from muster_core.model.events import ApplicationAdded, AskAdded, AskReleased, Event, NodeAction
from muster_core.model.ids import AllocationKey, ApplicationId, NodeId, Termination
from muster_core.model.resources import NOTHING, Limit, Resources
from muster_core.model.specs import GangPlacement
from muster_core.queues import quota
from muster_core.scheduling import reporting
from muster_core.scheduling.scheduler import cycle, step
from muster_core.state import node_demand
from muster_core.state.node_demand import Demand, NodeDemand
from muster_core.state.scheduler_state import Partition
from tests.amounts import amount
from tests.unit.builders import PARTITION, SECOND, a_configuration, a_limit, a_queue, an_application, an_ask
from tests.unit.core.scheduling.direct import a_gang as a_direct_gang
from tests.unit.core.scheduling.direct import with_members
from tests.unit.core.scheduling.scenario import Scenario, outstanding, placed, waits

#: State of the gang that comes first, and of the second one.
ENDS = (("FAILED", "one"), ("SKIPPED", "two"))
NEEDED = "after deducting earlier requests that wait for nodes"


def full(vcore: int = 2000) -> Scenario:
    """A queue of this size, and one node without free resources."""
    scenario = Scenario(a_configuration(a_queue("a", vcore=vcore)))
    scenario.add_full_node()
    return scenario


def by_state(effects: list[Effect]) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for key, (state, _) in waits(effects).items():
        found.setdefault(state, set()).add(key)
    return found


def remove(scenario: Scenario, app: str) -> list[Effect]:
    return scenario.remove(app)


def test_the_newest_pods_beyond_the_quota_wait_for_quota() -> None:
    scenario = full()
    effects = scenario.submit(an_application("app"), *(an_ask(f"p{index}") for index in range(5)))
    assert by_state(effects) == {"FAILED": {"p0", "p1"}, "SKIPPED": {"p2", "p3", "p4"}}
    message = waits(effects)["p2"][1]
    assert message == f"Not enough queue quota: root.a, requested cpu 1, available 0 of 2, {NEEDED}"


def test_a_pod_that_came_later_takes_the_place_of_one_that_was_cancelled() -> None:
    scenario = full()
    scenario.submit(an_application("app"), *(an_ask(f"p{index}") for index in range(4)))
    assert by_state(scenario.release_ask("p0")) == {"FAILED": {"p2"}}
    assert by_state(scenario.release_ask("p3")) == {}
    assert by_state(scenario.ask(an_ask("p4", app="app"))) == {"SKIPPED": {"p4"}}
    assert by_state(scenario.release_ask("p1")) == {"FAILED": {"p4"}}


def test_pods_of_later_applications_wait_for_quota_until_an_earlier_one_leaves() -> None:
    scenario = full()
    for name in ("one", "two", "three"):
        scenario.submit(an_application(name), *(an_ask(f"{name}-{index}") for index in range(2)))
    assert by_state(remove(scenario, "one")) == {"FAILED": {"two-0", "two-1"}}


def test_pods_that_waited_for_quota_wait_for_it_when_the_first_ones_run() -> None:
    scenario = full()
    scenario.submit(an_application("app"), *(an_ask(f"p{index}") for index in range(4)))
    effects = scenario.add_node("new")
    assert set(placed(effects)) == {"p0", "p1"}
    assert by_state(effects) == {"SCHEDULED": {"p0", "p1"}, "SKIPPED": {"p2", "p3"}}
    assert NEEDED not in waits(effects)["p2"][1]
    assert set(placed(scenario.release("p0"))) == {"p2"}


ELSEWHERE = Constraints(node_selector=(("gpu", "yes"),))


def test_pods_whose_quota_was_in_use_wait_for_nodes_when_it_is_free() -> None:
    """The class is unschedulable before its second pod arrives, so that pod is not planned again."""
    scenario = Scenario(a_configuration(a_queue("p", a_queue("cpu"), a_queue("gpu"), vcore=4000)), nodes=1)
    assert by_state(
        scenario.submit(an_application("gpu", queue="root.p.gpu"), an_ask("g0", constraints=ELSEWHERE))
    ) == {"FAILED": {"g0"}}
    assert (
        len(
            placed(
                scenario.submit(an_application("cpu", queue="root.p.cpu"), *(an_ask(f"c{index}") for index in range(4)))
            )
        )
        == 4
    )
    assert by_state(scenario.ask(an_ask("g1", app="gpu", constraints=ELSEWHERE))) == {"SKIPPED": {"g0", "g1"}}
    assert by_state(scenario.release("c0", app="cpu") + scenario.release("c1", app="cpu")) == {"FAILED": {"g0", "g1"}}


def test_pods_that_waited_for_another_application_wait_for_nodes_when_it_ends() -> None:
    """Pods of another application have shown that no node fits the class."""
    scenario = Scenario(a_configuration(a_queue("a", max_applications=1), a_queue("b")), nodes=1)
    scenario.send(ApplicationAdded(an_application("first")), ApplicationAdded(an_application("second")))
    assert placed(scenario.ask(an_ask("r", app="first"))) == {"r": "n0"}
    assert by_state(scenario.ask(an_ask("s", app="second", constraints=ELSEWHERE))) == {"SKIPPED": {"s"}}
    assert by_state(scenario.submit(an_application("other", queue="root.b"), an_ask("o", constraints=ELSEWHERE))) == {
        "FAILED": {"o"}
    }
    assert by_state(remove(scenario, "first") + scenario.wait(60)) == {"FAILED": {"s"}}


def test_a_higher_maximum_lets_more_pods_wait_for_nodes() -> None:
    scenario = Scenario(a_configuration(a_queue("a", a_queue("b", vcore=3000), a_queue("c"), vcore=4000)))
    scenario.add_full_node()
    for leaf in ("b", "c"):
        effects = scenario.submit(
            an_application(leaf, queue=f"root.a.{leaf}"), *(an_ask(f"{leaf}{index}") for index in range(4))
        )
        assert len(by_state(effects)["FAILED"]) == {"b": 3, "c": 1}[leaf]


def test_a_limit_of_a_user_counts_too() -> None:
    scenario = Scenario(a_configuration(a_queue("a", limits=(a_limit(users=("kim",), vcore=2000),))))
    scenario.add_full_node()
    for name in ("one", "two"):
        scenario.submit(an_application(name, user="kim"))
    scenario.submit(an_application("other", user="lee"))
    assert by_state(scenario.ask(*(an_ask(f"p{index}", app="one") for index in range(2)))) == {"FAILED": {"p0", "p1"}}
    assert by_state(scenario.ask(an_ask("q", app="two"))) == {"SKIPPED": {"q"}}
    assert by_state(scenario.ask(an_ask("r", app="other"))) == {"FAILED": {"r"}}


@pytest.mark.parametrize("placement, first", [(GangPlacement.RESERVE, "-p0"), (GangPlacement.AUTO, "/workers")])
def test_of_two_gangs_that_share_a_quota_only_the_first_waits_for_nodes(placement: GangPlacement, first: str) -> None:
    scenario = full(3000)
    one = scenario.gang(an_application("one", gang=2, placement=placement), 2)
    two = scenario.gang(an_application("two", gang=2, placement=placement), 2)
    assert by_state(one) == {"FAILED": {f"one{first}", "one-p1"}}
    assert by_state(two) == {"SKIPPED": {f"two{first}", "two-p1"}}
    assert by_state(remove(scenario, "one")) == {"FAILED": {f"two{first}", "two-p1"}}


@pytest.mark.parametrize("members, quota", [(3, 4000), (3, 5000), (2, 3000)])
def test_members_of_a_gang_that_arrive_one_by_one_wait_for_nodes_together(members: int, quota: int) -> None:
    scenario = full(quota)
    states: dict[str, set[str]] = {}
    for name in ("one", "two"):
        scenario.submit(an_application(name, gang=members))
        for index in range(members):
            ask = an_ask(f"{name}-{index}", app=name, group="workers", placeholder=True)
            for state, keys in by_state(scenario.ask(ask)).items():
                states.setdefault(state, set()).update(keys)
    assert states == {state: {f"{name}-{index}" for index in range(members)} for state, name in ENDS}
    assert by_state(remove(scenario, "one")) == {"FAILED": states["SKIPPED"]}
    remove(scenario, "two")
    assert scenario.partition.node_demand.counted == {}


def test_the_first_application_is_the_one_that_has_the_highest_priority_now() -> None:
    scenario = full(1000)
    for name in ("one", "two", "three"):
        scenario.submit(an_application(name), an_ask(name))
    scenario.ask(an_ask("urgent", app="three", priority=9))
    assert by_state(remove(scenario, "one")) == {"FAILED": {"three"}}


def test_many_refused_pod_sizes_do_not_delay_the_reports_of_other_queues(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reporting, "DEMANDS_PER_CYCLE", 8)
    scenario = Scenario(a_configuration(a_queue("a", vcore=2000), a_queue("b")))
    scenario.add_full_node()
    for name, queue in (("many", "root.a"), ("other", "root.b")):
        scenario.submit(an_application(name, queue=queue))
    scenario.ask(*(an_ask(f"p{index}", app="many") for index in range(2)))
    scenario.ask(*(an_ask(f"q{index}", app="many", vcore=1001 + index) for index in range(100)))
    for event in (
        AskReleased(PARTITION, ApplicationId("many"), AllocationKey("p0"), Termination.STOPPED_BY_RM),
        AskAdded(an_ask("r", app="other")),
    ):
        step(scenario.scheduler_state, event, scenario.now_ns)
    result = cycle(scenario.scheduler_state, scenario.now_ns, lambda: True)
    assert result.more
    assert by_state(result.effects) == {"FAILED": {"r"}}


def test_pod_sizes_beyond_the_limit_of_queues_wait_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_demand, "DEMAND_QUEUES", 2)
    scenario = full(4000)
    scenario.submit(an_application("first"), an_ask("first", vcore=4000))
    for index in range(5):
        scenario.submit(an_application(f"app{index}"), an_ask(f"p{index}", vcore=1000 + index))
    assert [len(at.queues) for at in scenario.partition.node_demand.refusing.values()] == [3]
    effects = remove(scenario, "first")
    for index in range(5):
        effects += remove(scenario, f"app{index}")
    assert by_state(effects) == {"FAILED": {f"p{index}" for index in range(5)}}
    assert scenario.partition.node_demand.refusing == {}


def test_of_two_direct_gangs_that_share_a_quota_only_the_first_waits_for_nodes() -> None:
    scenario = full(3000)
    assert by_state(scenario.send(*with_members(a_direct_gang(2, "one")))) == {"FAILED": {"one/workers"}}
    assert by_state(scenario.send(*with_members(a_direct_gang(2, "two")))) == {"SKIPPED": {"two/workers"}}
    assert by_state(remove(scenario, "one")) == {"FAILED": {"two/workers"}}


def test_the_first_in_queue_order_is_admitted_when_quota_is_free_again() -> None:
    scenario = full(1000)
    for name, priority in (("one", 0), ("two", 0), ("three", 5)):
        scenario.submit(an_application(name), an_ask(name, priority=priority))
    assert by_state(remove(scenario, "one")) == {"FAILED": {"three"}}
    assert by_state(remove(scenario, "three")) == {"FAILED": {"two"}}


def test_a_small_request_does_not_wait_behind_a_large_one_that_does_not_fit() -> None:
    scenario = full(4000)
    found: dict[str, set[str]] = {}
    for name, vcore in (("first", 3000), ("large", 3000), ("small", 1000)):
        scenario.submit(an_application(name))
        for state, keys in by_state(scenario.ask(an_ask(name, app=name, vcore=vcore))).items():
            found.setdefault(state, set()).update(keys)
    assert found == {"FAILED": {"first", "small"}, "SKIPPED": {"large"}}


def test_a_new_maximum_applies_to_requests_that_wait() -> None:
    scenario = full(2000)
    scenario.submit(an_application("app"), *(an_ask(f"p{index}") for index in range(5)))
    higher = scenario.reload(a_configuration(a_queue("a", vcore=3000)))
    assert by_state(higher) == {"FAILED": {"p2"}}
    lower = scenario.reload(a_configuration(a_queue("a", vcore=1000)))
    assert by_state(lower) == {}, "what is admitted stays admitted"
    assert by_state(scenario.reload(a_configuration(a_queue("a")))) == {"FAILED": {"p3", "p4"}}


def test_requests_that_get_no_node_keep_quota_from_others_for_a_limited_time() -> None:
    scenario = full(2000)
    scenario.submit(an_application("impossible"))
    never = Constraints(node_selector=(("no", "such"),))
    scenario.ask(*(an_ask(f"n{index}", app="impossible", constraints=never) for index in range(4)))
    assert by_state(scenario.submit(an_application("app"), an_ask("p0"))) == {"SKIPPED": {"p0"}}
    assert by_state(scenario.wait(899)) == {}
    assert by_state(scenario.wait(2)) == {"FAILED": {"p0", "n2"}}, "the other application first, then the next of it"
    assert by_state(remove(scenario, "app")) == {"FAILED": {"n3"}}


def test_requests_that_get_nodes_one_by_one_keep_their_quota() -> None:
    scenario = full(4000)
    scenario.submit(an_application("app"), *(an_ask(f"p{index}") for index in range(6)))
    for number in range(3):
        scenario.wait(800)
        assert placed(scenario.add_node(f"n{number}", vcore=1000))
    assert "FAILED" not in by_state(scenario.wait(899))


def test_pods_of_a_daemon_set_do_not_count() -> None:
    scenario = full(1000)
    scenario.submit(an_application("daemons"))
    daemon = replace(an_ask("daemon", app="daemons"), required_node=NodeId("full"))
    assert by_state(scenario.ask(daemon)) == {"FAILED": {"daemon"}}
    assert by_state(scenario.submit(an_application("app"), an_ask("p0"))) == {"FAILED": {"p0"}}


def test_only_admitted_requests_are_reported_to_autoscalers_by_the_core() -> None:
    scenario = full(2000)
    scenario.submit(an_application("app"), *(an_ask(f"p{index}") for index in range(5)))
    scenario.submit(an_application("other"), an_ask("other"))
    assert [(one.count, one.applications) for one in outstanding(scenario.partition)] == [(2, 1)]


def test_a_failure_of_the_admission_changes_no_placement(monkeypatch: pytest.MonkeyPatch) -> None:
    scenario = full(2000)
    monkeypatch.setattr(Scenario, "_check", lambda _: None)
    scenario.submit(an_application("app"))
    with monkeypatch.context() as broken:
        broken.setattr(reporting, "_headroom", lambda *_: 1 // 0)
        assert by_state(scenario.ask(an_ask("p0", app="app"), an_ask("p1", app="app"))) == {"FAILED": {"p0", "p1"}}
    assert [str(one.error) for one in scenario.scheduler_state.outbox.take_failures()] == [
        "integer division or modulo by zero"
    ]
    assert set(placed(scenario.add_node("new"))) == {"p0", "p1"}


# -- Random events: what is reported as waiting for nodes stays within all maximums, and no placement depends on it.

SEEDS = range(amount(10, 500))
STEPS = 60
APPS = 9
LEAVES = ("root.p.a", "root.p.b", "root.c", "root.fair")
USERS = ("kim", "lee")
NEVER = Constraints(node_selector=(("no", "such"),))
TIMING = Timing(starvation_age_ns=200 * SECOND, release_timeout_ns=40 * SECOND)


def a_random_configuration(random: Random) -> Configuration:
    def maximum(config: QueueConfig) -> QueueConfig:
        names = [name for name in ("vcore", "memory") if random.random() < 0.5]
        return replace(config, max=Limit({name: random.randint(2, 15) * 1000 for name in names}))

    soon = QueuePolicies(preemption_delay_ns=SECOND)
    limits = (a_limit(users=(random.choice(USERS),), vcore=random.randint(1, 9) * 1000),)
    parent = a_queue(
        "p",
        maximum(a_queue("a", guaranteed=random.choice((0, 2000)), policies=soon)),
        maximum(a_queue("b", limits=limits if random.random() < 0.5 else ())),
        limits=limits if random.random() < 0.3 else (),
    )
    return a_configuration(maximum(parent), maximum(a_queue("c")), maximum(a_queue("fair", fair=True)), timing=TIMING)


@dataclass(slots=True)
class Run:
    """One scenario. `log`: effects that the demand for nodes must not change, by step."""

    random: Random
    scenario: Scenario
    log: list[list[Effect]]
    keys: int = 0

    def step(self, number: int) -> list[Effect]:
        """Draw one change and carry it out. What is drawn depends on placements only."""
        random, scenario = self.random, self.scenario
        kinds = (*["app"] * 3, *["ask"] * 6, *["cancel"] * 4, "remove", "node", "drain", "reload", "wait")
        match random.choice(kinds):
            case "app":
                return scenario.send(*self._an_application(f"app{number}"))
            case "wait":
                return scenario.wait(random.choice((1, 30, 300, 901, 2000)))
            case "node":
                return scenario.add_node(f"n{number}", vcore=random.choice((500, 1000, 2000)))
            case "drain":
                nodes = sorted(scenario.partition.nodes)
                action = random.choice((NodeAction.DRAIN, NodeAction.OPEN, NodeAction.DECOMMISSION))
                return scenario.node(random.choice(nodes), action) if nodes else []
            case "reload":
                return scenario.reload(a_random_configuration(random))
            case kind:
                names = sorted(scenario.partition.applications)
                return self._change(kind, random.choice(names)) if names else []

    def _an_application(self, name: str) -> Iterator[Event]:
        random = self.random
        if len(self.scenario.partition.applications) >= APPS:
            return
        queue, user, members = random.choice(LEAVES), random.choice(USERS), random.randint(1, 5)
        placement = random.choice((None, None, None, *GangPlacement))
        if placement is None or queue == "root.fair":
            yield ApplicationAdded(an_application(name, queue=queue, user=user))
        elif placement is GangPlacement.DIRECT:
            yield a_direct_gang(members, name, queue=queue, user=user)
        else:
            spec = an_application(name, queue=queue, user=user, gang=members, placement=placement, timeout_s=400)
            yield ApplicationAdded(spec)
            absent = members // 2 if placement is GangPlacement.AUTO else members
            for index in range(absent):
                yield AskAdded(an_ask(f"{name}-p{index}", app=name, group="workers", placeholder=True))

    def _change(self, kind: str, name: str) -> list[Effect]:
        random, scenario, app = self.random, self.scenario, self.scenario.app(name)
        if kind == "remove":
            return scenario.remove(name)
        if kind == "ask":
            self.keys += 1
            shape = Resources(
                {"vcore": random.choice((0, 500, 1000, 3000)), "memory": random.choice((0, 2000)), "pods": 1}
            )
            constraints, priority = random.choice((ANYWHERE, ANYWHERE, NEVER)), random.choice((0, 0, 5))
            count = random.choice((1, 1, 1, 3))
            created_ns = random.choice((0, scenario.now_ns - random.randint(0, 900) * SECOND))
            return scenario.ask(
                *(
                    replace(
                        an_ask(f"k{self.keys}-{index}", app=name, constraints=constraints, priority=priority),
                        resources=shape,
                        created_ns=created_ns,
                        max_allocations=count,
                    )
                    for index in range(random.randint(1, 6))
                )
            )
        placed = sorted((one.spec.key, one.id) for one in app.allocations.values() if not one.spec.is_virtual)
        asked = sorted(key for key, ask in app.asks.items() if not ask.spec.is_virtual)
        if asked and (not placed or random.random() < 0.5):
            return scenario.release_ask(random.choice(asked), name)
        if not placed:
            return []
        key, identity = random.choice(placed)
        was = app.allocations[identity].releasing
        return scenario.release(key, name, was or Termination.STOPPED_BY_RM, identity)


def run(seed: int) -> Run:
    """Carry out all steps, and then remove all applications."""
    random = Random(seed)
    found = Run(random, Scenario(a_random_configuration(random)), [])
    found.scenario.add_full_node()
    for number in range(STEPS):
        found.log.append(found.step(number))
        check(found.scenario)
    for name in sorted(found.scenario.partition.applications):
        found.scenario.remove(name)
    return found


def check(scenario: Scenario) -> None:
    """No refused demand fits, and every refused demand waits for a maximum."""
    partition = scenario.partition
    known = partition.node_demand
    assert not known.is_due
    for demand in [one for mine in known.by_app.values() for one in mine.values() if one.refused]:
        needed = reporting._needed(demand)
        held = {bound.holder: bound for bound in quota.bounds(partition, demand.app)}
        back = demand.app.node_reserved if demand.app.is_reserving else NOTHING
        refusing = [
            holder
            for holder, bound in held.items()
            if not known.left_of(quota.left_of(bound, demand.app, back), holder).allows(needed)
        ]
        assert refusing, f"{demand.app.id} waits for quota that is free"


def is_decisive(effect: Effect) -> bool:
    return isinstance(effect, AllocationResponse | ApplicationUpdated)


@pytest.mark.thorough
@pytest.mark.parametrize("seed", SEEDS)
def test_reports_of_missing_nodes_change_no_placement_and_exceed_no_maximum(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    admit, decide, partitions = reporting._admit, reporting._decide, list[Partition]()

    def noted(partition: Partition, demand: Demand) -> None:
        partitions[:] = [partition]
        decide(partition, demand)

    def within_maximums(known: NodeDemand, demand: Demand, count: int) -> list[AllocationKey]:
        admitted = admit(known, demand, count)
        for bound in quota.bounds(partitions[0], demand.app) if admitted else ():
            counted = known.counted.get(bound.holder)
            used = bound.taken.allocated + (counted.value if counted is not None else NOTHING)
            assert not {*bound.max.excess(used)} & {*demand.total}, f"{bound.holder} is exceeded by {demand.app.id}"
        return admitted

    monkeypatch.setattr(reporting, "_decide", noted)
    monkeypatch.setattr(reporting, "_admit", within_maximums)
    found = run(seed)
    known = found.scenario.partition.node_demand
    assert (known.by_app, known.counted, known.refusing) == ({}, {}, {})
    assert (list(known.by_age), known.undecided.demands) == ([], {})

    monkeypatch.setattr(reporting, "_needs_node", lambda *_: False)
    without = run(seed)
    decisions = [[*filter(is_decisive, effects)] for effects in found.log]
    assert decisions == [[*filter(is_decisive, effects)] for effects in without.log]
