"""An event requeues only the applications that it may have made schedulable."""

from __future__ import annotations

from muster_core.model.config import QueueConfig
from muster_core.model.constraints import ANYWHERE, Constraints
from muster_core.model.events import (
    AllocationReleased,
    ApplicationAdded,
    AskAdded,
    Event,
    NodeAdded,
    NodeUpdated,
)
from muster_core.model.ids import AllocationKey, ApplicationId, Termination
from muster_core.model.specs import GangPlacement
from muster_core.scheduling import requeue
from muster_core.scheduling.scheduler import CyclePhase, cycle, step
from tests.unit.builders import PARTITION, a_configuration, a_limit, a_node, a_queue, an_application, an_ask
from tests.unit.core.scheduling.scenario import Scenario, placed

_LEAVES = 8
_SSD = Constraints(node_selector=(("disk", "ssd"),))


def full_cluster(*queues: QueueConfig, nodes: int = 4, constraints: Constraints = ANYWHERE) -> Scenario:
    """16 cores of one application; in each of eight leaves five applications of as many users wait for one core."""
    leaves = queues or tuple(a_queue(f"q{index}") for index in range(_LEAVES))
    scenario = Scenario(a_configuration(*leaves), nodes=nodes)
    scenario.send(ApplicationAdded(an_application("busy", queue="root.q0")))
    scenario.ask(*(an_ask(f"b{index}", app="busy") for index in range(16)))
    for index in range(_LEAVES * 5):
        name = f"app{index}"
        spec = an_application(name, queue=f"root.q{index % _LEAVES}", user=f"user{index // _LEAVES}")
        scenario.send(ApplicationAdded(spec), AskAdded(an_ask(name, app=name, constraints=constraints)))
    return scenario


def tried(scenario: Scenario, *events: Event) -> tuple[int, int]:
    """Number of applications that were tried after the events, and of allocated requests."""
    effects = [effect for event in events for effect in step(scenario.scheduler_state, event, scenario.now_ns)]
    steps: list[CyclePhase] = []
    effects += cycle(scenario.scheduler_state, scenario.now_ns, lambda: True, steps.append).effects
    return steps.count(CyclePhase.NODE), len(placed(effects))


def opened(scenario: Scenario, *events: Event) -> int:
    """Number of blocking reasons that may no longer apply after the events."""
    for event in events:
        step(scenario.scheduler_state, event, scenario.now_ns)
    requeue.absorb(scenario.partition)
    scenario.partition.scheduling.backoff.begin(scenario.now_ns, has_news=True)
    requeue.open_some(scenario.partition)
    return sum(entry in scenario.partition.scheduling.backoff for _, entry in scenario.partition.blocking_reasons)


def released(key: str) -> AllocationReleased:
    return AllocationReleased(PARTITION, ApplicationId("busy"), AllocationKey(key), None, Termination.STOPPED_BY_RM)


def test_freed_resources_requeue_only_the_application_that_gets_them() -> None:
    assert tried(full_cluster(), released("b3")) == (1, 1)


def test_a_node_too_small_for_all_applications_requeues_none() -> None:
    assert tried(full_cluster(), NodeAdded(a_node("small", 900))) == (0, 0)


def test_an_unsuitable_node_requeues_no_application() -> None:
    scenario = full_cluster(constraints=_SSD)
    assert tried(scenario, NodeAdded(a_node("disk"))) == (0, 0)
    assert tried(scenario, NodeUpdated(a_node("disk", 1000, labels={"disk": "ssd"}))) == (1, 1)


def test_nodes_of_which_none_has_enough_of_all_resources_open_no_blocking_reason() -> None:
    added = NodeAdded(a_node("no-slots", pods=0)), NodeAdded(a_node("no-cores", 500))
    assert opened(full_cluster(), *added) == 0
    assert opened(full_cluster(), *added, NodeAdded(a_node("both", 1000))) == 1


def test_a_node_without_a_requested_label_opens_no_blocking_reason() -> None:
    assert opened(full_cluster(constraints=_SSD), NodeAdded(a_node("disk", labels={"disk": "hdd"}))) == 0
    assert opened(full_cluster(constraints=_SSD), NodeAdded(a_node("disk", labels={"disk": "ssd"}))) == 1


def test_any_number_of_different_requests_is_compared_with_the_nodes() -> None:
    scenario = full_cluster()
    scenario.ask(*(an_ask(f"more{cores}", app="app0", vcore=2000 + cores) for cores in range(70)))
    added = NodeAdded(a_node("no-slots", 8000, pods=0)), NodeAdded(a_node("no-cores", 500))
    assert opened(scenario, *added) == 0


def test_a_new_ask_is_tried_alone() -> None:
    scenario = full_cluster()
    assert tried(scenario, AskAdded(an_ask("more", app="app7"))) == (1, 0)
    assert tried(scenario, AskAdded(an_ask("tiny", app="app7", vcore=0))) == (1, 1)


def test_free_quota_is_tried_by_one_more_application_than_fits() -> None:
    leaves = [a_queue(f"q{index}", vcore=0) for index in range(1, _LEAVES)]
    scenario = full_cluster(a_queue("q0", vcore=16_000), *leaves, nodes=8)
    assert tried(scenario, released("b0")) == (2, 1)
    assert tried(scenario, released("b1"), released("b2")) == (3, 2)


def test_resources_released_by_a_user_requeue_no_other_user() -> None:
    leaves = [a_queue(f"q{index}") for index in range(_LEAVES)]
    scenario = Scenario(a_configuration(*leaves, limits=(a_limit(users=("*",), vcore=1000),)), nodes=8)
    for index in range(_LEAVES * 2):
        name = f"app{index}"
        spec = an_application(name, queue=f"root.q{index % _LEAVES}", user=f"user{index % 4}")
        scenario.send(ApplicationAdded(spec), AskAdded(an_ask(name, app=name)))
    running = [app for app in scenario.partition.applications.values() if app.allocations]
    [first] = [app.id for app in running if app.spec.user == "user2"]
    event = AllocationReleased(PARTITION, first, AllocationKey(first), None, Termination.STOPPED_BY_RM)
    assert tried(scenario, event) == (2, 1)  # the second pod of the user no longer fits


def test_a_gang_placed_at_once_is_tried_only_when_all_members_may_fit() -> None:
    scenario = Scenario(a_configuration(a_queue("a"), a_queue("b")), nodes=2)
    scenario.send(ApplicationAdded(an_application("busy", queue="root.a")))
    scenario.ask(*(an_ask(f"b{index}", app="busy") for index in range(8)))
    for name in ("one", "two"):
        scenario.gang(ApplicationAdded(an_application(name, gang=3, placement=GangPlacement.AUTO)), 3)
    assert tried(scenario, released("b0")) == (0, 0)
    assert tried(scenario, released("b1")) == (0, 0)
    assert tried(scenario, released("b2")) == (2, 3)  # the second attempt places the member that is there


def test_many_nodes_added_together_requeue_all_fitting_applications() -> None:
    scenario = full_cluster()
    nodes = [NodeAdded(a_node(f"new{index}", 1000)) for index in range(60)]
    assert tried(scenario, *nodes)[1] == _LEAVES * 5
