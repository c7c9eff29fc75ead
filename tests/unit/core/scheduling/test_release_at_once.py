"""A placeholder is released at once if its node holds its container and that of the pod that replaces it."""

from dataclasses import dataclass, field, replace
from random import Random  # noqa: TID251 # seeded

import pytest

from muster_core.model.effects import AllocationResponse, Effect, Release
from muster_core.model.events import ApplicationAdded, AskAdded, NodeAction, NodeAdded
from muster_core.model.ids import AllocationId, ApplicationId, NodeId, Termination
from muster_core.model.resources import NOTHING, Resources
from muster_core.model.specs import AskSpec, HostPort, NodeSpec, PodProperties
from muster_core.scheduling.ledger import CONTAINER_ENDS_NS
from muster_core.state.nodes import ReleasedAtOnce
from tests.unit.builders import (
    PARTITION,
    SECOND,
    a_configuration,
    a_queue,
    an_allocation,
    an_application,
    an_ask,
    resources,
)
from tests.unit.core.function_calls import CallCounter
from tests.unit.core.scheduling.scenario import Scenario, placed

REPLACED = Termination.PLACEHOLDER_REPLACED
ENDS_S = CONTAINER_ENDS_NS / SECOND
N0 = NodeId("n0")
#: A member, in each resource that a kubelet need not hand out in parts.
EACH = resources(vcore=1000, memory=1 << 30, pods=1, **{"ephemeral-storage": 1 << 30})


def room_for(pods: int, each: Resources = EACH, spare: Resources = NOTHING) -> NodeSpec:
    """Return a node with room for so many pods, and spare resources."""
    return NodeSpec(PARTITION, N0, each.times(pods) + spare)


def a_member(name: str, each: Resources = EACH, **more: object) -> AskSpec:
    return replace(an_ask(name, group="workers"), resources=each, **more)  # type: ignore[arg-type]  # fields of an ask


def reserved(node: NodeSpec, members: int = 2, each: Resources = EACH, **more: object) -> Scenario:
    """Return a scenario with a complete gang on one node. `more`: fields of the placeholders."""
    scenario = Scenario(a_configuration(a_queue("a")))
    scenario.send(NodeAdded(node), ApplicationAdded(an_application(gang=members, each=each)))
    asks = (replace(a_member(f"p{i}", each, **more), placeholder=True) for i in range(members))
    scenario.send(*(AskAdded(ask) for ask in asks))
    assert scenario.app().state == "Running"
    return scenario


def released(effects: list[Effect]) -> list[Release]:
    answers = [effect for effect in effects if isinstance(effect, AllocationResponse)]
    return [one for answer in answers for one in answer.released if one.termination is REPLACED]


def at_once(effects: list[Effect]) -> dict[str, bool]:
    """Return the replaced placeholders, and whether each was released at once."""
    return {one.key: one.at_once for one in released(effects)}


def test_the_placeholder_of_a_full_node_has_to_end_first() -> None:
    scenario = reserved(room_for(2))
    assert at_once(scenario.ask(a_member("r0"), a_member("r1"))) == {"p0": False, "p1": False}


def test_a_placeholder_is_released_at_once_if_its_node_has_room_for_both() -> None:
    scenario = reserved(room_for(3))
    assert at_once(scenario.ask(a_member("r0"))) == {"p0": True}
    assert placed(scenario.release("p0", why=REPLACED)) == {"r0": "n0"}


@pytest.mark.parametrize("name", [name for name, _ in EACH.items()])
def test_each_resource_has_to_suffice_for_both(name: str) -> None:
    scenario = reserved(room_for(2, spare=EACH - Resources({name: 1})))
    assert at_once(scenario.ask(a_member("r0"))) == {"p0": False}


def test_a_smaller_member_needs_less_room() -> None:
    half = resources(vcore=500, memory=1 << 29, pods=1)
    scenario = reserved(room_for(2, spare=half))
    assert at_once(scenario.ask(a_member("r0", half))) == {"p0": True}


def test_room_for_one_member_is_used_by_one_replacement_at_a_time() -> None:
    scenario = reserved(room_for(4), members=3)
    assert at_once(scenario.ask(*(a_member(f"r{i}") for i in range(3)))) == {"p0": True, "p1": False, "p2": False}


def test_a_container_counts_for_a_while_after_its_pod_is_gone() -> None:
    scenario = reserved(room_for(4), members=3)
    assert at_once(scenario.ask(a_member("r0"))) == {"p0": True}
    scenario.release("p0", why=REPLACED)
    assert at_once(scenario.ask(a_member("r1"))) == {"p1": False}
    scenario.wait(ENDS_S)
    assert at_once(scenario.ask(a_member("r2"))) == {"p2": True}


def test_pods_that_arrived_on_the_node_count() -> None:
    scenario = reserved(room_for(3))
    scenario.report(replace(an_allocation("other", "n0", app="", foreign=True), resources=EACH))
    assert at_once(scenario.ask(a_member("r0"))) == {"p0": False}
    scenario.release("other", app="")
    assert at_once(scenario.ask(a_member("r1"))) == {"p1": True}


@pytest.mark.parametrize("device", ["nvidia.com/gpu", "hugepages-2Mi"])
def test_a_placeholder_with_devices_has_to_end_first(device: str) -> None:
    """The kubelet hands out certain devices, pages and NUMA nodes, which the same container fits again."""
    each = EACH + Resources({device: 1})
    scenario = reserved(room_for(8, each), each=each)
    assert at_once(scenario.ask(a_member("r0", each))) == {"p0": False}


def test_a_placeholder_with_host_ports_has_to_end_first() -> None:
    port = PodProperties(ports=(HostPort("10.0.0.1", "TCP", 80),))
    scenario = reserved(room_for(8), members=1, facts=port)
    assert at_once(scenario.ask(a_member("r0", facts=port))) == {"p0": False}


def test_a_placeholder_on_another_node_is_released_at_once() -> None:
    scenario = reserved(room_for(1), members=1)
    scenario.send(NodeAdded(replace(room_for(1), id=NodeId("n1"))))
    effects = scenario.ask(a_member("r0", avoid=frozenset({N0})))
    assert at_once(effects) == {"p0": True}
    assert placed(scenario.release("p0", why=REPLACED)) == {"r0": "n1"}


def test_a_node_that_returns_has_no_containers_of_before() -> None:
    scenario = reserved(room_for(3))
    scenario.ask(a_member("r0"))
    scenario.node("n0", NodeAction.DECOMMISSION)
    scenario.send(NodeAdded(room_for(3)))
    assert scenario.partition.nodes.record(N0).released_at_once.requests == {}


def test_the_work_of_a_release_does_not_depend_on_the_releases_before_it() -> None:
    def calls(earlier: int) -> int:
        released = ReleasedAtOnce()
        for number in range(earlier):
            released.add((ApplicationId("app"), AllocationId(f"p{number}")), EACH)
        name = ApplicationId("app"), AllocationId("last")
        with CallCounter() as counter:
            released.needed(0)
            released.add(name, EACH)
            released.deleted(name, EACH, 1)
        return counter.calls

    assert calls(1000) == calls(10)


# -- random nodes, members and other pods ---------------------------------------


@dataclass
class Kubelet:
    """What runs on the node: pods that exist, and containers of placeholders that were deleted at once."""

    capacity: Resources
    pods: dict[str, Resources] = field(default_factory=dict)
    #: Members that replace a placeholder at once, by placeholder.
    expected: dict[str, Resources] = field(default_factory=dict)
    #: Containers whose pod is gone, and when they end.
    ending: list[tuple[int, Resources]] = field(default_factory=list)

    def has_room(self, member: Resources, now_ns: int) -> bool:
        ending = [one for until_ns, one in self.ending if until_ns > now_ns]
        used = sum((*self.pods.values(), *self.expected.values(), *ending), NOTHING)
        return self.capacity.covers(used + member)


@pytest.mark.parametrize("first", range(0, 40, 10))
def test_a_placeholder_is_released_at_once_if_and_only_if_both_fit(first: int) -> None:
    """Several at once, with confirmations in any order, and other pods that come and go."""
    assert set().union(*map(answers, range(first, first + 10))) == {True, False}


def answers(seed: int) -> set[bool]:
    """Replace all placeholders of a random gang, and compare each answer with the node. Returns the answers."""
    random = Random(seed)
    members = random.randint(2, 12)
    gib = {"ephemeral-storage": random.randint(0, 4) << 30}
    spare = resources(random.randint(0, 4000), random.randint(0, 4) << 30, random.randint(0, 3), **gib)
    node = room_for(members, spare=spare)
    scenario = reserved(node, members)
    kubelet = Kubelet(node.capacity, {f"p{i}": EACH for i in range(members)})
    waiting = [
        resources(random.choice((300, 1000)), random.choice((1 << 28, 1 << 30)), 1, **{"ephemeral-storage": 1 << 29})
        for _ in range(members)
    ]
    terminating: dict[str, str] = {}
    asked = others = 0
    found: set[bool] = set()
    while asked < members or terminating:
        match random.randrange(5):
            case 0 | 1 if asked < members:
                count = random.randint(1, min(4, members - asked))
                asks = [a_member(f"r{asked + i}", waiting[asked + i]) for i in range(count)]
                asked += count
                for release in released(scenario.ask(*asks)):
                    member = waiting[int(release.message[1:])]
                    assert release.at_once == kubelet.has_room(member, scenario.now_ns), release
                    terminating[release.key] = release.message
                    found.add(release.at_once)
                    if release.at_once:
                        kubelet.expected[release.key] = member
            case 2 if terminating:
                key = random.choice(list(terminating))
                name = terminating.pop(key)
                assert placed(scenario.release(key, why=REPLACED)) == {name: "n0"}
                kubelet.pods[name] = waiting[int(name[1:])]
                gone = kubelet.pods.pop(key)
                if kubelet.expected.pop(key, None) is not None:
                    kubelet.ending.append((scenario.now_ns + CONTAINER_ENDS_NS, gone))
            case 3:
                small = resources(vcore=random.randint(0, 800), memory=1 << 28, pods=1)
                used = sum(kubelet.pods.values(), NOTHING)
                if kubelet.capacity.covers(used + small):
                    others += 1
                    kubelet.pods[f"o{others}"] = small
                    spec = an_allocation(f"o{others}", "n0", app="", foreign=True)
                    scenario.report(replace(spec, resources=small))
            case _:
                scenario.wait(random.choice((0.0, 0.5, 2.5)))
                if others and (name := f"o{random.randint(1, others)}") in kubelet.pods:
                    del kubelet.pods[name]
                    scenario.release(name, app="")
    return found
