"""Conditions and events of pods, as users read them."""

from devcluster.api import Json
from tests.e2e.scenario import Scenario


def scheduled(pod: Json) -> Json:
    """The condition PodScheduled, or an empty object."""
    return condition(pod, "PodScheduled")


def condition(pod: Json, kind: str) -> Json:
    """The condition of that type, or an empty object."""
    found = [c for c in pod["status"].get("conditions", []) if c["type"] == kind]
    return found[0] if found else {}


async def wait_for_reason(scenario: Scenario, pod: str, reason: str, *texts: str) -> None:
    """Wait for PodScheduled=False with this reason and a message that contains all texts."""

    async def is_so() -> bool:
        found = scheduled(await scenario.api.get("pods", pod, scenario.namespace))
        return (
            found.get("status") == "False"
            and found.get("reason") == reason
            and all(text in found.get("message", "") for text in texts)
        )

    await scenario.eventually(f"{pod} has PodScheduled=False, {reason}, {texts}", is_so)


async def wait_for_event(scenario: Scenario, pod: str, *texts: str, kind: str = "Warning") -> None:
    """Wait for an event of this type on the pod whose message contains all texts."""

    async def is_reported() -> bool:
        return any(
            event["type"] == kind
            and event["involvedObject"]["name"] == pod
            and all(text.lower() in event["message"].lower() for text in texts)
            for event in await scenario.events()
        )

    await scenario.eventually(f"an event ({kind}) on {pod} contains {texts}", is_reported)


async def reported_on_config_map(scenario: Scenario, *texts: str) -> str:
    """Wait for an event on `muster-configs` with all texts. Matches by UID, as `kubectl describe` does."""
    home, notes = scenario.muster.setup.namespace, list[str]()
    uid = (await scenario.api.get("configmaps", "muster-configs", home))["metadata"]["uid"]

    async def is_reported() -> bool:
        found = [
            event for event in await scenario.api.find("events", home) if event["involvedObject"].get("uid") == uid
        ]
        notes[:] = [event["message"] for event in found if all(text in event["message"] for text in texts)]
        return bool(notes)

    await scenario.eventually(f"an event on the ConfigMap contains {texts}", is_reported)
    return notes[-1]
