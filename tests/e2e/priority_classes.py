"""Creates priority classes that pods can use immediately."""

from typing import Final

from devcluster.api import Api
from devcluster.errors import ApiError
from devcluster.waiting import until
from tests.e2e.manifests import a_pod, a_priority_class

DEADLINE_S: Final = 30.0


async def create_class(api: Api, name: str, value: int) -> None:
    """Create the class, and wait until the API server, which reads classes from a watch, admits pods with it."""
    await api.apply(a_priority_class(name, value))
    pod = a_pod("probe")
    pod["spec"]["priorityClassName"] = name

    async def is_admitted() -> bool:
        await api.request("POST", "/api/v1/namespaces/default/pods", pod, {"dryRun": "All"})
        return True

    await until(f"pods can use the priority class {name}", is_admitted, DEADLINE_S, tolerate=(ApiError,))
