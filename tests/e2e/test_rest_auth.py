"""Cluster tokens at the core's REST API: TokenReview returns the user, SubjectAccessReview the permissions."""

import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import pytest
import pytest_asyncio

from devcluster import ports
from devcluster.api import Json
from devcluster.cluster import Cluster, documents
from devcluster.connection import load
from devcluster.muster import MANIFESTS, NAMESPACE
from devcluster.process import Process
from devcluster.resources import BY_KIND
from devcluster.waiting import until

REST_AUTH = MANIFESTS.with_name("rest-auth.yaml")
ADMIN, READER = "rest-admin", "rest-reader"
BINDING: Json = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "ClusterRoleBinding",
    "metadata": {"name": "rest-admin-of-a-test"},
    "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "muster-rest-admin"},
    "subjects": [{"kind": "ServiceAccount", "name": ADMIN, "namespace": NAMESPACE}],
}
DUMP, LEVEL, READ = "/debug/fullstatedump", "/ws/v1/scheduler/log-level", "/ws/v1/partitions"


@dataclass(frozen=True, slots=True)
class Rest:
    """A core with `--rest-kubernetes-auth`, and the tokens of its clients."""

    url: str
    tokens: dict[str, str]

    async def status(self, path: str, account: str, method: str = "GET") -> int:
        headers = {"Authorization": f"Bearer {self.tokens[account]}"} if account else {}
        body = b'{"level":"debug"}' if method == "PUT" else None
        async with (
            aiohttp.ClientSession(headers=headers) as session,
            session.request(method, self.url + path, data=body) as answer,
        ):
            return answer.status


@pytest_asyncio.fixture(loop_scope="session")
async def rest(home: Cluster, tmp_path: Path) -> AsyncIterator[Rest]:
    things = [*documents(REST_AUTH), *(_account(name) for name in (ADMIN, READER)), BINDING]
    for thing in things:
        await home.admin.apply(thing)
    tokens = {name: await _token(home, name) for name in (ADMIN, READER)}
    [port] = ports.free(1)
    core = Process(
        "core",
        [
            sys.executable,
            "-m",
            "muster_core",
            f"--listen=unix://{tmp_path}/core.sock",
            f"--rest-port={port}",
            "--rest-kubernetes-auth",
        ],
        tmp_path / "core.log",
        env={"KUBECONFIG": str(await home.kubeconfig_for("muster-core", NAMESPACE))},
    )
    core.start()
    found = Rest(f"http://127.0.0.1:{port}", {**tokens, "stranger": "nobody.knows.me"})

    async def is_up() -> bool:
        core.check()
        return await found.status("/livez", "") == 200

    await until("the core answers", is_up, 30, tolerate=(aiohttp.ClientError,))
    yield found
    await core.stop()
    for thing in reversed(things):
        meta = thing["metadata"]
        await home.admin.delete(BY_KIND[thing["kind"]].plural, meta["name"], meta.get("namespace"))


def _account(name: str) -> Json:
    return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": NAMESPACE}}


async def _token(cluster: Cluster, account: str) -> str:
    access = await load(await cluster.kubeconfig_for(account, NAMESPACE))
    assert access.token is not None
    return access.token


@pytest.mark.parametrize(
    "account, dumping, changing", [("", 401, 401), ("stranger", 401, 401), (READER, 403, 403), (ADMIN, 200, 200)]
)
async def test_cluster_roles_decide_who_may_dump_and_change(
    rest: Rest, account: str, dumping: int, changing: int
) -> None:
    assert await rest.status(DUMP, account) == dumping
    assert await rest.status(LEVEL, account, "PUT") == changing
    assert await rest.status(READ, account) == 200


async def test_removing_a_role_revokes_access_within_seconds(rest: Rest, home: Cluster) -> None:
    assert await rest.status(DUMP, ADMIN) == 200
    await home.admin.delete("clusterrolebindings", BINDING["metadata"]["name"])

    async def is_closed() -> bool:
        return await rest.status(DUMP, ADMIN) == 403

    await until("the request is forbidden", is_closed, 30, every_s=0.5)
