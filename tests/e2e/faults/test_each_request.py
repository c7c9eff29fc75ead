"""A gang survives each fault of each of its requests, without a restart and without the sweep.

``MUSTER_FAULTS=full`` runs all cases (``make chaos``), otherwise one of each kind of request and fault.
"""

import os
from collections import Counter
from collections.abc import Mapping

import pytest

from devcluster.api import Json
from devcluster.nodes import FakeNode
from tests.e2e.conftest import OpenScenario
from tests.e2e.faults.each_request import LATE_S, Case, EachRequest, all_cases, sample
from tests.e2e.faults.schedule import Kind
from tests.e2e.manifests import Group, a_gang
from tests.e2e.scenario import Scenario

RESERVE, AUTO, EXPIRED = "reserves", "plans its members", "loses its reservation to its timeout"
MEMBERS = 2
MOST_AT_ONCE = 120


def a_gang_of(life: str, name: str) -> list[Json]:
    """A gang with two real members."""
    if life == EXPIRED:
        groups = [Group("workers", MEMBERS, cpu="10m"), Group("large", 1, cpu="1000", real=0)]
        return a_gang(name, groups, timeout_s=4, style="Soft", placement="Reserve")
    placement = "Reserve" if life == RESERVE else "Auto"
    return a_gang(name, [Group("workers", MEMBERS, cpu="10m")], timeout_s=600, placement=placement)


async def runs(scenario: Scenario, faults: EachRequest, gangs: Mapping[str, str]) -> None:
    """Create the gangs, by name and life. Wait until their members run and nothing else is left, then delete them."""
    for name, life in gangs.items():
        await scenario.create(a_gang_of(life, name))
    await scenario.all_bound(MEMBERS * len(gangs), 240)
    await faults.settled()
    await scenario.all_bound(MEMBERS * len(gangs), 120)  # without what a late request has created
    await scenario.api.delete_all("pods", scenario.namespace)

    async def are_gone() -> bool:
        return not await scenario.api.find("pods", scenario.namespace)

    await scenario.eventually("the pods are deleted", are_gone, 90 + LATE_S)


async def lives(scenario: Scenario, faults: EachRequest) -> dict[str, Counter[Kind]]:
    """The requests of a gang without a fault."""
    gangs = {f"case-{number}": life for number, life in enumerate((RESERVE, AUTO, EXPIRED))}
    await runs(scenario, faults, gangs)
    return {life: Counter(faults.requests[name]) for name, life in gangs.items()}


def missed(faults: EachRequest) -> list[Case]:
    """Cases whose request was not sent. Events depend on timing, and equal ones are merged."""
    return [case for name, case in faults.cases.items() if name not in faults.injected and case.kind is not Kind.EVENT]


@pytest.mark.timeout(3000, func_only=True)
async def test_a_gang_survives_each_fault_of_each_request(open_scenario: OpenScenario) -> None:
    nodes = [FakeNode(f"node-{number}", cpu="64", pods="500") for number in range(4)]
    scenario = await open_scenario(nodes, gated=True)
    faults = scenario.gate.faults = EachRequest()
    requests = await lives(scenario, faults)
    assert {Kind.CREATE, Kind.BIND, Kind.DELETE, Kind.EVENT} <= set(requests[RESERVE])
    assert Kind.PATCH in requests[EXPIRED]
    cases = all_cases(requests)
    chosen = cases if os.environ.get("MUSTER_FAULTS") == "full" else sample(cases, seed=1)
    for first in range(0, len(chosen), MOST_AT_ONCE):
        batch = {
            f"case-{10 + first + number}": case for number, case in enumerate(chosen[first : first + MOST_AT_ONCE])
        }
        faults.cases |= batch
        await runs(scenario, faults, {name: case.life for name, case in batch.items()})
    print(f"{len(chosen)} of {len(cases)} cases, {len(faults.injected)} faults injected")  # noqa: T201 # with -s
    assert len(missed(faults)) <= len(chosen) // 20, [str(case) for case in missed(faults)]
    assert sum((await scenario.muster.samples("muster_operator_core_reconnects_total")).values()) == 0
