"""Checks after every scenario: no pod is left or bound twice, the core's state is empty, and it never differed from the
operator's.
"""

import asyncio
from collections import Counter

from devcluster.api import Json
from devcluster.audit import bindings_per_pod
from devcluster.leftovers import leftovers
from tests.e2e.manifests import is_placeholder
from tests.e2e.scenario import Scenario

CONFLICTS = 3
"""A creation is repeated once where its answer was lost, as it is by a kill. No scenario loses more for one pod."""
WORKLOADS = ("jobs", "deployments", "statefulsets", "replicasets", "daemonsets")


async def check(scenario: Scenario) -> None:
    """Delete the pods of the scenario, then check that Muster leaves no state. Raises AssertionError."""
    await asyncio.gather(*(scenario.api.delete_all(plural, scenario.namespace) for plural in WORKLOADS))
    for pod in await scenario.api.find("pods", scenario.namespace):
        if is_placeholder(pod):
            continue
        await scenario.api.delete("pods", pod["metadata"]["name"], pod["metadata"]["namespace"], grace_s=0)
    await scenario.eventually("no pod, real or placeholder, is left", lambda: _no_pod(scenario))
    if scenario.cluster.plane is not None:  # other clusters give no access to the audit log
        twice = {pod: count for pod, count in bindings_per_pod(scenario.writes()).items() if count > 1}
        assert not twice, f"bound more than once: {twice}\n{await scenario.report()}"
        repeated = {name: count for name, count in _conflicts(scenario).items() if count > CONFLICTS}
        assert not repeated, f"created although it existed: {repeated}\n{await scenario.report()}"
    if scenario.completes_slowly:  # a new core has only the applications of existing pods
        await scenario.eventually("the core has only completing applications", lambda: _is_completing(scenario))
        await scenario.muster.core.kill()
        await scenario.muster.start()
    await scenario.eventually("the core's ledgers are empty", lambda: _core_is_empty(scenario))
    repairs = await scenario.muster.samples("muster_operator_state_repairs_total")
    assert not repairs, f"state mismatch between core and operator: {repairs}\n{await scenario.report()}"
    for name in ("muster_operator_sweep_repairs_total", "muster_operator_loop_failures_total"):
        assert not await scenario.muster.samples(name), f"{name}\n{await scenario.report()}"


def _conflicts(scenario: Scenario) -> Counter[str]:
    """How often the operator asked for each pod that existed already."""
    writes = scenario.writes(of_operator=True)
    return Counter(write.name for write in writes if write.what == "create pods" and write.code == 409)


async def _no_pod(scenario: Scenario) -> bool:
    return not await scenario.api.find("pods", scenario.namespace)


async def _is_completing(scenario: Scenario) -> bool:
    left = leftovers(await scenario.muster.dump())
    completing = [item for item in left if item.endswith(" is Completing")]
    return set(left) <= {*completing, f"applications = {len(completing)}"}


async def _core_is_empty(scenario: Scenario) -> bool:
    dump = await scenario.muster.dump()
    return is_in_session(dump) and not leftovers(dump)


def is_in_session(dump: Json) -> bool:
    """Whether this core has a live session. The operator may still be ready shortly after its core was killed."""
    return any(state.get("phase") == "LIVE" for state in dump["rmDiagnostics"].values())
