"""Either process, or both, is killed (-9) with gangs at every step: each gang is bound once, and nothing is left over.

The gate stops the operator exactly at a step: a held request never reaches the API server if its sender is killed.
"""

from typing import Final

import pytest

from devcluster.nodes import FakeNode
from tests.e2e.conftest import OpenScenario
from tests.e2e.manifests import Group, a_gang
from tests.e2e.scenario import Scenario

MEMBERS: Final = {
    "ends": 1,
    "releases": 4,
    "deleted": 4,
    "confirmed": 4,
    "binds": 3,
    "reserves": 4,
    "begins": 4,
    "accepted": 4,
}
"""The gangs that run in the end, and their members."""


async def reserve(scenario: Scenario, name: str) -> None:
    await scenario.create(a_gang(name, [Group("g", MEMBERS[name])], timeout_s=600, placement="Reserve"))


async def at_every_step(scenario: Scenario) -> None:
    """Create a gang for each step, which stays there."""
    gate = scenario.gate
    # Completing: one of two members has a real pod; the unused placeholder is being deleted.
    gate.hold("DELETE", r"/pods/tg-ends-[^/]*$")
    await scenario.create(a_gang("ends", [Group("g", 2, real=1)], timeout_s=600, placement="Reserve"))
    await exist(scenario, "tg-ends", 2, placeholders=True)
    # Replacing: the deletes of placeholders were sent and are not answered.
    releases, deleted = (gate.hold("DELETE", rf"/pods/tg-{name}-[^/]*$") for name in ("releases", "deleted"))
    for name, rule in (("releases", releases), ("deleted", deleted)):
        await reserve(scenario, name)
        await rule.reached(1)
    # Replacing: the placeholders are deleted, and no member or one of three is bound.
    for name, bound in (("confirmed", 0), ("binds", 1)):
        rule = gate.hold("POST", rf"/pods/{name}-[^/]*/binding$", skip=bound)
        await reserve(scenario, name)
        await rule.reached(1)
    # Reserving: half of the placeholders are bound.
    rule = gate.hold("POST", r"/pods/tg-reserves-[^/]*/binding$", skip=2)
    await reserve(scenario, "reserves")
    await rule.reached(1)
    # Failing: the gang timed out, and the status of its pods is being written.
    rule = gate.hold("PATCH", r"/pods/fails-[^/]*/status$")
    groups = [Group("s", 1), Group("b", 1, cpu="24")]
    await scenario.create(a_gang("fails", groups, timeout_s=1, style="Hard", placement="Reserve"))
    await rule.reached(2)
    # Creating: two of four placeholders exist, or none.
    rule = gate.hold("POST", r"/pods$", skip=2)
    await reserve(scenario, "begins")
    await rule.reached(2)
    await reserve(scenario, "accepted")
    await rule.reached(3)
    # Replacing: a placeholder is deleted, and the operator has not received the event.
    gate.freeze_watches()
    deleted.open()
    await exist(scenario, "tg-deleted", 0, placeholders=True)


async def exist(scenario: Scenario, name: str, count: int, *, placeholders: bool = False) -> None:
    """Wait until ``count`` pods whose names begin so have a node."""

    async def do() -> bool:
        found = await scenario.bound(placeholders=placeholders)
        return len([pod for pod in found if pod["metadata"]["name"].startswith(f"{name}-")]) == count

    await scenario.eventually(f"{count} pods of {name} have nodes", do)


@pytest.mark.parametrize("victims", [["operator"], ["core"], ["operator", "core"]], ids=["operator", "core", "both"])
async def test_gangs_at_each_step_survive_a_kill(victims: list[str], open_scenario: OpenScenario) -> None:
    """The final checks look for pods that were bound twice."""
    scenario = await open_scenario([FakeNode(f"node-{number}", cpu="40") for number in range(2)], gated=True)
    for node in ("node-0", "node-1"):
        await scenario.occupy(node, "20")
    await at_every_step(scenario)
    for victim in victims:
        await getattr(scenario.muster, victim).kill()
    scenario.gate.clear()
    await scenario.muster.start()
    for name, members in MEMBERS.items():
        await exist(scenario, name, members)

    async def has_failed() -> bool:
        pods = [pod for pod in await scenario.pods() if pod["metadata"]["name"].startswith("fails-")]
        return [pod["status"]["phase"] for pod in pods] == ["Failed", "Failed"]

    await scenario.eventually("the gang that timed out has failed", has_failed)
    created = [
        write.name for write in scenario.writes(of_operator=True) if write.what == "create pods" and write.succeeded
    ]
    assert sum(name.startswith("tg-binds-") for name in created) == MEMBERS["binds"]
