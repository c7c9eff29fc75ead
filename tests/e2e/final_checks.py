"""What must hold after every scenario: nothing left, nothing bound twice, the core's ledgers empty, and never unequal
to the operator's.
"""

from __future__ import annotations

import asyncio

from devcluster.audit import bindings_per_pod
from devcluster.ledgers import leftovers
from tests.e2e.manifests import is_placeholder
from tests.e2e.scenario import Scene

WORKLOADS = ("jobs", "deployments", "statefulsets", "replicasets", "daemonsets")


async def check(scene: Scene) -> None:
    """Take the scenario's own pods away, then look at what Muster leaves. Raises AssertionError."""
    await asyncio.gather(*(scene.api.delete_all(plural, scene.namespace) for plural in WORKLOADS))
    for pod in await scene.api.find("pods", scene.namespace):
        if is_placeholder(pod):
            continue
        await scene.api.delete("pods", pod["metadata"]["name"], pod["metadata"]["namespace"], grace_s=0)
    await scene.eventually("no pod, real or placeholder, is left", lambda: _no_pod(scene))
    if scene.cluster.plane is not None:  # elsewhere the audit log is not ours to read
        _nothing_was_bound_twice(scene, await scene.report())
    await scene.eventually("the core's ledgers are empty", lambda: _core_is_empty(scene))
    repairs = await scene.muster.samples("muster_operator_state_repairs_total")
    assert not repairs, f"the core held something else than the operator: {repairs}\n{await scene.report()}"


def _nothing_was_bound_twice(scene: Scene, report: str) -> None:
    twice = {pod: count for pod, count in bindings_per_pod(scene.writes()).items() if count > 1}
    assert not twice, f"bound more than once: {twice}\n{report}"


async def _no_pod(scene: Scene) -> bool:
    return not await scene.api.find("pods", scene.namespace)


async def _core_is_empty(scene: Scene) -> bool:
    return not leftovers(await scene.muster.dump())
