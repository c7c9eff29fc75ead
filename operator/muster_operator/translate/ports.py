"""The host ports of a pod as the tag ``si/container-ports``: those that kube-scheduler's NodePorts counts.

Containers, and init containers that go on running; every other init container gives its ports back before the pod runs.
A pod on the host's network has them filled in by the API server.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from muster_operator.translate.canonical import canonical
from muster_operator.translate.raw import Raw, integer, objects, text

_ANY_ADDRESS: Final = "0.0.0.0"  # noqa: S104 - what Kubernetes calls every address of a node
_MAX_PORT: Final = 65_535


def _ports(container: Raw) -> Iterator[tuple[str, str, int]]:
    for port in objects(container.get("ports")):
        number = integer(port.get("hostPort"))
        if 0 < number <= _MAX_PORT:
            yield text(port.get("hostIP")) or _ANY_ADDRESS, text(port.get("protocol")) or "TCP", number


def _of(spec: Raw) -> Iterator[tuple[str, str, int]]:
    for container in objects(spec.get("initContainers")):
        if "ports" in container and container.get("restartPolicy") == "Always":
            yield from _ports(container)
    for container in objects(spec.get("containers")):
        if "ports" in container:
            yield from _ports(container)


def ports_tag(spec: Raw) -> str:
    """The tag's value, each port once, in order; empty for the many pods that have none.

    Raises:
        BadInputError: an address cannot be written as JSON.
    """
    ports = sorted(set(_of(spec)))
    return canonical("ports", ports) if ports else ""
