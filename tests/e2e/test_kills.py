"""Either process, or both, is killed (-9) at every step of a gang: the gang is bound once, and nothing is left over.

The gate stops the operator exactly at the step: a held request never reaches the API server if its sender is killed.
"""

from collections.abc import Awaitable, Callable

import pytest

from devcluster.nodes import FakeNode
from tests.e2e.conftest import OpenScenario
from tests.e2e.manifests import Group, a_gang
from tests.e2e.scenario import Scenario

MEMBERS = 4

CREATE_PLACEHOLDER = ("POST", r"/pods$")
BIND_PLACEHOLDER = ("POST", r"/pods/tg-[^/]*/binding$")
DELETE_PLACEHOLDER = ("DELETE", r"/pods/tg-[^/]*$")
BIND_REAL = ("POST", r"/pods/(?!tg-)[^/]*/binding$")

Step = Callable[[Scenario], Awaitable[None]]


def held_at(request: tuple[str, str], after: int) -> Step:
    """The step at which ``after`` such requests have passed and the next one waits at the gate."""

    async def reach(scenario: Scenario) -> None:
        rule = scenario.gate.hold(*request, skip=after)
        await scenario.create(a_gang("gang", [Group("workers", MEMBERS)], timeout_s=600, placement="Reserve"))
        await rule.reached(1)

    return reach


async def placeholder_is_deleted(scenario: Scenario) -> None:
    """A placeholder is deleted, and the operator has not received the event."""
    rule = scenario.gate.hold(*DELETE_PLACEHOLDER)
    await scenario.create(a_gang("gang", [Group("workers", MEMBERS)], timeout_s=600, placement="Reserve"))
    await rule.reached(1)
    scenario.gate.freeze_watches()
    rule.open()

    async def one_is_deleted() -> bool:
        return len(await scenario.pods(placeholders=True)) < MEMBERS

    await scenario.eventually("a placeholder is deleted", one_is_deleted)


STEPS = [
    pytest.param(held_at(CREATE_PLACEHOLDER, 0), id="application accepted"),
    pytest.param(held_at(CREATE_PLACEHOLDER, MEMBERS // 2), id="placeholders half created"),
    pytest.param(held_at(BIND_PLACEHOLDER, MEMBERS // 2), id="half bound"),
    pytest.param(held_at(DELETE_PLACEHOLDER, 0), id="release sent"),
    pytest.param(placeholder_is_deleted, id="placeholder deleted"),
    pytest.param(held_at(BIND_REAL, 0), id="confirmed but real pod not bound"),
]


@pytest.mark.parametrize("victims", [["operator"], ["core"], ["operator", "core"]], ids=["operator", "core", "both"])
@pytest.mark.parametrize("step", STEPS)
async def test_a_gang_survives_a_kill_at_each_step(step: Step, victims: list[str], open_scenario: OpenScenario) -> None:
    scenario = await open_scenario([FakeNode("node-0"), FakeNode("node-1")], gated=True)
    await step(scenario)
    for victim in victims:
        await getattr(scenario.muster, victim).kill()
    scenario.gate.clear()
    await scenario.muster.start()
    await scenario.all_bound(MEMBERS)
