"""A kubeconfig of an administrator who acts as another user, at a real API server."""

import asyncio
from pathlib import Path
from typing import Any

import yaml

from devcluster.cluster import Cluster
from muster.clients import kubernetes
from muster_operator.kube.session import KubeSession, Request
from muster_si.kubeconfig import Credentials, read

REVIEW = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
REVIEWS = "/apis/authentication.k8s.io/v1/selfsubjectreviews"


async def test_command_and_operator_act_as_the_user_of_the_kubeconfig(local: Cluster, tmp_path: Path) -> None:
    config = yaml.safe_load((await local.admin_kubeconfig()).read_text())
    config["users"][0]["user"] |= {
        "as": "ann",
        "as-groups": ["team-a", "team-b"],
        "as-user-extra": {"example.com/scope": ["x", "y"]},
    }
    config["clusters"][0]["cluster"]["tls-server-name"] = "localhost"
    path = tmp_path / "kubeconfig"
    path.write_text(yaml.safe_dump(config))

    def by_command() -> Any:
        with kubernetes.connect(str(path), "") as cluster:
            return cluster.create(REVIEWS, REVIEW)

    context = read(str(path))
    assert context is not None
    session = KubeSession(Credentials(context.access))
    reply = await session.send(Request("POST", REVIEWS, yaml.safe_dump(REVIEW).encode(), "application/yaml"))
    await session.close()
    for found in (await asyncio.to_thread(by_command), reply.json()):
        user = found["status"]["userInfo"]
        assert (user["username"], user["groups"][:2]) == ("ann", ["team-a", "team-b"])
        assert user["extra"] == {"example.com/scope": ["x", "y"]}
