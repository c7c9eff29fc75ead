"""`muster explain --estimate`: a copy of the cluster runs forward with declared and earlier run times."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from muster import estimate
from muster.cluster_copy import ClusterCopy, read_copy
from muster.options import Target
from muster.printers import estimated_start
from muster_core.foresight.forecast import RunTimeHistory
from tests.unit.cli.api_server import NOW, ApiServer, Json, api_server
from tests.unit.cli.conftest import Served
from tests.unit.cli.test_changes import GANG, node, pod

WAITS = {"applicationID": "waits", "namespace": "ns"}


def running(app: str, at: str) -> Json:
    """A pod that was bound half an hour ago."""
    found = pod(app, 0, at=at)
    since = "2030-01-01T11:30:00Z"
    found["metadata"]["creationTimestamp"] = since
    condition = {"type": "PodScheduled", "status": "True", "lastTransitionTime": since}
    found["status"] |= {"startTime": since, "conditions": [condition]}
    return found


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ApiServer]:
    """Two nodes, each used by an application. The gang `waits` needs both."""
    members = [pod("waits", number, annotations=GANG) for number in range(2)]
    with api_server(node("a"), node("b"), running("first", "a"), running("second", "b"), *members) as server:
        monkeypatch.setenv("KUBECONFIG", server.kubeconfig(tmp_path))
        yield server


def copied(served: Served) -> ClusterCopy:
    target = Target(server=served.url)
    try:
        return read_copy(target.rest, target.cluster, "--estimate")
    finally:
        target.close()


def declare(cluster: ApiServer, app: str, seconds: int) -> None:
    cluster.objects[f"/api/v1/namespaces/ns/pods/{app}-0"]["spec"]["activeDeadlineSeconds"] = seconds


def test_declared_run_times_give_the_start(served: Served, cluster: ApiServer) -> None:
    declare(cluster, "first", 3600)
    declare(cluster, "second", 5400)
    result = served.run("explain", "waits", "-n", "ns", "--estimate", "-o", "json")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)["estimate"]
    assert found == {
        "earliestSeconds": 3600,
        "usualSeconds": 3600,
        "latestSeconds": 3600,
        "runTimes": {"declared": 2},
        "complete": True,
    }
    assert {method for method, _, _ in cluster.requests} == {"GET"}
    page = served.run("explain", "waits", "-n", "ns", "--estimate").stdout
    assert "Estimated start: in 1h, range 1h to 1h (run times: 2 declared)" in page


def test_earlier_applications_give_a_range(served: Served, cluster: ApiServer) -> None:
    declare(cluster, "first", 1900)
    history = RunTimeHistory()
    for seconds in (2000, 3000, 4000, 5000):
        history.add("second", "nobody", "root.b", seconds * 1_000_000_000)
    copy = copied(served)
    queue = [event for event in copy.objects if getattr(getattr(event, "spec", None), "user", None)]
    assert queue
    found = estimate.estimate(copy, history, WAITS, "--estimate", 30.0)
    assert (found["earliestSeconds"], found["usualSeconds"], found["latestSeconds"]) == (1200, 2200, 3200)
    assert found["runTimes"] == {"declared": 1, "same user and name": 1}


def test_without_a_known_run_time_there_is_no_estimate(served: Served, cluster: ApiServer) -> None:
    result = served.run("explain", "waits", "-n", "ns", "--estimate")
    assert "Estimated start: not within 30 days (run times: 2 unknown; unknown ones have no end)" in result.stdout


def test_an_application_that_starts_now(served: Served, cluster: ApiServer) -> None:
    cluster.objects["/api/v1/nodes/c"] = node("c")
    cluster.objects["/api/v1/nodes/d"] = node("d")
    found = estimate.estimate(copied(served), RunTimeHistory(), WAITS, "--estimate", 30.0)
    assert estimated_start(found) == "Estimated start: in 0s, range 0s to 0s (run times: none are needed)"


def test_the_time_is_bounded(served: Served, cluster: ApiServer) -> None:
    found = estimate.estimate(copied(served), RunTimeHistory(), WAITS, "--estimate", 0.0)
    assert not found["complete"]
    assert "reached its time limit" in estimated_start(found)


def test_overdue_applications_run_as_long_again(served: Served, cluster: ApiServer) -> None:
    """The API server ends them late, or the history was too short."""
    declare(cluster, "first", 60)
    declare(cluster, "second", 60)
    found = estimate.estimate(copied(served), RunTimeHistory(), WAITS, "--estimate", 30.0)
    assert found["usualSeconds"] == 1800
    later = replace(copied(served), now_ns=int(NOW.timestamp() + 600) * 1_000_000_000)
    assert estimate.estimate(later, RunTimeHistory(), WAITS, "--estimate", 30.0)["usualSeconds"] == 2400


def test_an_estimate_cannot_be_watched(served: Served, cluster: ApiServer) -> None:
    result = served.run("explain", "waits", "-n", "ns", "--estimate", "--watch")
    assert (result.exit_code, "--estimate cannot be used with --watch" in result.stderr) == (2, True)
