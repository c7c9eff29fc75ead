"""Settings, start and cleanup of scenarios with the webhook."""

import time

from devcluster import ports
from devcluster.api import Api, Json
from devcluster.cluster import Cluster
from devcluster.muster import NAMESPACE
from muster_operator.webhook.registration import OTHERS_TIMEOUT_S
from muster_operator.webhook.service import MARGIN_S
from tests.e2e.manifests import PREFIX, a_pod
from tests.e2e.scenario import Scenario

NAME = "muster-admission"
MUTATING, VALIDATING = "mutatingwebhookconfigurations", "validatingwebhookconfigurations"
USER_INFO = f"{PREFIX}user.info"


def webhook(**more: str) -> dict[str, str]:
    """The operator's environment with the webhook enabled."""
    [port] = ports.free(1)
    return {"MUSTER_WEBHOOK_URL": f"https://127.0.0.1:{port}", "MUSTER_WEBHOOK_PORT": str(port), **more}


async def registered(scenario: Scenario) -> None:
    """Wait until the API server calls the webhook, shortly after it stored the registration."""

    async def is_called() -> bool:
        pod = await scenario.api.request(
            "POST", f"/api/v1/namespaces/{scenario.namespace}/pods?dryRun=All", a_pod("probe")
        )
        return USER_INFO in pod["metadata"].get("annotations", {})

    await scenario.eventually("the API server calls the webhook", is_called)


async def admitted(scenario: Scenario, api: Api, pod: Json) -> Json:
    """Create a pod of another scheduler and return it. If the webhook was too slow, delete the pod and repeat.

    The API server stores such a pod unchanged. A pod that is unchanged for another reason is returned.
    """

    async def create() -> Json:
        start = time.monotonic()
        created = await api.create(pod, scenario.namespace)
        is_changed = USER_INFO in created["metadata"].get("annotations", {})
        if is_changed or time.monotonic() - start < OTHERS_TIMEOUT_S - MARGIN_S:
            return created
        await api.delete("pods", pod["metadata"]["name"], scenario.namespace, grace_s=0)
        return {}

    return await scenario.eventually(f"the webhook changes pod {pod['metadata']['name']}", create)


async def unregister(cluster: Cluster) -> None:
    """Delete the registrations of the stopped operator, because other scenarios run without them."""
    for plural in (MUTATING, VALIDATING):
        await cluster.admin.delete(plural, NAME)
    await cluster.admin.delete("secrets", NAME, NAMESPACE)
