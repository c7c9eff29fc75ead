"""Resource names that users invent: memory grows with the names that their pods have, and no event costs more.

A name is invented if no node offers it. Sizes are bytes that Python and NumPy allocate, so no time is measured.
"""

import tracemalloc
from collections.abc import Iterable
from dataclasses import replace

import pytest

from muster_core.model.config import Configuration
from muster_core.model.events import (
    AllocationReleased,
    AllocationReported,
    ApplicationAdded,
    AskAdded,
    Event,
    NodeAdded,
    NodeUpdated,
)
from muster_core.model.ids import AllocationKey, ApplicationId, QueuePath, TaskGroup, Termination
from muster_core.model.limits import RESOURCE_NAMES
from muster_core.model.resources import Resources
from muster_core.model.specs import AskSpec
from muster_core.scheduling.scheduler import cycle, step
from tests.unit.builders import PARTITION, a_configuration, a_node, a_queue, an_allocation, an_application, an_ask
from tests.unit.core.scheduling.scenario import Scenario, placed

_FEW, _MANY = 64, 512
_NAMES = 20
_KIB = 1024


class Measured(Scenario):
    """A scenario without checks of the state, which would allocate more than what is measured."""

    def _check(self) -> None:
        """Checks nothing."""

    def bytes_of(self, *events: Event) -> tuple[int, int]:
        """Sends events. Returns how many new bytes they have left, and the most there were at one time."""
        tracemalloc.start()
        try:
            for event in events:
                step(self.scheduler_state, event, self.now_ns)
            cycle(self.scheduler_state, self.now_ns, lambda: True)
            left, most = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        return left, most


def inventing(number: int, vcore: int = 1000) -> AskSpec:
    """Return a request with resource names of its own."""
    ask = an_ask(f"k{number}", app=f"a{number}", vcore=vcore)
    invented = {f"example.com/r{number}-{index}": 1 for index in range(_NAMES)}
    return replace(ask, resources=Resources({**dict(ask.resources.items()), **invented}))


def submitted(numbers: Iterable[int], vcore: int = 1000) -> list[Event]:
    found: list[Event] = []
    for number in numbers:
        found.append(ApplicationAdded(an_application(f"a{number}", queue="root.a")))
        found.append(AskAdded(inventing(number, vcore)))
    return found


def submitted_gangs(count: int) -> list[Event]:
    """Return gangs that reserve quota."""
    found: list[Event] = []
    for number in range(count):
        ask = replace(inventing(number), group=TaskGroup("workers"), placeholder=True)
        found.append(ApplicationAdded(an_application(f"a{number}", queue="root.a", gang=1, each=ask.resources)))
        found.append(AskAdded(ask))
    return found


def configuration(most: int | None) -> Configuration:
    return a_configuration(a_queue("a", vcore=most), a_queue("b"))


def cluster(count: int, most: int | None) -> tuple[Measured, int]:
    """Return a cluster in which `count` such requests wait, and how many bytes each of them takes."""
    scenario = Measured(configuration(most), nodes=2)
    scenario.submit(an_application("x", queue="root.b"))
    left, _ = scenario.bytes_of(*submitted(range(count), vcore=1000 if most is None else most + 1))
    return scenario, left // count


_WAITING = pytest.mark.parametrize("most", [None, 500], ids=["for nodes", "for quota"])


@_WAITING
def test_memory_grows_with_the_invented_names_and_not_with_pods_times_names(most: int | None) -> None:
    _, few = cluster(_FEW, most)
    _, many = cluster(_MANY, most)
    assert many < 1.5 * few


@_WAITING
def test_an_event_copies_nothing_of_what_other_users_invented(most: int | None) -> None:
    needed: list[int] = []
    for count in (_FEW, _MANY):
        scenario, _ = cluster(count, most)
        ended = AllocationReleased(PARTITION, ApplicationId("x"), AllocationKey("p"), None, Termination.STOPPED_BY_RM)
        scenario.bytes_of(AskAdded(an_ask("p", app="x")))
        needed.append(scenario.bytes_of(AskAdded(an_ask("q", app="x")), ended)[1])
    assert needed[1] < needed[0] + 16 * _KIB


def test_a_gang_copies_nothing_of_the_quota_that_others_reserve() -> None:
    needed: list[int] = []
    for count in (_FEW, _MANY):
        scenario = Measured(configuration(None), nodes=2)
        scenario.bytes_of(*submitted_gangs(count))
        assert scenario.partition.queues.root.reserved_quota
        gang = ApplicationAdded(an_application("x", queue="root.b", gang=1))
        needed.append(scenario.bytes_of(gang, AskAdded(an_ask("p", app="x", group="workers", placeholder=True)))[1])
    assert needed[1] < needed[0] + 64 * _KIB


def test_a_request_for_a_resource_is_placed_when_the_first_node_offers_it() -> None:
    scenario = Scenario(configuration(None), nodes=2)
    names = Resources({"example.com/a": 1, "example.com/b": 1})
    scenario.submit(an_application("x", queue="root.b"))
    assert placed(scenario.ask(replace(an_ask("k", app="x"), resources=names))) == {}
    node = a_node("n0")
    with_a = replace(node, capacity=node.capacity + Resources({"example.com/a": 2}))
    assert placed(scenario.send(NodeUpdated(with_a))) == {}
    with_both = replace(node, capacity=with_a.capacity + Resources({"example.com/b": 2}))
    assert placed(scenario.send(NodeUpdated(with_both))) == {"k": "n0"}


def reported(number: int) -> AllocationReported:
    """Return a pod that another scheduler has bound to a node without its resources."""
    return AllocationReported(
        replace(an_allocation(f"f{number}", "n0", foreign=True, vcore=0), resources=inventing(number).resources)
    )


def test_bound_pods_with_invented_resources_take_no_memory_per_node() -> None:
    taken: list[int] = []
    for nodes in (16, 1024):
        scenario = Measured(configuration(None))
        scenario.send(*(NodeAdded(a_node(f"n{number}")) for number in range(nodes)))
        taken.append(scenario.bytes_of(*(reported(number) for number in range(16)))[0])
    assert taken[1] < taken[0] + 64 * _KIB


def test_amounts_of_bound_pods_count_when_their_node_offers_the_resource_later() -> None:
    scenario = Scenario(configuration(None), nodes=2)
    scenario.send(ApplicationAdded(an_application("x", queue="root.b")), reported(0))
    name = f"example.com/r0-{_NAMES - 1}"
    assert placed(scenario.ask(replace(an_ask("k", app="x"), resources=Resources({name: 1})))) == {}
    node = a_node("n0")
    for amount, found in ((1, {}), (2, {"k": "n0"})):
        offering = replace(node, capacity=node.capacity + Resources({name: amount}))
        assert placed(scenario.send(NodeUpdated(offering))) == found


def test_the_shown_pending_amount_has_all_offered_names_and_a_bounded_number_of_invented_ones() -> None:
    scenario = Scenario(a_configuration(a_queue("a")), nodes=1)
    for number in range(_FEW):
        scenario.send(ApplicationAdded(an_application(f"a{number}")), AskAdded(inventing(number)))
    partition = scenario.partition
    shown = dict(partition.shown_pending(partition.queues.by_path[QueuePath("root.a")]).items())
    offered = shown.keys() & {*partition.nodes.capacity_total}
    assert shown["vcore"] == _FEW * 1000
    assert len(shown.keys() - offered) == RESOURCE_NAMES < _FEW * _NAMES
