"""Gang members that run a Python program. Muster's image contains Python."""

from collections.abc import Mapping

from devcluster.api import Json

PYTHON = "/usr/local/bin/python"
WAIT = "import signal; signal.pause()"
RESTRICTED = {
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "capabilities": {"drop": ["ALL"]},
}
"""The security context that Pod Security `restricted` requires of a container."""


def running(pod: Json, image: str, code: str = WAIT, **container: object) -> Json:
    """The same pod with a container that runs ``code``; ``container``: further fields of the container."""
    first = pod["spec"]["containers"][0]
    first |= {"image": image, "imagePullPolicy": "IfNotPresent", "command": [PYTHON, "-c", code], **container}
    return pod


def restricted(pod: Json) -> Json:
    """The same pod as Pod Security `restricted` admits it."""
    pod["spec"]["securityContext"] = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
    for container in pod["spec"]["containers"]:
        container["securityContext"] = RESTRICTED
    return pod


def terminated(pod: Json) -> Mapping[str, object]:
    """The terminated state of the pod's container; empty while it runs."""
    for status in pod["status"].get("containerStatuses", ()):
        found: Mapping[str, object] = status.get("state", {}).get("terminated", {})
        return found
    return {}


def waiting_reason(pod: Json) -> str:
    """The kubelet's reason why the pod's container does not start; empty if it started."""
    for status in pod["status"].get("containerStatuses", ()):
        return str(status.get("state", {}).get("waiting", {}).get("reason", ""))
    return ""


def restarts(pod: Json) -> int:
    """Sum of the restart counts of its containers."""
    return sum(status["restartCount"] for status in pod["status"].get("containerStatuses", ()))
