"""Devices of one scenario: slices for fake nodes, a class, and templates of claims."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Final

from devcluster.api import Json
from devcluster.errors import ApiError
from devcluster.nodes import OURS
from tests.e2e.manifests import a_pod
from tests.e2e.scenario import Scenario

DRIVER: Final = "gpu.muster.example.com"
CLASS: Final = "gpus"
TEMPLATE: Final = "one-gpu"
SETTING: Final = {"kubernetes.deviceClaims": "true"}
LABELS: Final = {OURS[0]: OURS[1]}
API: Final = "resource.k8s.io/v1"


@asynccontextmanager
async def devices(scenario: Scenario, *slices: Json) -> AsyncIterator[None]:
    """Publishes these slices, a class of all devices of the driver, and a template of one; deleted afterwards."""
    await scenario.create([a_class(), *slices, a_template()])
    try:
        yield
    finally:
        for plural in ("resourceslices", "deviceclasses", "devicetaintrules"):
            await scenario.api.delete_all(plural, labelSelector="=".join(OURS))


def a_class(name: str = CLASS, **spec: object) -> Json:
    """A class of all devices of the driver."""
    selectors = [{"cel": {"expression": f'device.driver == "{DRIVER}"'}}]
    return {
        "apiVersion": API,
        "kind": "DeviceClass",
        "metadata": {"name": name, "labels": LABELS},
        "spec": {"selectors": selectors, **spec},
    }


def a_slice(node: str, count: int, model: str = "a100", **device: object) -> Json:
    """A slice of so many devices of a node, which are a pool of their own."""
    return {
        "apiVersion": API,
        "kind": "ResourceSlice",
        "metadata": {"name": f"{node}-{DRIVER}", "labels": LABELS},
        "spec": {
            "driver": DRIVER,
            "nodeName": node,
            "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
            "devices": [
                {"name": f"gpu-{number}", "attributes": {"model": {"string": model}}, **device}
                for number in range(count)
            ],
        },
    }


def a_taint_rule(name: str, effect: str = "NoSchedule", **selector: str) -> Json:
    """A rule that taints the devices that it selects."""
    return {
        "apiVersion": API,
        "kind": "DeviceTaintRule",
        "metadata": {"name": name, "labels": LABELS},
        "spec": {"deviceSelector": selector, "taint": {"key": "repair", "value": "now", "effect": effect}},
    }


def requests(*expressions: str, count: int = 1, device_class: str = CLASS, **fields: object) -> Json:
    """The devices of a claim: so many that match all expressions."""
    selectors = [{"cel": {"expression": expression}} for expression in expressions]
    exactly = {"deviceClassName": device_class, "count": count, "selectors": selectors, **fields}
    return {"requests": [{"name": "gpu", "exactly": exactly}]}


def a_claim(name: str, of_devices: Json | None = None) -> Json:
    """A claim that pods name."""
    spec = {"devices": of_devices or requests()}
    return {"apiVersion": API, "kind": "ResourceClaim", "metadata": {"name": name}, "spec": spec}


def a_template(name: str = TEMPLATE, of_devices: Json | None = None) -> Json:
    """A template of a claim for each pod."""
    spec = {"spec": {"devices": of_devices or requests()}}
    return {"apiVersion": API, "kind": "ResourceClaimTemplate", "metadata": {"name": name}, "spec": spec}


def using(pod: Json, *, template: str = "", claim: str = "") -> Json:
    """The same pod with a resource claim, one of a template unless a claim is named."""
    entry = {"name": "gpu"} | (
        {"resourceClaimName": claim} if claim else {"resourceClaimTemplateName": template or TEMPLATE}
    )
    pod["spec"].setdefault("resourceClaims", []).append(entry)
    pod["spec"]["containers"][0]["resources"]["claims"] = [{"name": "gpu"}]
    return pod


def with_resource(pod: Json, name: str, count: int) -> Json:
    """The same pod with so many of an extended resource."""
    for of_kind in ("requests", "limits"):
        pod["spec"]["containers"][0]["resources"].setdefault(of_kind, {})[name] = str(count)
    return pod


def a_user(name: str, *, template: str = "", claim: str = "", cpu: str = "100m") -> Json:
    """A pod of its own application with a device."""
    return using(a_pod(name, cpu=cpu, labels={"applicationId": name}), template=template, claim=claim)


async def claims_of(scenario: Scenario) -> list[Json]:
    """The claims of the scenario."""
    return await scenario.api.find("resourceclaims", scenario.namespace)


def allocated(claims: Iterable[Json]) -> list[tuple[str, str]]:
    """Pool and device of each allocation, sorted."""
    return sorted(
        (result["pool"], result["device"])
        for claim in claims
        for result in ((claim.get("status") or {}).get("allocation") or {"devices": {"results": []}})["devices"][
            "results"
        ]
    )


async def devices_of(scenario: Scenario, pod: str) -> list[tuple[str, str]]:
    """The devices of the claims that are reserved for the pod."""
    claims = await claims_of(scenario)
    return allocated(
        claim
        for claim in claims
        if any(consumer["name"] == pod for consumer in (claim.get("status") or {}).get("reservedFor", []))
    )


async def is_free(scenario: Scenario) -> bool:
    """Whether no claim of the scenario has a device or a reservation."""
    claims = await claims_of(scenario)
    return not allocated(claims) and not any((claim.get("status") or {}).get("reservedFor") for claim in claims)


async def delete(scenario: Scenario, *pods: str) -> None:
    """Delete pods at once."""
    for pod in pods:
        with contextlib.suppress(ApiError):
            await scenario.api.delete("pods", pod, scenario.namespace, grace_s=0)
