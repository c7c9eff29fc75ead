"""Every object of the cluster and of one namespace, of all kinds, to find leftovers."""

from devcluster.api import Api, Json

FLEETING = {"events"}
"""Resources that expire or are deleted by controllers."""


async def everything(api: Api, namespace: str) -> set[str]:
    """Return each object as ``resource/name``."""
    found: set[str] = set()
    for group in await _groups(api):
        for resource in (await api.request("GET", group))["resources"]:
            if "list" in resource["verbs"] and resource["name"] not in FLEETING:
                found |= await _objects(api, group, resource, namespace)
    return found


async def _groups(api: Api) -> list[str]:
    groups: list[Json] = (await api.request("GET", "/apis"))["groups"]
    return ["/api/v1", *(f"/apis/{group['preferredVersion']['groupVersion']}" for group in groups)]


async def _objects(api: Api, group: str, resource: Json, namespace: str) -> set[str]:
    where = f"/namespaces/{namespace}" if resource["namespaced"] else ""
    listed = await api.request("GET", f"{group}{where}/{resource['name']}")
    return {f"{resource['name']}/{one['metadata']['name']}" for one in listed.get("items") or []}
