"""`muster smoke-test`: runs a small gang and reports the result; `helm test` runs it.

Its pods print a version and exit. They are always deleted.
"""

from __future__ import annotations

import json
import secrets
import time
from dataclasses import dataclass
from typing import Annotated, Final

import typer

from muster.clients import kubeconfig as kubeconfig_files
from muster.clients.kubernetes import Cluster, Json, connect
from muster.errors import PROBLEM
from muster.options import Context, Kubeconfig, exit_on_error
from muster.text import print_line
from muster_operator.model.names import (
    ANNOTATION_PARAMETERS,
    ANNOTATION_TASK_GROUP_NAME,
    ANNOTATION_TASK_GROUPS,
    LABEL_APP_ID,
    LABEL_QUEUE,
)

EXAMPLES = ("muster smoke-test --image registry.example.com/muster:0.1.0 --members 5",)

PAUSE_S: Final = 0.5
REQUESTS = {"cpu": "10m", "memory": "32Mi"}
RESTRICTED = {
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "capabilities": {"drop": ["ALL"]},
}
"""What Pod Security `restricted` requires of a container."""


@dataclass(frozen=True, slots=True)
class Gang:
    """The test gang. `app`: its application ID, unique per run."""

    namespace: str
    app: str
    image: str
    scheduler: str
    queue: str
    members: int

    def member(self, number: int) -> Json:
        """A pod of the gang, which prints the version and exits."""
        groups = [{"name": "test", "minMember": self.members, "minResource": REQUESTS}]
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": f"{self.app}-{number}",
                "labels": {LABEL_APP_ID: self.app, LABEL_QUEUE: self.queue},
                "annotations": {
                    ANNOTATION_TASK_GROUP_NAME: "test",
                    ANNOTATION_TASK_GROUPS: json.dumps(groups),
                    ANNOTATION_PARAMETERS: "gangSchedulingStyle=Hard",
                },
            },
            "spec": {
                "schedulerName": self.scheduler,
                "restartPolicy": "Never",
                "automountServiceAccountToken": False,
                "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
                "containers": [
                    {
                        "name": "member",
                        "image": self.image,
                        "imagePullPolicy": "IfNotPresent",
                        "args": ["version"],
                        "resources": {"requests": REQUESTS},
                        "securityContext": RESTRICTED,
                    }
                ],
            },
        }


def command(  # noqa: PLR0913 # long: the command line is its options
    *,
    image: Annotated[str, typer.Option(help="Container image of the members: the image of this Muster installation.")],
    namespace: Annotated[
        str,
        typer.Option(
            "--namespace",
            "-n",
            envvar="NAMESPACE",
            help="Namespace of the gang (default: the namespace of the context).",
        ),
    ] = "",
    scheduler: Annotated[str, typer.Option(help="Scheduler name that Muster serves.")] = "muster",
    queue: Annotated[
        str, typer.Option(help="Queue of the gang. The default placement rule ignores it.")
    ] = "root.default",
    members: Annotated[int, typer.Option(min=1, help="Number of pods.")] = 3,
    seconds: Annotated[int, typer.Option(min=1, help="Timeout in seconds.")] = 120,
    kubeconfig: Kubeconfig = "",
    context: Context = "",
) -> None:
    """Run a test gang and report the result.

    Exits with 0 if all members ran. Otherwise exits with 1 and prints the reason of each member.
    """
    app = f"muster-smoke-test-{secrets.token_hex(3)}"

    def run_gang() -> None:
        chosen = namespace or kubeconfig_files.namespace(kubeconfig, context)
        with connect(kubeconfig, context) as cluster:
            run(cluster, Gang(chosen, app, image, scheduler, queue, members), seconds)

    exit_on_error(run_gang)


def run(cluster: Cluster, gang: Gang, seconds: float) -> None:
    """Create the members, wait until all ran, delete them. Raises Exit(1) if they do not run in time."""
    pods = f"/api/v1/namespaces/{gang.namespace}/pods"
    try:
        for number in range(gang.members):
            cluster.create(pods, gang.member(number))
        if not _all_ran(cluster, gang, seconds):
            print_line(f"muster: the gang did not run within {seconds} s", err=True)
            raise typer.Exit(PROBLEM)
        print_line("passed: the gang ran completely")
    finally:
        for number in range(gang.members):
            cluster.delete(f"{pods}/{gang.app}-{number}")


def _all_ran(cluster: Cluster, gang: Gang, seconds: float) -> bool:
    """Print the counts when they change. False after the timeout, when the reason of each member is printed."""
    deadline = time.monotonic() + seconds
    members = {f"{gang.app}-{number}" for number in range(gang.members)}
    last = ""
    while True:
        path = f"/api/v1/namespaces/{gang.namespace}/pods"
        found = list(cluster.list(path, labelSelector=f"{LABEL_APP_ID}={gang.app}"))
        placeholders = [pod for pod in found if pod["metadata"]["name"] not in members]
        ran = [pod for pod in found if pod not in placeholders and _ran(pod)]
        line = f"{len(placeholders)} placeholders, {len(ran)} of {gang.members} members ran"
        if line != last:
            print_line(last := line)
        if len(ran) == gang.members and not placeholders:
            return True
        if time.monotonic() >= deadline:
            for pod in found:
                print_line(f"{pod['metadata']['name']}: {_pending_reason(pod)}", err=True)
            return False
        time.sleep(PAUSE_S)


def _ran(pod: Json) -> bool:
    return pod["status"].get("phase") in {"Running", "Succeeded"}


def _pending_reason(pod: Json) -> str:
    """The messages of conditions and containers that are not ready, else the phase."""
    conditions = [c.get("message", "") for c in pod["status"].get("conditions", ()) if c.get("status") != "True"]
    waiting = [
        s["state"]["waiting"].get("reason", "")
        for s in pod["status"].get("containerStatuses", ())
        if "waiting" in s.get("state", {})
    ]
    found = "; ".join(filter(None, [*conditions, *waiting])) or str(pod["status"].get("phase"))
    if pod["spec"].get("nodeName") or pod["status"].get("conditions"):
        return found
    return (
        f"{found}: no scheduler reported on it; check with muster doctor that {pod['spec']['schedulerName']} is served"
    )
