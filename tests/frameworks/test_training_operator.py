"""training-operator: the replica types of a job start together; a job that does not fit waits as one."""

from functools import partial

import yaml

from devcluster import programs
from devcluster.api import Json
from devcluster.frameworks import Framework
from tests.e2e.scenario import Scenario
from tests.frameworks.conftest import OpenFramework
from tests.frameworks.gangs import EXAMPLES, applied_example, ends, is_released, is_reserved_first

TRAINING_OPERATOR = Framework(
    program=programs.TRAINING_OPERATOR,
    module="github.com/kubeflow/training-operator",
    account=("kubeflow", "training-operator"),
    flags=lambda place: [
        f"--metrics-bind-address=127.0.0.1:{place.metrics}",
        f"--health-probe-bind-address=127.0.0.1:{place.health}",
        f"--webhook-server-port={place.webhooks}",
    ],
    kustomization="manifests/overlays/standalone",
    secret="training-operator-webhook-cert",
)

TFJOB = """\
apiVersion: kubeflow.org/v1
kind: TFJob
metadata:
  name: mnist
spec:
  runPolicy: {cleanPodPolicy: Running}
  tfReplicaSpecs:
    PS:
      replicas: 1
      template:
        metadata:
          labels: &labels {yunikorn.apache.org/app-id: tf-mnist}
          annotations:
            yunikorn.apache.org/task-group-name: ps
            yunikorn.apache.org/task-groups: &groups |-
              [{"name": "ps", "minMember": 1, "minResource": {"cpu": "500m", "memory": "128Mi"}},
               {"name": "worker", "minMember": 2, "minResource": {"cpu": "1", "memory": "128Mi"}}]
        spec:
          containers:
            - name: tensorflow
              image: ghcr.io/kubeflow/training-v1/tf-mnist-with-summaries:latest
              command: [python, /var/tf_mnist/mnist_with_summaries.py]
              resources: {requests: {cpu: 500m, memory: 128Mi}}
    Worker:
      replicas: 2
      restartPolicy: OnFailure
      template:
        metadata:
          labels: *labels
          annotations:
            yunikorn.apache.org/task-group-name: worker
            yunikorn.apache.org/task-groups: *groups
        spec:
          containers:
            - name: tensorflow
              image: ghcr.io/kubeflow/training-v1/tf-mnist-with-summaries:latest
              command: [python, /var/tf_mnist/mnist_with_summaries.py]
              resources: {requests: {cpu: "1", memory: 128Mi}}
"""


async def succeeds(scenario: Scenario, plural: str, name: str) -> None:
    async def has_succeeded() -> bool:
        job = await scenario.api.get(plural, name, scenario.namespace)
        conditions = {one["type"]: one["status"] for one in job.get("status", {}).get("conditions", [])}
        return conditions.get("Succeeded") == "True"

    await scenario.eventually(f"{plural} {name} has succeeded", has_succeeded)


async def test_a_pytorch_job_starts_as_one_and_leaves_nothing(open_framework: OpenFramework) -> None:
    config: Json = yaml.safe_load((EXAMPLES / "queues.yaml").read_text())["data"]
    scenario = await open_framework(TRAINING_OPERATOR, config=config)
    # The operator is ready before its webhooks answer.
    apply = partial(applied_example, scenario, "11-pytorch", "pytorchjob.yaml")
    await scenario.eventually("the PyTorchJob is accepted", apply)
    await is_reserved_first(scenario, "pytorch-mnist", {"master": 1, "worker": 2})
    for group in ("master", "worker"):
        await ends(scenario, "pytorch-mnist", group)  # a training script ends by itself
    await succeeds(scenario, "pytorchjobs.kubeflow.org", "mnist")
    await scenario.api.delete("pytorchjobs.kubeflow.org", "mnist", scenario.namespace)
    await is_released(scenario, "pytorch-mnist")


async def test_the_operator_removes_the_parameter_server_of_a_finished_tensorflow_job(
    open_framework: OpenFramework,
) -> None:
    scenario = await open_framework(TRAINING_OPERATOR)
    tfjob = yaml.safe_load(TFJOB)
    # The operator is ready before its webhooks answer.
    await scenario.eventually("the TFJob is accepted", lambda: scenario.api.create(tfjob, scenario.namespace))
    await is_reserved_first(scenario, "tf-mnist", {"ps": 1, "worker": 2})
    await ends(scenario, "tf-mnist", "worker")  # a parameter server does not end by itself
    await succeeds(scenario, "tfjobs.kubeflow.org", "mnist")

    async def is_removed() -> bool:
        return not [pod for pod in await scenario.pods() if pod["metadata"]["name"] == "mnist-ps-0"]

    await scenario.eventually("the parameter server is removed", is_removed)
    await scenario.api.delete("tfjobs.kubeflow.org", "mnist", scenario.namespace)
    await is_released(scenario, "tf-mnist")
