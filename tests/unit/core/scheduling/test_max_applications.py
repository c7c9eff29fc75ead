"""`maxapplications` of queues, users and groups; further applications wait in Accepted."""

from dataclasses import replace
from random import Random  # noqa: TID251 # seeded

from hypothesis import given, settings
from hypothesis import strategies as st

from muster_core.model.config import QueueConfig
from muster_core.model.effects import AllocationResponse, Effect
from muster_core.model.events import (
    AllocationReleased,
    ApplicationAdded,
    AskAdded,
    ConfigurationReplaced,
    Event,
    NodeAdded,
)
from muster_core.model.ids import AllocationId, AllocationKey, ApplicationId, QueuePath, Termination
from muster_core.model.records import Detail
from muster_core.model.resources import Limit
from muster_core.model.states import QueueState
from muster_core.scheduling.scheduler import cycle, step
from muster_core.state.queues import QueueTree, new_tree
from tests.unit.builders import (
    PARTITION,
    RM,
    a_configuration,
    a_limit,
    a_node,
    a_queue,
    an_allocation,
    an_application,
    an_ask,
)
from tests.unit.core.scheduling.scenario import Scenario, placed, rejection, states, waits

_MAY_RUN = (
    Detail.APP_CANNOTRUN_QUEUE,
    Detail.APP_RUNNABLE_QUEUE,
    Detail.APP_CANNOTRUN_QUOTA,
    Detail.APP_RUNNABLE_QUOTA,
)


def start(scenario: Scenario, name: str, *, queue: str = "root.a", user: str = "kim", asks: int = 1) -> list[Effect]:
    """Submit an application with asks."""
    effects = scenario.submit(an_application(name, queue=queue, user=user, groups=("dev",)))
    return effects + scenario.ask(*(an_ask(f"{name}{index}", app=name) for index in range(asks)))


def running(scenario: Scenario, *paths: str) -> list[int]:
    return [scenario.partition.queues.by_path[QueuePath(path)].running for path in paths]


def noted(scenario: Scenario) -> list[tuple[str, str]]:
    """Records of running applications since the last call: (application, detail)."""
    found = [(e.subject, str(e.detail)) for e in scenario.records if e.detail in _MAY_RUN]
    scenario.records.clear()
    return found


def test_an_application_over_max_applications_waits_in_accepted_with_a_reason() -> None:
    scenario = Scenario(a_configuration(a_queue("a", max_applications=1)), nodes=4)
    start(scenario, "x")
    effects = start(scenario, "y", asks=2)
    assert states(effects, "y") == ["Accepted"]
    reason = "queue root.a is running 1 of at most 1 application"
    assert waits(effects) == {"y0": ("SKIPPED", reason), "y1": ("SKIPPED", reason)}
    assert noted(scenario) == [("y", "APP_CANNOTRUN_QUEUE")]


def test_a_change_of_runnable_state_is_recorded_once() -> None:
    scenario = Scenario(a_configuration(a_queue("a", max_applications=1)), nodes=4)
    start(scenario, "x")
    start(scenario, "y")
    scenario.ask(an_ask("more", app="y"))
    scenario.release("x0", "x")
    assert noted(scenario) == [("y", "APP_CANNOTRUN_QUEUE"), ("y", "APP_RUNNABLE_QUEUE")]


def test_a_completing_application_lets_the_next_one_start() -> None:
    scenario = Scenario(a_configuration(a_queue("a", max_applications=2)), nodes=4)
    for name in ("x", "y", "z", "w"):
        start(scenario, name)
    effects = scenario.release("y0", "y")
    assert (states(effects, "y"), states(effects, "z"), states(effects, "w")) == (["Completing"], ["Running"], [])
    assert running(scenario, "root.a", "root") == [2, 2]


def test_a_running_application_may_grow_at_max_applications() -> None:
    scenario = Scenario(a_configuration(a_queue("a", max_applications=1)), nodes=4)
    start(scenario, "x")
    start(scenario, "y")
    assert placed(scenario.ask(an_ask("more", app="x"))).keys() == {"more"}


def test_every_queue_of_the_path_counts() -> None:
    tree = a_queue("p", a_queue("a", max_applications=2), a_queue("b", max_applications=2), max_applications=3)
    scenario = Scenario(a_configuration(tree), nodes=8)
    for name, leaf in (("a0", "a"), ("a1", "a"), ("a2", "a"), ("b0", "b"), ("b1", "b")):
        start(scenario, name, queue=f"root.p.{leaf}")
    assert running(scenario, "root.p.a", "root.p.b", "root.p", "root") == [2, 1, 3, 3]
    effects = scenario.release("b00", "b0")
    assert [name for name in ("a2", "b1") if states(effects, name) == ["Running"]] == ["b1"]


def test_a_gang_counts_from_when_it_starts_to_reserve() -> None:
    scenario = Scenario(a_configuration(a_queue("a", max_applications=1)), nodes=1, vcore=500)
    scenario.gang(an_application("gang", gang=2), 2)
    assert running(scenario, "root.a") == [1]
    effects = start(scenario, "y")
    assert waits(effects)["y0"][1].startswith("queue root.a is running 1")
    scenario.remove("gang")
    assert placed(scenario.add_node("n1", vcore=1000)).keys() == {"y0"}


def test_a_gang_that_may_not_start_reserves_no_quota() -> None:
    scenario = Scenario(a_configuration(a_queue("a", max_applications=1)), nodes=4)
    start(scenario, "x")
    effects = scenario.gang(an_application("gang", gang=2), 2)
    assert (placed(effects), bool(scenario.app("gang").gang.quota_reservation)) == ({}, False)
    assert states(scenario.release("x0", "x"), "gang") == ["Running"]


def test_a_user_and_a_group_have_their_own_counts() -> None:
    limits = (a_limit(users=("kim",), applications=1), a_limit(groups=("dev",), applications=2))
    scenario = Scenario(a_configuration(a_queue("a", limits=limits)), nodes=8)
    start(scenario, "k0", user="kim")
    second = start(scenario, "k1", user="kim")
    start(scenario, "l0", user="lee")
    third = start(scenario, "l1", user="lee")
    assert waits(second)["k10"][1] == "user kim in queue root.a is running 1 of at most 1 application"
    assert waits(third)["l10"][1] == "group dev in queue root.a is running 2 of at most 2 applications"
    assert noted(scenario) == [("k1", "APP_CANNOTRUN_QUOTA"), ("l1", "APP_CANNOTRUN_QUOTA")]
    effects = scenario.release("k00", "k0")
    assert states(effects, "k1") == ["Running"]
    assert noted(scenario) == [("k1", "APP_RUNNABLE_QUOTA")]


def test_a_reload_changes_max_applications_without_stopping_any() -> None:
    def sized(count: int) -> ConfigurationReplaced:
        return ConfigurationReplaced(RM, a_configuration(a_queue("a", max_applications=count)))

    scenario = Scenario(sized(1).configuration, nodes=8)
    for name in ("x", "y", "z"):
        start(scenario, name)
    assert states(scenario.send(sized(2)), "y") == ["Running"]
    scenario.send(sized(1))
    assert running(scenario, "root.a") == [2]
    assert states(scenario.release("x0", "x"), "z") == []
    assert states(scenario.release("y0", "y"), "z") == ["Running"]


def test_a_lowered_max_applications_limits_gangs_without_reservations() -> None:
    scenario = Scenario(a_configuration(a_queue("a", max_applications=3, vcore=90_000)))
    scenario.add_full_node(vcore=10_000)
    for name in ("x", "y", "z"):
        scenario.gang(an_application(name, gang=2), 2)
    assert running(scenario, "root.a") == [3]
    scenario.reload(a_configuration(a_queue("a", max_applications=1)))
    effects = scenario.add_node("large", vcore=20_000) + scenario.wait(30)
    assert [name for name in ("x", "y", "z") if states(effects, name) == ["Running"]] == ["x"]
    assert states(scenario.remove("x") + scenario.wait(30), "y") == ["Running"]


def test_applications_that_had_pods_are_counted_when_they_are_reported_again() -> None:
    scenario = Scenario(a_configuration(a_queue("a", max_applications=1)))
    for name in ("x", "y"):
        scenario.submit(an_application(name, forced=True))
    scenario.add_node("n0", an_allocation("x0", "n0", app="x"), an_allocation("y0", "n0", app="y"))
    assert running(scenario, "root.a") == [2]
    assert states(start(scenario, "z"), "z") == ["Accepted"]
    scenario.release("x0", "x")
    assert states(scenario.release("y0", "y"), "z") == ["Running"]


def test_an_application_that_exceeds_its_run_time_lets_the_next_one_start() -> None:
    scenario = Scenario(a_configuration(a_queue("a", max_applications=1)), nodes=4)
    scenario.submit(an_application("x", timeout_s=60), an_ask("x0"))
    start(scenario, "y")
    assert states(scenario.wait(61), "x") == ["Failing"]
    assert states(scenario.release("x0", "x"), "x") == ["Failed"]
    assert scenario.app("y").state == "Running"


# -- With steady demand the shares of queues converge to their guarantees, for any order of allocations and
# releases. A simulation: applications request continuously, allocations end at random (seeded), and freed resources
# are allocated by the core.

_PLACES = 120


class Economy:
    """A full cluster with slots of one core, and queues that always request more."""

    def __init__(self, *queues: QueueConfig, sizes: dict[str, tuple[int, ...]], seed: int = 7) -> None:
        self.scenario = Scenario(a_configuration(*queues))
        self.random = Random(seed)
        self.sizes = sizes
        self.number = 0
        self.held: list[tuple[str, AllocationKey, AllocationId]] = []
        for queue in sizes:
            self.send(ApplicationAdded(an_application(queue, queue=f"root.{queue}", created_s=1)))
        self.send(NodeAdded(a_node("n", _PLACES * 1000, pods=10_000)))

    def send(self, *events: Event) -> None:
        effects: list[Effect] = []
        for event in events:
            effects += step(self.scenario.scheduler_state, event, self.scenario.now_ns)
        effects += cycle(self.scenario.scheduler_state, self.scenario.now_ns, lambda: True).effects
        answers = (effect for effect in effects if isinstance(effect, AllocationResponse))
        self.held += [(new.ask.application, new.ask.key, new.id) for answer in answers for new in answer.new]

    def demand(self, queue: str, count: int) -> list[Event]:
        """Asks of the queue's sizes in cores."""
        asks: list[Event] = []
        for _ in range(count):
            self.number += 1
            cores = self.random.choice(self.sizes[queue])
            asks.append(AskAdded(an_ask(f"{queue}-{self.number}", app=queue, vcore=cores * 1000)))
        return asks

    def turn_over(self, rounds: int, at_once: int = 6) -> None:
        """In each round a few allocations end, and every queue requests as much again."""
        for _ in range(rounds):
            ended: list[Event] = []
            for _ in range(min(at_once, len(self.held))):
                app, key, identity = self.held.pop(self.random.randrange(len(self.held)))
                ended.append(
                    AllocationReleased(PARTITION, ApplicationId(app), key, identity, Termination.STOPPED_BY_RM)
                )
            wishes = [event for queue in self.sizes for event in self.demand(queue, self._missing(queue))]
            self.send(*wishes, *ended)

    def _missing(self, queue: str) -> int:
        return max(20 - len(self.scenario.app(queue).asks), 0)

    def cores(self, queue: str) -> float:
        return self.scenario.partition.queues.by_path[QueuePath(f"root.{queue}")].allocated["vcore"] / 1000


def test_shares_converge_to_the_guarantees_from_an_unfair_start() -> None:
    guarantees = {"a": 60, "b": 40, "c": 20}
    queues = [a_queue(name, guaranteed=cores * 1000) for name, cores in guarantees.items()]
    economy = Economy(*queues, sizes=dict.fromkeys(guarantees, (1,)))
    economy.send(*economy.demand("c", _PLACES))
    assert economy.cores("c") == _PLACES
    economy.turn_over(120)
    for name, cores in guarantees.items():
        assert abs(economy.cores(name) - cores) <= 2, (name, economy.cores(name))


def test_resources_beyond_the_guarantees_are_shared_in_proportion() -> None:
    guarantees = {"a": 30, "b": 10}
    queues = [a_queue(name, guaranteed=cores * 1000) for name, cores in guarantees.items()]
    economy = Economy(*queues, sizes=dict.fromkeys(guarantees, (1, 2, 3)))
    economy.turn_over(150)
    assert abs(economy.cores("a") - 90) <= 6
    assert abs(economy.cores("b") - 30) <= 6


def test_every_level_is_fair_and_unused_shares_go_to_siblings() -> None:
    team = a_queue("team", a_queue("x", guaranteed=30_000), a_queue("y", guaranteed=10_000), guaranteed=80_000)
    economy = Economy(
        a_queue("org", team, a_queue("solo", guaranteed=40_000), guaranteed=120_000),
        sizes={"org.team.x": (1,), "org.team.y": (1, 2), "org.solo": (2,)},
    )
    economy.turn_over(150)
    assert abs(economy.cores("org.team") - 80) <= 4
    assert abs(economy.cores("org.team.x") - 60) <= 5
    assert abs(economy.cores("org.solo") - 40) <= 4
    economy.sizes = {name: sizes for name, sizes in economy.sizes.items() if name != "org.team.x"}
    economy.turn_over(150)
    assert economy.cores("org.team.x") <= 25  # it asks no more, and what ends there
    assert abs(economy.cores("org.team") - 80) <= 6  # its sibling gets


def test_queues_without_guarantee_share_the_cluster_evenly() -> None:
    economy = Economy(a_queue("a"), a_queue("b"), a_queue("c"), sizes={"a": (1,), "b": (2,), "c": (4,)})
    economy.turn_over(150)
    for name in ("a", "b", "c"):
        assert abs(economy.cores(name) - 40) <= 5, (name, economy.cores(name))


def test_queues_without_guarantee_share_in_proportion_to_their_maximum() -> None:
    economy = Economy(a_queue("a", vcore=80_000), a_queue("b", vcore=160_000), sizes={"a": (1,), "b": (1,)})
    economy.turn_over(150)
    assert abs(economy.cores("a") - 40) <= 3
    assert abs(economy.cores("b") - 80) <= 3


def test_one_pass_over_many_free_resources_keeps_the_shares() -> None:
    """Many requests on an empty cluster: attempts are long, but no queue gets far more than the others."""
    queues = [a_queue(name, guaranteed=cores) for name, cores in (("a", 60_000), ("b", 40_000), ("c", 20_000))]
    scenario = Scenario(a_configuration(*queues))
    for name in ("a", "b", "c"):
        step(scenario.scheduler_state, ApplicationAdded(an_application(name, queue=f"root.{name}")), scenario.now_ns)
        for index in range(200):
            step(scenario.scheduler_state, AskAdded(an_ask(f"{name}{index}", app=name)), scenario.now_ns)
    step(scenario.scheduler_state, NodeAdded(a_node("n", 24_000, pods=1000)), scenario.now_ns)
    cycle(scenario.scheduler_state, scenario.now_ns, lambda: True)
    cores = [scenario.partition.queues.by_path[QueuePath(f"root.{name}")].allocated["vcore"] // 1000 for name in "abc"]
    assert sum(cores) == 24
    assert all(abs(got - due) <= 1 for got, due in zip(cores, (12, 8, 4), strict=True)), cores


# -- After any changes of queues and applications, the tree without applications equals that of a fresh start.


def _leaf(name: str, vcore: int = 9000) -> QueueConfig:
    return QueueConfig(name, max=Limit({"vcore": vcore}))


def _parent(name: str, *children: QueueConfig) -> QueueConfig:
    return QueueConfig(name, parent=True, children=children)


#: Over few names, so that each change meets queues that are there.
FORESTS: tuple[tuple[QueueConfig, ...], ...] = (
    (),
    (_leaf("a"),),
    (_leaf("a", 1000), _parent("b")),
    (_parent("a"), _leaf("b")),
    (_parent("a", _leaf("a"), _leaf("b", 0)),),
    (_parent("a", _parent("a", _leaf("b")), _parent("b")),),
)
PATHS = ("root.a", "root.b", "root.a.a", "root.a.b", "root.a.a.b", "root.a.b.a")
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("reload"), st.integers(0, len(FORESTS) - 1)),
        st.tuples(st.just("submit"), st.integers(0, len(PATHS) - 1)),
        st.tuples(st.just("demand"), st.integers(0, len(PATHS) - 1)),
        st.tuples(st.just("end"), st.integers(0, 9)),
    ),
    min_size=4,
    max_size=16,
)


def shape(tree: QueueTree) -> dict[str, tuple[object, ...]]:
    return {
        path: (queue.is_leaf, queue.managed, queue.state, queue.wanted, queue.max)
        for path, queue in tree.by_path.items()
    }


def _submit(scenario: Scenario, name: str, path: str, *, demand: bool) -> bool:
    """Submit an application with a request, and return whether it got a queue."""
    tags = {"namespace": path} if demand else {}
    spec = replace(an_application(name, queue="" if demand else path), tags=tags)
    if rejection(scenario.submit(spec)):
        return False
    queue = scenario.app(name).queue
    assert queue.is_leaf
    assert queue.state is QueueState.ACTIVE
    got = placed(scenario.ask(an_ask(f"{name}-r", app=name)))
    assert bool(got) == all(above.max.allows(above.allocated + scenario.app(name).pending) for above in queue.path_up)
    return True


@given(first=st.sampled_from(FORESTS), steps=STEPS)
@settings(max_examples=50, deadline=None)
def test_the_queue_tree_equals_a_fresh_one_after_all_applications_are_removed(
    first: tuple[QueueConfig, ...], steps: list[tuple[str, int]]
) -> None:
    scenario = Scenario(a_configuration(*first), nodes=1, vcore=100_000)
    last = first
    alive: list[str] = []
    for number, (kind, value) in enumerate(steps):
        if kind == "reload":
            last = FORESTS[value]
            scenario.reload(a_configuration(*last))
        elif kind == "end" and alive:
            scenario.remove(alive.pop(value % len(alive)))
        elif kind != "end" and _submit(scenario, f"app{number}", PATHS[value % len(PATHS)], demand=kind == "demand"):
            alive.append(f"app{number}")
        assert {app.id for app in scenario.partition.applications.values() if not app.removed} == set(alive)
    for name in alive:
        scenario.remove(name)
    scenario.wait(31)
    [partition] = a_configuration(*last).partitions
    assert shape(scenario.partition.queues) == shape(new_tree(partition.root))
