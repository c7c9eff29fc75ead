"""Shared parts of the attacks: the attacker's account, the protected tenant, and the checks after every attack.

The attacker may create, update and delete pods, PodGroups, ResourceClaims, Leases and Deployments in a namespace of its
own and nothing else. An attack is measured by what its victim gets: how many writes the operator makes for the attacker
between the submission and the start of another tenant's gang. Sizes are reduced; MUSTER_ATTACKS=full runs them at full
size (`make attacks`).
"""

import asyncio
import json
import os
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import yaml

from devcluster.api import Api, Json
from devcluster.audit import Write
from devcluster.connection import load
from devcluster.errors import ApiError
from devcluster.process import Process
from devcluster.waiting import until
from tests.e2e.configuration import a_queue, queue_file
from tests.e2e.manifests import Group, a_gang, a_pod, is_bound
from tests.e2e.scenario import Scenario

FULL: Final = os.environ.get("MUSTER_ATTACKS") == "full"
NODES: Final = 8
VALUES = Path(__file__).parents[2] / "charts" / "muster" / "values.yaml"
ACCOUNT = "attacker"
#: Two tenants. The attacker's queue has a maximum, the other one a guarantee; nobody else may submit to `private`.
QUEUES = queue_file(
    a_queue("attacker", maximum={"vcore": "4", "memory": "16Gi"}, submitacl="*"),
    a_queue("tenant", guaranteed={"vcore": "10", "memory": "1Gi"}, submitacl="*"),
    a_queue("private", submitacl="admin"),
)
QUEUES["queues.yaml"] = QUEUES["queues.yaml"].replace('"submitacl": "*"', '"submitacl": " "', 1)
ROLE: Json = {
    "rules": [
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["create", "update", "patch", "delete", "get", "list"]},
        {
            "apiGroups": ["coordination.k8s.io"],
            "resources": ["leases"],
            "verbs": ["create", "update", "patch", "delete"],
        },
        {
            "apiGroups": ["scheduling.k8s.io"],
            "resources": ["podgroups"],
            "verbs": ["create", "update", "patch", "delete"],
        },
        {
            "apiGroups": ["apps"],
            "resources": ["deployments", "daemonsets"],
            "verbs": ["create", "update", "patch", "delete"],
        },
        {
            "apiGroups": ["resource.k8s.io"],
            "resources": ["resourceclaims", "resourceclaimtemplates"],
            "verbs": ["create", "update", "patch", "delete", "get", "list"],
        },
    ]
}
RBAC = "rbac.authorization.k8s.io"


def sized(reduced: int, full: int) -> int:
    """The size of an attack in this run."""
    return full if FULL else reduced


def limit_bytes(container: str) -> int:
    """The memory limit of a container in the chart's defaults, bytes."""
    text = str(yaml.safe_load(VALUES.read_text())[container]["resources"]["limits"]["memory"])
    number, unit = text[:-2], text[-2:]
    return int(float(number) * {"Mi": 2**20, "Gi": 2**30}[unit])


def peak_bytes(process: Process) -> int:
    """The peak memory of the process, bytes."""
    status = Path(f"/proc/{process.pid}/status").read_text()
    [line] = [line for line in status.splitlines() if line.startswith("VmHWM:")]
    return int(line.split()[1]) * 1024


def resident_bytes(process: Process) -> int:
    """The current memory of the process, bytes."""
    status = Path(f"/proc/{process.pid}/status").read_text()
    [line] = [line for line in status.splitlines() if line.startswith("VmRSS:")]
    return int(line.split()[1]) * 1024


@dataclass(frozen=True, slots=True)
class User:
    """The attacker: its namespace and a connection with its own token."""

    api: Api
    namespace: str

    async def create(self, manifests: Iterable[Json], concurrently: int = 20) -> None:
        """Create the objects, several at a time. Rejections by admission are ignored."""
        semaphore = asyncio.Semaphore(concurrently)

        async def one(manifest: Json) -> None:
            async with semaphore:
                await self.api.create(manifest, self.namespace)

        await asyncio.gather(*(one(manifest) for manifest in manifests))

    async def post(self, pod: Json, **params: str) -> Json:
        """Create one pod with query parameters, such as a field manager."""
        return await self.api.request("POST", f"/api/v1/namespaces/{self.namespace}/pods", pod, params)

    async def delete(self, names: Iterable[str]) -> None:
        """Delete pods with a grace period of 0 s."""
        await asyncio.gather(*(self.api.delete("pods", name, self.namespace, grace_s=0) for name in names))


@dataclass(slots=True)
class Attack:
    """One attack: the attacker, and bystanders, which are bound pods of another tenant that must not change."""

    scenario: Scenario
    user: User
    bystanders: list[Json]
    finalized: list[str] = field(default_factory=list)
    """Pods of the attacker with a finalizer, which the cleanup removes."""

    async def victim_gets_its_gang(self, writes: int, name: str = "victim", deadline_s: float = 90.0) -> None:
        """Wait until another tenant's gang of ten runs, with at most ``writes`` writes for the attacker before.

        Writes are counted until every placeholder of the gang was deleted once. After that the gang waits for the
        kubelets, which are one simulated process that is busy with the attacker's pods.
        """
        before = len(self.scenario.writes(of_operator=True))
        gang = a_gang(name, [Group("workers", 10, cpu="200m")], queue="root.tenant")
        await self.scenario.create(gang)
        names = {pod["metadata"]["name"] for pod in gang}

        async def all_bound() -> bool:
            return names <= {pod["metadata"]["name"] for pod in await self.scenario.bound()}

        await self.scenario.eventually("the other tenant's gang runs", all_bound, deadline_s)
        written = self.scenario.writes(of_operator=True)[before:]
        own = [n for n, write in enumerate(written) if write.namespace == self.scenario.namespace]
        deletes = {written[n].name: n for n in reversed(own) if written[n].what == "delete pods"}
        last = max(deletes.values(), default=own[-1])
        counted = [write for write in written[:last] if write.namespace == self.user.namespace]
        print(f"{name}: {len(counted)} writes for the attacker, at most {writes}")  # noqa: T201 - pytest -rP shows it
        assert len(counted) <= writes, f"{len(counted)} writes for the attacker before: {counted[:5]}"
        for pod in gang:
            await self.scenario.api.delete("pods", pod["metadata"]["name"], self.scenario.namespace, grace_s=0)

    def writes_for_attacker(self) -> list[Write]:
        """The operator's writes in the attacker's namespace."""
        return [write for write in self.scenario.writes(of_operator=True) if write.namespace == self.user.namespace]

    async def attackers_pods(self) -> list[Json]:
        """All pods of the attacker's namespace, including placeholders."""
        return await self.scenario.api.find("pods", self.user.namespace)

    async def restart_operator(self) -> None:
        """Stop and start the operator, as an upgrade does, and wait until it has recovered."""
        await self.scenario.muster.operator.stop()
        await self.scenario.muster.start()

    async def check_and_clean_up(self) -> None:
        """Run the checks after an attack, then delete all objects of the attacker's namespace."""
        try:
            await self._no_other_tenant_was_affected()
            self._memory_is_within_the_charts_limits()
        finally:
            await self._empty()

    async def _no_other_tenant_was_affected(self) -> None:
        for pod in self.bystanders:
            now = await self.scenario.api.get("pods", pod["metadata"]["name"], self.scenario.namespace)
            assert now["metadata"]["uid"] == pod["metadata"]["uid"]
            assert "deletionTimestamp" not in now["metadata"]
            assert now["spec"]["nodeName"] == pod["spec"]["nodeName"]
            assert now["status"]["phase"] != "Failed"

    def _memory_is_within_the_charts_limits(self) -> None:
        for name, process in (("operator", self.scenario.muster.operator), ("core", self.scenario.muster.core)):
            process.check()
            assert peak_bytes(process) < limit_bytes(name), f"{name}: {peak_bytes(process)} bytes"

    async def _empty(self) -> None:
        admin = self.scenario.api
        for name in self.finalized:
            try:
                await admin.patch("pods", name, {"metadata": {"finalizers": None}}, self.user.namespace)
            except ApiError as error:
                if error.status != 404:
                    raise

        async def is_empty() -> bool:
            await admin.delete_all("pods", self.user.namespace)
            return not await admin.find("pods", self.user.namespace)

        # Thousands of pods can take longer than one request may. The API server deletes a part of them each time.
        await until("the attacker's pods are deleted", is_empty, 120, every_s=0.5, tolerate=(TimeoutError,))
        for pod in self.bystanders:
            await admin.delete("pods", pod["metadata"]["name"], self.scenario.namespace, grace_s=0)


async def attacker_of(scenario: Scenario, stack: AsyncExitStack) -> User:
    """Create a namespace and an account with the permissions of a namespace user, and connect with it."""
    admin, namespace = scenario.api, f"{scenario.namespace}-attacker"
    await admin.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
    stack.push_async_callback(_delete_namespace, admin, namespace)
    for account in ("default", ACCOUNT):
        if account != "default":
            await admin.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": account}}, namespace)
        await until(
            "the namespace has its default service account",
            lambda: admin.get("serviceaccounts", "default", namespace),
            60,
            tolerate=(ApiError,),
        )
    subject = {"kind": "ServiceAccount", "name": ACCOUNT, "namespace": namespace}
    reference = {"apiGroup": RBAC, "kind": "Role", "name": ACCOUNT}
    head = {"apiVersion": f"{RBAC}/v1", "metadata": {"name": ACCOUNT}}
    await admin.create({**head, "kind": "Role", **ROLE}, namespace)
    await admin.create({**head, "kind": "RoleBinding", "roleRef": reference, "subjects": [subject]}, namespace)
    access = await load(await scenario.cluster.kubeconfig_for(ACCOUNT, namespace))
    return User(await stack.enter_async_context(Api(access)), namespace)


async def _delete_namespace(admin: Api, namespace: str) -> None:
    try:
        await admin.delete("namespaces", namespace)
    except ApiError as error:
        if error.status not in {404, 409}:
            raise


async def bystanders_of(scenario: Scenario) -> list[Json]:
    """Two bound pods of the other tenant, one of a named application and one without an application ID."""
    pods = [
        a_pod("bystander-0", cpu="100m", labels={"applicationId": "bystander", "queue": "root.tenant"}),
        a_pod("bystander-1", cpu="100m", labels={"queue": "root.tenant"}),
    ]
    await scenario.create(pods)
    names = {pod["metadata"]["name"] for pod in pods}

    async def bound() -> list[Json]:
        found = [pod for pod in await scenario.pods() if pod["metadata"]["name"] in names and is_bound(pod)]
        return found if len(found) == len(pods) else []

    return await scenario.eventually("the bystanders run", bound)


@asynccontextmanager
async def open_pods(user: User, pods: list[Json]) -> AsyncIterator[None]:
    """Create these pods of the attacker for the duration of the block."""
    await user.create(pods)
    yield
    await user.delete(pod["metadata"]["name"] for pod in pods)


def annotated(pod: Json, **annotations: str) -> Json:
    """The pod with annotations of YuniKorn's prefix; `_` in a name becomes `-`."""
    found = pod["metadata"].setdefault("annotations", {})
    found |= {f"yunikorn.apache.org/{name.replace('_', '-')}": value for name, value in annotations.items()}
    return pod


def task_groups(*groups: tuple[str, int], cpu: str = "1m") -> str:
    """The annotation's text for groups of these names and sizes."""
    resource = {"cpu": cpu}
    return json.dumps([{"name": name, "minMember": count, "minResource": resource} for name, count in groups])
