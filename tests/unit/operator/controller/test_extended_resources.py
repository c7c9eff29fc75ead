"""Pods with extended resources that only a DeviceClass provides get a claim, and are requested with it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import orjson
import pytest

from muster_operator.controller import recovery
from muster_operator.controller.state import SWEEP_S
from muster_operator.model import device_problems
from muster_operator.model.cluster_events import ClusterEvent
from muster_operator.model.commands import CommandFailed, CreateClaim, Outcome, Repeat, SetCondition
from muster_operator.model.core_messages import AskReleased, AskSubmitted
from muster_operator.model.ids import PodUid
from muster_operator.model.pods import PodRef
from muster_si import keys
from tests.unit.operator.controller.devices import device_claim_seen, device_class_seen
from tests.unit.operator.controller.driver import APP, Driver, live, whole
from tests.unit.operator.controller.kubernetes import SETTINGS
from tests.unit.operator.controller.objects import a_node, a_pod
from tests.unit.operator.controller.storage import gone, seen
from tests.unit.operator.controller.test_declared_gangs import koordinator, kueue, of_a_job
from tests.unit.operator.controller.test_pod_groups import a_pod_group
from tests.unit.operator.controller.test_pod_groups import member as member_of_group

GPU, NIC = "x.io/gpu", "x.io/nic"
POD = PodRef("dev", "w0", PodUid("uid-w0"))
CREATE = CreateClaim(POD, ((GPU, "gpus"),))
WAITS = f"ResourceClaim for extended resources not created yet: {GPU} (DeviceClass gpus)"
STATUS = {"resourceClaimName": "w0-claim", "requestMappings": [{"resourceName": GPU}]}
CLAIM = device_claim_seen("w0-claim", owner="uid-w0")


def a_driver(*facts: ClusterEvent, on_node: str = "") -> Driver:
    driver = live("n1", settings=replace(SETTINGS, device_claims=True))
    for fact in (*facts, a_plugin_node(on_node)):
        driver.fact(fact)
    return driver


def a_plugin_node(count: str) -> ClusterEvent:
    """The second node, whose device plugin has so many; empty = it has none."""
    node = a_node("n2")
    node["status"]["allocatable"] |= {GPU: count} if count else {}
    return seen("nodes", node)


def a_user(**status: Any) -> dict[str, Any]:
    raw = a_pod("w0", app=APP)
    raw["spec"]["containers"][0].setdefault("resources", {}).setdefault("requests", {})[GPU] = "2"
    raw["status"] |= status
    return raw


def created(out: Outcome) -> list[Any]:
    return [one for one in out.commands if isinstance(one, CreateClaim | Repeat)]


def asked(out: Outcome) -> list[tuple[int, list[str]]]:
    """Per request: how many of the resource, and its claims."""
    asks = [one.ask for one in out.requests if isinstance(one, AskSubmitted)]
    claims = [orjson.loads(ask.tags.get(keys.TAG_DEVICE_CLAIMS, "[]")) for ask in asks]
    return [(ask.resources.get(GPU, 0), [one["claim"] for one in of]) for ask, of in zip(asks, claims, strict=True)]


def both(first: Outcome, second: Outcome) -> Outcome:
    return Outcome(first.requests + second.requests, first.commands + second.commands)


def test_a_pod_is_requested_with_the_claim_that_was_created_for_it() -> None:
    driver = a_driver(device_class_seen(extendedResourceName=GPU))
    assert created(driver.see(a_user())) == [CREATE]
    assert created(driver.see(a_user())) == [], "it was ordered"
    assert created(driver.see(a_user(extendedResourceClaimStatus=STATUS))) == []
    out = both(driver.fact(CLAIM), driver.accepted())
    assert asked(out) == [(0, ["dev/w0-claim"])]
    charged = next(one.ask.resources for one in out.requests if isinstance(one, AskSubmitted))
    assert charged["gpus" + keys.DEVICES_OF_CLASS] == 1
    assert driver.ledger.devices.held == {}


def test_a_resource_that_a_device_plugin_has_is_counted_as_usual() -> None:
    driver = a_driver(device_class_seen(extendedResourceName=GPU), on_node="1")
    out = both(driver.see(a_user()), driver.accepted())
    assert (created(out), asked(out)) == ([], [(2, [])])
    driver.fact(a_plugin_node("0"))
    assert created(driver.wait(SWEEP_S)) == [], "the device plugin may restart"
    out = driver.wait(SWEEP_S)
    assert created(out) == [CREATE]
    assert any(isinstance(one, AskReleased) for one in out.requests), "the request is taken back"
    driver.fact(a_plugin_node("1"))
    assert asked(driver.see(a_user())) == [(2, [])], "no claim was created yet"


def test_a_pod_gets_its_claim_when_a_class_appears_that_provides_its_resource() -> None:
    driver = a_driver(device_class_seen())
    assert asked(both(driver.see(a_user()), driver.accepted())) == [(2, [])]
    driver.fact(device_class_seen(extendedResourceName=GPU))
    assert created(driver.wait(SWEEP_S)) == [CREATE]
    driver.fact(gone("deviceclasses", {"metadata": {"name": "gpus"}}))
    assert asked(driver.see(a_user())) == [(2, [])]


def test_a_failed_creation_is_reported_and_repeated() -> None:
    driver = a_driver(device_class_seen(extendedResourceName=GPU))
    driver.see(a_user())
    driver.result(CommandFailed(CREATE, 403, "Forbidden", "quota exceeded"))
    out = driver.wait(SWEEP_S)
    conditions = {one.message for one in out.commands if isinstance(one, SetCondition)}
    assert conditions == {f"{WAITS}: quota exceeded"}
    assert Repeat(CREATE) in created(out)


def test_a_pod_with_a_claim_gets_no_second_one_and_a_new_session_orders_a_missing_one_again() -> None:
    driver = a_driver(device_class_seen(extendedResourceName=GPU), device_class_seen("nics", extendedResourceName=NIC))
    pod = a_user()
    pod["spec"]["containers"][0]["resources"]["requests"][NIC] = "1"
    [order] = created(driver.see(pod))
    assert order.classes == ((GPU, "gpus"), (NIC, "nics"))
    again = whole(recovery.begin(driver.ledger, driver.now))
    assert created(again) == [order]
    driver = a_driver(device_class_seen(extendedResourceName=GPU), device_class_seen("nics", extendedResourceName=NIC))
    driver.fact(CLAIM)
    pod["status"]["extendedResourceClaimStatus"] = STATUS
    out = both(driver.see(pod), driver.accepted())
    assert (created(out), asked(out)) == ([], [(0, ["dev/w0-claim"])])
    assert created(driver.wait(SWEEP_S)) == []


def with_gpu(raw: Any) -> Any:
    raw["spec"]["containers"][0].setdefault("resources", {}).setdefault("requests", {})[GPU] = "1"
    return raw


@pytest.mark.parametrize("member", [koordinator, kueue, of_a_job, member_of_group])
def test_members_of_a_gang_get_their_claims_before_it_is_complete(member: Callable[[str], Any]) -> None:
    driver = a_driver(device_class_seen(extendedResourceName=GPU))
    driver.fact(a_pod_group())
    assert [len(created(driver.see(with_gpu(member(name))))) for name in ("w0", "w1")] == [1, 1]


def test_a_deleted_claim_is_named_with_what_helps() -> None:
    driver = a_driver(device_class_seen(extendedResourceName=GPU))
    driver.see(a_user())
    driver.see(a_user(extendedResourceClaimStatus=STATUS))
    driver.fact(CLAIM)
    driver.accepted()
    driver.fact(gone("resourceclaims", {"metadata": {"name": "w0-claim", "namespace": "dev"}}))
    found = {one.message for one in driver.wait(SWEEP_S).commands if isinstance(one, SetCondition)}
    assert found == {device_problems.special_claim_gone("w0-claim")}


def test_refused_claims_are_repeated_less_and_less_often_and_others_get_their_turn() -> None:
    driver = a_driver(device_class_seen(extendedResourceName=GPU))
    pods = [with_gpu(a_pod(f"w{i}", app=f"app{i}")) for i in range(250)]
    orders = [one for raw in pods for one in created(driver.see(raw))]
    assert len(orders) == len(pods)
    repeated, tried = [], set()
    for _ in range(16):
        for one in orders:
            driver.result(CommandFailed(one, 403, "Forbidden", "exceeded quota"))
        orders = [one.command for one in created(driver.wait(SWEEP_S))]
        repeated.append(len(orders))
        tried |= {one.pod.uid for one in orders}
    swept = [at for at, number in enumerate(repeated) if number]
    pauses = [after - before for before, after in pairwise(swept)]
    assert max(repeated) == 100
    assert pauses == sorted(pauses)
    assert pauses[-1] > pauses[0]
    assert len(tried) == len(pods)
