"""Spark operator: a driver starts when its executors have resources too, and a real Spark job runs on them.

The operator runs the real spark-submit. The nodes are simulated; `spark_containers` runs the containers of the pods.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

from devcluster import frameworks, programs
from devcluster.api import Json
from devcluster.cluster import Cluster, documents
from devcluster.frameworks import ControllerContext, Framework
from devcluster.process import Process
from tests.e2e.scenario import Scenario
from tests.frameworks.conftest import OpenFramework
from tests.frameworks.gangs import EXAMPLES, SLOW_S, applied_example, delete_all, is_released, is_reserved_first
from tests.frameworks.spark_containers import driver, executors, spark_home

EXAMPLE = "07-spark"
QUEUES = documents(EXAMPLES / "queues.yaml")[0]["data"]
APPLICATIONS = "sparkapplications.sparkoperator.k8s.io"
NAMESPACE, WEBHOOK = "spark-operator", "spark-operator-webhook"
JOB_S = 180.0
"""Four Java processes start on a busy machine."""


@asynccontextmanager
async def spark_operator(cluster: Cluster, namespace: str) -> AsyncIterator[None]:
    """Runs the operator's controller and its webhook, for the SparkApplications of one namespace."""
    server = urlsplit(cluster.server)
    controller = Framework(
        program=programs.SPARK_OPERATOR,
        module="github.com/kubeflow/spark-operator/v2",
        account=(NAMESPACE, "spark-operator-controller"),
        flags=lambda context: [*controller_flags(context), f"--namespaces={namespace}"],
        chart="charts/spark-operator-chart",
        values=(f"--set=spark.jobNamespaces={{{namespace}}}", "--set=webhook.enable=false"),
        env={
            "SPARK_HOME": str(spark_home()),
            "KUBERNETES_SERVICE_HOST": str(server.hostname),
            "KUBERNETES_SERVICE_PORT": str(server.port),
        },
    )
    webhook = replace(
        controller,
        name=WEBHOOK,
        host="localhost",  # the name in the certificate that the webhook creates
        account=(NAMESPACE, WEBHOOK),
        flags=lambda context: [*webhook_flags(context), f"--namespaces={namespace}"],
        values=(
            f"--set=spark.jobNamespaces={{{namespace}}}",
            "--show-only=templates/webhook/serviceaccount.yaml",
            "--show-only=templates/webhook/rbac.yaml",
            "--show-only=templates/webhook/mutatingwebhookconfiguration.yaml",
            "--show-only=templates/webhook/validatingwebhookconfiguration.yaml",
        ),
    )
    async with frameworks.running(cluster, controller), frameworks.running(cluster, webhook):
        yield


def controller_flags(context: ControllerContext) -> list[str]:
    """Those of the chart with `controller.batchScheduler.enable=true`, with our port."""
    return [
        "controller",
        "start",
        "--enable-batch-scheduler=true",
        f"--health-probe-bind-address=127.0.0.1:{context.health}",
    ]


def webhook_flags(context: ControllerContext) -> list[str]:
    """Those of the chart, with our ports and folder."""
    return [
        "webhook",
        "start",
        f"--webhook-cert-dir={context.certificates}",
        f"--webhook-secret-name={WEBHOOK}-certs",
        f"--webhook-secret-namespace={NAMESPACE}",
        f"--webhook-svc-name={WEBHOOK}-svc",
        f"--webhook-svc-namespace={NAMESPACE}",
        f"--webhook-port={context.webhooks}",
        f"--mutating-webhook-name={WEBHOOK}",
        f"--validating-webhook-name={WEBHOOK}",
        f"--health-probe-bind-address=127.0.0.1:{context.health}",
    ]


async def submitted(scenario: Scenario, file: str) -> tuple[list[Json], Json]:
    """Apply the example and wait until the driver is bound. Returns the manifests and the driver."""

    async def is_accepted() -> list[Json]:
        return await applied_example(scenario, EXAMPLE, file)  # the operator's webhook has just been registered

    manifests = await scenario.eventually("the SparkApplication is accepted", is_accepted)

    async def drivers() -> list[Json]:
        return [pod for pod in await scenario.bound() if pod["metadata"]["labels"].get("spark-role") == "driver"]

    [pod] = await scenario.eventually("the driver is bound", drivers, JOB_S)
    return manifests, pod


async def test_spark_application_reserves_its_executors_and_computes_pi(
    open_framework: OpenFramework, tmp_path: Path
) -> None:
    spark_home()
    scenario = await open_framework(config=QUEUES)
    async with spark_operator(scenario.cluster, scenario.namespace):
        manifests, pod = await submitted(scenario, "sparkapplication.yaml")
        app = pod["metadata"]["labels"]["spark-app-selector"]
        process = await driver(scenario.cluster, pod, tmp_path)
        process.start()
        try:
            groups = {"spark-driver": 1, "spark-executor": 2}
            members = await is_reserved_first(scenario, app, groups, scheduler="yunikorn")
            workers = [one for one in members if one["metadata"]["labels"]["spark-role"] == "executor"]
            async with executors(workers, tmp_path):
                await scenario.eventually("the driver has ended", lambda: has_ended(process), JOB_S)
        finally:
            await process.stop(grace_s=2.0)
        assert process.returncode == 0, process.tail()
        assert "Pi is roughly 3.1" in process.log.read_text()
        ends = {"metadata": {"annotations": {"devcluster.muster/run-for": "1s"}}}  # its container has ended
        await scenario.api.patch("pods", pod["metadata"]["name"], ends, scenario.namespace)

        async def is_completed() -> bool:
            found = await scenario.api.get(APPLICATIONS, "spark-pi", scenario.namespace)
            return bool(found["status"]["applicationState"]["state"] == "COMPLETED")

        await scenario.eventually("the SparkApplication is completed", is_completed, SLOW_S)
        await delete_all(scenario, manifests)
        await is_released(scenario, app)


async def has_ended(process: Process) -> bool:
    return not process.is_running()
