"""Kueue with Muster: Kueue admits a Job when its quota allows it, and Muster starts the Job's pods together."""

import base64
from pathlib import Path

from devcluster import programs
from devcluster.api import Json
from devcluster.certificates import rotated_files
from devcluster.cluster import documents
from devcluster.frameworks import ControllerContext, Framework
from devcluster.nodes import FakeNode
from tests.e2e.pod_groups.test_declared_gangs import SAMPLES
from tests.frameworks.conftest import OpenFramework
from tests.frameworks.gangs import (
    app_of,
    applied_example,
    bound_of,
    delete_all,
    finishes,
    is_released,
    is_reserved_first,
)

SECRET = "kueue-webhook-server-cert"
SERVICE = "kueue-webhook-service.kueue-system.svc"


def flags(context: ControllerContext) -> list[str]:
    """The configuration of the module for Jobs and plain pods, with our ports and certificate."""
    config = context.folder / "config.yaml"
    config.write_text(
        f"""\
apiVersion: config.kueue.x-k8s.io/v1beta2
kind: Configuration
namespace: kueue-system
leaderElection: {{leaderElect: false}}
internalCertManagement: {{enable: true, webhookSecretName: {SECRET}}}
metrics: {{bindAddress: "127.0.0.1:{context.metrics}"}}
health: {{healthProbeBindAddress: "127.0.0.1:{context.health}"}}
webhook: {{host: 127.0.0.1, port: {context.webhooks}, certDir: {context.certificates}}}
integrations: {{frameworks: [batch/job, pod]}}
featureGates: {{VisibilityOnDemand: false}}
"""
    )
    return [f"--config={config}"]


def with_own_certificates(objects: list[Json], folder: Path) -> None:
    """Fill the Secret from which Kueue reads its certificates, and write them where the kubelet would mount them.

    Kueue without its own certificate management reads another file below /etc. With it, Kueue keeps a Secret whose
    certificates are valid for its names, so the Secret has some that are also valid for 127.0.0.1.
    """
    files = rotated_files("kueue-ca", [SERVICE, "127.0.0.1"])
    for name in ("tls.crt", "tls.key"):
        (folder / name).write_bytes(files[name])
    encoded = {name: base64.b64encode(content).decode() for name, content in files.items()}
    for one in objects:
        if one["kind"] == "Secret" and one["metadata"]["name"] == SECRET:
            one["data"] = encoded
        conversion = one["spec"].get("conversion", {}) if one["kind"] == "CustomResourceDefinition" else {}
        for webhook in (*one.get("webhooks", []), *([conversion["webhook"]] if "webhook" in conversion else [])):
            webhook["clientConfig"]["caBundle"] = encoded["ca.crt"]


KUEUE = Framework(
    program=programs.KUEUE,
    module="sigs.k8s.io/kueue",
    account=("kueue-system", "kueue-controller-manager"),
    flags=flags,
    kustomization="config/default",
    adapt=with_own_certificates,
)


async def test_kueue_admits_one_job_after_the_other_and_muster_starts_its_pods_together(
    open_framework: OpenFramework,
) -> None:
    """Kueue reclaims the quota of each pod that has succeeded, so the first Job may not be complete yet."""
    scenario = await open_framework(KUEUE)
    queues = await applied_example(scenario, "23-kueue", "queues.yaml")
    jobs = await applied_example(scenario, "23-kueue", "jobs.yaml")
    await is_reserved_first(scenario, "kueue-first", {"worker": 3})
    await is_reserved_first(scenario, "kueue-second", {"worker": 3})
    await finishes(scenario, "kueue-second", pods=3)
    pods = await scenario.pods()
    first, second = ([pod for pod in pods if app_of(pod) == app] for app in ("kueue-first", "kueue-second"))
    ended = [pod["status"]["containerStatuses"][0]["state"]["terminated"]["finishedAt"] for pod in first]
    assert max(ended) <= min(pod["metadata"]["creationTimestamp"] for pod in second)
    await delete_all(scenario, jobs)
    for app in ("kueue-first", "kueue-second"):
        await is_released(scenario, app)
    await delete_all(scenario, queues)


async def test_a_group_of_pods_that_kueue_admits_starts_together(open_framework: OpenFramework) -> None:
    """Kueue's own example, with gang-size. Kueue gates its pods until all of them exist and have quota."""
    scenario = await open_framework(KUEUE, nodes=[FakeNode("node-0", cpu="1200m")])
    queues = await applied_example(scenario, "23-kueue", "queues.yaml")
    queues.append({**queues[-1], "metadata": {"name": "user-queue"}})
    await scenario.api.apply(queues[-1], scenario.namespace)
    pods = documents(SAMPLES / "kueue.yaml")
    for pod in pods:
        pod["metadata"]["annotations"]["devcluster.muster/run-for"] = "1s"
    await scenario.create(pods)
    assert await bound_of(scenario, 0, total=2) == []
    await scenario.cluster.add_nodes([FakeNode("node-1", cpu="1")])
    await finishes(scenario, "sample-group", pods=2)
    await delete_all(scenario, pods)
    await is_released(scenario, "sample-group")
    await delete_all(scenario, queues)
