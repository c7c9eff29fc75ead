"""Pods with ResourceClaims: when they are requested, and the writes between allocation and bind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from typing import Any

import orjson
import pytest

from muster_operator.controller import recovery
from muster_operator.controller.state import SWEEP_S
from muster_operator.model.cluster_events import ClusterEvent
from muster_operator.model.commands import (
    CommandSucceeded,
    CommandUnanswered,
    Order,
    Outcome,
    PostEvent,
    Repeat,
    ReserveClaim,
    SetCondition,
)
from muster_operator.model.core_messages import (
    AllocationReleased,
    AllocationReported,
    ApplicationSubmitted,
    AskReleased,
    AskSpec,
    AskSubmitted,
    ClusterObjectReported,
    CoreRequest,
    NodeCreated,
    NodeUpdated,
)
from muster_operator.model.ids import PodUid
from muster_operator.model.pods import Placement, PodRef
from muster_operator.model.states import AppState
from muster_operator.model.storage import ObjectKind
from muster_si import keys
from tests.unit.operator.controller.devices import (
    DRIVER,
    ENTRY,
    MADE,
    a_claim,
    a_result,
    an_allocation,
    chosen,
    device_claim_seen,
    device_class_seen,
)
from tests.unit.operator.controller.driver import (
    APP,
    Driver,
    done,
    events,
    live,
    orders,
    refused,
    requested_keys,
    whole,
)
from tests.unit.operator.controller.gang import a_member as a_gang_pod
from tests.unit.operator.controller.kubernetes import SETTINGS
from tests.unit.operator.controller.objects import a_group, a_pod, gang_annotations
from tests.unit.operator.controller.storage import claim_seen, gone, seen
from tests.unit.operator.model.signing import a_bind

POD = PodRef("dev", "w0", PodUid("uid-w0"))
BIND = a_bind(POD, "n1")
Raw = dict[str, Any]


def a_user(*entries: Raw, name: str = "w0", **status: Any) -> Raw:
    """A pod with these claims, of which those from templates have the names in its status."""
    raw = a_pod(name, app=APP, resourceClaims=list(entries or (ENTRY,)))
    raw["status"] |= status
    return raw


def made(claim: str = "") -> list[Raw]:
    """The status of a pod whose claim was created; empty = it needs none."""
    return [{"name": "gpu"} | ({"resourceClaimName": claim} if claim else {})]


def a_driver(*facts: ClusterEvent) -> Driver:
    """Two nodes, a class, a claim, and whatever else is there."""
    driver = live("n1", "n2", settings=replace(SETTINGS, device_claims=True))
    for fact in (device_class_seen(), device_claim_seen(), *facts):
        driver.fact(fact)
    return driver


def waiting(driver: Driver, raw: Raw | None = None) -> Outcome:
    """The pod is requested; the outcome of the acceptance."""
    early = driver.see(raw or a_user())
    accepted = driver.accepted()
    return Outcome(early.requests + accepted.requests, early.commands + accepted.commands)


def claims_in(requests: list[CoreRequest]) -> list[Any]:
    """The claims in the last request of a pod."""
    tags = [item.ask.tags for item in requests if isinstance(item, AskSubmitted)]
    found: list[Any] = orjson.loads(tags[-1].get(keys.TAG_DEVICE_CLAIMS, "[]"))
    return found


def of_claims(commands: Iterable[Order]) -> list[tuple[str, Any, bool, bool]]:
    """Claim, devices that are allocated, whether it is undone, and whether the allocation is kept."""
    found = [one.command if isinstance(one, Repeat) else one for one in commands]
    return [
        (
            one.claim.name,
            [result["device"] for result in orjson.loads(one.allocation)["devices"]["results"]]
            if one.allocation
            else [],
            one.undo,
            one.keeps,
        )
        for one in found
        if isinstance(one, ReserveClaim)
    ]


def conditions(out: Outcome) -> list[tuple[str, str]]:
    return [(one.reason, one.message) for one in out.commands if isinstance(one, SetCondition)]


# -- requests ---------------------------------------------------------------------------------------------------------


def test_a_pod_is_requested_with_its_claims_in_order() -> None:
    driver = a_driver(device_claim_seen("nic", reserved=("uid-w0",), allocation=an_allocation()))
    out = waiting(driver, a_user({"name": "net", "resourceClaimName": "nic"}, ENTRY))
    assert claims_in(out.requests) == [
        {"claim": "dev/nic", "uid": "uid-nic", "reserved": True},
        {"claim": "dev/gpu", "uid": "uid-gpu"},
    ]


WAITS = {
    "not created": (MADE, None, [], 'ResourceClaim of "gpu" not created yet'),
    "not found": (ENTRY, None, [gone("resourceclaims", a_claim())], 'resourceclaim "gpu" not found'),
    "deleting": (
        ENTRY,
        None,
        [device_claim_seen(deletionTimestamp="2026-01-01T00:00:00Z")],
        'resourceclaim "gpu" is being deleted',
    ),
    "not its own": (
        MADE,
        made("gpu"),
        [device_claim_seen(owner="uid-other")],
        'resourceclaim "gpu" was not created for pod "w0" (pod is not owner)',
    ),
    "of a PodGroup": (
        MADE,
        made("gpu"),
        [device_claim_seen(ownerReferences=[{"kind": "PodGroup", "name": "g", "uid": "u", "controller": True}])],
        'resourceclaim "gpu" is a claim of a PodGroup, which is not supported',
    ),
    "without owner": (MADE, made("gpu"), [], 'resourceclaim "gpu" was not created for pod "w0" (pod is not owner)'),
}


@pytest.mark.parametrize("entry, statuses, facts, why", WAITS.values(), ids=WAITS)
def test_a_pod_waits_without_a_request_until_its_claim_is_usable(
    entry: Raw, statuses: Any, facts: list[ClusterEvent], why: str
) -> None:
    driver = a_driver(*facts)
    pod = a_user(entry, **({"resourceClaimStatuses": statuses} if statuses else {}))
    assert not driver.see(pod)
    assert conditions(driver.wait(driver.ledger.settings.condition_delay_s)) == [("SchedulingSkipped", why)]
    pod["status"]["conditions"] = [
        {"type": "PodScheduled", "status": "False", "reason": "SchedulingSkipped", "message": why}
    ]
    assert not driver.see(pod)
    assert not driver.wait(3 * SWEEP_S)
    driver.see(a_user(entry, resourceClaimStatuses=made("gpu")))
    early = driver.fact(device_claim_seen(uid="uid-new", owner="uid-w0"))
    assert claims_in(early.requests + driver.accepted().requests) == [{"claim": "dev/gpu", "uid": "uid-new"}]
    assert driver.ledger.devices.held == {}


def test_the_sweep_writes_the_reason_again_if_the_pod_does_not_have_it() -> None:
    driver = a_driver()
    driver.see(a_user(MADE))
    assert len(conditions(driver.wait(driver.ledger.settings.condition_delay_s))) == 1
    assert len(conditions(driver.wait(SWEEP_S))) == 1


def test_a_pod_that_needs_no_claim_is_requested_without_one() -> None:
    driver = a_driver()
    out = waiting(driver, a_user(MADE, resourceClaimStatuses=made()))
    assert claims_in(out.requests) == []
    assert orders(driver.allocated("uid-w0")) == [BIND]


def test_a_request_is_taken_back_when_a_claim_is_deleted_and_follows_another_one() -> None:
    driver = a_driver()
    waiting(driver)
    out = driver.fact(gone("resourceclaims", a_claim()))
    assert [type(item) for item in out.requests if isinstance(item, AskReleased)] == [AskReleased]
    assert driver.ledger.tasks == {}
    out = driver.fact(device_claim_seen(uid="uid-new"))
    assert claims_in(out.requests) == [{"claim": "dev/gpu", "uid": "uid-new"}]


def test_a_claim_that_was_replaced_unseen_is_requested_again() -> None:
    driver = a_driver()
    waiting(driver)
    out = driver.fact(device_claim_seen(uid="uid-new"))
    assert claims_in(out.requests) == [{"claim": "dev/gpu", "uid": "uid-new"}]


def test_many_pods_with_one_claim_are_handled_in_portions() -> None:
    """A user can delete and create the claim all the time; each pod is handled once for all changes before."""
    driver = a_driver(gone("resourceclaims", a_claim()))
    for number in range(450):
        driver.see(a_user(name=f"w{number}"))
    created = driver.fact(device_claim_seen())
    assert len(driver.ledger.devices.held) == 250
    for uid in ("uid-a", "uid-b", "uid-c"):
        assert requested_keys(driver.fact(device_claim_seen(uid=uid))) == []
    assert [type(item) for item in created.requests] == [ClusterObjectReported, ApplicationSubmitted, AskSubmitted]
    driver.accepted()
    sent = [key for _ in range(4) for key in requested_keys(driver.wait(0.1))]
    assert driver.ledger.devices.held == {}
    assert max(Counter(sent).values()) == 1
    assert driver.ledger.devices.changed == {}


def test_the_pods_of_a_namespace_do_not_wait_for_all_those_of_another_one() -> None:
    """A user can let thousands of pods name one claim, and change it all the time."""
    driver = a_driver(gone("resourceclaims", a_claim()))
    other = a_user(name="other")
    other["metadata"]["namespace"] = "small"
    for raw in (*(a_user(name=f"w{number}") for number in range(500)), other):
        driver.see(raw)
    driver.fact(device_claim_seen())
    driver.fact(device_claim_seen(namespace="small"))
    driver.wait(0.1)
    assert len(driver.ledger.devices.held) == 500 - 200 - 199
    assert "uid-other" not in driver.ledger.devices.held


def test_a_change_of_a_claim_that_matters_to_no_pod_is_only_reported() -> None:
    """Each pod that shares a claim changes it; others that wait for it must not be compared each time."""
    driver = a_driver(device_claim_seen(reserved=("uid-other",)))
    waiting(driver)
    out = driver.fact(device_claim_seen(reserved=("uid-other",), allocation=an_allocation()))
    assert [type(item) for item in out.requests] == [ClusterObjectReported]
    assert not driver.fact(device_claim_seen(reserved=("uid-other",), allocation=an_allocation()))


def test_more_claims_than_the_limit_are_refused() -> None:
    driver = a_driver()
    entries = [{"name": f"c{number}", "resourceClaimName": "gpu"} for number in range(65)]
    out = driver.see(a_user(*entries))
    assert out.requests == []
    [event] = [command for command in out.commands if isinstance(command, PostEvent)]
    assert "65 entries, more than 64" in event.note


GPUS = f"gpus{keys.DEVICES_OF_CLASS}"


def counted(requests: Iterable[CoreRequest]) -> dict[str, int]:
    """The devices that queues count, by pod, in the last message about each."""
    asks: list[AskSpec] = []
    for item in requests:
        match item:
            case AskSubmitted(ask):
                asks.append(ask)
            case AllocationReported(allocation):
                asks.append(allocation.ask)
            case NodeCreated(existing=existing) | NodeUpdated(existing=existing):
                asks += (allocation.ask for allocation in existing)
            case _:
                pass
    return {ask.key: ask.resources.get(GPUS, 0) for ask in asks}


def test_a_claim_counts_for_the_first_pod_that_it_is_reserved_for() -> None:
    driver = a_driver()
    seen_first = waiting(driver).requests + driver.see(a_user(name="w1")).requests
    assert counted(seen_first) == {"uid-w0": 1, "uid-w1": 1}, "each of them may be the first"
    [command] = orders(driver.allocated("uid-w0", devices=(chosen(),)))
    driver.result(done(command))
    reserved = driver.fact(device_claim_seen(reserved=("uid-w0",), allocation=an_allocation()))
    assert counted(reserved.requests) == {"uid-w0": 1, "uid-w1": 0}
    both = device_claim_seen(reserved=("uid-w0", "uid-w1"), allocation=an_allocation())
    assert counted(driver.fact(both).requests) == {}, "nothing changes"
    driver.allocated("uid-w1")
    ended = driver.gone("w0")
    assert counted(ended.requests) == {"uid-w1": 1}
    kinds = [type(item) for item in ended.requests if isinstance(item, AllocationReported | AllocationReleased)]
    assert kinds == [AllocationReported, AllocationReleased], "the devices count all the time"
    assert counted(driver.fact(device_claim_seen(reserved=("uid-w1",), allocation=an_allocation())).requests) == {}
    assert counted(driver.see(a_user(name="w2")).requests) == {"uid-w2": 0}


def test_a_claim_whose_first_pod_was_not_bound_counts_for_each_pod_again() -> None:
    driver = a_driver()
    waiting(driver)
    driver.see(a_user(name="w1"))
    [command] = orders(driver.allocated("uid-w0", devices=(chosen(),)))
    driver.result(done(command))
    reserved = driver.fact(device_claim_seen(reserved=("uid-w0",), allocation=an_allocation()))
    assert counted(reserved.requests)["uid-w1"] == 0
    driver.result(refused(BIND))
    assert counted(driver.fact(device_claim_seen()).requests)["uid-w1"] == 1


def test_a_claim_that_was_made_for_a_pod_counts_for_it_without_further_messages() -> None:
    driver = a_driver(device_claim_seen(owner="uid-w0"))
    out = waiting(driver, a_user(MADE, resourceClaimStatuses=made("gpu")))
    assert counted(out.requests) == {"uid-w0": 1}
    reserved = device_claim_seen(owner="uid-w0", reserved=("uid-w0",), allocation=an_allocation())
    assert counted(driver.fact(reserved).requests) == {}


# -- writes -----------------------------------------------------------------------------------------------------------


def test_a_pod_is_bound_after_all_its_claims_are_reserved() -> None:
    driver = a_driver(device_claim_seen("nic", allocation=an_allocation()))
    waiting(driver, a_user(ENTRY, {"name": "net", "resourceClaimName": "nic"}))
    first, second = orders(driver.allocated("uid-w0", devices=(chosen(),)))
    assert of_claims([first, second]) == [("gpu", ["gpu-0"], False, False), ("nic", [], False, False)]
    assert orders(driver.result(done(second))) == []
    assert orders(driver.result(done(first))) == [BIND]
    assert driver.ledger.storage.waiting == {}
    driver.result(done(BIND))
    assert orders(driver.gone("w0")) == [], "kube-controller-manager removes the reservation of an ended pod"


@pytest.mark.parametrize("status", ["True", "False"], ids=["ready", "broken"])
@pytest.mark.parametrize("is_seen", [True, False], ids=["seen before the answer", "seen after it"])
def test_a_pod_is_bound_when_its_device_is_ready_and_its_claim_is_undone_if_it_is_broken(
    status: str, *, is_seen: bool
) -> None:
    driver = a_driver()
    waiting(driver)
    of_device = replace(chosen().devices[0], conditions=("ready",), failures=("broken",))
    [command] = orders(driver.allocated("uid-w0", devices=(replace(chosen(), devices=(of_device,)),)))
    written = an_allocation()
    written["devices"]["results"][0] |= {"bindingConditions": ["ready"], "bindingFailureConditions": ["broken"]}
    seen_on_watch = device_claim_seen(reserved=("uid-w0",), allocation=written)
    steps = [partial(driver.result, done(command)), partial(driver.fact, seen_on_watch)]
    for step in reversed(steps) if is_seen else steps:
        assert orders(step()) == []
    conditions = [{"type": "ready" if status == "True" else "broken", "status": "True", "message": "no link"}]
    device = {**a_result(), "conditions": conditions}
    out = driver.fact(device_claim_seen(reserved=("uid-w0",), allocation=written, devices_status=[device]))
    if status == "True":
        assert orders(out) == [BIND]
        return
    assert of_claims(orders(out)) == [("gpu", ["gpu-0"], True, False)]
    [event] = [one for one in out.commands if isinstance(one, PostEvent)]
    assert "a device is not ready: broken of device gpu-0: no link" in event.note


FAILURES = {
    "refused": (lambda driver, command: driver.result(refused(command, 409, "taken")), "taken"),
    "deleted": (
        lambda driver, command: driver.fact(gone("resourceclaims", a_claim())),
        'resourceclaim "gpu" no longer exists',
    ),
    "replaced": (
        lambda driver, command: driver.fact(device_claim_seen(uid="uid-new")),
        'resourceclaim "gpu" no longer exists',
    ),
    "leaving": (
        lambda driver, command: driver.fact(device_claim_seen(deletionTimestamp="2026-01-01T00:00:00Z")),
        'resourceclaim "gpu" is being deleted',
    ),
}


@pytest.mark.parametrize("fail, why", FAILURES.values(), ids=FAILURES)
def test_a_claim_that_cannot_be_reserved_is_undone_with_an_event(fail: Any, why: str) -> None:
    driver = a_driver()
    waiting(driver)
    [command] = orders(driver.allocated("uid-w0", devices=(chosen(),)))
    out = fail(driver, command)
    assert of_claims(orders(out)) == [("gpu", ["gpu-0"], True, False)]
    [event] = [one for one in out.commands if isinstance(one, PostEvent)]
    assert (event.reason, event.note) == ("PodDevicesBindFailure", f"reserving devices for node n1 failed: {why}")


LOST_NOTE = 'reserving devices for node n1 failed: resourceclaim "gpu" lost its devices or the reservation for the pod'
#: What another client makes of a reserved claim while the pod waits for another one.
LOST: dict[str, Raw] = {
    "deallocated": {},
    "other devices": {"allocation": an_allocation("gpu-9"), "reserved": ("uid-w0",)},
    "not reserved": {"allocation": an_allocation(), "reserved": ("uid-x",)},
}


@pytest.mark.parametrize("is_allocated", [False, True], ids=["new", "allocated before"])
@pytest.mark.parametrize("fields", LOST.values(), ids=LOST)
def test_a_pod_is_not_bound_after_its_claim_was_changed(fields: Raw, *, is_allocated: bool) -> None:
    before = [device_claim_seen(allocation=an_allocation())] if is_allocated else []
    driver = a_driver(device_claim_seen("nic", allocation=an_allocation()), *before)
    waiting(driver, a_user(ENTRY, {"name": "net", "resourceClaimName": "nic"}))
    command, _ = orders(driver.allocated("uid-w0", devices=() if is_allocated else (chosen(),)))
    driver.result(CommandSucceeded(command, version=9))
    driver.fact(device_claim_seen(resourceVersion="8", **fields))
    assert "uid-w0" in driver.ledger.storage.waiting["resourceclaim dev/gpu"], "an older state"
    shown = driver.fact(device_claim_seen(resourceVersion="9", reserved=("uid-w0", "x"), allocation=an_allocation()))
    assert events(shown) == []
    changed = driver.fact(device_claim_seen(resourceVersion="10", **fields))
    assert [command.note for command in changed.commands if isinstance(command, PostEvent)] == [LOST_NOTE]


def test_a_class_that_was_deleted_in_the_meantime_writes_nothing() -> None:
    driver = a_driver()
    waiting(driver)
    driver.fact(gone("deviceclasses", {"metadata": {"name": "gpus"}}))
    out = driver.allocated("uid-w0", devices=(chosen(),))
    assert orders(out) == []
    assert events(out) == [("w0", "PodDevicesBindFailure", "PodDevicesBindFailure")]


def test_a_failed_bind_takes_the_reservation_back_and_requests_again() -> None:
    driver = a_driver()
    waiting(driver)
    [command] = orders(driver.allocated("uid-w0", devices=(chosen(),)))
    driver.result(done(command))
    out = driver.result(refused(BIND))
    assert of_claims(orders(out)) == [("gpu", ["gpu-0"], True, False)]
    assert requested_keys(out) == ["uid-w0"]


@pytest.mark.parametrize("manager", ["muster", "kube-scheduler"])
def test_a_reservation_of_an_allocated_claim_is_undone_without_an_allocation_by_others(manager: str) -> None:
    driver = a_driver(device_claim_seen(allocation=an_allocation(), manager=manager))
    waiting(driver)
    [command] = orders(driver.allocated("uid-w0"))
    driver.result(done(command))
    assert of_claims(orders(driver.result(refused(BIND)))) == [("gpu", [], True, manager != "muster")]


def test_an_undo_keeps_the_allocation_that_another_pod_of_the_plan_waits_for() -> None:
    driver = a_driver()
    waiting(driver)
    driver.see(a_user(name="w1"))
    [first] = orders(driver.allocated("uid-w0", devices=(chosen(),)))
    driver.allocated("uid-w1", devices=(chosen(),))
    assert of_claims(orders(driver.result(refused(first)))) == [("gpu", ["gpu-0"], True, True)]


def test_a_pod_deleted_between_reservation_and_bind_gives_its_devices_back() -> None:
    driver = a_driver()
    waiting(driver)
    [command] = orders(driver.allocated("uid-w0", devices=(chosen(),)))
    driver.result(done(command))
    assert of_claims(orders(driver.gone("w0"))) == [("gpu", ["gpu-0"], True, False)]


def test_a_bind_without_an_answer_keeps_the_devices() -> None:
    """The pod may run. If it does not, the sweep finds the allocation."""
    driver = a_driver()
    waiting(driver)
    [command] = orders(driver.allocated("uid-w0", devices=(chosen(),)))
    driver.result(done(command))
    out = Outcome()
    for _ in range(3):
        out = driver.result(CommandUnanswered(BIND))
    assert of_claims(orders(out)) == []
    assert requested_keys(out) == ["uid-w0"]


@pytest.mark.parametrize("is_volume_bound", [False, True])
def test_a_volume_of_the_pod_does_not_decide_about_its_devices(*, is_volume_bound: bool) -> None:
    """Devices of a pod that another client bound stay; those of a pod whose bind fails do not."""
    for is_bound_elsewhere in (False, True):
        driver = a_driver(claim_seen(volume="disk" if is_volume_bound else ""))
        pod = a_user()
        pod["spec"]["volumes"] = [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]
        waiting(driver, pod)
        driver.allocated("uid-w0", volumes={"dev/data": ""}, devices=(chosen(),))
        if is_bound_elsewhere:
            pod["spec"]["nodeName"] = "n2"
            out = driver.see(pod)
        else:
            out = driver.fact(gone("resourceclaims", a_claim()))
        assert of_claims(orders(out)) == ([] if is_bound_elsewhere else [("gpu", ["gpu-0"], True, False)])


def test_the_report_of_a_bound_pod_has_its_claims() -> None:
    """The core would free the devices otherwise, if it has not seen the written claim yet."""
    driver = a_driver()
    waiting(driver)
    [command] = orders(driver.allocated("uid-w0", devices=(chosen(),)))
    driver.result(done(command))
    driver.result(done(BIND))
    relabelled = a_user()
    relabelled["metadata"]["labels"]["more"] = "yes"
    relabelled["spec"]["nodeName"] = "n1"
    [report] = [one.allocation for one in driver.see(relabelled).requests if isinstance(one, AllocationReported)]
    assert orjson.loads(report.ask.tags[keys.TAG_DEVICE_CLAIMS]) == [{"claim": "dev/gpu", "uid": "uid-gpu"}]


def test_a_pod_that_another_client_bound_keeps_its_devices() -> None:
    driver = a_driver()
    waiting(driver)
    driver.allocated("uid-w0", devices=(chosen(),))
    bound = a_user()
    bound["spec"]["nodeName"] = "n2"
    assert of_claims(orders(driver.see(bound))) == []


# -- restarts ---------------------------------------------------------------------------------------------------------


def restarted(driver: Driver) -> Outcome:
    """A new session with the core. Returns what it sends."""
    total = whole(recovery.begin(driver.ledger, driver.now))
    driver.accepted()
    for part in (recovery.report_nodes, recovery.submit_asks):
        total.add(whole(part(driver.ledger, driver.now)))
    total.add(recovery.open_nodes(driver.ledger, driver.now))
    return total


def test_a_restart_reports_devices_first_and_requests_the_pod_with_its_reservation() -> None:
    driver = a_driver(device_claim_seen(reserved=("uid-w0",), allocation=an_allocation()))
    waiting(driver)
    out = restarted(driver)
    reported = [item.fact.kind.value for item in out.requests if isinstance(item, ClusterObjectReported)]
    assert {"DEVICE_CLASS", "DEVICE_CLAIM"} <= {*reported}
    assert claims_in(out.requests) == [{"claim": "dev/gpu", "uid": "uid-gpu", "reserved": True}]
    [command] = orders(driver.allocated("uid-w0"))
    assert of_claims([command]) == [("gpu", [], False, False)]
    assert orders(driver.result(done(command))) == [BIND]


def test_a_restart_keeps_a_pod_back_whose_claim_is_missing() -> None:
    driver = a_driver()
    driver.see(a_user(MADE))
    assert requested_keys(restarted(driver)) == []
    assert list(driver.ledger.devices.held) == ["uid-w0"]


@pytest.mark.parametrize("fields", [{"owner": "uid-w0"}, {"reserved": ("uid-w0",)}])
def test_a_claim_never_counts_only_for_a_pod_without_a_node(fields: Raw) -> None:
    """A user sets the owner, and lets the pod wait forever. A reservation may be left over from before a restart."""
    driver = a_driver(device_claim_seen(**fields))
    first = waiting(driver).requests + driver.see(a_user(name="w1")).requests
    assert counted(first) == {"uid-w0": 1, "uid-w1": 1}


def test_the_devices_of_bound_pods_count_after_a_restart() -> None:
    driver = a_driver(device_claim_seen(reserved=("uid-w0", "uid-w1"), allocation=an_allocation()))
    waiting(driver, a_user() | {"spec": a_user()["spec"] | {"nodeName": "n1"}})
    driver.see(a_user(name="w1") | {"spec": a_user()["spec"] | {"nodeName": "n1"}})
    assert counted(restarted(driver).requests) == {"uid-w0": 1, "uid-w1": 0}


LEFTOVERS = {"of the pod": ("uid-w0",), "of none": ()}


@pytest.mark.parametrize("reserved", LEFTOVERS.values(), ids=LEFTOVERS)
def test_an_allocation_that_no_pod_uses_is_removed_after_two_sweeps(reserved: tuple[str, ...]) -> None:
    driver = a_driver(device_claim_seen(reserved=reserved, allocation=an_allocation()))
    waiting(driver)
    assert of_claims(driver.wait(SWEEP_S).commands) == []
    [*repeats] = [one for one in driver.wait(SWEEP_S).commands if isinstance(one, Repeat)]
    assert of_claims(repeats) == [("gpu", [], True, False)]
    assert [one.command.pod.uid for one in repeats if isinstance(one.command, ReserveClaim)] == [
        reserved[0] if reserved else ""
    ]


def test_an_allocation_without_any_pod_is_removed_too() -> None:
    driver = a_driver(device_claim_seen(allocation=an_allocation()))
    driver.wait(SWEEP_S)
    assert of_claims(driver.wait(SWEEP_S).commands) == [("gpu", [], True, False)]


def test_an_allocation_that_muster_did_not_write_is_never_removed() -> None:
    driver = a_driver(device_claim_seen(allocation=an_allocation(), manager="kube-scheduler"))
    assert of_claims(driver.wait(4 * SWEEP_S).commands) == []


def test_an_allocation_that_a_pod_with_a_node_is_about_to_reserve_is_not_removed() -> None:
    driver = a_driver(device_claim_seen(allocation=an_allocation()))
    waiting(driver)
    driver.allocated("uid-w0")
    driver.wait(SWEEP_S)
    assert [undo for _, _, undo, _ in of_claims(driver.wait(SWEEP_S).commands)] == [False]


def test_an_allocation_that_another_pod_uses_is_never_removed() -> None:
    driver = a_driver(device_claim_seen(reserved=("uid-w0", "uid-x"), allocation=an_allocation()))
    waiting(driver)
    assert of_claims(driver.wait(4 * SWEEP_S).commands) == []


# -- taints -----------------------------------------------------------------------------------------------------------


def slices(out: Outcome) -> list[tuple[str, int]]:
    """The reported slices with the number of taints of their first device."""
    return [
        (item.fact.name, len(orjson.loads(item.fact.attributes[keys.FACT_OBJECT])["devices"][0].get("taints", [])))
        for item in out.requests
        if isinstance(item, ClusterObjectReported) and item.fact.kind is ObjectKind.DEVICE_SLICE
    ]


def a_slice(name: str) -> Raw:
    pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
    return {"metadata": {"name": name}, "spec": {"driver": DRIVER, "pool": pool, "devices": [{"name": "gpu-0"}]}}


def test_rules_taint_the_devices_of_slices_before_and_after_them() -> None:
    driver = a_driver()
    rule = {"metadata": {"name": "r"}, "spec": {"deviceSelector": {"pool": "n1"}, "taint": {"key": "k"}}}
    for name in ("n1", "n2"):
        assert slices(driver.fact(seen("resourceslices", a_slice(name)))) == [(name, 0)]
    assert slices(driver.fact(seen("devicetaintrules", rule))) == [("n1", 1)]
    assert not driver.fact(seen("resourceslices", a_slice("n1")))
    assert not driver.fact(seen("devicetaintrules", {**rule, "status": {"conditions": []}}))
    assert slices(restarted(driver)) == [("n1", 1), ("n2", 0)]
    assert slices(driver.fact(gone("devicetaintrules", rule))) == [("n1", 0)]
    driver.fact(gone("resourceslices", a_slice("n1")))
    assert [*driver.ledger.devices.slices] == ["n2"]


# -- gangs ------------------------------------------------------------------------------------------------------------


def a_member(name: str, *, has_devices: bool = True) -> Raw:
    raw = a_gang_pod(name)
    if has_devices:
        raw["spec"]["resourceClaims"] = [ENTRY]
    return raw


def placement_of(driver: Driver) -> Placement | None:
    [app] = driver.ledger.applications.values()
    return app.gang.placement if app.gang is not None else None


def test_a_gang_with_devices_is_direct_whatever_it_asks_for() -> None:
    driver = a_driver()
    driver.see(a_member("w0"))
    assert placement_of(driver) is Placement.DIRECT


def test_a_gang_with_devices_reports_task_groups_without_any_member() -> None:
    """No member starts before those of all groups exist, so that nothing else would end the wait."""
    driver = a_driver()
    groups = gang_annotations(a_group("driver", 1), a_group("executors", 2), member_of="driver")
    driver.see(a_pod("w0", app=APP, annotations=groups, resourceClaims=[ENTRY]))
    driver.accepted()
    requests = driver.wait(60).requests
    [why] = [
        item.spec.tags[keys.APP_TAG_MEMBERS_MISSING]
        for item in requests
        if isinstance(item, ApplicationSubmitted) and keys.APP_TAG_MEMBERS_MISSING in item.spec.tags
    ]
    assert why.startswith("waiting for 2 members of task group executors: 0 exist")


def test_a_gang_begins_again_without_placeholders_when_a_member_with_devices_appears() -> None:
    driver = a_driver()
    driver.see(a_member("w0", has_devices=False))
    driver.accepted()
    assert placement_of(driver) is not Placement.DIRECT
    driver.see(a_member("w1"))
    assert placement_of(driver) is Placement.DIRECT
    [app] = driver.ledger.applications.values()
    assert (app.state, app.slots) == (AppState.SUBMITTED, {})
    assert {*app.members} == {"uid-w0", "uid-w1"}
