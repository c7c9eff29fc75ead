"""`muster explain` for users who may read pods of their namespace, but open no port-forward."""

from pathlib import Path

import orjson
import pytest

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


def explained(
    folder: Path, *arguments: str, failing: dict[str, int], objects: tuple[Json, ...] = MEMBERS
) -> tuple[int, str, str]:
    with api_server(*objects, EVENT) as api:
        api.failing |= failing
        result = run("explain", *arguments, "--kubeconfig", api.kubeconfig(folder))
    return result.exit_code, result.stdout, " ".join(result.stderr.split())


CLOSED = {"/api/v1/namespaces/muster/pods": 403}


def test_without_a_port_forward_an_application_is_explained_by_its_pods(tmp_path: Path) -> None:
    code, text, _ = explained(tmp_path, "train", failing=CLOSED)
    assert code == 0
    lines = [" ".join(line.split()) for line in text.splitlines()]
    assert {"application train", "scheduler muster", "bound 1", "pending 3"} <= {*lines}
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


def of(application: str, namespace: str, member: Json) -> Json:
    """The member with its application ID in an annotation, which may contain a slash."""
    metadata = {"namespace": namespace, "name": member["metadata"]["name"]}
    return {**member, "metadata": {**metadata, "annotations": {"yunikorn.apache.org/app-id": application}}}


@pytest.mark.parametrize(
    "options, failing, message",
    [
        (("--muster-namespace", "typo"), {}, "no running pod of Muster in namespace typo"),
        ((), {"/api/v1/namespaces/muster/pods": 401}, "401 refused by the test"),
        ((), {"/api/v1/namespaces/muster/pods": 500}, "500 refused by the test"),
    ],
)
def test_only_a_missing_right_leads_to_the_pods(
    tmp_path: Path, options: tuple[str, ...], failing: dict[str, int], message: str
) -> None:
    code, text, error = explained(tmp_path, "train", *options, failing=failing)
    assert (code, text) == (3, "")
    assert message in error


def test_the_reason_not_to_ask_the_core_is_a_line(tmp_path: Path) -> None:
    _, text, _ = explained(tmp_path, "train", failing=CLOSED)
    assert "403 refused by the test" in " ".join(text.split())


def test_a_forbidden_port_forward_leads_to_the_pods(tmp_path: Path) -> None:
    core = {
        "kind": "Pod",
        "metadata": {"namespace": "muster", "name": "core", "labels": {}},
        "spec": {"containers": [{"ports": [{"name": "rest", "containerPort": 9080}]}]},
        "status": {"phase": "Running"},
    }
    forward = "/api/v1/namespaces/muster/pods/core/portforward"
    code, text, _ = explained(tmp_path, "train", failing={forward: 403}, objects=(*MEMBERS, core))
    assert (code, "port-forward failed: refused by the test" in " ".join(text.split())) == (0, True)
    code, _, error = explained(tmp_path, "train", failing={forward: 500}, objects=(*MEMBERS, core))
    assert (code, "port-forward failed: refused by the test" in error) == (3, True)


def test_applications_of_several_namespaces_are_not_merged(tmp_path: Path) -> None:
    objects = tuple(of("train", space, a_member("m-0", WAITING)) for space in ("team-b", "team-a"))
    code, _, error = explained(tmp_path, "train", "-A", failing=CLOSED, objects=objects)
    assert (code, "namespaces team-a, team-b; write NAMESPACE/ID" in error) == (2, True)
    code, _, error = explained(tmp_path, "pod/m-0", "-A", failing=CLOSED, objects=objects)
    assert (code, "several pods have the name m-0: team-a/m-0, team-b/m-0; name one of them" in error) == (2, True)
    code, text, _ = explained(tmp_path, "team-b/train", "-A", "-o", "json", failing=CLOSED, objects=objects)
    assert (code, [pod["namespace"] for pod in orjson.loads(text)["pods"]]) == (0, ["team-b"])


@pytest.mark.parametrize("subject", ["app/my/app", "my/app", "team-a/my/app", "app/team-a/my/app"])
def test_the_id_of_an_application_may_contain_a_slash(tmp_path: Path, subject: str) -> None:
    objects = (of("my/app", "team-a", a_member("m-0", WAITING)),)
    code, text, error = explained(tmp_path, subject, "-o", "json", failing=CLOSED, objects=objects)
    assert code == 0, error
    assert orjson.loads(text)["application"] == "my/app"


def test_ended_pods_are_not_bound(tmp_path: Path) -> None:
    ended = [a_member(phase, node="n-1") | {"status": {"phase": phase}} for phase in ("Succeeded", "Failed")]
    _, text, _ = explained(tmp_path, "train", "-o", "json", failing=CLOSED, objects=(*MEMBERS, *ended))
    assert orjson.loads(text)["bound"] == 1


def test_only_the_pod_of_the_name_is_explained(tmp_path: Path) -> None:
    """Whatever the server selects."""
    code, text, _ = explained(tmp_path, "pod/m-1", "-o", "json", failing=CLOSED)
    assert (code, [pod["name"] for pod in orjson.loads(text)["pods"]]) == (0, ["m-1"])
