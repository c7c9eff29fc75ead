"""LeaderWorkerSet: leaders and workers of all replicas start together, and nothing is left when it is deleted."""

from collections import Counter

import yaml

from devcluster import programs
from devcluster.frameworks import ControllerContext, Framework, module_folder
from devcluster.nodes import FakeNode
from tests.frameworks.conftest import OpenFramework
from tests.frameworks.gangs import applied_example, bound_of, delete_all, is_released, is_reserved_first


def flags(context: ControllerContext) -> list[str]:
    """The configuration is that of the module, with our ports and certificate."""
    config = context.folder / "config.yaml"
    config.write_text(
        f"""\
apiVersion: config.lws.x-k8s.io/v1alpha1
kind: Configuration
leaderElection: {{leaderElect: false}}
internalCertManagement: {{enable: false}}
metrics: {{bindAddress: "127.0.0.1:{context.metrics}"}}
health: {{healthProbeBindAddress: "127.0.0.1:{context.health}"}}
webhook: {{host: 127.0.0.1, port: {context.webhooks}, certDir: {context.certificates}}}
"""
    )
    return [f"--config={config}"]


LEADERWORKERSET = Framework(
    program=programs.LEADERWORKERSET,
    module="sigs.k8s.io/lws",
    account=("lws-system", "lws-controller-manager"),
    flags=flags,
    kustomization="config/default",
)


async def test_all_replicas_of_a_leaderworkerset_start_together(open_framework: OpenFramework) -> None:
    scenario = await open_framework(LEADERWORKERSET)
    manifests = await applied_example(scenario, "21-leaderworkerset")
    await is_reserved_first(scenario, "lws-serve", {"leader": 2, "worker": 4})

    async def is_available() -> bool:
        found = await scenario.api.get("leaderworkersets.leaderworkerset.x-k8s.io", "serve", scenario.namespace)
        conditions = found.get("status", {}).get("conditions", [])
        return any(one["type"] == "Available" and one["status"] == "True" for one in conditions)

    await scenario.eventually("the LeaderWorkerSet is available", is_available)
    await delete_all(scenario, manifests)
    await is_released(scenario, "lws-serve")


async def test_each_replica_of_its_own_sample_starts_by_itself_with_gang_size(open_framework: OpenFramework) -> None:
    """The node has room for two of three replicas, and for two of the four pods of the third one."""
    sample = module_folder(LEADERWORKERSET) / "config/samples/leaderworkerset_v1_leaderworkerset.yaml"
    [manifest] = yaml.safe_load_all(sample.read_text())
    template = manifest["spec"]["leaderWorkerTemplate"]["workerTemplate"]
    template["metadata"] = {"annotations": {"yunikorn.apache.org/gang-size": "4"}}
    scenario = await open_framework(LEADERWORKERSET, nodes=[FakeNode("node-0", cpu="500m")])
    await scenario.api.apply(manifest, scenario.namespace)
    pods = await bound_of(scenario, 8, total=12)
    replicas = Counter(pod["metadata"]["labels"]["leaderworkerset.sigs.k8s.io/group-index"] for pod in pods)
    assert sorted(replicas.values()) == [4, 4]
    await scenario.cluster.add_nodes([FakeNode("node-1", cpu="100m")])
    await scenario.all_bound(12)
    await delete_all(scenario, [manifest])
    await is_released(scenario, "")
