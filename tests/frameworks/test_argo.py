"""Argo Workflows: the pods of a parallel step start together, and nothing is left when the workflow is deleted.

The real controller runs, but no executor: kubelets are simulated. The test does what the executor does at the end of a
pod. It lets the pod end, because the command is wrapped in `argoexec`, and creates the WorkflowTaskResult of the pod.
Without that object, the controller does not accept that the step succeeded.
"""

from pathlib import Path

from devcluster import programs
from devcluster.api import Json
from devcluster.frameworks import ControllerContext, Framework
from tests.e2e.scenario import Scenario
from tests.frameworks.conftest import OpenFramework
from tests.frameworks.gangs import applied_example, delete_all, is_released, is_reserved_first

PREFIX = "workflows.argoproj.io/"
WORKFLOW = "argo-train"
CONFIG = "workflow-controller-configmap"
HEALTH_PORT = 6060
"""Fixed in the program."""


def flags(_: ControllerContext) -> list[str]:
    """Those of the module's manifests: none, except the namespace, which is that of the pod."""
    return ["--namespace=argo"]


def without_metrics(objects: list[Json], _: Path) -> None:
    """The port of the metrics is fixed, too."""
    [config] = [one for one in objects if one["metadata"]["name"] == CONFIG]
    config["data"] = {"metricsConfig": "enabled: false\n", "telemetryConfig": "enabled: false\n"}


ARGO = Framework(
    program=programs.ARGO,
    module="github.com/argoproj/argo-workflows/v3",
    account=("argo", "argo"),
    flags=flags,
    kustomization="manifests/cluster-install",
    ready="/healthz",
    health=HEALTH_PORT,
    env={"LEADER_ELECTION_DISABLE": "true"},
    adapt=without_metrics,
)


async def test_the_pods_of_a_parallel_step_start_together(open_framework: OpenFramework) -> None:
    scenario = await open_framework(ARGO)
    manifests = await applied_example(scenario, "22-argo")
    await executed(scenario, "prepare", pods=1)
    await is_reserved_first(scenario, WORKFLOW, {"worker": 3})
    await executed(scenario, "worker", pods=3)

    async def has_succeeded() -> bool:
        found = await scenario.api.get("workflows.argoproj.io", WORKFLOW, scenario.namespace)
        return bool(found.get("status", {}).get("phase") == "Succeeded")

    await scenario.eventually("the workflow has succeeded", has_succeeded)
    await delete_all(scenario, manifests)
    await is_released(scenario, WORKFLOW)


async def executed(scenario: Scenario, template: str, pods: int) -> None:
    """Do what the executor does in the pods of the template, once they run."""

    async def are(phase: str) -> list[Json]:
        selector = f"{PREFIX}workflow={WORKFLOW}"
        found = await scenario.api.find("pods", scenario.namespace, labelSelector=selector)
        found = [pod for pod in found if f"-{template}-" in pod["metadata"]["name"]]
        return found if [pod["status"].get("phase") for pod in found] == [phase] * pods else []

    for pod in await scenario.eventually(f"{template} runs", lambda: are("Running")):
        ends = {"metadata": {"annotations": {"devcluster.muster/run-for": "0s"}}}
        await scenario.api.patch("pods", pod["metadata"]["name"], ends, scenario.namespace)
    for pod in await scenario.eventually(f"{template} has ended", lambda: are("Succeeded")):
        labels = {f"{PREFIX}workflow": WORKFLOW, f"{PREFIX}report-outputs-completed": "true"}
        name = pod["metadata"]["annotations"][f"{PREFIX}node-id"]
        result = {"apiVersion": "argoproj.io/v1alpha1", "kind": "WorkflowTaskResult"}
        await scenario.api.apply({**result, "metadata": {"name": name, "labels": labels}}, scenario.namespace)
