"""Other schedulers with the same scheduler names: a YuniKorn, and another Muster."""

import asyncio
import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from devcluster.api import Json
from devcluster.audit import Permission
from devcluster.muster import ACCOUNT, Muster
from devcluster.muster import NAMESPACE as MUSTER
from devcluster.nodes import FakeNode
from tests.e2e.conftest import OpenScenario
from tests.e2e.manifests import a_pod
from tests.e2e.scenario import Scenario

NAMESPACE, NAME = "kube-system", "muster-scheduler-muster"
YUNIKORN = {"app": "yunikorn", "component": "yunikorn-scheduler"}
ROLE = "rbac.authorization.k8s.io"


def a_yunikorn() -> Json:
    """A pod with the labels of its chart, without a node. Only its labels and permissions matter."""
    pod = a_pod("yunikorn-scheduler-0")
    pod["metadata"]["labels"] = dict(YUNIKORN)
    pod["spec"] |= {"schedulerName": "nobody", "serviceAccountName": "default"}
    return pod


def permission_to_bind(scenario: Scenario) -> list[Json]:
    name = f"binder-{scenario.namespace}"
    rule = {"apiGroups": [""], "resources": ["pods/binding"], "verbs": ["create"]}
    subject = {"kind": "ServiceAccount", "name": "default", "namespace": scenario.namespace}
    kinds: list[Json] = [
        {"kind": "ClusterRole", "rules": [rule]},
        {
            "kind": "ClusterRoleBinding",
            "roleRef": {"apiGroup": ROLE, "kind": "ClusterRole", "name": name},
            "subjects": [subject],
        },
    ]
    return [{"apiVersion": f"{ROLE}/v1", "metadata": {"name": name}, **kind} for kind in kinds]


@asynccontextmanager
async def another_muster(scenario: Scenario) -> AsyncIterator[None]:
    """Another Muster with our scheduler name, as seen from outside: the Lease of that name, which is renewed."""
    spec = {"holderIdentity": f"{scenario.namespace}/muster", "leaseDurationSeconds": 10}
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": NAME}, "spec": spec}
    await scenario.api.delete("leases", NAME, NAMESPACE)
    await scenario.api.create(lease, NAMESPACE)

    mark, read = scenario.cluster.audit.mark(), Permission("coordination.k8s.io", "leases", "get", NAME)

    async def renew() -> None:
        for count in itertools.count(1):

            async def is_read(reads: int = count) -> bool:
                return scenario.cluster.audit.count(mark, f"{MUSTER}:{ACCOUNT}", read) >= reads

            await scenario.eventually("the operator reads the Lease once more", is_read)
            await scenario.api.patch("leases", NAME, {"spec": {"leaseTransitions": count}}, NAMESPACE)

    renewing = asyncio.create_task(renew())
    yield
    renewing.cancel()
    await scenario.api.delete("leases", NAME, NAMESPACE)


async def test_a_muster_exits_if_another_already_serves_the_scheduler_name(open_scenario: OpenScenario) -> None:
    scenario = await open_scenario([FakeNode("node-0")], started=False)
    async with another_muster(scenario):
        scenario.muster.operator.start()
        assert await scenario.muster.operator.ended(90)
    assert scenario.muster.operator.returncode == 1
    message = f"another Muster (lease {scenario.namespace}/muster) serves the scheduler name muster"
    assert message in scenario.muster.operator.tail()
    assert not [write for write in scenario.writes(of_operator=True) if write.resource != "subjectaccessreviews"]


@asynccontextmanager
async def another_installation(scenario: Scenario) -> AsyncIterator[Muster]:
    """A second Muster with its own core and Lease, which its account can write. It is not started."""
    name = f"another-{scenario.namespace}"
    rule = {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["get", "update"]}
    role = {"kind": "Role", "rules": [rule | {"resourceNames": [name]}]}
    subject = {"kind": "ServiceAccount", "name": ACCOUNT, "namespace": MUSTER}
    binding = {
        "kind": "RoleBinding",
        "roleRef": {"apiGroup": ROLE, "kind": "Role", "name": name},
        "subjects": [subject],
    }
    for manifest in (role, binding):
        await scenario.api.create({"apiVersion": f"{ROLE}/v1", "metadata": {"name": name}, **manifest}, MUSTER)
    setup = scenario.muster.setup
    env = {**setup.env, "MUSTER_LEASE_NAME": name}
    other = Muster(replace(setup, folder=setup.folder / "another", identity="another", env=env))
    other.setup.folder.mkdir()
    try:
        yield other
    finally:
        await other.stop()
        await scenario.api.delete("rolebindings", name, MUSTER)
        await scenario.api.delete("roles", name, MUSTER)
        await scenario.api.delete("leases", name, MUSTER)


@pytest.mark.timeout(600, func_only=True)
async def test_of_two_musters_started_together_one_binds_and_the_other_exits(
    open_scenario: OpenScenario,
) -> None:
    """Both find the Lease of the name free. Only one can get it, and neither binds before."""
    scenario = await open_scenario([FakeNode("node-0", cpu="64")], started=False)
    await scenario.api.delete("leases", NAME, NAMESPACE)
    await scenario.create([a_pod(f"pod-{number}", cpu="100m") for number in range(20)])
    async with another_installation(scenario) as other:
        both = [scenario.muster, other]
        for process in (process for muster in both for process in (muster.core, muster.operator)):
            process.start()
        await scenario.all_bound(20, deadline_s=120)

        async def has_exited() -> list[Muster]:
            return [muster for muster in both if not muster.operator.is_running()]

        [loser] = await scenario.eventually("one of them exits", has_exited, 120)
        assert "serves the scheduler name" in loser.operator.tail()  # the first one whose Lease it found taken
        bindings = [write for write in scenario.writes(of_operator=True) if "binding" in str(write)]
        assert {loser.setup.identity in write.agent for write in bindings} == {False}
    if loser is scenario.muster:
        await scenario.muster.start()


async def test_a_yunikorn_keeps_its_scheduler_name_only_if_it_may_bind(open_scenario: OpenScenario) -> None:
    """While the YuniKorn pod may not bind, Muster serves its name. With the permission, a restarted Muster does not.

    The restart is a kill with a lease of an hour, which the same identity takes over immediately.
    """
    scenario = await open_scenario([FakeNode("node-0")], started=False, env={"MUSTER_LEASE_DURATION": "3600"})
    await scenario.create([a_yunikorn()])
    await scenario.muster.start()
    await scenario.create([a_pod("ours", scheduler="yunikorn")])
    await scenario.all_bound(1)
    permissions = permission_to_bind(scenario)
    try:
        for manifest in permissions:
            await scenario.api.create(manifest)
        await scenario.muster.operator.kill()
        await scenario.muster.start()
        await scenario.create([a_pod("theirs", scheduler="yunikorn"), a_pod("ours-too", scheduler="muster")])
        bound = {pod["metadata"]["name"] for pod in await scenario.all_bound(2)}
    finally:
        await scenario.api.delete("clusterrolebindings", permissions[1]["metadata"]["name"])
        await scenario.api.delete("clusterroles", permissions[0]["metadata"]["name"])
    assert bound == {"ours", "ours-too"}
    assert f"pod {scenario.namespace}/yunikorn-scheduler-0" in scenario.muster.operator.log.read_text()
