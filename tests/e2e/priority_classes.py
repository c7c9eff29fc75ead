"""Priority classes that pods may name at once."""

from __future__ import annotations

from typing import Final

from devcluster.api import Api
from devcluster.errors import ApiError
from devcluster.waiting import until
from tests.e2e.manifests import a_pod, a_priority_class

DEADLINE_S: Final = 30.0


async def make_class(api: Api, name: str, value: int) -> None:
    """Create it, and wait until the API server, which reads classes from a watch of its own, lets pods name it."""
    await api.apply(a_priority_class(name, value))
    pod = a_pod("probe")
    pod["spec"]["priorityClassName"] = name

    async def is_admitted() -> bool:
        await api.request("POST", "/api/v1/namespaces/default/pods", pod, {"dryRun": "All"})
        return True

    await until(f"pods may name the priority class {name}", is_admitted, DEADLINE_S, tolerate=(ApiError,))
