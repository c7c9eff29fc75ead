"""Attacks by ResourceClaims: devices of other tenants, forged statuses, hostile expressions, floods of claims."""

from __future__ import annotations

import pytest

from devcluster.api import Json
from devcluster.errors import ApiError
from tests.attacks.attack import Attack, sized
from tests.attacks.conftest import OpenAttack
from tests.e2e.devices.devices import (
    DRIVER,
    SETTING,
    a_claim,
    a_slice,
    a_template,
    allocated,
    devices,
    requests,
    using,
)
from tests.e2e.manifests import a_pod

CLAIMS = "/apis/resource.k8s.io/v1/namespaces/{}/resourceclaims/{}"


def a_user(name: str, *, template: str = "", claim: str = "") -> Json:
    pod = a_pod(name, cpu="1m", labels={"queue": "root.attacker"})
    return using(pod, template=template, claim=claim)


async def allocations(attack: Attack, namespace: str) -> list[tuple[str, str]]:
    return allocated(await attack.scenario.api.find("resourceclaims", namespace))


async def test_devices_of_another_tenant_are_never_given_away(open_attack: OpenAttack) -> None:
    """A pod can name only claims of its namespace. Nobody but Muster writes whose a device is."""
    attack = await open_attack(SETTING)
    async with devices(attack.scenario, a_slice("node-0", 1)):
        owner = using(a_pod("owner", cpu="1m", labels={"queue": "root.tenant"}), claim="mine")
        await attack.scenario.create([a_claim("mine"), owner])

        async def is_allocated() -> bool:
            return await allocations(attack, attack.scenario.namespace) == [("node-0", "gpu-0")]

        await attack.scenario.eventually("the other tenant has its device", is_allocated)
        pods = [a_user("by-name", claim="mine"), a_user("by-path", claim="own")]
        await attack.user.create([a_claim("own"), *pods])
        path, merge = CLAIMS.format(attack.user.namespace, "own"), "application/merge-patch+json"
        result = {"request": "gpu", "driver": DRIVER, "pool": "node-0", "device": "gpu-0"}
        forged = {"status": {"allocation": {"devices": {"results": [result]}}}}
        with pytest.raises(ApiError, match="forbidden"):
            await attack.user.api.request("PATCH", f"{path}/status", forged, None, merge)
        await attack.victim_gets_its_gang(writes=10)
        assert await allocations(attack, attack.user.namespace) == []
        assert [pod for pod in await attack.attackers_pods() if pod["spec"].get("nodeName")] == []
        assert await is_allocated()


def hostile() -> dict[str, Json]:
    """Claims that the API server accepts, and that cost as much as a claim can."""
    padding = " " * 9_000
    slow = f"[0,1,2,3,4,5,6,7,8,9].all(x, [0,1,2,3,4,5,6,7,8,9].all(y, x + y >= 0)){padding}"
    error = f'device.attributes["{DRIVER}"].missing == "x"'
    many = requests()["requests"][0]["exactly"]
    return {
        "slow": requests(slow),
        "large": requests(*[f"true{padding}"] * 32),
        "error": requests(error),
        "many": {"requests": [{"name": f"r{number}", "exactly": many} for number in range(32)]},
        "capacity": requests(capacity={"requests": {"memory": str(2**63 - 1)}}),
        "distinct": {
            "requests": [{"name": f"r{number}", "exactly": many} for number in range(32)],
            "constraints": [{"distinctAttribute": f"{DRIVER}/number"}] * 32,
        },
        "alternatives": {
            "requests": [
                {
                    "name": f"r{number}",
                    "firstAvailable": [
                        {"name": f"s{other}", "deviceClassName": "gpus", "count": 2} for other in range(8)
                    ],
                }
                for number in range(16)
            ],
        },
    }


def partitions(node: str) -> list[Json]:
    """Slices of a node with shared devices that differ in what they take of 8 counters, which is too much for most."""
    policy = {"default": "1", "validRange": {"min": "1", "step": "2"}}
    capacity = {"memory": {"value": str(2**63 - 1), "requestPolicy": policy}}
    counters, found = a_slice(node, 0), a_slice(node, 16, allowMultipleAllocations=True, capacity=capacity)
    del counters["spec"]["devices"]
    counters["metadata"]["name"] += "-counters"
    counters["spec"]["sharedCounters"] = [
        {"name": f"set-{number}", "counters": {"memory": {"value": str(2**63 - 1)}}} for number in range(8)
    ]
    for number, device in enumerate(found["spec"]["devices"]):
        device["attributes"]["number"] = {"int": number}
        device["consumesCounters"] = [
            {"counterSet": f"set-{one}", "counters": {"memory": {"value": str(2**62 + number)}}}
            for one in (number % 4, 4 + number // 4)
        ]
    for one in (counters, found):
        one["spec"]["pool"]["resourceSliceCount"] = 2
    return [counters, found]


@pytest.mark.parametrize("kind", ["plain", "partitions"])
async def test_hostile_claims_delay_no_other_tenant(kind: str, open_attack: OpenAttack) -> None:
    attack = await open_attack(SETTING)
    count = sized(5, 200)
    nodes = [f"node-{number}" for number in range(8)]
    slices = [a_slice(node, 16) for node in nodes]
    if kind == "partitions":
        slices = [one for node in nodes for one in partitions(node)]
    async with devices(attack.scenario, *slices):
        for name, of_devices in hostile().items():
            await attack.user.create([a_template(name, of_devices)])
            await attack.user.create([a_user(f"{name}-{number}", template=name) for number in range(count)])
        for name in ("first", "second"):
            await attack.victim_gets_its_gang(writes=8 * count * len(hostile()), name=name)
        names = {pod["metadata"]["name"] for pod in await attack.attackers_pods() if pod["spec"].get("nodeName")}
        impossible = ("large", "error", "capacity", *(["distinct", "alternatives"] if kind == "plain" else []))
        assert {name for name in names if name.startswith(impossible)} == set()


async def test_many_claims_without_devices_delay_no_other_tenant(open_attack: OpenAttack) -> None:
    attack = await open_attack(SETTING)
    count = sized(100, 5_000)
    async with devices(attack.scenario, a_slice("node-0", 1)):
        await attack.user.create([a_template("none", requests("false"))])
        await attack.user.create([a_user(f"p{number}", template="none") for number in range(count)])
        await attack.user.create([a_user(f"q{number}", claim="not-there") for number in range(count)])
        await attack.victim_gets_its_gang(writes=6 * count)
        assert await allocations(attack, attack.user.namespace) == []
