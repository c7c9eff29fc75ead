"""`muster explain --changes`: the cluster of the API server is copied, and the core's configuration is used."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from muster import cluster_copy
from muster.what_if import Answers
from muster_core.foresight.present import PresentState
from muster_core.model.config import QuotaLimit
from muster_core.model.events import AllocationReported, ApplicationAdded, AskAdded, NodeAdded
from tests.unit.builders import (
    PARTITION,
    SECOND,
    a_configuration,
    a_limit,
    a_node,
    a_queue,
    an_allocation,
    an_application,
    an_ask,
)
from tests.unit.cli.api_server import ApiServer, Json, api_server
from tests.unit.cli.conftest import Served

GROUPS = json.dumps([{"name": "workers", "minMember": 2, "minResource": {"cpu": "3"}}])
GANG = {"yunikorn.apache.org/task-group-name": "workers", "yunikorn.apache.org/task-groups": GROUPS}


def node(name: str) -> Json:
    return {"kind": "Node", "metadata": {"name": name}, "status": {"allocatable": {"cpu": "4", "pods": "10"}}}


def pod(app: str, number: int, *, cpu: str = "3", at: str = "", **more: Any) -> Json:
    metadata = {
        "namespace": "ns",
        "name": f"{app}-{number}",
        "uid": f"{app}-{number}",
        "labels": {"applicationId": app, "queue": "root.b"},
        "creationTimestamp": f"2029-12-31T12:00:0{number}Z",
    } | more
    container = {"name": "main", "resources": {"requests": {"cpu": cpu}}}
    spec = {"schedulerName": "muster", "containers": [container]} | ({"nodeName": at} if at else {})
    return {"kind": "Pod", "metadata": metadata, "spec": spec, "status": {"phase": "Running" if at else "Pending"}}


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ApiServer]:
    """Two nodes: one is used by the application `busy`. The gang `waits` needs both."""
    members = [pod("waits", number, annotations=GANG) for number in range(2)]
    with api_server(node("a"), node("b"), pod("busy", 0, at="a"), *members) as server:
        monkeypatch.setenv("KUBECONFIG", server.kubeconfig(tmp_path))
        yield server


def test_the_smallest_changes_are_found_on_a_copy_of_the_cluster(served: Served, cluster: ApiServer) -> None:
    result = served.run("explain", "waits", "-n", "ns", "--changes", "-o", "json")
    assert result.exit_code == 0, result.output
    found = json.loads(result.output)["changes"]
    assert (found["startsAnyway"], found["complete"]) == (False, True)
    [[ended], [added]] = found["sets"]
    assert (ended["change"], ended["application"], ended["pods"]) == ("endApplication", "busy", 1)
    assert (added["change"], added["count"]) == ("addNodes", 1)
    assert {method for method, _, _ in cluster.requests} == {"GET"}
    page = served.run("explain", "waits", "-n", "ns", "--changes").stdout
    assert "end ns/busy (1 pod, " in page
    assert "add 1 node like a (" in page


def test_an_application_that_starts_by_itself_needs_no_change(served: Served, cluster: ApiServer) -> None:
    cluster.objects["/api/v1/nodes/c"] = node("c")
    result = served.run("explain", "waits", "-n", "ns", "--changes")
    assert "Changes: none is needed; it starts within a minute" in result.stdout


def test_an_application_that_no_change_can_start_is_reported(served: Served, cluster: ApiServer) -> None:
    for number in range(2):
        path = f"/api/v1/namespaces/ns/pods/waits-{number}"
        cluster.objects[path] = pod("waits", number, cpu="100")
    result = served.run("explain", "waits", "-n", "ns", "--changes")
    assert "Changes: no small set of ended applications, nodes, quotas or constraints would start it" in result.stdout


@pytest.mark.parametrize("path", ["/api/v1/nodes", "/api/v1/pods"])
def test_without_permission_to_list_the_cluster_there_is_one_line(
    served: Served, cluster: ApiServer, path: str
) -> None:
    cluster.failing[path] = 403
    result = served.run("explain", "waits", "-n", "ns", "--changes")
    assert result.exit_code == 3
    assert "403 refused by the test" in result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert served.run("explain", "waits", "-n", "ns").exit_code == 0


def test_claims_and_unknown_applications_are_rejected_with_the_reason(served: Served, cluster: ApiServer) -> None:
    first = cluster.objects["/api/v1/namespaces/ns/pods/waits-0"]
    first["spec"]["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
    result = served.run("explain", "waits", "-n", "ns", "--changes")
    assert (result.exit_code, "volumes or devices, which are not simulated" in result.stderr) == (2, True)
    for path in [path for path in cluster.objects if "waits" in path]:
        del cluster.objects[path]
    result = served.run("explain", "waits", "-n", "ns", "--changes")
    assert (result.exit_code, "it has no pods" in result.stderr) == (2, True)


def test_the_number_of_objects_is_bounded(served: Served, cluster: ApiServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_copy, "_MOST_OBJECTS", 1)
    result = served.run("explain", "waits", "-n", "ns", "--changes")
    assert result.exit_code == 2
    assert "/api/v1/nodes has more than 1 objects" in result.stderr


def test_names_of_other_applications_are_printed_without_control_characters(served: Served, cluster: ApiServer) -> None:
    hostile = "busy\x1b[31m[bold]x"
    del cluster.objects["/api/v1/namespaces/ns/pods/busy-0"]
    there = pod("busy", 0, at="a", labels={"queue": "root.b"}, annotations={"yunikorn.apache.org/app-id": hostile})
    cluster.objects["/api/v1/namespaces/ns/pods/busy-0"] = there
    result = served.run("explain", "waits", "-n", "ns", "--changes")
    assert "end ns/busy" in result.stdout
    assert "[bold]x" in result.stdout
    assert "\x1b" not in result.stdout


def test_changes_cannot_be_watched(served: Served, cluster: ApiServer) -> None:
    """Each search takes up to 30 s and lists the cluster."""
    result = served.run("explain", "waits", "-n", "ns", "--changes", "--watch")
    assert result.exit_code == 2
    assert "--changes cannot be used with --watch" in result.stderr
    assert cluster.requests == []


@pytest.mark.parametrize(
    "limits, change",
    [
        ([a_limit(users=("kim",), applications=1)], "limit of user kim in queue root.a to 2 applications"),
        ([a_limit(users=("*",), vcore=1500, applications=9)], "limit of user * in queue root.a to cpu 2"),
        (
            [a_limit(users=("kim",), vcore=3000), a_limit(groups=("lab",), vcore=1000)],
            "limit of group lab in queue root.a to cpu 2",
        ),
    ],
)
def test_a_raised_limit_names_only_what_holds_the_application_back(limits: list[QuotaLimit], change: str) -> None:
    state = PresentState(
        partition=PARTITION,
        configuration=a_configuration(a_queue("a", limits=tuple(limits))),
        extra={},
        events=(
            NodeAdded(a_node("n")),
            ApplicationAdded(an_application("runs", groups=("lab",))),
            AllocationReported(an_allocation("1", "n", app="runs")),
            ApplicationAdded(an_application("waits", groups=("lab",))),
            AskAdded(an_ask("2", app="waits")),
        ),
        now_ns=SECOND,
    )
    found = Answers(state).changes({"applicationID": "waits"}, real_s=60.0)
    assert [line.partition("raise the ")[2] for line in found["lines"] if "raise" in line] == [change]
