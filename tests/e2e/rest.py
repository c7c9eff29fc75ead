"""The core's REST API, as users' scripts read it."""

from typing import Any

import aiohttp

from tests.e2e.scenario import Scenario


async def get_json(scenario: Scenario, path: str) -> Any:
    """Return the JSON at a path below ``/ws/v1/``. Raises aiohttp.ClientResponseError for an error status."""
    url = f"http://127.0.0.1:{scenario.muster.rest_port}/ws/v1/{path}"
    async with aiohttp.ClientSession() as session, session.get(url) as answer:
        answer.raise_for_status()
        return await answer.json()


async def queue_exists(scenario: Scenario, path: str) -> bool:
    """Whether the core has that queue."""
    try:
        await get_json(scenario, f"partition/default/queue/{path}")
    except aiohttp.ClientResponseError as error:
        if error.status == 404:
            return False
        raise
    return True
