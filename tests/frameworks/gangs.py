"""What every framework's test looks at: a gang is reserved before its first pod runs, and it leaves nothing behind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import yaml

from devcluster.api import Json
from tests.e2e.manifests import PREFIX, is_bound
from tests.e2e.scenario import Scenario

EXAMPLES = Path(__file__).parents[2] / "examples"
SLOW_S = 120.0
"""Controllers are allowed their back-offs."""


async def applied_example(scenario: Scenario, folder: str, file: str = "") -> list[Json]:
    """Apply the manifests of an example as ``kubectl apply -f`` does, unchanged, and return them."""
    files = [EXAMPLES / folder / file] if file else sorted((EXAMPLES / folder).glob("*.yaml"))
    manifests = [one for path in files for one in yaml.safe_load_all(path.read_text()) if one]
    for manifest in manifests:
        await scenario.api.apply(manifest, scenario.namespace)
    return manifests


async def is_reserved_first(scenario: Scenario, app: str, groups: Mapping[str, int]) -> None:
    """Wait until the members of all groups are bound; before the first of them, all placeholders were bound.

    ``groups``: the number of members of each task group. The webhook gave every pod its scheduler and its user.
    """

    async def members() -> list[Json]:
        found = [pod for pod in await scenario.pods() if _app(pod) == app and is_bound(pod)]
        return found if Counter(_group(pod) for pod in found) == Counter(groups) else []

    pods = await scenario.eventually(f"the members of {dict(groups)} are bound", members, SLOW_S)
    for pod in pods:
        assert pod["spec"]["schedulerName"] == "muster", pod["metadata"]["name"]
        assert f"{PREFIX}user.info" in pod["metadata"]["annotations"], pod["metadata"]["name"]
    names = {pod["metadata"]["name"] for pod in pods}
    writes = sorted(scenario.writes(of_operator=True), key=lambda write: write.at)
    bound = [write.name for write in writes if write.subresource == "binding" and write.succeeded]
    first = min(bound.index(name) for name in names)
    assert len([name for name in bound[:first] if name.startswith("tg-")]) == sum(groups.values())


async def finishes(scenario: Scenario, app: str, pods: int) -> None:
    """Wait until this many pods of the application have succeeded, and no placeholder is left."""

    async def has_finished() -> bool:
        found = [pod for pod in await scenario.pods() if _app(pod) == app]
        succeeded = [pod for pod in found if pod["status"].get("phase") == "Succeeded"]
        return len(succeeded) == pods and not await scenario.pods(placeholders=True)

    await scenario.eventually(f"{pods} pods of {app} have succeeded", has_finished, SLOW_S)


async def is_released(scenario: Scenario, app: str) -> None:
    """Wait until nothing of the application is left: no pod, and no application in the core."""

    async def is_gone() -> bool:
        pods = [pod for pod in await scenario.api.find("pods", scenario.namespace) if _app(pod) == app]
        ledgers = (await scenario.muster.dump())["ledgers"]
        return not pods and not any(ledgers["queues"]["root"]["allocated"].values())

    await scenario.eventually(f"nothing of {app} is left", is_gone, SLOW_S)


def _app(pod: Json) -> str:
    labels = pod["metadata"].get("labels", {})
    return str(labels.get(f"{PREFIX}app-id") or labels.get("applicationId", ""))


def _group(pod: Json) -> str:
    return str(pod["metadata"].get("annotations", {}).get(f"{PREFIX}task-group-name", ""))
