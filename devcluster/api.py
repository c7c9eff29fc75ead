"""A thin client of the API server for tests, demo and benchmarks. It sends and receives JSON."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

import aiohttp
import orjson

from devcluster.errors import ApiError
from devcluster.resources import BY_PLURAL, Resource, of_manifest

Json = dict[str, Any]

FIELD_MANAGER = "devcluster"
DELETE = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background"}
TIMEOUT_S = 30.0
"""For one request. A server on a loaded laptop answers in milliseconds; a longer timeout would only hide a hang."""

PATCH_TYPES = {
    "merge": "application/merge-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "apply": "application/apply-patch+yaml",
}


@dataclass(frozen=True, slots=True)
class Access:
    """Address and credentials of an API server. ``tls`` has the trusted authority and any client certificate."""

    server: str
    tls: ssl.SSLContext
    token: str | None = None


class Api:
    """A client with the credentials of one user: ``async with Api(access) as api``.

    Methods name a resource by its plural (``pods``). ``user``: a user that the credentials impersonate.
    """

    def __init__(self, access: Access, user_agent: str = "devcluster", *, user: str = "") -> None:
        self.access = access
        headers = {"User-Agent": user_agent}
        if access.token is not None:
            headers["Authorization"] = f"Bearer {access.token}"
        if user:
            headers["Impersonate-User"] = user
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=100, ssl=access.tls),
            headers=headers,
            timeout=aiohttp.ClientTimeout(total=TIMEOUT_S),
            read_bufsize=2**20,
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._session.close()

    async def request(
        self,
        method: str,
        path: str,
        body: object = None,
        params: Mapping[str, str] | None = None,
        content_type: str = "application/json",
    ) -> Json:
        """Send one request. Raises ApiError for an error status, aiohttp.ClientError if the server is unreachable."""
        data = None if body is None else orjson.dumps(body)
        headers = {"Content-Type": content_type} if data is not None else {}
        async with self._session.request(
            method, self.access.server + path, data=data, params=params, headers=headers
        ) as answer:
            raw = await answer.read()
            if answer.status >= 400:
                raise _api_error(answer.status, raw)
            if "json" not in answer.content_type:
                return {"text": raw.decode(errors="replace")}
            decoded: Json = orjson.loads(raw)
            return decoded

    async def get(self, plural: str, name: str, namespace: str | None = None) -> Json:
        """Return one object. Raises ApiError with status 404 if it does not exist."""
        return await self.request("GET", BY_PLURAL[plural].path(namespace, name))

    async def find(self, plural: str, namespace: str | None = None, **selectors: str) -> list[Json]:
        """List objects (``labelSelector=``, ``fieldSelector=``), of all namespaces if none is given."""
        answer = await self.request("GET", BY_PLURAL[plural].path(namespace), params=selectors)
        items: list[Json] = answer["items"]
        return items

    async def create(self, manifest: Json, namespace: str | None = None) -> Json:
        """Create the object. The default namespace of a namespaced object is ``default``."""
        resource, where, _ = _address(manifest, namespace)
        return await self.request("POST", resource.path(where), manifest, {"fieldManager": FIELD_MANAGER})

    async def apply(self, manifest: Json, namespace: str | None = None) -> Json:
        """Create or update the object with server-side apply."""
        resource, where, name = _address(manifest, namespace)
        params = {"fieldManager": FIELD_MANAGER, "force": "true"}
        return await self.request("PATCH", resource.path(where, name), manifest, params, PATCH_TYPES["apply"])

    async def patch(
        self, plural: str, name: str, body: Json, namespace: str | None = None, *, subresource: str | None = None
    ) -> Json:
        """Send a JSON merge patch."""
        path = BY_PLURAL[plural].path(namespace, name, subresource)
        return await self.request("PATCH", path, body, content_type=PATCH_TYPES["merge"])

    async def delete(
        self,
        plural: str,
        name: str,
        namespace: str | None = None,
        *,
        grace_s: int | None = None,
    ) -> bool:
        """Delete an object, and in the background the objects that it owns. Returns False if it does not exist."""
        options: Json = dict(DELETE)
        if grace_s is not None:
            options["gracePeriodSeconds"] = grace_s
        try:
            await self.request("DELETE", BY_PLURAL[plural].path(namespace, name), options)
        except ApiError as error:
            if error.status == 404:
                return False
            raise
        return True

    async def delete_all(self, plural: str, namespace: str | None = None, **selectors: str) -> None:
        """Delete a collection with a grace period of 0 s."""
        options = {**DELETE, "gracePeriodSeconds": 0}
        await self.request("DELETE", BY_PLURAL[plural].path(namespace), options, params=selectors)

    async def watch(
        self, plural: str, namespace: str | None = None, **selectors: str
    ) -> AsyncIterator[tuple[str, Json]]:
        """Yield the existing objects (as ``ADDED``), then changes. Reopens a watch that the server ends.

        Raises ApiError with status 410 if the server no longer has the resource version; the caller must list again.
        """
        path = BY_PLURAL[plural].path(namespace)
        listed = await self.request("GET", path, params=selectors)
        version: str = listed["metadata"]["resourceVersion"]
        for item in listed["items"]:
            yield "ADDED", item
        while True:
            params = {**selectors, "watch": "1", "resourceVersion": version, "allowWatchBookmarks": "true"}
            async for kind, thing in _watch_once(self._session, self.access.server + path, params):
                version = thing["metadata"]["resourceVersion"]
                if kind != "BOOKMARK":
                    yield kind, thing


async def bind(api: Api, pod: str, node: str, namespace: str) -> None:
    """Bind a pod to a node."""
    body = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": pod},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    }
    await api.request("POST", BY_PLURAL["pods"].path(namespace, pod, "binding"), body)


async def _watch_once(
    session: aiohttp.ClientSession, url: str, params: Mapping[str, str]
) -> AsyncIterator[tuple[str, Json]]:
    no_timeout = aiohttp.ClientTimeout(total=None, sock_connect=TIMEOUT_S)
    async with session.get(url, params=params, timeout=no_timeout) as answer:
        if answer.status >= 400:
            raise _api_error(answer.status, await answer.read())
        rest = b""
        # Split chunks here, because reading by lines fails at the reader's buffer limit, which a pod can exceed.
        async for chunk in answer.content.iter_any():
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                event = orjson.loads(line)
                if event["type"] == "ERROR":
                    raise _api_error(event["object"].get("code", 500), orjson.dumps(event["object"]))
                yield event["type"], event["object"]


def _address(manifest: Json, namespace: str | None) -> tuple[Resource, str | None, str]:
    resource = of_manifest(manifest)
    metadata = manifest["metadata"]
    where = metadata.get("namespace") or namespace or "default"
    return resource, where if resource.namespaced else None, metadata.get("name", "")


def _api_error(status: int, raw: bytes) -> ApiError:
    try:
        answer = orjson.loads(raw)
        return ApiError(status, answer.get("reason", ""), answer.get("message", ""))
    except (orjson.JSONDecodeError, AttributeError):
        return ApiError(status, "", raw[:500].decode(errors="replace"))
