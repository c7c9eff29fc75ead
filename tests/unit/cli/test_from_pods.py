"""`muster explain` for users who may read pods of their namespace, but open no port-forward."""

from pathlib import Path

import orjson

from tests.unit.cli.api_server import Json, api_server
from tests.unit.cli.conftest import run

WAITING = "gang train is waiting for its reservation: 0 of 3 members fit: 0/8 nodes are available: 8 Insufficient cpu."


def a_member(name: str, message: str = "", node: str = "") -> Json:
    scheduled = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
    return {
        "kind": "Pod",
        "metadata": {"namespace": "team-a", "name": name, "labels": {"yunikorn.apache.org/app-id": "train"}},
        "spec": {"schedulerName": "muster", "nodeName": node, "containers": []},
        "status": {"phase": "Running" if node else "Pending", "conditions": [scheduled] if message else []},
    }


MEMBERS = (a_member("m-0", WAITING), a_member("m-1", WAITING), a_member("m-2", node="n-1"), a_member("m-3"))
EVENT = {
    "kind": "Event",
    "metadata": {"namespace": "team-a", "name": "e"},
    "reason": "GangScheduling",
    "message": "15 minutes are left",
}


def explained(folder: Path, *arguments: str, failing: dict[str, int]) -> tuple[int, str, str]:
    with api_server(*MEMBERS, EVENT) as api:
        api.failing |= failing
        result = run("explain", *arguments, "--kubeconfig", api.kubeconfig(folder))
    return result.exit_code, result.stdout, " ".join(result.stderr.split())


CLOSED = {"/api/v1/namespaces/muster/pods": 403}


def test_without_a_port_forward_an_application_is_explained_by_its_pods(tmp_path: Path) -> None:
    code, text, _ = explained(tmp_path, "train", failing=CLOSED)
    assert code == 0
    lines = [" ".join(line.split()) for line in text.splitlines()]
    assert {"application train", "bound 1", "pending 3"} <= {*lines}
    assert f"m-0, m-1: {WAITING}" in " ".join(lines)
    assert "m-3: no scheduler has reported on the pod" in " ".join(lines)
    assert "GangScheduling: 15 minutes are left" in lines


def test_one_pod_is_explained_even_if_events_are_forbidden(tmp_path: Path) -> None:
    events = {"/api/v1/namespaces/team-a/events": 403}
    code, text, _ = explained(tmp_path, "app/train", "-o", "json", failing=CLOSED | events)
    found = orjson.loads(text)
    assert code == 0
    assert (found["bound"], found["pending"], found["events"]) == (1, 3, [])
    assert "refused by the test" in found["core"]


def test_without_permission_to_read_the_pods_the_first_error_is_shown(tmp_path: Path) -> None:
    code, _, error = explained(tmp_path, "train", failing=CLOSED | {"/api/v1/namespaces/team-a/pods": 403})
    assert code == 3
    assert error.startswith("muster: request to the API server")
    code, _, error = explained(tmp_path, "app/other", failing=CLOSED)
    assert (code, error) == (
        1,
        "muster: no application or pod other found in namespace team-a (-n or -A selects others)",
    )
