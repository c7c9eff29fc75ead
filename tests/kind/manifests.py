"""Members of gangs that do something: they run Python, which is in Muster's own image."""

from __future__ import annotations

from collections.abc import Mapping

from devcluster.api import Json

PYTHON = "/usr/local/bin/python"
WAIT = "import signal; signal.pause()"
RESTRICTED = {
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "capabilities": {"drop": ["ALL"]},
}
"""What Pod Security `restricted` wants of a container."""


def running(pod: Json, image: str, code: str = WAIT, **container: object) -> Json:
    """The same pod with a container that runs this; ``container``: more of its fields."""
    first = pod["spec"]["containers"][0]
    first |= {"image": image, "imagePullPolicy": "IfNotPresent", "command": [PYTHON, "-c", code], **container}
    return pod


def restricted(pod: Json) -> Json:
    """The same pod as Pod Security `restricted` admits it."""
    pod["spec"]["securityContext"] = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
    for container in pod["spec"]["containers"]:
        container["securityContext"] = RESTRICTED
    return pod


def ended(pod: Json) -> Mapping[str, object]:
    """How the pod's container ended; empty while it runs."""
    for status in pod["status"].get("containerStatuses", ()):
        found: Mapping[str, object] = status.get("state", {}).get("terminated", {})
        return found
    return {}


def waits_for(pod: Json) -> str:
    """Why the pod's container does not start, in the kubelet's word; empty if it has."""
    for status in pod["status"].get("containerStatuses", ()):
        return str(status.get("state", {}).get("waiting", {}).get("reason", ""))
    return ""


def restarts(pod: Json) -> int:
    """How often its containers were started again."""
    return sum(status["restartCount"] for status in pod["status"].get("containerStatuses", ()))
