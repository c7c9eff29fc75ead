"""What a command answers to a name that it does not find: the nearest name, or which scheduler a pod has."""

import json
from pathlib import Path
from typing import Any

import pytest

from muster_core.model.events import ApplicationAdded
from tests.unit.builders import an_ask
from tests.unit.cli.api_server import Json, api_server
from tests.unit.cli.conftest import NO_CLUSTER, Served, an_application, run
from tests.unit.cli.test_explain import submit


def a_pod(name: str, scheduler: str = "", **labels: str) -> Json:
    spec: dict[str, Any] = {"containers": []} | ({"schedulerName": scheduler} if scheduler else {})
    return {"kind": "Pod", "metadata": {"namespace": "ns", "name": name, "labels": labels}, "spec": spec, "status": {}}


@pytest.mark.parametrize(
    "line, advice",
    [
        ("queues root.", "no queue root. found; did you mean root?"),
        ("queues root.bb", "no queue root.bb found; did you mean root.b?"),
        ("queues b", "no queue b found; did you mean root.b?"),
        ("queues root.nothing.", "no queue root.nothing. found; muster queues lists all"),
        ("apps -A -q rot.b", "no queue rot.b found; did you mean root.b?"),
        ("nodes n11", "no node n11 found; did you mean n1?"),
        ("app wait", "no application wait found in namespace ns (-n or -A selects others); did you mean waits?"),
        ("app wait -A", "no application wait found; did you mean waits?"),
        ("explain wait -A", "no application or pod wait found; did you mean waits?"),
    ],
)
def test_an_unknown_name_is_answered_with_the_nearest_one(served: Served, line: str, advice: str) -> None:
    result = served.run(*line.split())
    assert result.exit_code in (1, 2)
    assert result.stderr == f"muster: {advice}\n"


@pytest.mark.parametrize("name", ["web", "train"])
def test_an_application_that_only_the_cluster_has_is_explained_by_its_pods(
    served: Served, tmp_path: Path, name: str
) -> None:
    with api_server(a_pod("web", "muster", applicationId="train")) as api:
        options = ("-n", "ns", "--kubeconfig", api.kubeconfig(tmp_path))
        shown, explained = (served.run(command, name, *options) for command in ("app", "explain"))
    assert (shown.exit_code, explained.exit_code) == (1, 0)
    assert shown.stderr == (
        f"muster: the core has no application {name}; muster explain {name} reads its pods from the cluster\n"
    )


@pytest.mark.parametrize(
    "scheduler, named, wanted",
    [
        ("", "default-scheduler", "for Muster, create it again with schedulerName muster"),
        ("volcano", "volcano", "for Muster, create it again with schedulerName muster"),
        ("mustr", "mustr", "did you mean muster? Create it again with schedulerName muster"),
    ],
)
@pytest.mark.parametrize("command", ["app", "explain"])
def test_a_pod_of_another_scheduler_is_answered_with_its_scheduler(
    served: Served, tmp_path: Path, command: str, scheduler: str, named: str, wanted: str
) -> None:
    with api_server(a_pod("web", scheduler)) as api:
        result = served.run(command, "web", "-n", "ns", "--kubeconfig", api.kubeconfig(tmp_path))
    assert result.exit_code == 1
    assert result.stderr == (
        f"muster: pod ns/web names scheduler {named}, not Muster (muster or yunikorn); {wanted}, or see: kubectl -n ns "
        "describe pod web\n"
    )


def test_the_leases_name_the_schedulers_that_are_muster(served: Served, tmp_path: Path) -> None:
    metadata = {
        "namespace": "kube-system",
        "name": "muster-scheduler-batch",
        "labels": {"app.kubernetes.io/name": "muster", "app.kubernetes.io/component": "scheduler-name"},
    }
    with api_server({"kind": "Lease", "metadata": metadata, "spec": {}}, a_pod("web", "muster")) as api:
        result = served.run("explain", "web", "-n", "ns", "--kubeconfig", api.kubeconfig(tmp_path))
    assert "pod ns/web names scheduler muster, not Muster (batch)" in result.stderr


def test_the_name_of_a_pod_leads_to_its_application(served: Served) -> None:
    [item, *_] = served.scenario.app("waits").asks.values()
    key = item.spec.key
    assert served.run("app", key).stderr.endswith("belongs to application waits\n")


def a_waiting_pod(name: str, message: str, annotations: Json, spec: Json) -> Json:
    """A pod of a Job whose reason is in its condition, or in an event of `an_event`."""
    pod = a_pod(name, "muster")
    pod["metadata"] |= {
        "uid": f"uid-{name}",
        "annotations": annotations,
        "ownerReferences": [{"kind": "Job", "name": "train", "uid": "j", "controller": True}],
    }
    pod["spec"] |= spec
    pod["status"] = {"phase": "Pending"}
    if message:
        pod["status"]["conditions"] = [{"type": "PodScheduled", "status": "False", "message": message}]
    return pod


EVENT = {
    "kind": "Event",
    "metadata": {"namespace": "ns", "name": "e"},
    "reason": "TaskRejected",
    "message": "not signed",
}
SIZE = {"yunikorn.apache.org/gang-size": "4"}
FORGED = {"yunikorn.apache.org/placeholder": "true"}
WITHHELD = [
    ("train", "waiting for more pods", SIZE, {}),
    ("train-x", "waiting for more pods", SIZE, {}),
    ("app/other", "waiting for more pods", {"yunikorn.apache.org/app-id": "other"} | SIZE, {}),
    ("train-x", "Scheduling is blocked", {}, {"schedulingGates": [{"name": "x.y/z"}]}),
    ("pod/train-x", "not signed", FORGED, {}),
]


@pytest.mark.parametrize("case", WITHHELD)
@pytest.mark.parametrize("earlier", ["", "train", "other"])
def test_a_pod_that_the_core_does_not_have_is_explained_by_its_condition_and_events(
    served: Served, tmp_path: Path, case: tuple[str, str, Json, Json], earlier: str
) -> None:
    """Also if the core has an earlier run of its application, or another one."""
    subject, reason, annotations, spec = case
    if earlier:
        served.scenario.send(ApplicationAdded(an_application(earlier, queue="root.b")))
    pod = a_waiting_pod("train-x", "" if reason == "not signed" else reason, annotations, spec)
    with api_server(pod, a_pod("train-y", "volcano"), EVENT) as api:
        options = ("--kubeconfig", api.kubeconfig(tmp_path), "-o", "json")
        result = served.run("explain", subject, "-n", "ns", "--changes", *options)
        assert result.exit_code == 0, result.output
        found = json.loads(result.stdout)
        doctor = json.loads(served.run("doctor", *options).stdout)["items"]
    assert (found["pending"], [one["name"] for one in found["pods"]], found["changes"]) == (1, ["train-x"], None)
    assert reason in str(found["pods"] + found["events"])
    its_own = f"; its application {earlier} is New" if earlier == found["application"] else ""
    assert found["core"] == f"has not received the pods{its_own}"
    [listed] = [one for one in doctor if one["check"] == "withheld pods"]
    assert (listed["level"], listed["message"]) == ("warning", f"1 pod (ns/train-x): {reason}")


GROUPS = '[{"name": "workers", "minMember": 2, "minResource": {"cpu": "1"}}]'


@pytest.mark.parametrize(
    "annotations, warning",
    [
        ({"yunikorn.apache.org/gang-sise": "4"}, "did you mean yunikorn.apache.org/gang-size?"),
        ({"yunikorn.apache.org/user.info": "ann"}, "user.info is ignored"),
        ({"task-groups": GROUPS}, "annotation task-groups has no effect"),
        ({"yunikorn.apache.org/task-groups": GROUPS}, "was created by pod first without task groups"),
    ],
)
@pytest.mark.parametrize("subject", ["one", "pod/second"])
def test_what_has_no_effect_on_a_pod_is_in_its_explanation_and_in_doctor(
    served: Served, tmp_path: Path, annotations: Json, warning: str, subject: str
) -> None:
    submit(served, "one", "root.b", "ns/first", "ns/second")
    pods = [a_pod(name, "muster", **{"yunikorn.apache.org/app-id": "one"}) for name in ("first", "second")]
    for number, pod in enumerate(pods):
        pod["metadata"] |= {"creationTimestamp": f"2030-01-01T00:00:0{number}Z"}
    pods[1]["metadata"]["annotations"] = annotations
    with api_server(*pods) as api:
        options = ("--kubeconfig", api.kubeconfig(tmp_path), "-o", "json")
        found = json.loads(served.run("explain", subject, "-n", "ns", *options).stdout)
        doctor = json.loads(served.run("doctor", *options).stdout)["items"]
    assert warning in found["warnings"]
    assert [one["check"] for one in doctor if warning in one["message"] and "pod ns/second: " in one["message"]]


@pytest.mark.parametrize("option, text", [("--changes", "Changes: none"), ("--estimate", "Estimated start: no pod")])
def test_an_application_without_pending_pods_needs_no_change(served: Served, option: str, text: str) -> None:
    served.scenario.send(ApplicationAdded(an_application("runs", queue="root.b")))
    served.scenario.ask(an_ask("p", app="runs"))
    result = served.run("explain", "runs", option)
    assert result.exit_code == 0
    assert text in result.stdout
    found = json.loads(served.run("explain", "runs", option, "-o", "json").stdout)
    assert found[option.removeprefix("--")] is None


def test_a_written_context_precedes_the_server_of_the_environment(
    served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MUSTER_SERVER", NO_CLUSTER)
    assert (
        run("status").stderr
        == f"muster: request to the core at {NO_CLUSTER} (MUSTER_SERVER) failed: Connection refused\n"
    )
    monkeypatch.setenv("MUSTER_SERVER", served.url)
    assert run("status").exit_code == 0
    assert 'context "nosuch" does not exist' in run("status", "--context", "nosuch").stderr
    with api_server() as api:
        result = run("status", "--kubeconfig", api.kubeconfig(tmp_path))
    assert "no running pod of Muster" in result.stderr
    assert served.run("status", "--context", "test").exit_code == 0
