"""Muster survives faults and kills under load; the long form of this is ``make chaos``."""

import pytest

from devcluster.cluster import Cluster
from tests.e2e.faults.campaign import run_campaign
from tests.e2e.faults.killer import Victim
from tests.e2e.faults.plan import Plan
from tests.e2e.faults.schedule import Fault


@pytest.mark.timeout(600, func_only=True)  # the waits in a round have their own deadlines
@pytest.mark.parametrize(
    "plan",
    [
        pytest.param(Plan(seed=5, episodes=5, gang=30, single=20, finish_s=60), id="one operator"),
        pytest.param(Plan(seed=6, episodes=5, gang=30, single=20, finish_s=60, operators=2), id="two operators"),
    ],
)
async def test_no_pod_is_lost_leaked_or_bound_twice_with_faults_and_kills(plan: Plan, home: Cluster) -> None:
    """Every pod is bound once or rejected with a reason, and all states match the cluster."""
    if home.plane is None:
        pytest.skip("only our own control plane may be killed")
    reports: list[str] = []
    result = await run_campaign(home, plan, reports.append)
    assert not result.violations, "\n".join([*reports, *result.violations])
    assert set(Fault) == result.fault_kinds
    assert set(Victim) == set(result.kills)
