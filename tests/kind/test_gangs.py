"""The life cycle of a gang in real containers: Soft, Hard, Direct; ends, rejections, Pod Security."""

from __future__ import annotations

from collections import Counter

import pytest

from devcluster.api import Json
from tests.e2e.manifests import Group, a_gang
from tests.kind.conftest import OpenRoom
from tests.kind.manifests import restricted, running
from tests.kind.room import Room

GROUPS = [Group("driver", 1, cpu="50m"), Group("executors", 3, cpu="100m")]
ENFORCED = {"pod-security.kubernetes.io/enforce": "restricted"}


@pytest.mark.parametrize("style", ["Soft", "Hard"])
async def test_a_gang_of_two_groups_replaces_its_placeholders(style: str, room: Room) -> None:
    await room.create(a_gang(f"spark-{style.lower()}", GROUPS, style=style))
    await room.running(4)
    assert len(room.placeholders) == 4


async def test_a_direct_gang_runs_without_any_placeholder(room: Room) -> None:
    await room.create(a_gang("direct", GROUPS, style="Hard", placement="Direct"))
    await room.running(4)
    assert room.placeholders == set()


async def test_a_finished_gang_releases_all_resources_including_unused_placeholders(room: Room) -> None:
    gang = a_gang("short", [Group("workers", 3, cpu="100m", real=2)], style="Soft", timeout_s=600)
    await room.create(running(pod, room.kind.image, "print('done')") for pod in gang)

    async def has_ended() -> bool:
        phases = Counter(pod["status"].get("phase") for pod in await room.pods())
        return phases == {"Succeeded": 2} and not await room.pods(placeholders=True)

    await room.eventually("both have ended and no placeholder is left", has_ended)
    assert len(room.placeholders) == 3


async def test_a_hard_gang_without_free_resources_fails_after_the_timeout_with_a_reason(room: Room) -> None:
    places, each = await room.block()
    gang = a_gang("hard", [Group("workers", places, cpu=f"{each}m", real=2)], style="Hard", timeout_s=10)
    await room.create(gang)
    await room.reserved(places - 1)

    async def has_failed() -> bool:
        phases = Counter(pod["status"].get("phase") for pod in await members(room))
        return phases == {"Failed": 2} and not await room.pods(placeholders=True)

    await room.eventually("every pod of the gang has failed and no placeholder is left", has_failed)
    for pod in await members(room):
        assert "nodeName" not in pod["spec"]
        assert pod["status"]["reason"]
        assert "the placeholder timeout expired" in pod["status"]["message"]
    await room.told(gang[0]["metadata"]["name"], "timed out")


async def members(room: Room) -> list[Json]:
    """The pods of the gang."""
    return [pod for pod in await room.pods() if pod["metadata"]["name"] != "blocker"]


async def test_a_soft_gang_without_free_resources_continues_after_the_timeout(room: Room) -> None:
    places, each = await room.block()
    await room.create(a_gang("large", [Group("workers", places, cpu=f"{each}m", real=2)], style="Soft", timeout_s=5))
    await room.running(3)


async def test_a_gang_runs_in_a_namespace_that_enforces_pod_security_restricted(open_room: OpenRoom) -> None:
    room = await open_room(ENFORCED)
    gang = a_gang("strict", GROUPS, style="Hard")
    await room.create(restricted(running(pod, room.kind.image)) for pod in gang)
    await room.running(4)
    assert len(room.placeholders) == 4
