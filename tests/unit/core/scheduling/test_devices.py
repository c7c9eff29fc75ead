"""Devices are chosen with a node, held until their claim shows them, and sent; freed ones requeue waiting requests."""

from __future__ import annotations

from dataclasses import replace
from random import Random  # noqa: TID251 - with a fixed seed

import pytest

from muster_core.model.claims import ClaimChoice
from muster_core.model.config import Configuration, QueueConfig
from muster_core.model.decisions import Placement
from muster_core.model.devices import (
    ChosenDevices,
    DeviceAllocation,
    DeviceClaim,
    DeviceClass,
    DeviceFact,
    DeviceId,
    DeviceObject,
    DeviceObjectGone,
)
from muster_core.model.effects import AllocationResponse, Effect
from muster_core.model.errors import BrokenDecision
from muster_core.model.events import ApplicationAdded, AskAdded, ClusterObjectsReported, NodeAdded
from muster_core.model.ids import AllocationKey, NodeId
from muster_core.model.resources import UNLIMITED, Limit, Resources
from muster_core.model.specs import AskSpec, PodProperties
from muster_core.rest.summaries import nodes
from muster_core.rest.views import allocation, node
from muster_core.scheduling.commit import commit
from muster_core.scheduling.device_invariants import broken
from muster_core.state.devices import Devices
from muster_si import keys
from tests.unit.builders import PARTITION, a_configuration, a_node, a_queue, an_allocation, an_application, an_ask
from tests.unit.core.placement.devices.device_clusters import (
    ANY,
    DRIVER,
    EVERYWHERE,
    a_claim,
    a_device,
    a_slice,
    counters,
    got,
    gpus,
    using,
    wanting,
)
from tests.unit.core.scheduling.direct import a_gang, held, member
from tests.unit.core.scheduling.preemption_scenario import confirm, run, victims, with_preemption
from tests.unit.core.scheduling.scenario import Scenario, placed, waits

CANNOT = "cannot allocate all claims"


def send(scenario: Scenario, *facts: DeviceFact) -> list[Effect]:
    return scenario.send(ClusterObjectsReported(PARTITION, facts))


def scenario_with(*facts: DeviceFact, nodes: int = 2, gang: int = 0) -> Scenario:
    """Nodes n0, n1, …, and an application without a gang, or a Direct gang of this size."""
    scenario = Scenario(a_configuration(a_queue("a")))
    for number in range(nodes):
        scenario.add_node(f"n{number}")
    send(scenario, ANY, *facts)
    scenario.send(a_gang(gang) if gang else ApplicationAdded(an_application()))
    return scenario


def pod(key: str, *claims: str, spec: AskSpec | None = None) -> AskSpec:
    return replace(spec or an_ask(key), facts=PodProperties(devices=using(*(claims or (key,)))))


def chosen(effects: list[Effect]) -> dict[str, dict[str, list[str]]]:
    """Devices of new allocations as pool/device: key → claim → devices."""
    answers = [effect for effect in effects if isinstance(effect, AllocationResponse)]
    return {
        new.ask.key: {
            one.claim.removeprefix("ns/"): [f"{r.device.pool}/{r.device.device}" for r in one.allocation.results]
            for one in new.chosen.devices
        }
        for answer in answers
        for new in answer.new
        if new.chosen.devices
    }


def devices(scenario: Scenario) -> Devices:
    return scenario.partition.nodes.pods_on_nodes.devices


def test_an_allocation_reports_the_devices_of_claims_that_have_none_yet() -> None:
    shared = a_claim("shared", allocation=got("n1", "d7"))
    scenario = scenario_with(gpus("n0", 2), gpus("n1", 1), a_claim("new"), shared)
    effects = scenario.ask(pod("a", "new", "shared"), pod("b", "shared"))
    assert placed(effects) == {"a": "n1", "b": "n1"}
    assert chosen(effects) == {"a": {"new": ["n1/d0"]}}


def test_devices_are_held_until_the_claim_shows_them() -> None:
    scenario = scenario_with(gpus("n0", 1), a_claim("a"), a_claim("b"))
    effects = scenario.ask(pod("a"), pod("b"))
    assert chosen(effects) == {"a": {"a": ["n0/d0"]}}
    shortage = "Request gpu needs 1 device of class any: 1 in the class, 0 free."
    assert waits(effects)["b"][1].endswith(f"2 {CANNOT}. {shortage}")
    assert placed(send(scenario, a_claim("a", allocation=got("n0", "d0"), reserved=1))) == {}
    assert (devices(scenario).assumed, len(devices(scenario).used)) == ({}, 1)
    assert placed(scenario.release("a")) == {}, "the claim still has the device"
    assert chosen(send(scenario, a_claim("a"))) == {"b": {"b": ["n0/d0"]}}


def test_the_reported_reason_follows_the_devices() -> None:
    used = a_claim("used", allocation=got("n0", "d0", "d1"))
    scenario = scenario_with(used, a_claim("a"))
    assert "0 in the class, 0 free" in waits(scenario.ask(pod("a")))["a"][1]
    assert "2 in the class, 0 free" in waits(send(scenario, gpus("n0", 2)) + scenario.wait(120))["a"][1]


@pytest.mark.parametrize(
    "resource, on_nodes, sentence",
    [
        ("x.io/gpu", 0, ""),
        ("x.io/gpu", 1, " DeviceClass b is not used while a node itself has x.io/gpu."),
        ("x.io/nic", 1, ""),
        (
            "deviceclass.resource.kubernetes.io/c",
            0,
            " DeviceClass c does not exist, or the setting kubernetes.deviceClaims is off.",
        ),
        ("deviceclass.resource.kubernetes.io/d", 0, ""),
    ],
)
def test_the_reason_says_why_the_class_of_an_extended_resource_is_not_used(
    resource: str, on_nodes: int, sentence: str
) -> None:
    """A pod wants 2; a node without them, and one whose device plugin has so many, which another pod uses."""
    classes = [DeviceClass(name, resource="x.io/gpu") for name in ("d", "b")]
    scenario = scenario_with(*classes, nodes=1)
    own = Resources({resource: on_nodes})
    user = replace(an_allocation("user", "gpus", vcore=1000, foreign=True), resources=own)
    scenario.send(NodeAdded(replace(a_node("gpus"), capacity=a_node("gpus").capacity + own), existing=(user,)))
    ask = an_ask("a")
    reason = waits(scenario.ask(replace(ask, resources=ask.resources + Resources({resource: 2}))))["a"][1]
    assert reason.endswith(f"2 Insufficient {resource}.{sentence}")


def test_a_pod_that_ends_before_its_claim_shows_the_devices_frees_them() -> None:
    scenario = scenario_with(gpus("n0", 1), a_claim("a"), a_claim("b"))
    scenario.ask(pod("a"), pod("b"))
    assert chosen(scenario.release("a")) == {"b": {"b": ["n0/d0"]}}


@pytest.mark.parametrize(
    "fact",
    [
        DeviceObjectGone(DeviceObject.CLAIM, "ns/a"),
        replace(a_claim("a"), uid="another"),
        a_claim("a", allocation=got("n1", "d9")),
    ],
)
def test_held_devices_are_free_when_their_claim_is_gone_or_has_others(fact: DeviceFact) -> None:
    scenario = scenario_with(gpus("n0", 1), a_claim("a"), a_claim("b"))
    scenario.ask(pod("a"), pod("b"))
    assert chosen(send(scenario, fact)) == {"b": {"b": ["n0/d0"]}}


def test_pods_that_share_a_new_claim_all_report_its_devices() -> None:
    scenario = scenario_with(gpus("n0", 1), a_claim("shared"), nodes=3)
    effects = scenario.ask(pod("a", "shared"), pod("b", "shared"))
    assert placed(effects) == {"a": "n0", "b": "n0"}
    assert chosen(effects) == {"a": {"shared": ["n0/d0"]}, "b": {"shared": ["n0/d0"]}}
    later = scenario.ask(pod("c", "shared"))
    assert (placed(later), chosen(later)) == ({"c": "n0"}, {"c": {"shared": ["n0/d0"]}})
    scenario.release("a")
    scenario.release("b")
    assert set(devices(scenario).assumed) == {"ns/shared"}
    scenario.release("c")
    assert not devices(scenario).assumed


@pytest.mark.parametrize("taken", ["d1", "d0"], ids=["counters", "device"])
def test_a_choice_that_others_have_taken_in_part_is_a_conflict(taken: str) -> None:
    halves = replace(gpus("n0", 3, consumes={"memory": 4}), count=2)
    scenario = scenario_with(halves, counters("n0", {"memory": 8}), a_claim("a"), a_claim("b"), a_claim("c"))
    scenario.ask(pod("a"))
    two = tuple(ChosenDevices(f"ns/{one}", f"uid-{one}", got("n0", name)) for one, name in (("b", taken), ("c", "d2")))
    assert devices(scenario).conflict(two[1:]) == ""
    assert "not free" in devices(scenario).conflict(two)


def test_the_sum_of_shares_is_checked_before_they_are_given() -> None:
    scenario = scenario_with(gpus("n0", 1, share_of=8), a_claim("a", wanting(capacity=(("memory", 4),))), a_claim("b"))
    send(scenario, a_claim("c"))
    effects = scenario.ask(pod("a"))
    assert chosen(effects) == {"a": {"a": ["n0/d0"]}}
    two = [ChosenDevices(f"ns/{one}", f"uid-{one}", got("n0", "d0", memory=3)) for one in ("b", "c")]
    assert devices(scenario).conflict(tuple(two[:1])) == ""
    assert "capacity" in devices(scenario).conflict(tuple(two))
    send(scenario, a_claim("a", allocation=got("n0", "d0", memory=4), reserved=1))
    send(scenario, a_claim("b", allocation=two[0].allocation))
    assert devices(scenario).shared[DeviceId(DRIVER, "n0", "d0")] == {"": 2, "memory": 7}
    send(scenario, a_claim("b"))
    scenario.release("a")
    send(scenario, a_claim("a"))
    assert (devices(scenario).shared, devices(scenario).used) == ({}, {})


def test_a_device_is_not_given_as_a_whole_beside_shares() -> None:
    scenario = scenario_with(gpus("n0", 1, share_of=8), a_claim("a"), a_claim("x"), a_claim("y"))
    whole, share = (
        ChosenDevices(f"ns/{one}", f"uid-{one}", got("n0", "d0", memory=of)) for one, of in (("x", None), ("y", 1))
    )
    held = devices(scenario)
    assert ["free any more" in held.conflict(choice) for choice in ((share,), (whole, share))] == [False, True]
    scenario.ask(pod("a"))
    assert "not free" in held.conflict((whole,))
    held.assume(whole)
    assert "device gpu.example.com/n0/d0 is assumed as a whole and in shares" in set(
        broken(held, [using("a"), using("x")])
    )


def test_a_choice_of_a_pool_that_became_invalid_is_a_conflict() -> None:
    halves = replace(gpus("n0", 3, consumes={"memory": 4}), count=2)
    scenario = scenario_with(halves, counters("n0", {"memory": 8}), a_claim("a"), a_claim("b"))
    scenario.ask(pod("a"))
    send(scenario, replace(gpus("n0", 3, consumes={"memory": 4, "gone": 1}), count=2))
    scenario.ask(pod("b"))
    assert "is invalid" in devices(scenario).conflict((ChosenDevices("ns/b", "uid-b", got("n0", "d1")),))


def test_a_decision_is_dropped_if_a_device_is_not_free_any_more() -> None:
    scenario = scenario_with(gpus("n0", 1), a_claim("a"), a_claim("b"), a_claim("x"))
    scenario.ask(pod("x"))
    scenario.send(AskAdded(pod("b")))
    taken = ChosenDevices("ns/b", "uid-b", got("n0", "d0"))
    decision = Placement(
        PARTITION, scenario.app().id, ((AllocationKey("b"), NodeId("n0")),), ClaimChoice(devices=(taken,))
    )
    with pytest.raises(BrokenDecision, match="n0/d0 is not free any more"):
        commit(scenario.partition, decision, scenario.now_ns)


@pytest.mark.parametrize(
    "fact",
    [
        gpus("n1", 1),
        a_slice("late", gpus("n1", 0).reach, a_device("d0")),
        a_claim("b", wanting(count=1)),
        ANY,
    ],
)
def test_a_waiting_pod_is_tried_when_a_device_class_or_claim_appears(fact: DeviceFact) -> None:
    scenario = scenario_with(gpus("n0", 1), *(() if isinstance(fact, DeviceClaim) else (a_claim("b"),)))
    if isinstance(fact, DeviceClass):
        send(scenario, DeviceObjectGone(DeviceObject.CLASS, "any"))
    elif not isinstance(fact, DeviceClaim):
        send(scenario, DeviceObjectGone(DeviceObject.SLICE, "n0"))
    assert placed(scenario.ask(pod("b"))) == {}
    assert set(chosen(send(scenario, fact))) == {"b"}


def test_a_change_of_other_devices_causes_no_attempt() -> None:
    model = f'device.attributes["{DRIVER}"].model == "x"'
    scenario = scenario_with(a_claim("b", wanting(selectors=(model,))))
    scenario.ask(pod("b"))
    send(scenario, gpus("n0", 1, model="y"), a_claim("other"), DeviceClass("else"))
    known = scenario.partition.unschedulable_classes
    assert [known.is_woken(kind) for kind in known] == [False]
    assert set(chosen(send(scenario, gpus("n1", 1, model="x")))) == {"b"}


def test_a_pod_that_was_bound_before_a_restart_keeps_its_devices() -> None:
    scenario = scenario_with(gpus("n0", 1), a_claim("a", allocation=got("n0", "d0"), reserved=1), a_claim("b"))
    facts = PodProperties(devices=using("a"))
    scenario.report(replace(an_allocation("old", "n0"), facts=facts))
    assert placed(scenario.ask(pod("b"))) == {}
    assert not devices(scenario).assumed


@pytest.mark.parametrize("node", ["n0", "n1"])
def test_a_waiting_pod_whose_devices_count_is_tried_when_one_is_free(node: str) -> None:
    scenario = scenario_with(gpus("n0", 1), a_claim("a"), a_claim("b"))
    assert list(placed(scenario.ask(charged("a")))) == ["a"]
    assert placed(scenario.ask(charged("b"))) == {}
    freed = scenario.release("a") if node == "n0" else send(scenario, gpus("n1", 1))
    assert placed(freed) == {"b": node}


def a_member(number: int, *claims: str) -> AskSpec:
    return pod("", *(claims or (f"c{number}",)), spec=member(f"m{number}"))


def test_a_gang_gets_the_devices_of_all_members_in_one_plan_or_none() -> None:
    claims = [a_claim(f"c{number}") for number in range(3)]
    scenario = scenario_with(gpus("n0", 1), gpus("n1", 1), *claims, gang=3)
    effects = scenario.ask(*(a_member(number) for number in range(3)))
    assert (placed(effects), held(scenario), devices(scenario).used) == ({}, 0, {})
    effects = send(scenario, gpus("n1", 2))
    assert sorted(placed(effects)) == ["m0", "m1", "m2"]
    got_devices = [one for claims in chosen(effects).values() for some in claims.values() for one in some]
    assert sorted(got_devices) == ["n0/d0", "n1/d0", "n1/d1"]


def test_a_gang_with_device_claims_waits_for_all_its_members() -> None:
    claims = [a_claim(f"c{number}") for number in range(3)]
    scenario = scenario_with(gpus("n0", 8), *claims, gang=3)
    effects = scenario.ask(*(a_member(number) for number in range(2)))
    assert (placed(effects), held(scenario), devices(scenario).used) == ({}, 0, {})
    assert "2 of 3 exist" in " ".join(text for _, text in waits(effects).values())
    assert sorted(placed(scenario.ask(a_member(2)))) == ["m0", "m1", "m2"]


def test_members_of_a_gang_that_share_a_claim_run_where_its_devices_are() -> None:
    scenario = scenario_with(gpus("n1", 1), a_claim("shared"), gang=3, nodes=3)
    effects = scenario.ask(*(a_member(number, "shared") for number in range(3)))
    assert placed(effects) == {"m0": "n1", "m1": "n1", "m2": "n1"}
    assert {str(one) for one in chosen(effects).values()} == {str({"shared": ["n1/d0"]})}


def test_a_gang_of_many_members_with_own_claims_is_planned_completely() -> None:
    claims = [a_claim(f"c{number}") for number in range(200)]
    scenario = scenario_with(*(gpus(f"n{number}", 8) for number in range(25)), *claims, gang=200, nodes=25)
    effects = scenario.ask(*(pod("", f"c{n}", spec=member(f"m{n}", vcore=100)) for n in range(200)))
    assert len(placed(effects)) == 200
    assert len(devices(scenario).used) == 200


@pytest.mark.parametrize("seed", range(20))
def test_no_device_is_given_twice_in_random_worlds(seed: int) -> None:
    """Pods and gangs come and go, claims show their devices late or never, and slices change."""
    random = Random(seed)
    scenario = Scenario(a_configuration(a_queue("a")))
    for number in range(3):
        scenario.add_node(f"n{number}")
    send(scenario, ANY, *(gpus(f"n{number}", random.randint(0, 3)) for number in range(3)))
    send(scenario, a_slice("net", EVERYWHERE, a_device("d0"), a_device("d1")))
    scenario.submit(an_application())
    shown: dict[str, DeviceAllocation] = {}
    running: dict[str, list[DeviceClaim]] = {}
    for step in range(40):
        match random.randrange(5):
            case 0 | 1:
                claims = [a_claim(f"{step}-{n}", wanting(random.randint(1, 2))) for n in range(random.randint(1, 2))]
                effects = send(scenario, *claims)
                running[f"p{step}"] = claims
                effects += scenario.ask(pod(f"p{step}", *(one.name.removeprefix("ns/") for one in claims)))
            case 2 if running:
                key = random.choice(sorted(running))
                effects = scenario.release(key)
                gone = [DeviceObjectGone(DeviceObject.CLAIM, one.name) for one in running.pop(key)]
                effects += send(scenario, *gone)
            case 3 if devices(scenario).assumed:
                name = random.choice(sorted(devices(scenario).assumed))
                shown[name] = devices(scenario).assumed[name].allocation
                claim = devices(scenario).claims[name]
                effects = send(scenario, replace(claim, allocation=shown[name], reserved=1))
            case _:
                node = f"n{random.randrange(3)}"
                effects = send(scenario, gpus(node, random.randint(0, 4)))
        effects += scenario.wait(20)
        for claim_devices in chosen(effects).values():
            assert all(claim_devices.values())
            assert all(count == 1 for count in devices(scenario).used.values())


CLASS = f"any{keys.DEVICES_OF_CLASS}"


def charged(key: str, *claims: str, count: int = 1, app: str = "app", spec: AskSpec | None = None) -> AskSpec:
    """Return the request of a pod as the operator sends it: with the number of devices of its claims."""
    found = pod(key, *claims, spec=spec or an_ask(key, app=app))
    return replace(found, resources=found.resources + Resources({CLASS: count}))


def limited(name: str, most: int | None = None, guaranteed: int = 0) -> QueueConfig:
    """Return a queue with a maximum and a guarantee of devices."""
    most_devices = UNLIMITED if most is None else Limit({CLASS: most})
    return replace(a_queue(name), max=most_devices, guaranteed=Resources({CLASS: guaranteed}))


def with_queues(configuration: Configuration, *facts: DeviceFact, nodes: int = 2) -> Scenario:
    scenario = Scenario(configuration)
    for number in range(nodes):
        scenario.add_node(f"n{number}")
    send(scenario, ANY, *facts)
    return scenario


def test_a_queue_counts_devices_by_class_and_nodes_do_not() -> None:
    claims = [a_claim(name, wanting(2)) for name in "abc"]
    scenario = with_queues(a_configuration(limited("a", 5)), *(gpus(f"n{n}", 4) for n in range(2)), *claims)
    scenario.submit(an_application())
    effects = scenario.ask(*(charged(name, count=2) for name in "abc"))
    assert sorted(placed(effects)) == ["a", "b"]
    assert CLASS in waits(effects)["c"][1]
    assert scenario.app().queue.allocated[CLASS] == 4
    assert CLASS not in scenario.partition.nodes.allocated(NodeId("n0"))
    assert placed(scenario.release("a")) == {"c": "n0"}


def test_a_gang_waits_until_its_queue_has_quota_for_the_devices_of_all_members() -> None:
    claims = [a_claim(f"c{number}") for number in range(3)]
    scenario = with_queues(a_configuration(limited("a", 3)), gpus("n0", 4), a_claim("other"), *claims)
    scenario.submit(an_application("first"))
    assert placed(scenario.ask(charged("other", app="first")))
    scenario.send(a_gang(3))
    members = [charged("", f"c{n}", spec=member(f"m{n}")) for n in range(3)]
    assert (placed(scenario.ask(*members)), held(scenario)) == ({}, 0)
    assert sorted(placed(scenario.release("other", app="first"))) == ["m0", "m1", "m2"]


def test_a_charge_that_another_pod_of_the_claim_takes_over_is_counted_once() -> None:
    scenario = with_queues(a_configuration(limited("a", 2)), gpus("n0", 2), a_claim("shared"), a_claim("own"))
    scenario.send(ApplicationAdded(an_application()), ApplicationAdded(an_application("other")))
    assert sorted(placed(scenario.ask(charged("a", "shared"), charged("b", "shared")))) == ["a", "b"]
    assert placed(scenario.ask(charged("c", "own", app="other"))) == {}
    facts = PodProperties(devices=using("shared"))
    effects = scenario.report(replace(an_allocation("b", "n0"), facts=facts))
    assert placed(effects + scenario.wait(1)) == {"c": "n0"}
    assert scenario.app().queue.allocated[CLASS] == 2
    scenario.release("c", app="other")
    scenario.release("a")
    taken_over = replace(an_allocation("b", "n0"), facts=facts)
    scenario.report(replace(taken_over, resources=taken_over.resources + Resources({CLASS: 1})))
    assert scenario.app().queue.allocated[CLASS] == 1


def test_a_queue_below_its_guarantee_of_devices_preempts_those_that_have_them() -> None:
    """The victims are the fewest pods whose devices suffice, and not pods without devices."""
    queues = with_preemption(limited("a", guaranteed=1), limited("b", guaranteed=1))
    claims = [a_claim(name) for name in ("x", "y", "mine")]
    scenario = with_queues(queues, gpus("n0", 1), gpus("n1", 1), *claims, nodes=3)
    run(scenario, "root.b", an_ask("plain"), charged("x"), charged("y"))
    for name in ("x", "y"):
        shown = devices(scenario).assumed[f"ns/{name}"]
        send(scenario, a_claim(name, allocation=shown.allocation, reserved=1))
    effects = run(scenario, "root.a", charged("mine")) + scenario.wait(60)
    [victim] = victims(effects)
    assert victim in ("x", "y")
    assert placed(confirm(scenario, effects)) == {}, "the claim still has the device"
    effects = send(scenario, DeviceObjectGone(DeviceObject.CLAIM, f"ns/{victim}")) + scenario.wait(20)
    assert list(placed(effects)) == ["mine"]
    assert victims(effects + scenario.wait(120)) == set()


def test_preemption_frees_no_device_of_a_claim_that_other_pods_use() -> None:
    queues = with_preemption(limited("a", guaranteed=1), limited("b", guaranteed=1))
    shared = a_claim("shared", allocation=got("n0", "d0"), reserved=2)
    scenario = with_queues(queues, gpus("n0", 1), shared, a_claim("mine"), nodes=1)
    run(scenario, "root.b", charged("x", "shared", count=2))
    assert victims(run(scenario, "root.a", charged("mine")) + scenario.wait(60)) == set()


def test_rest_has_the_devices_of_nodes_by_class_and_those_of_allocations() -> None:
    net = a_slice("net", EVERYWHERE, a_device("nic"))
    none = DeviceClass("none", selectors=("false",))
    scenario = scenario_with(gpus("n0", 2), net, none, a_claim("a", wanting(2)), a_claim("b"))
    scenario.ask(pod("a"), pod("b"))
    partition = scenario.partition
    summaries = {one.nodeID: one for one in nodes(partition, [NodeId("n0"), NodeId("n1")])}
    for found in (node(partition, NodeId("n0")), summaries["n0"]):
        assert [amounts.get(CLASS) for amounts in (found.capacity, found.allocated, found.available)] == [2, 2, 0]
        assert not any(name.startswith("none") for name in found.capacity)
    assert CLASS not in summaries["n1"].capacity, "the network device is of no node"
    searched = [pool for view in devices(scenario).views for pool in view.pools]
    send(scenario, *(DeviceClass(f"c{n}", selectors=(f"{n} > 0",)) for n in range(100)))
    before = [dict(pool.memory) for pool in searched]
    node(partition, NodeId("n0"))
    assert [pool.memory for pool in searched] == before, "the results of the search are kept"
    shown = [allocation(one, partition).devices for one in scenario.app().allocations.values()]
    assert sorted(map(str, shown)) == [str([f"{DRIVER}/n0/d0", f"{DRIVER}/n0/d1"]), str([f"{DRIVER}/net/nic"])]


def test_a_pod_whose_claim_is_unknown_preempts_nothing() -> None:
    queues = with_preemption(a_queue("a", guaranteed=4000), a_queue("b"))
    scenario = with_queues(queues, gpus("n0", 1), nodes=1)
    run(scenario, "root.b", *(an_ask(f"b{index}") for index in range(4)))
    assert victims(run(scenario, "root.a", pod("mine")) + scenario.wait(60)) == set()
