"""Applies the load directly at the API server, with retries."""

from collections.abc import Iterable

import aiohttp

from devcluster.api import Api, Json
from devcluster.errors import ApiError
from devcluster.resources import BY_KIND
from devcluster.waiting import until
from tests.e2e.faults.items import Deletion, Item

TIMEOUT_S = 60.0
RETRIED_ERRORS = (ApiError, aiohttp.ClientError, TimeoutError)


class User:
    """Creates items in a namespace, and deletes those with a planned deletion."""

    def __init__(self, api: Api, namespace: str) -> None:
        self._api = api
        self._namespace = namespace
        self._to_delete: list[Item] = []

    async def apply(self, items: Iterable[Item]) -> None:
        """Create the items in order. Deletes those of AT_ONCE now, and those of LATER with the next call."""
        late, self._to_delete = self._to_delete, []
        for item in items:
            for manifest in item.manifests:
                await self._create(manifest)
            if item.deletion is Deletion.AT_ONCE:
                await self._delete(item)
            elif item.deletion is Deletion.LATER:
                self._to_delete.append(item)
        for item in late:
            await self._delete(item)

    async def _create(self, manifest: Json) -> None:
        async def is_created() -> bool:
            try:
                await self._api.create(manifest, self._namespace)
            except ApiError as error:
                if error.reason != "AlreadyExists":
                    raise
            return True

        await until(f"{manifest['metadata']['name']} is created", is_created, TIMEOUT_S, tolerate=RETRIED_ERRORS)

    async def _delete(self, item: Item) -> None:
        for manifest in item.manifests:
            plural, name = BY_KIND[manifest["kind"]].plural, manifest["metadata"]["name"]

            async def is_accepted(plural: str = plural, name: str = name) -> bool:
                await self._api.delete(plural, name, self._namespace)
                return True

            await until(f"{name} is deleted", is_accepted, TIMEOUT_S, tolerate=RETRIED_ERRORS)
