"""The filter DynamicResources: which nodes can run a pod with device claims, why not, and what plans take."""

from __future__ import annotations

from dataclasses import replace
from random import Random  # noqa: TID251 - with a fixed seed

import pytest

from muster_core.model.devices import (
    AttributeConstraint,
    CapacityLimit,
    DeviceClaim,
    DeviceClass,
    DeviceDemand,
    DeviceFact,
    DeviceObject,
    DeviceObjectGone,
    DeviceSlice,
    DeviceTaint,
    DeviceToleration,
    PodClaim,
)
from muster_core.model.specs import PodOnNode, PodProperties
from muster_core.placement import node_search
from muster_core.placement.devices import explanation
from muster_core.placement.devices.filter import Concern
from muster_core.placement.devices.selection import Evaluations, matters
from muster_core.state.devices import PoolView
from tests.unit.builders import a_node
from tests.unit.core.function_calls import CallCounter
from tests.unit.core.placement.devices.device_clusters import (
    ANY,
    DRIVER,
    EVERYWHERE,
    Published,
    a_claim,
    a_device,
    a_slice,
    at,
    counters,
    got,
    gpus,
    in_zone,
    of_counters,
    shape,
    using,
    wanting,
)

CANNOT = "cannot allocate all claims"
NOT_AVAILABLE = "resourceclaim not available on the node"


def test_a_node_is_feasible_if_it_has_enough_free_devices() -> None:
    there = Published("a", "b", "c", facts=(gpus("a", 1), gpus("b", 2), a_claim("two", wanting(2))))
    assert there.free("two") == "b"
    assert there.text("two") == "0/3 nodes are available: 2 cannot allocate all claims.", "the third may lack CPU"


def test_devices_of_allocated_claims_are_in_use_except_those_with_admin_access() -> None:
    there = Published("a", "b", facts=(gpus("a", 1), gpus("b", 1), a_claim("new")))
    there.send(a_claim("old", allocation=got("a", "d0")), a_claim("look", allocation=got("b", "d0", admin=True)))
    assert there.free("new") == "b"
    there.send(a_claim("old"))
    assert there.free("new") == "a b"


def test_an_allocated_claim_limits_the_pod_to_nodes_that_can_access_it() -> None:
    zones = [a_node(name, labels={"zone": name}) for name in "abc"]
    there = Published(*zones, facts=(a_claim("shared", allocation=got("p", "d0", reach=in_zone("b"))),))
    assert there.free("shared") == "b"
    assert there.reasons("shared") == {"a": [NOT_AVAILABLE], "c": [NOT_AVAILABLE]}
    there.send(a_claim("shared", allocation=got("p", "d0", reach=EVERYWHERE)))
    assert there.free("shared") == "a b c"


@pytest.mark.parametrize(
    "facts, claim, why",
    [
        ((), "new", 'resourceclaim "new" not found'),
        ((a_claim("new", deleting=True),), "new", 'resourceclaim "new" is being deleted'),
        (
            (a_claim("new", wanting()), DeviceObjectGone(DeviceObject.CLASS, "any")),
            "new",
            'resourceclaim "new": request gpu: device class any does not exist',
        ),
        (
            (a_claim("new", unsupported="binding conditions"),),
            "new",
            'resourceclaim "new": binding conditions is not supported',
        ),
        ((a_claim("new", waits="no link"),), "new", 'resourceclaim "new": no link'),
        ((a_claim("new", waits="no link", allocation=got("a", "d0")),), "new", 'resourceclaim "new": no link'),
        (
            (a_claim("new", wanting(selectors=("device.drivr ==",))),),
            "new",
            'resourceclaim "new": request gpu: claim: CEL compile error: <input>:1:16: Syntax error',
        ),
    ],
)
def test_what_makes_a_claim_unusable_is_reported_for_every_node(
    facts: tuple[DeviceFact, ...], claim: str, why: str
) -> None:
    there = Published("a", "b", facts=(gpus("a", 1), gpus("b", 1), *facts))
    assert there.free(claim) == ""
    assert there.text(claim).startswith(f"0/2 nodes are available: {why}")


def test_a_claim_that_was_created_again_is_another_one() -> None:
    there = Published("a", facts=(gpus("a", 1), a_claim("new")))
    assert there.free("new") == "a"
    there.send(replace(a_claim("new"), uid="another"))
    assert there.text("new").endswith('resourceclaim "new" not found.')


def test_a_full_claim_admits_only_pods_that_have_a_reservation() -> None:
    there = Published("a", facts=(a_claim("c", allocation=got("a", "d0"), reserved=256),))
    assert there.text("c").endswith("resourceclaim in use.")
    facts = PodProperties(devices=(PodClaim("ns/c", "uid-c", reserved=True),))
    assert node_search.allowed(there.snapshot(), replace(shape("c"), pod_on_node=PodOnNode(facts=facts))).sum() == 1


def test_an_error_of_a_selector_refuses_the_pod_on_all_nodes() -> None:
    failing = a_claim("new", wanting(selectors=(f'device.attributes["{DRIVER}"].model == "x"',)))
    there = Published("a", "b", facts=(gpus("a", 1, model="x"), gpus("b", 1), failing))
    why = f'claim: selector on device {DRIVER}/b/d0: CEL runtime error: no such key: "model"'
    assert there.reasons("new") == {"a": [why], "b": [why]}


def partitions(node: str, *amounts: int) -> tuple[DeviceSlice, ...]:
    """Return a pool of a node whose devices d0, d1 and so on share a memory of 8."""
    devices = [a_device(f"d{number}", consumes={"memory": amount}) for number, amount in enumerate(amounts)]
    return a_slice(node, at(node), *devices, count=2), counters(node, {"memory": 8})


def test_devices_that_share_counters_are_allocated_while_these_last() -> None:
    there = Published("a", "b", facts=(*partitions("a", 8, 4, 4), *partitions("b", 8, 4, 4)))
    there.send(a_claim("half", allocation=got("a", "d2"), reserved=1))
    there.send(*(a_claim(name) for name in ("one", "two", "three")), a_claim("two halves", wanting(2)))
    assert there.free("two halves") == "b"
    snapshot = there.snapshot()
    assert [there.place(snapshot, name) for name in ("one", "two", "three")] == ["a", "b", ""]
    assert there.chosen(snapshot, "one", "two") == {"one": ["a/d1"], "two": ["b/d0"]}
    snapshot.devices.leave(using("half"), 1)
    assert there.place(snapshot, "three") == "a"
    assert there.chosen(snapshot, "three") == {"three": ["a/d2"]}
    snapshot.devices.release(using("two")[0])
    assert there.free("two halves", snapshot=snapshot) == "b"
    there.send(a_claim("whole", allocation=got("b", "d0")))
    reason = "Request gpu needs 2 devices of class any: 6 in the class, 3 that share counters which are used up, 1 free"
    assert explanation.of_claims(there.snapshot(), shape("two halves")).startswith(reason)


@pytest.mark.parametrize(
    "facts",
    [
        (*partitions("a", 8), counters("a", {"memory": 8}, name="again")),
        (gpus("a", 1, consumes={"cores": 1}), counters("a", {"memory": 8})),
        (gpus("a", 1, consumes={"memory": 1}), counters("a", {"memory": 8}, of_set="x")),
    ],
    ids=["two sets of a name", "unknown counter", "unknown set"],
)
def test_a_pool_with_wrong_counters_is_invalid(facts: tuple[DeviceSlice, ...]) -> None:
    facts = tuple(replace(one, count=len(facts)) for one in facts)
    there = Published("a", facts=(*facts, a_claim("new")))
    assert there.reasons("new") == {"a": ["invalid resource pools were encountered"]}


def test_a_search_takes_no_device_whose_counters_earlier_ones_took() -> None:
    """Six whole GPUs leave 14 of 56 partitions; to try all sets of them would end the search."""
    devices = [(f"w{gpu}", {f"slice{n}": 1 for n in range(7)}, gpu) for gpu in range(8)]
    devices += [(f"p{gpu}-{part}", {f"slice{part}": 1}, gpu) for gpu in range(8) for part in range(7)]
    there = Published("a")
    there.send(
        a_slice(
            "a",
            at("a"),
            *(
                replace(a_device(name, whole=name[0] == "w"), consumes=of_counters(amounts, f"gpu{gpu}"))
                for name, amounts, gpu in devices
            ),
            count=9,
        ),
        *(
            replace(counters("a", {f"slice{n}": 1 for n in range(7)}, of_set=f"gpu{gpu}", name=f"g{gpu}"), count=9)
            for gpu in range(8)
        ),
    )
    for name, whole in (("w", "true"), ("p", "false")):
        there.send(DeviceClass(name, (f'device.attributes["{DRIVER}"].whole == {whole}',)))
    for count in (14, 15):
        parts = replace(wanting(count, "part"), device_class="p")
        there.send(a_claim(f"{count}", replace(wanting(6, "whole"), device_class="w"), parts))
    assert there.free("14") == "a"
    assert there.reasons("15") == {"a": [CANNOT]}


def test_claims_share_a_device_until_its_capacity_is_used_up() -> None:
    there = Published("a", "b", facts=(gpus("a", 1, share_of=8), gpus("b", 1, share_of=4)))
    there.send(a_claim("old", allocation=got("a", "d0", memory=4), reserved=1))
    there.send(*(a_claim(name, wanting(capacity=(("memory", 4),))) for name in ("one", "two", "three")))
    there.send(a_claim("whole", wanting(capacity=(("memory", 9),))), a_claim("none", wanting(capacity=(("x", 1),))))
    assert (there.free("one"), there.free("whole"), there.free("none")) == ("a b", "", "")
    snapshot = there.snapshot()
    assert [there.place(snapshot, name) for name in ("one", "two", "three")] == ["a", "b", ""]
    [chosen] = snapshot.devices.choice(using("two"))
    assert chosen.allocation == got("b", "d0", memory=4)
    snapshot.devices.leave(using("old"), 1)
    assert there.place(snapshot, "three") == "a"
    snapshot.devices.release(using("two")[0])
    assert there.free("two", snapshot=snapshot) == "b"
    there.send(a_claim("other", allocation=got("b", "d0", memory=1)))
    assert there.free("one") == "a"
    reason = "Request gpu needs 1 device of class any: 2 in the class, 2 with too little capacity left, 0 free."
    assert explanation.of_claims(there.snapshot(), shape("whole")) == reason


def test_shares_of_a_device_take_its_counters_once() -> None:
    devices = (a_device("d0", consumes={"memory": 8}, share_of=2), a_device("d1", consumes={"memory": 8}, share_of=2))
    there = Published("a", facts=(a_slice("a", at("a"), *devices, count=2), counters("a", {"memory": 8})))
    there.send(a_claim("two", wanting(name="r0"), wanting(name="r1")), a_claim("third"))
    snapshot = there.snapshot()
    assert there.place(snapshot, "two") == "a"
    assert there.chosen(snapshot, "two") == {"two": ["a/d0", "a/d0"]}
    assert there.free("third", snapshot=snapshot) == ""
    there.send(a_claim("old", allocation=got("a", "d1", memory=1)))
    assert there.place(snapshot := there.snapshot(), "third") == "a"
    assert there.chosen(snapshot, "third") == {"third": ["a/d1"]}


def test_a_request_that_cannot_be_represented_refuses_the_pod_on_all_nodes() -> None:
    limit = CapacityLimit("memory", 2**70, 1, (), 10**9, None, 2 * 10**9)
    odd = replace(a_device("d0"), limits=(limit,))
    there = Published("a", "b", facts=(a_slice("a", at("a"), odd), gpus("b", 1)))
    there.send(a_claim("new", wanting(capacity=(("memory", (2**63 - 1) * 10**9),))))
    assert set(there.reasons("new")) == {"a", "b"}
    assert "cannot be represented" in there.text("new")


def test_devices_with_binding_conditions_are_taken_last_and_may_bind_to_a_node() -> None:
    first = a_slice("a", EVERYWHERE, a_device("d0", conditions=("ready",)), a_device("d1", binds=True))
    there = Published("n", facts=(first, a_slice("b", EVERYWHERE, a_device("d0"))))
    there.send(*(a_claim(name) for name in ("one", "two", "three")))
    snapshot = there.snapshot()
    assert [there.place(snapshot, name) for name in ("one", "two", "three")] == ["n"] * 3
    chosen = [one.allocation for one in snapshot.devices.choice(using("one", "two", "three"))]
    assert [str(one.results[0].device) for one in chosen] == [f"{DRIVER}/{name}" for name in ("b/d0", "a/d0", "a/d1")]
    assert [one.results[0].binding.required for one in chosen] == [(), ("ready",), ()]
    assert [one.reach for one in chosen] == [EVERYWHERE, EVERYWHERE, at("n")]


def test_distinct_values_of_an_attribute() -> None:
    devices = [a_device(f"d{number}", numa=number // 2) for number in range(6)]
    there = Published("a", facts=(a_slice("a", at("a"), *devices),))
    for count in (3, 4):
        constraint = AttributeConstraint(f"{DRIVER}/numa", distinct=True)
        there.send(a_claim(f"{count}", wanting(count)))
        claim = there.devices.claims[f"ns/{count}"]
        there.send(replace(claim, demand=DeviceDemand(claim.demand.requests, (constraint,))))
    snapshot = there.snapshot()
    assert (there.place(snapshot, "3"), there.free("4")) == ("a", "")
    assert there.chosen(snapshot, "3") == {"3": ["a/d0", "a/d2", "a/d4"]}
    assert "distinct values of gpu.example.com/numa" in explanation.of_claims(there.snapshot(), shape("4"))


def test_an_untolerated_taint_keeps_a_device_free() -> None:
    broken = DeviceTaint("broken", "yes", "NoSchedule")
    there = Published("a", facts=(a_slice("a", at("a"), a_device("d0", taints=(broken,))), a_claim("new")))
    assert there.free("new") == ""
    there.send(a_claim("new", wanting(tolerations=(DeviceToleration("broken", "Exists"),))))
    assert there.free("new") == "a"


def test_a_device_with_an_unsupported_feature_is_named() -> None:
    there = Published("a", facts=(a_slice("a", at("a"), a_device("d0", unsupported="shared counters")), a_claim("new")))
    assert there.reasons("new") == {"a": [CANNOT]}
    assert "1 in the class, 1 not usable because of shared counters, which is not supported" in there.text("new")
    there.send(a_slice("b", at("a"), a_device("d0")))
    assert there.free("new") == "a"


BROKEN = DeviceTaint("broken", "yes", "NoSchedule")
LARGE = f'device.attributes["{DRIVER}"].?memory.orValue(0) >= 80'
#: What is there beside two free GPUs of 40 on node a, one of two of 80 on node b, and a network device of both.
EXPLAINED: dict[str, tuple[tuple[DeviceFact, ...], tuple[DeviceFact, ...], str]] = {
    "selectors": (
        (),
        (a_claim("new", wanting(2, selectors=(LARGE,))),),
        (
            "Request gpu needs 2 devices of class any: 5 in the class, 2 matched by its selectors, 1 free, "
            "at most 1 for one node."
        ),
    ),
    "no match": (
        (),
        (a_claim("new", wanting(selectors=("false",))),),
        "Request gpu needs 1 device of class any: 5 in the class, 0 matched by its selectors, 0 free.",
    ),
    "the second claim and request": (
        (),
        (a_claim("one"), a_claim("new", wanting(), wanting(4, name="more"))),
        "Claim 2, request more needs 4 devices of class any: 5 in the class, 4 free, at most 3 for one node.",
    ),
    "taints": (
        (a_slice("net", EVERYWHERE, a_device("nic", taints=(BROKEN,))),),
        (a_claim("new", wanting(3)),),
        (
            "Request gpu needs 3 devices of class any: 5 in the class, 1 with taints that it does not tolerate, "
            "3 free, at most 2 for one node."
        ),
    ),
    "alternatives": (
        (),
        (a_claim("new", wanting(alternatives=(wanting(5, name="many"), wanting(4, name="fewer")))),),
        "Request gpu/many needs 5 devices of class any: 5 in the class, 4 free, at most 3 for one node.",
    ),
    "all": (
        (),
        (a_claim("new", wanting(everything=True, selectors=("false",))),),
        "Request gpu needs all devices of class any: 5 in the class, 0 matched by its selectors, 0 free.",
    ),
    "constraint": (
        (),
        (a_claim("new", wanting(2), wanting(name="other"), match="memory"),),
        f"The claim needs devices with one value of {DRIVER}/memory: no node has enough free ones.",
    ),
    "together": (
        (),
        (a_claim("new", wanting(2), wanting(2, name="other")),),
        "No node has enough free devices for all its requests together.",
    ),
}


@pytest.mark.parametrize("facts, claims, why", EXPLAINED.values(), ids=EXPLAINED)
def test_the_reason_says_which_request_no_node_can_satisfy_and_why(
    facts: tuple[DeviceFact, ...], claims: tuple[DeviceClaim, ...], why: str
) -> None:
    net = a_slice("net", EVERYWHERE, a_device("nic"))
    used = a_claim("used", allocation=got("b", "d0"))
    there = Published("a", "b", facts=(gpus("a", 2, memory=40), gpus("b", 2, memory=80), net, used, *facts, *claims))
    names = [one.name.partition("/")[2] for one in claims]
    assert there.text(*names) == f"0/2 nodes are available: 2 cannot allocate all claims. {why}"


def test_an_explanation_is_kept_until_devices_change() -> None:
    """Pods of one template have equal demands, and may fail at each attempt."""
    nodes = [f"n{number}" for number in range(50)]
    there = Published(*nodes, facts=(*(gpus(node, 8) for node in nodes), a_claim("new", wanting(9)), a_claim("used")))
    with CallCounter() as first_time:
        first = explanation.of_claims(there.snapshot(), shape("new"))
    with CallCounter() as again:
        assert explanation.of_claims(there.snapshot(), shape("new")) == first
    assert again.calls < first_time.calls // 20
    there.send(a_claim("used", allocation=got("n0", "d0")))
    assert "400 free" in first
    assert "399 free" in explanation.of_claims(there.snapshot(), shape("new"))


def test_an_explanation_takes_the_steps_of_one_search() -> None:
    """A user chooses the constraints, and each of them could take a search of all devices."""
    random, names = Random(1), ("g", "h", "j", "k")
    values = [{name: random.randrange(16) for name in names} for _ in range(128)]
    devices = [replace(a_device(f"d{n}"), kind=gpus("", 1, **each).devices[0].kind) for n, each in enumerate(values)]
    ring = [AttributeConstraint(f"{DRIVER}/{name}", (f"r{at}", f"r{(at + 1) % 4}")) for at, name in enumerate(names)]
    claim = a_claim("new", *(wanting(4, name=f"r{number}") for number in range(4)))
    claim = replace(claim, demand=replace(claim.demand, constraints=tuple(ring * 8)))
    there = Published("a", facts=(a_slice("a", at("a"), *devices), claim))
    snapshot = there.snapshot()
    with CallCounter() as search:
        node_search.allowed(snapshot, shape("new"))
    with CallCounter() as counter:
        explanation.of_claims(snapshot, shape("new"))
    assert counter.calls < 4 * search.calls


def test_pools_that_are_incomplete_or_invalid_have_no_devices() -> None:
    there = Published("a", facts=(a_slice("s", at("a"), a_device("d0"), count=2), a_claim("new")))
    assert there.reasons("new") == {"a": [CANNOT]}
    there.send(a_slice("t", at("a"), a_device("d0"), pool="s", count=2))
    assert there.reasons("new") == {"a": ["invalid resource pools were encountered"]}
    there.send(a_slice("t", at("a"), a_device("d1"), pool="s", count=2))
    assert there.free("new") == "a"
    there.send(a_slice("u", at("a"), a_device("d7"), pool="s", generation=2))
    snapshot = there.snapshot()
    assert there.place(snapshot, "new") == "a"
    assert there.chosen(snapshot, "new") == {"new": ["s/d7"]}, "only the newest generation counts"


def test_devices_that_several_nodes_can_access_are_taken_once() -> None:
    zones = [a_node(name, labels={"zone": zone}) for name, zone in (("a", "x"), ("b", "x"), ("c", "y"))]
    there = Published(*zones, facts=(a_slice("net", in_zone("x"), a_device("d0")), a_claim("one"), a_claim("two")))
    assert there.free("one") == "a b"
    snapshot = there.snapshot()
    assert there.place(snapshot, "one") in ("a", "b")
    assert there.free("two", snapshot=snapshot) == ""
    assert there.free("two") == "a b", "a plan changes only its snapshot"


def test_each_device_of_a_slice_may_have_its_own_nodes() -> None:
    devices = (a_device("d0", reach=at("a")), a_device("d1", reach=at("b")), a_device("d2", reach=EVERYWHERE))
    there = Published("a", "b", "c", facts=(a_slice("s", None, *devices), a_claim("two", wanting(2)), a_claim("one")))
    assert there.free("two") == "a b"
    assert there.free("one") == "a b c"
    snapshot = there.snapshot()
    there.place(snapshot, "two")
    assert there.chosen(snapshot, "two") == {"two": ["s/d0", "s/d2"]}


def test_pods_of_one_plan_get_different_devices_and_give_them_back() -> None:
    there = Published("a", facts=(gpus("a", 2), *(a_claim(name) for name in "xyz")))
    snapshot = there.snapshot()
    assert [there.place(snapshot, name) for name in "xyz"] == ["a", "a", ""]
    assert there.chosen(snapshot, "x", "y") == {"x": ["a/d0"], "y": ["a/d1"]}
    node_search.charge(snapshot, shape("x"), 0, -1)
    assert there.place(snapshot, "z") == "a"
    assert there.chosen(snapshot, "x", "z") == {"z": ["a/d0"]}


def test_pods_that_share_a_new_claim_go_where_its_devices_are() -> None:
    there = Published("a", "b", "c", facts=(gpus("b", 1), gpus("c", 1), a_claim("shared")))
    snapshot = there.snapshot()
    assert there.place(snapshot, "shared", count=3) in ("b b b", "c c c")
    fork = snapshot.fork()
    assert there.free("shared", snapshot=fork) == there.place(fork, "shared")


def test_all_devices_of_a_node_must_have_the_same_attribute() -> None:
    def of(node: str, *numa: int) -> DeviceSlice:
        return a_slice(node, at(node), *(a_device(f"d{at_}", numa=value) for at_, value in enumerate(numa)))

    there = Published("a", "b", facts=(of("a", 0, 1, 0), of("b", 0, 1, 2)))
    there.send(a_claim("two", wanting(2), match="numa"))
    assert there.free("two") == "a"
    snapshot = there.snapshot()
    there.place(snapshot, "two")
    assert there.chosen(snapshot, "two") == {"two": ["a/d0", "a/d2"]}


def pools(there: Published) -> dict[str, PoolView]:
    """Return the views of the pools that nodes can access, by name."""
    views = (there.devices.views[number] for number in there.devices.present.tolist())
    return dict(sorted((pool.id.pool, pool) for view in views for pool in view.pools))


def test_nodes_share_the_answer_if_only_shared_devices_matter() -> None:
    names = [f"n{number}" for number in range(20)]
    local = (a_slice(name, at(name), a_device("d0", kind="gpu")) for name in names)
    network = a_slice("net", EVERYWHERE, *(a_device(f"d{number}", kind="nic") for number in range(3)))
    there = Published(*names, facts=(*local, network))
    for kind in ("gpu", "nic"):
        there.send(a_claim(kind, wanting(selectors=(f'device.attributes["{DRIVER}"].kind == "{kind}"',))))
        assert len(there.free(kind).split()) == 20
    groups = [len(set(answers.group_of[there.devices.present].tolist())) for answers in there.devices.answers.values()]
    assert groups == [20, 1]
    there.send(*(a_claim(f"c{number}", allocation=got("net", f"d{number}", reach=EVERYWHERE)) for number in range(3)))
    assert (there.free("nic"), len(there.free("gpu").split())) == ("", 20)


def test_a_slice_that_changes_changes_the_answers_of_its_nodes_only() -> None:
    there = Published("a", "b", facts=(gpus("a", 1), gpus("b", 1), a_claim("two", wanting(2)), a_claim("one")))
    assert there.free("one") == "a b"
    before = pools(there)
    there.send(gpus("a", 2))
    assert there.free("two") == "a"
    assert [after is before[name] for name, after in pools(there).items()] == [False, True]
    there.send(DeviceObjectGone(DeviceObject.SLICE, "a"))
    assert there.free("one") == "b"


def test_a_waiting_pod_is_concerned_only_by_what_it_waits_for() -> None:
    model = f'device.attributes["{DRIVER}"].model == "x"'
    there = Published("a", facts=(a_claim("new", wanting(selectors=(model,))), a_claim("other")))
    devices, changes = there.devices, there.devices.changes

    def is_concerned(*facts: DeviceFact) -> bool:
        changes.clear()
        there.send(*facts)
        return Concern(devices, changes).has(using("new"))

    assert is_concerned(gpus("a", 1, model="x"))
    assert not is_concerned(gpus("b", 1, model="y"))
    assert is_concerned(a_claim("new", wanting(selectors=(model,))))
    assert not is_concerned(a_claim("other"))
    assert is_concerned(ANY)
    assert not is_concerned(DeviceClass("else"))
    there.send(a_claim("holder", allocation=got("a", "d0")))
    assert is_concerned(DeviceObjectGone(DeviceObject.CLAIM, "ns/holder")), "a device became free"


def test_a_claim_has_room_for_256_pods_together_with_those_on_nodes_and_in_the_plan() -> None:
    there = Published("a", facts=(a_claim("c", allocation=got("a", "d0"), reserved=250),))
    snapshot = there.snapshot()
    assert there.place(snapshot, "c", count=4) == "a a a a"
    assert there.place(snapshot, "c", count=9) == "a a"
    assert there.free("c", snapshot=snapshot) == ""
    there.devices.use(using("c"), 255)
    assert there.place(there.snapshot(), "c", count=3) == "a"


def test_a_faulty_selector_is_reported_once_however_many_nodes_there_are() -> None:
    failing = a_claim("new", wanting(selectors=(f'device.attributes["{DRIVER}"].typo == 1',)))
    names = [f"n{number}" for number in range(50)]
    there = Published(*names, facts=(*(gpus(name, 1) for name in names), failing))
    assert len({reason for reasons in there.reasons("new").values() for reason in reasons}) == 1
    (answers,) = there.devices.answers.values()
    assert len(answers.refusals) == 1
    there.send(a_claim("new"))
    assert len(there.free("new").split()) == 50


def test_a_search_that_would_not_end_is_ended_and_named() -> None:
    """Constraints in a ring, and devices that all differ, so that no shortcut applies."""
    random = Random(3)
    values = [[random.randrange(6) for _ in "ghjk"] for _ in range(128)]
    devices = [a_device(f"d{n}", uuid=n, g=g, h=h, j=j, k=k) for n, (g, h, j, k) in enumerate(values)]
    requests = tuple(wanting(4, name=f"r{n}") for n in range(4))
    pairs = (("g", "r0", "r1"), ("h", "r1", "r2"), ("j", "r2", "r3"), ("k", "r3", "r0"))
    constraints = tuple(AttributeConstraint(f"{DRIVER}/{name}", (one, other)) for name, one, other in pairs)
    claim = replace(a_claim("new"), demand=DeviceDemand(requests, constraints))
    there = Published("a", facts=(a_slice("a", at("a"), *devices), claim))
    with CallCounter() as counter:
        reasons = there.reasons("new")
    assert counter.calls < 1_000_000
    assert reasons == {"a": [f"{CANNOT}: the search for devices was ended after too many steps"]}


def in_a_chain(claims: int) -> Published:
    """Claims of 32 requests, each for a device or the next one; the last one wants the first, so that all move."""
    last = 32 * claims - 1
    there = Published("a", facts=(a_slice("a", at("a"), *(a_device(f"d{n:05}", i=n) for n in range(last + 1))),))
    for claim in range(claims):
        pairs = ([n, n + 1] if n < last else [0] for n in range(32 * claim, 32 * claim + 32))
        requests = (wanting(name=f"r{n}", selectors=(INDEX_IN.format(pair),)) for n, pair in enumerate(pairs))
        there.send(a_claim(f"c{claim}", *requests))
    return there


INDEX_IN = f'device.attributes["{DRIVER}"].i in {{}}'


@pytest.mark.parametrize("claims, reason", [(1, ""), (6, "too many steps"), (7, "at most 192"), (40, "at most 192")])
def test_claims_that_displace_each_others_devices_are_searched_within_bounds(claims: int, reason: str) -> None:
    there = in_a_chain(claims)
    with CallCounter() as counter:
        reasons = there.reasons(*(f"c{number}" for number in range(claims)))
    assert counter.calls < 3_000_000
    assert [reason in text for texts in reasons.values() for text in texts] == ([True] if reason else [])


def test_a_search_with_many_alternatives_and_capacities_is_bounded() -> None:
    limits = tuple(CapacityLimit(f"c{number:02}", 2**62, default=1, least=1, step=3) for number in range(16))
    some = (a_device(f"d{number:04}", share_of=1, number=number) for number in range(2_000))
    shared = [replace(one, limits=limits, has_policy=True) for one in some]
    there = Published("a", facts=(a_slice("a", at("a"), *shared),))
    each = tuple((limit.name, 5) for limit in limits)
    alternatives = tuple(wanting(name=f"a{number}", capacity=each) for number in range(8))
    there.send(a_claim("c", *(wanting(name=f"r{number}", alternatives=alternatives) for number in range(16))))
    with CallCounter() as counter:
        assert ["too many steps" in text for text in there.reasons("c")["a"]] == [True]
    assert counter.calls < 3_000_000


def of_unique_devices(nodes: int) -> Published:
    """Eight devices on each node, and a claim whose 8,192 evaluations on each of them no cache helps."""
    names = [f"n{number}" for number in range(nodes)]
    slices = (a_slice(node, at(node), *(a_device(f"d{d}", uuid=f"{node}-{d}") for d in range(8))) for node in names)
    there, uuid = Published(*names, facts=tuple(slices)), f'device.attributes["{DRIVER}"].uuid'
    requests = (
        wanting(name=f"r{n}", selectors=(*(f'{uuid} != "x{n}-{at}"' for at in range(31)), f'{uuid} == "y{n}"'))
        for n in range(32)
    )
    there.send(a_claim("c", *requests))
    return there


def test_pools_matter_for_a_claim_if_too_many_selectors_would_have_to_be_evaluated() -> None:
    there = of_unique_devices(60)
    there.send(a_claim("plain"))
    assert there.free("plain")  # makes the views
    devices = there.devices
    demands = [devices.claims["ns/c"].demand]
    pools = {pool: None for view in devices.views for pool in view.pools}
    evaluations = Evaluations(20_000)
    with CallCounter() as counter:
        found = [matters(pool, demands, devices.classes, evaluations) for pool in pools]
    assert found == sorted(found)
    assert set(found) == {False, True}
    assert counter.calls < 1_000_000


def test_a_filter_that_has_evaluated_too_many_selectors_is_continued_by_later_ones() -> None:
    there, ended = of_unique_devices(60), f"{CANNOT}: the search for devices was ended after too many steps"
    texts = [{text for of_node in there.reasons("c").values() for text in of_node} for _ in range(20)]
    assert texts[0] == {CANNOT, ended}
    assert texts[-1] == {CANNOT}


def test_a_device_with_shares_is_never_given_as_a_whole() -> None:
    there = Published("a", facts=(gpus("a", 1, share_of=8), a_claim("held", allocation=got("a", "d0", memory=4))))
    there.send(a_claim("new"), a_claim("admin", wanting(admin=True)))
    assert there.free("new") == "a"
    there.send(replace(gpus("a", 1), generation=2))
    assert (there.free("new"), there.free("admin")) == ("", "a")
    assert "0 free" in there.text("new")
