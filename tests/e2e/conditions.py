"""Conditions and events of pods, as users read them."""

from __future__ import annotations

from devcluster.api import Json
from tests.e2e.scenario import Scenario


def scheduled(pod: Json) -> Json:
    """The condition PodScheduled; empty if it is not there."""
    return condition(pod, "PodScheduled")


def condition(pod: Json, kind: str) -> Json:
    """The condition of that type; empty if it is not there."""
    found = [c for c in pod["status"].get("conditions", []) if c["type"] == kind]
    return found[0] if found else {}


async def waits_with(scenario: Scenario, pod: str, reason: str, *words: str) -> None:
    """Wait for PodScheduled=False with this reason and these words."""

    async def is_so() -> bool:
        found = scheduled(await scenario.api.get("pods", pod, scenario.namespace))
        return (
            found.get("status") == "False"
            and found.get("reason") == reason
            and all(word in found.get("message", "") for word in words)
        )

    await scenario.eventually(f"{pod} waits as {reason}, {words}", is_so, 20)


async def told(scenario: Scenario, pod: str, *words: str, kind: str = "Warning") -> None:
    """Wait for an event of this type on the pod that has all the words."""

    async def is_reported() -> bool:
        return any(
            event["type"] == kind
            and event["involvedObject"]["name"] == pod
            and all(word.lower() in event["message"].lower() for word in words)
            for event in await scenario.events()
        )

    await scenario.eventually(f"an event ({kind}) on {pod} says {words}", is_reported, 30)


async def reported_on_config_map(scenario: Scenario, *words: str) -> str:
    """Wait for an event on `muster-configs` that has all the words; it is found as `kubectl describe` looks for it."""
    home, notes = scenario.muster.setup.namespace, list[str]()
    uid = (await scenario.api.get("configmaps", "muster-configs", home))["metadata"]["uid"]

    async def is_reported() -> bool:
        found = [
            event for event in await scenario.api.find("events", home) if event["involvedObject"].get("uid") == uid
        ]
        notes[:] = [event["message"] for event in found if all(word in event["message"] for word in words)]
        return bool(notes)

    await scenario.eventually(f"an event on the ConfigMap says {words}", is_reported, 20)
    return notes[-1]
