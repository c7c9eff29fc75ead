"""Muster survives faults and kills under load; the long form of this is ``make chaos``."""

import pytest

from devcluster.cluster import Cluster
from tests.e2e.faults.campaign import fight
from tests.e2e.faults.killer import Victim
from tests.e2e.faults.plan import Plan
from tests.e2e.faults.schedule import Fault


@pytest.mark.timeout(180)
@pytest.mark.parametrize(
    "plan",
    [
        pytest.param(Plan(seed=5, episodes=5, gang=30, single=20, settle_s=60), id="one operator"),
        pytest.param(Plan(seed=6, episodes=5, gang=30, single=20, settle_s=60, operators=2), id="two operators"),
    ],
)
async def test_no_pod_is_lost_leaked_or_bound_twice_with_faults_and_kills(plan: Plan, home: Cluster) -> None:
    """Every pod is served once or refused with a reason, and all ledgers are the cluster."""
    if home.plane is None:
        pytest.skip("only our own control plane may be killed")
    said: list[str] = []
    result = await fight(home, plan, said.append)
    assert not result.violations, "\n".join([*said, *result.violations])
    assert set(Fault) == result.fault_kinds
    assert set(Victim) == set(result.kills)
