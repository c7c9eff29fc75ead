"""The first gang takes over reservations of later gangs if they cover everything that it is missing."""

from dataclasses import replace

import pytest

from muster_core.model.config import Configuration, QueueConfig
from muster_core.model.constraints import Constraints
from muster_core.model.decisions import Decision, PlaceholderReplacement, Placement, Preemption
from muster_core.model.effects import Effect
from muster_core.model.errors import BrokenDecision
from muster_core.model.events import (
    ApplicationAdded,
    ApplicationRemoved,
    AskAdded,
    AskReleased,
    NodeAction,
    NodeAdded,
    TimerKind,
)
from muster_core.model.ids import AllocationKey, ApplicationId, NodeId, TaskGroup, Termination
from muster_core.model.resources import NOTHING, Resources
from muster_core.model.specs import GangPlacement, Member
from muster_core.scheduling.commit import commit
from muster_core.scheduling.scheduler import CycleResult, cycle, step
from tests.unit.builders import (
    PARTITION,
    a_configuration,
    a_limit,
    a_node,
    a_queue,
    an_allocation,
    an_application,
    an_ask,
    resources,
)
from tests.unit.core.scheduling.preemption_scenario import confirm, offset, pods, run, victims, with_preemption
from tests.unit.core.scheduling.scenario import Scenario, placed, states, waits

TWO = a_configuration(a_queue("a"), a_queue("b"))


def contested(configuration: Configuration = TWO, *, later: int = 3, of: int = 5) -> Scenario:
    """One node of 4 cores, of which the gang `later` of leaf b holds a part; another node is full."""
    scenario = Scenario(configuration, nodes=1)
    scenario.add_full_node(vcore=10_000)
    add(scenario, "later", later, of=of, queue="root.b", created_s=20)
    return scenario


def add(  # long: each has a default
    scenario: Scenario,
    name: str,
    members: int,
    *,
    of: int = 0,
    queue: str = "root.a",
    created_s: int = 10,
    placement: GangPlacement = GangPlacement.RESERVE,
    priority: int = 0,
    user: str = "kim",
    timeout_s: int = 0,
    each: Resources | None = None,
) -> list[Effect]:
    """Submit a gang of `of` members, with requests for some of them."""
    spec = an_application(
        name,
        queue=queue,
        gang=of or members,
        created_s=created_s,
        placement=placement,
        user=user,
        timeout_s=timeout_s,
        each=each,
    )
    added = ApplicationAdded(spec)
    vcore = spec.members[0].resources["vcore"]
    asks = [
        an_ask(f"{name}-p{index}", app=name, vcore=vcore, group="workers", placeholder=True, priority=priority)
        for index in range(members)
    ]
    if spec.uses_virtual_placeholders:  # the first member is there
        first = replace(asks[0], key=AllocationKey(f"{name}-r0"), placeholder=False)
        asks = [first, *(asks[1:] if spec.is_auto else ())]
    return [*scenario.send(added), *scenario.ask(*asks)]


def cores(scenario: Scenario, name: str) -> int:
    """What the gang reserves."""
    return scenario.app(name).gang.reserved["vcore"] // 1000


@pytest.mark.parametrize("placement", list(GangPlacement))
def test_the_first_gang_takes_over_no_more_than_it_is_missing(placement: GangPlacement) -> None:
    scenario = contested()
    effects = add(scenario, "first", 3, placement=placement)
    assert victims(effects) == {"later-p1", "later-p2"} or len(victims(effects)) == 2
    assert cores(scenario, "later") == 1
    assert states(confirm(scenario, effects), "first") == ["Running"]


def test_a_gang_takes_over_nothing_unless_that_completes_it() -> None:
    scenario = contested()
    effects = add(scenario, "first", 5)
    assert victims(effects) == set()
    assert (cores(scenario, "first"), cores(scenario, "later")) == (1, 3)


def test_a_later_gang_takes_over_nothing_from_an_earlier_one() -> None:
    scenario = contested()
    assert victims(add(scenario, "last", 3, created_s=30)) == set()
    assert cores(scenario, "later") == 3


def test_a_higher_priority_goes_before_an_earlier_creation() -> None:
    scenario = contested()
    assert len(victims(add(scenario, "urgent", 3, created_s=30, priority=5))) == 2


def test_a_take_over_compares_priorities_as_seen_from_root() -> None:
    lifted = a_configuration(a_queue("a"), a_queue("b", policies=offset(10)))
    scenario = contested(lifted)
    assert victims(add(scenario, "urgent", 3, priority=5)) == set()
    fenced = a_configuration(a_queue("a", policies=offset(0, fence=True)), a_queue("b"))
    scenario = contested(fenced)
    assert victims(add(scenario, "urgent", 3, created_s=30, priority=5)) == set()


def test_nothing_is_taken_over_from_a_complete_gang() -> None:
    scenario = contested(later=3, of=3)
    assert scenario.app("later").state == "Running"
    assert victims(add(scenario, "first", 3, priority=100)) == set()


def test_no_queue_falls_below_its_guarantee_by_a_take_over() -> None:
    guarded = a_configuration(a_queue("a"), a_queue("b", guaranteed=3000))
    assert victims(add(contested(guarded), "first", 3)) == set()
    guarded = a_configuration(a_queue("a"), a_queue("b", guaranteed=1000))
    assert len(victims(add(contested(guarded), "first", 3))) == 2


def test_a_take_over_affects_the_last_gang_and_as_few_gangs_as_possible() -> None:
    scenario = Scenario(a_configuration(a_queue("a"), *(a_queue(name) for name in "bcd")), nodes=1, vcore=6000)
    scenario.add_full_node(vcore=20_000)
    for position, name in enumerate("bcd"):
        add(scenario, name, 2, of=9, queue=f"root.{name}", created_s=20 + position)
    assert victims(add(scenario, "first", 2)) == {"d-p0", "d-p1"}


def test_taken_over_resources_stay_reserved_until_the_gang_is_placed() -> None:
    scenario = contested()
    effects = add(scenario, "first", 4)
    assert len(victims(effects)) == 3
    scenario.submit(an_application("thief", queue="root.b"))
    done: list[Effect] = []
    for index, key in enumerate(sorted(victims(effects))):
        assert placed(scenario.ask(an_ask(f"t{index}", app="thief", vcore=500))) == {}
        answers = scenario.ask(an_ask(f"again{index}", app="later", group="workers", placeholder=True))
        assert "queued behind gang first" in waits(answers)[f"again{index}"][1]
        done = scenario.release(key, app="later")
    assert {key for key in placed(done) if key.startswith("first")} == {f"first-p{index}" for index in range(1, 4)}
    assert not scenario.app("later").gang.lost_to


def test_quota_of_a_queue_and_a_limit_of_a_user_can_be_taken_over() -> None:
    shared = a_queue("p", a_queue("a"), a_queue("b"), vcore=5000)
    limited = a_queue("p", a_queue("a"), a_queue("b"), limits=(a_limit(users=("*",), vcore=5000),))
    for parent in (shared, limited):
        scenario = Scenario(a_configuration(parent), nodes=1, vcore=20_000)
        run(scenario, "root.p.b", *pods("x", 1))
        add(scenario, "later", 3, of=5, queue="root.p.b", created_s=20)
        effects = add(scenario, "first", 4, queue="root.p.a", timeout_s=60)
        assert len(victims(effects)) == 3
        assert states(confirm(scenario, effects), "first") == ["Running"]


def test_a_quota_reservation_without_placeholders_can_be_taken_over() -> None:
    parent = a_queue("p", a_queue("a"), a_queue("b"), vcore=5000)
    scenario = Scenario(a_configuration(parent), nodes=1, vcore=20_000)
    add(scenario, "later", 1, of=5, queue="root.p.b", created_s=20)
    assert scenario.app("later").gang.granted
    effects = add(scenario, "first", 4, queue="root.p.a")
    assert (victims(effects), states(effects, "first")) == (set(), ["Accepted", "Running"])
    assert (cores(scenario, "later"), scenario.app("later").gang.granted) == (1, False)


def test_a_slot_of_max_applications_can_be_taken_over() -> None:
    parent = a_queue("p", a_queue("a"), a_queue("b"), max_applications=1)
    scenario = Scenario(a_configuration(parent), nodes=1, vcore=20_000)
    add(scenario, "later", 3, of=5, queue="root.p.b", created_s=20)
    effects = add(scenario, "first", 2, queue="root.p.a")
    assert len(victims(effects)) == 3, "a gang that leaves its slot keeps nothing"
    assert states(confirm(scenario, effects), "first") == ["Running"]


def with_one_slot(nodes: int = 1) -> tuple[Scenario, list[Effect]]:
    """The gang `first` takes over the only slot, which `later` has with three placeholders."""
    parent = a_queue("p", a_queue("a"), a_queue("b"), max_applications=1)
    scenario = Scenario(a_configuration(parent), nodes=nodes, vcore=20_000)
    add(scenario, "later", 3, of=5, queue="root.p.b", created_s=20)
    return scenario, add(scenario, "first", 2, queue="root.p.a")


def test_a_gang_that_takes_over_a_slot_starts_when_the_other_is_released() -> None:
    scenario, effects = with_one_slot()
    scenario.wait(200)
    assert cores(scenario, "first") == 0
    assert scenario.app("later").allocations
    assert states(confirm(scenario, effects), "first") == ["Running"]


def test_a_gang_whose_slot_take_over_lost_a_node_starts_after_the_release() -> None:
    scenario, effects = with_one_slot(nodes=2)
    [taken_over] = scenario.partition.contention.open.values()
    scenario.node(next(iter(taken_over.nodes)), NodeAction.DRAIN)
    scenario.wait(30)
    assert cores(scenario, "first") == 0
    assert states(confirm(scenario, effects) + scenario.wait(30), "first") == ["Running"]


def test_a_node_reservation_of_a_later_gang_can_be_taken_over() -> None:
    scenario = Scenario(TWO, nodes=1)
    scenario.add_full_node(vcore=40_000)
    run(scenario, "root.b", *pods("x", 3))
    add(scenario, "later", 2, queue="root.b", created_s=20, each=resources(vcore=3000, pods=1))
    scenario.wait(5)
    assert scenario.partition.reservations
    assert states(add(scenario, "first", 1), "first") == ["Accepted", "Running"]


def test_a_failed_take_over_backs_off_and_is_retried_only_after_a_change() -> None:
    scenario = contested()
    add(scenario, "first", 6)
    gang = scenario.app("first").gang
    scenario.wait(10)  # a node is reserved for it meanwhile
    failures = gang.takeover_failures
    assert failures
    scenario.wait(600)
    assert gang.takeover_failures == failures, "nothing changed"
    for index in range(40):
        scenario.add_full_node(f"more{index}", vcore=10)
        scenario.wait(0.5)
    assert failures < gang.takeover_failures < failures + 8
    timers = [clock for *_, clock in scenario.timers if clock.timer.kind is TimerKind.TAKE_OVER]
    assert len(timers) <= 1


def test_a_gang_without_a_takeover_candidate_takes_over_from_a_later_gang_that_arrives() -> None:
    scenario = Scenario(TWO, nodes=1)
    run(scenario, "root.b", *pods("x", 4))
    add(scenario, "first", 3, placement=GangPlacement.AUTO, created_s=980)
    add(scenario, "later", 4, queue="root.b", created_s=990)
    assert placed(scenario.release("x0", app="b")).keys() == {"later-p0"}
    assert placed(scenario.release("x1", app="b")).keys() == {"later-p1"}
    effects = scenario.release("x2", app="b")
    effects += scenario.wait(60)
    assert victims(effects) == {"later-p0", "later-p1", "later-p2"} or len(victims(effects)) >= 2
    assert states(confirm(scenario, effects), "first") == ["Running"]


def test_unconfirmed_placeholder_releases_end_the_take_over() -> None:
    scenario = contested()
    effects = add(scenario, "first", 3)
    assert len(victims(effects)) == 2
    scenario.wait(151)
    assert not scenario.partition.contention.open
    assert not scenario.app("later").gang.lost_to
    assert cores(scenario, "first") == 1


def test_a_node_that_drains_ends_the_take_over() -> None:
    scenario = contested()
    effects = add(scenario, "first", 3)
    scenario.node("n0", NodeAction.DRAIN)
    assert not scenario.partition.contention.open
    assert scenario.partition.nodes.node_reserved(next(iter(scenario.partition.nodes))) == NOTHING
    assert states(confirm(scenario, effects), "first") == []


@pytest.mark.parametrize("victim", ["first", "later"])
def test_a_gang_that_ends_during_a_take_over_leaves_nothing_reserved(victim: str) -> None:
    scenario = contested()
    effects = add(scenario, "first", 3)
    assert victims(effects)
    done = scenario.remove(victim)
    if victim == "first":
        assert not scenario.partition.contention.open
        confirm(scenario, effects)
        assert cores(scenario, "later") >= 1
    else:
        assert states(done, "first") == ["Running"]
    assert all(not scenario.partition.nodes.node_reserved(node) for node in scenario.partition.nodes)


def test_a_gang_whose_requests_are_released_during_a_take_over_keeps_no_reservation() -> None:
    scenario = contested()
    effects = add(scenario, "first", 3)
    assert len(victims(effects)) == 2
    answers = scenario.ask(an_ask("again", app="later", group="workers", placeholder=True))
    assert "queued behind gang first" in waits(answers)["again"][1]
    scenario.send(AskReleased(PARTITION, ApplicationId("first"), None, Termination.STOPPED_BY_RM))
    assert not scenario.partition.contention.open
    assert not scenario.app("later").gang.lost_to
    confirm(scenario, effects)
    assert not any(scenario.partition.nodes.node_reserved(node) for node in scenario.partition.nodes)
    assert scenario.app("later").gang.reserved["vcore"] >= 2000, "the freed room is free for the later gang"


def test_the_timer_of_a_gang_starts_with_the_take_over() -> None:
    scenario = contested(later=4)
    effects = add(scenario, "first", 3, timeout_s=50)
    assert len(victims(effects)) == 3
    assert not scenario.app("first").gang.reserved
    assert states(scenario.wait(49), "first") == []
    assert states(scenario.wait(2), "first") == ["Resuming", "Accepted"]
    assert not scenario.partition.contention.open


def test_the_key_of_a_gang_is_fixed_with_its_first_request() -> None:
    scenario = contested()
    key = scenario.app("later").gang.key
    scenario.ask(replace(an_ask("later-p9", app="later", group="workers", placeholder=True, priority=9)))
    assert scenario.app("later").gang.key == key


# -- resources of a taking-over gang are allocated to no other --------------------


def promised() -> Scenario:
    """A gang takes over three cores of n0, one of which is free already; the preemption is switched on."""
    scenario = contested(with_preemption(a_queue("a", guaranteed=9000), a_queue("b"), a_queue("c", guaranteed=9000)))
    scenario.add_node("n1", vcore=1000)
    run(scenario, "root.b", *pods("x", 1))
    effects = add(scenario, "first", 4)
    assert len(victims(effects)) == 3
    key = min(victims(effects))
    assert placed(scenario.release(key, app="later")) == {}
    assert scenario.partition.nodes.available(NodeId("n0"))["vcore"] == 1000
    return scenario


def refuses(scenario: Scenario, decision: Decision) -> None:
    node_reserved = scenario.partition.nodes.node_reserved(NodeId("n0"))
    with pytest.raises(BrokenDecision, match="node n0 has"):
        commit(scenario.partition, decision, scenario.now_ns)
    assert scenario.partition.nodes.node_reserved(NodeId("n0")) == node_reserved
    scenario.send()


def test_a_placement_cannot_use_resources_of_a_take_over() -> None:
    scenario = promised()
    assert placed(run(scenario, "root.c", an_ask("t"))) == {}
    place = (AllocationKey("t"), NodeId("n0"))
    refuses(scenario, Placement(PARTITION, ApplicationId("c"), (place,)))


def test_a_replacement_cannot_use_resources_of_a_take_over() -> None:
    scenario = promised()
    scenario.add_node("n2", vcore=1000)
    assert placed(
        scenario.submit(
            an_application("small", queue="root.c", gang=1), an_ask("ph", group="workers", placeholder=True)
        )
    ) == {"ph": "n2"}
    [placeholder] = scenario.app("small").allocations
    elsewhere = Constraints(node_selector=(("only", "here"),))
    scenario.ask(replace(an_ask("real", app="small", group="workers"), constraints=elsewhere))
    key, node = AllocationKey("real"), NodeId("n0")
    refuses(
        scenario, PlaceholderReplacement(PARTITION, ApplicationId("small"), key, placeholder, node, same_node=False)
    )


def test_a_preemption_cannot_use_resources_of_a_take_over() -> None:
    scenario = promised()
    [mine] = scenario.app("b").allocations.values()
    assert mine.node == "n1"
    run(scenario, "root.c", an_ask("t", vcore=500))
    places = ((AllocationKey("t"), NodeId("n0")),)
    refuses(scenario, Preemption(PARTITION, ApplicationId("c"), places, ((ApplicationId("b"), mine.id),)))


# -- the work of a plan --------------------------------------------------------------


def many_losers(count: int = 12) -> Scenario:
    """Gangs of leaf b hold three cores each of nodes that the first gang wants."""
    scenario = Scenario(a_configuration(a_queue("a"), a_queue("b"), a_queue("c")), nodes=count, vcore=3000)
    scenario.add_full_node(vcore=900_000)
    for number in range(count):
        add(scenario, f"later{number:02}", 3, of=9, queue="root.b", created_s=20 + number)
    return scenario


def submit_first(scenario: Scenario, members: int) -> None:
    """Without a cycle: the tests make these themselves."""
    step(
        scenario.scheduler_state, ApplicationAdded(an_application("first", gang=members, created_s=10)), scenario.now_ns
    )
    for index in range(members):
        ask = an_ask(f"first-p{index}", app="first", group="workers", placeholder=True)
        step(scenario.scheduler_state, AskAdded(ask), scenario.now_ns)


def a_short_cycle(scenario: Scenario) -> CycleResult:
    """A cycle with an expired time budget."""
    return cycle(scenario.scheduler_state, scenario.now_ns, lambda: False)


def test_a_take_over_plan_that_exceeds_its_time_continues_in_the_next_cycle() -> None:
    scenario = many_losers()
    submit_first(scenario, 30)
    effects: list[Effect] = []
    cycles = placed_at = 0
    more = True
    while more and cycles < 100:
        if cycles == 3:
            assert scenario.partition.contention.planning
            step(scenario.scheduler_state, ApplicationAdded(an_application("other", queue="root.c")), scenario.now_ns)
            step(scenario.scheduler_state, NodeAdded(a_node("free", 500)), scenario.now_ns)
            step(scenario.scheduler_state, AskAdded(an_ask("pod", app="other", vcore=500)), scenario.now_ns)
        result = a_short_cycle(scenario)
        effects += result.effects
        cycles, more = cycles + 1, result.more
        if placed(result.effects).keys() == {"pod"}:
            placed_at = cycles
    assert len(victims(effects)) == 30
    assert cycles > 5
    assert 3 <= placed_at < cycles
    assert scenario.partition.contention.planning == {}


def test_a_take_over_plan_that_is_invalidated_three_times_runs_to_completion() -> None:
    scenario = many_losers()
    submit_first(scenario, 30)
    for number in range(3):
        for _ in range(2):
            assert a_short_cycle(scenario).more
        step(
            scenario.scheduler_state, NodeAdded(a_node(f"new{number}", 1, labels={"new": str(number)})), scenario.now_ns
        )
    assert not scenario.partition.contention.open
    a_short_cycle(scenario)
    a_short_cycle(scenario)
    assert scenario.partition.contention.open.keys() == {"first"}


def test_a_take_over_whose_victim_is_removed_during_planning_is_planned_again() -> None:
    scenario = many_losers()
    submit_first(scenario, 30)
    while not scenario.partition.contention.planning:
        assert a_short_cycle(scenario).more
    for _ in range(3):
        a_short_cycle(scenario)
    for number in range(12):
        event = ApplicationRemoved(PARTITION, ApplicationId(f"later{number:02}"))
        if number % 4 == 0:
            step(scenario.scheduler_state, event, scenario.now_ns)
    while a_short_cycle(scenario).more:
        pass
    scenario.send()
    assert scenario.partition.void_decisions == 0
    assert scenario.app("first").gang.reserved["vcore"] >= 9000


LEAVES = tuple(a_queue(name) for name in "abc")


@pytest.mark.parametrize(
    "queues",
    [a_queue("p", *LEAVES, vcore=7000), a_queue("p", *LEAVES, limits=(a_limit(users=("*",), vcore=7000),))],
    ids=["maximum of the queue", "limit of the user"],
)
def test_a_takeover_keeps_the_granted_reservation_of_a_third_gang(
    queues: QueueConfig,
) -> None:
    """The victims count towards the maximum, and so does the quota reserved for the gang that gets theirs."""
    scenario = Scenario(a_configuration(queues), nodes=1)
    scenario.add_full_node(vcore=10_000)
    special = Constraints(node_selector=(("kind", "special"),))
    room_for_one = replace(a_node("n1", 2000), labels={"kind": "special"})
    taken = an_allocation("foreign", "n1", vcore=1000, foreign=True)
    scenario.send(NodeAdded(room_for_one, existing=(taken,)))
    scenario.gang(an_application("third", queue="root.p.c", gang=2, created_s=5), 2, special)
    add(scenario, "later", 3, of=5, queue="root.p.b", created_s=20)
    assert scenario.app("third").gang.granted
    assert len(scenario.app("later").allocations) == 3
    effects = add(scenario, "first", 4, queue="root.p.a", placement=GangPlacement.AUTO)
    assert len(victims(effects)) == 3
    effects += scenario.send(NodeAdded(replace(a_node("n2", 1000), labels={"kind": "special"})))
    assert states(effects, "third") == ["Running"]
    assert states(confirm(scenario, effects), "first") == ["Running"]


def test_the_key_of_a_gang_does_not_depend_on_which_member_arrives_first() -> None:
    """After a restart, requests may arrive in another order."""
    each, priorities = resources(vcore=3000, pods=1), {"driver": 5, "workers": 1}
    members = tuple(Member(TaskGroup(group), 1, each, priority=priority) for group, priority in priorities.items())
    keys = []
    for order in (priorities, reversed(priorities)):
        scenario = Scenario(TWO, nodes=1)
        gang = an_application(gang=2, created_s=10, placement=GangPlacement.AUTO)
        scenario.submit(replace(gang, members=members, placeholder_ask=each.times(2)))
        scenario.ask(*(an_ask(group, group=group, vcore=3000, priority=priorities[group]) for group in order))
        keys.append(scenario.app().gang.key)
    assert keys[0] is not None
    assert keys[0] == keys[1]
