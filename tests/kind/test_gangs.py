"""The life cycle of a gang in real containers: Soft, Hard, Direct, completion, timeouts, Pod Security."""

from collections import Counter

import pytest

from devcluster.api import Json
from tests.e2e.manifests import Group, a_gang
from tests.kind.conftest import OpenNamespace
from tests.kind.manifests import restricted, running
from tests.kind.namespace import Namespace

GROUPS = [Group("driver", 1, cpu="50m"), Group("executors", 3, cpu="100m")]
ENFORCED = {"pod-security.kubernetes.io/enforce": "restricted"}


@pytest.mark.parametrize("style", ["Soft", "Hard"])
async def test_a_gang_of_two_groups_replaces_its_placeholders(style: str, namespace: Namespace) -> None:
    await namespace.create(a_gang(f"spark-{style.lower()}", GROUPS, style=style, placement="Reserve"))
    await namespace.running(4)
    assert len(namespace.placeholders) == 4


async def test_a_gang_without_a_placement_runs_without_any_placeholder(namespace: Namespace) -> None:
    await namespace.create(a_gang("present", GROUPS, style="Hard"))
    await namespace.running(4)
    assert namespace.placeholders == set()


async def test_a_direct_gang_runs_without_any_placeholder(namespace: Namespace) -> None:
    await namespace.create(a_gang("direct", GROUPS, style="Hard", placement="Direct"))
    await namespace.running(4)
    assert namespace.placeholders == set()


async def test_a_finished_gang_releases_all_resources_including_unused_placeholders(namespace: Namespace) -> None:
    gang = a_gang("short", [Group("workers", 3, cpu="100m", real=2)], style="Soft", timeout_s=600, placement="Reserve")
    await namespace.create(running(pod, namespace.kind.image, "print('done')") for pod in gang)

    async def has_finished() -> bool:
        phases = Counter(pod["status"].get("phase") for pod in await namespace.pods())
        return phases == {"Succeeded": 2} and not await namespace.pods(placeholders=True)

    await namespace.eventually("both pods have succeeded and no placeholder is left", has_finished)
    assert len(namespace.placeholders) == 3


async def test_a_hard_gang_without_free_resources_fails_after_the_timeout_with_a_reason(namespace: Namespace) -> None:
    slots, each = await namespace.block()
    group = Group("workers", slots, cpu=f"{each}m", real=2)
    gang = a_gang("hard", [group], style="Hard", timeout_s=10, placement="Reserve")
    await namespace.create(gang)
    await namespace.reserved(slots - 1)

    async def has_failed() -> bool:
        phases = Counter(pod["status"].get("phase") for pod in await members(namespace))
        return phases == {"Failed": 2} and not await namespace.pods(placeholders=True)

    await namespace.eventually("every pod of the gang has failed and no placeholder is left", has_failed)
    for pod in await members(namespace):
        assert "nodeName" not in pod["spec"]
        assert pod["status"]["reason"]
        assert "the placeholder timeout expired" in pod["status"]["message"]
    await namespace.wait_for_warning(gang[0]["metadata"]["name"], "timed out")


async def members(namespace: Namespace) -> list[Json]:
    """The pods of the gang."""
    return [pod for pod in await namespace.pods() if pod["metadata"]["name"] != "blocker"]


async def test_a_soft_gang_without_free_resources_continues_after_the_timeout(namespace: Namespace) -> None:
    slots, each = await namespace.block()
    group = Group("workers", slots, cpu=f"{each}m", real=2)
    await namespace.create(a_gang("large", [group], style="Soft", timeout_s=5, placement="Reserve"))
    await namespace.running(3)


async def test_a_gang_runs_in_a_namespace_that_enforces_pod_security_restricted(open_namespace: OpenNamespace) -> None:
    namespace = await open_namespace(ENFORCED)
    gang = a_gang("strict", GROUPS, style="Hard", placement="Reserve")
    await namespace.create(restricted(running(pod, namespace.kind.image)) for pod in gang)
    await namespace.running(4)
    assert len(namespace.placeholders) == 4
