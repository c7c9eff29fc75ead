"""What both processes write to their logs while the API server fails for a while and pods come: lines of one form."""

from __future__ import annotations

import json
from typing import Final

from devcluster.api import Json
from devcluster.nodes import FakeNode
from tests.e2e.conftest import OpenScene
from tests.e2e.manifests import a_pod
from tests.e2e.scenario import Scene

KEYS: Final = {"event", "level", "logger", "timestamp"}
PODS: Final = 40


def lines(scene: Scene) -> list[Json]:
    """Of both logs; a line that is not JSON fails the test."""
    files = [process.log for process in (scene.muster.operator, scene.muster.core)]
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


def told(scene: Scene) -> list[Json]:
    """Those of them that a log has unless somebody asks for more."""
    return [line for line in lines(scene) if line["level"] != "debug"]


async def test_every_line_is_json_with_the_same_keys_also_what_libraries_say_of_failures(open_scene: OpenScene) -> None:
    scene = await open_scene([FakeNode("node-0")], gated=True, started=False)
    scene.gate.fail("GET", r"/apis$", 503, times=2)
    await scene.muster.start()
    await scene.create([a_pod("one")])
    await scene.all_bound(1)
    written = lines(scene)
    assert [line for line in written if not line.keys() >= KEYS] == []
    repeated = [line for line in written if line["event"] == "a request failed; will retry"]
    assert repeated
    for line in repeated:
        assert line["level"] == "warning"
        assert line["method"] == "GET"
        assert line["url"].endswith("/apis")
    assert [line for line in written if line["level"] in {"error", "critical"}] == []


async def test_pods_that_are_served_leave_no_line_each(open_scene: OpenScene) -> None:
    """A log that grows with pods would cost time in a burst, and hide what matters."""
    scene = await open_scene([FakeNode("node-0", cpu="64")])
    before = len(told(scene))
    await scene.create([a_pod(f"pod-{number}") for number in range(PODS)])
    await scene.all_bound(PODS)
    assert len(told(scene)) - before < PODS / 4
