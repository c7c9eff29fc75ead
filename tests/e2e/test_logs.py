"""The logs of both processes while the API server fails and pods arrive: all lines have one format."""

import json
from typing import Final

from devcluster.api import Json
from devcluster.nodes import FakeNode
from tests.e2e.conftest import OpenScenario
from tests.e2e.manifests import a_pod
from tests.e2e.scenario import Scenario

KEYS: Final = {"event", "level", "logger", "timestamp"}
PODS: Final = 40


def lines(scenario: Scenario) -> list[Json]:
    """The lines of both logs. A line that is not JSON fails the test."""
    files = [process.log for process in (scenario.muster.operator, scenario.muster.core)]
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


def lines_at_info(scenario: Scenario) -> list[Json]:
    """The lines at the default log level."""
    return [line for line in lines(scenario) if line["level"] != "debug"]


async def test_every_log_line_is_json_with_the_same_keys_also_for_failed_requests(
    open_scenario: OpenScenario,
) -> None:
    scenario = await open_scenario([FakeNode("node-0")], gated=True, started=False)
    scenario.gate.fail("GET", r"/csidrivers$", 403, times=2)
    await scenario.muster.start()
    await scenario.create([a_pod("one")])
    await scenario.all_bound(1)
    written = lines(scenario)
    assert [line for line in written if not line.keys() >= KEYS] == []
    repeated = [line for line in written if line["event"] == "watch stream restarted"]
    assert repeated
    for line in repeated:
        assert line["level"] == "warning"
        assert line["resource"] == "csidrivers"
        assert "403" in line["reason"]
    assert [line for line in written if line["level"] in {"error", "critical"}] == []


async def test_scheduled_pods_do_not_add_one_log_line_each(open_scenario: OpenScenario) -> None:
    """A log line per pod would cost time in a burst and hide important lines."""
    scenario = await open_scenario([FakeNode("node-0", cpu="64")])
    before = len(lines_at_info(scenario))
    await scenario.create([a_pod(f"pod-{number}") for number in range(PODS)])
    await scenario.all_bound(PODS)
    assert len(lines_at_info(scenario)) - before < PODS / 4
