"""`muster explain --history` on the real core: what happened to an application, in order, with reasons."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from muster import history
from muster_core.model.events import ApplicationAdded, ApplicationRemoved, AskReleased
from muster_core.model.ids import ApplicationId, TaskGroup, Termination
from muster_core.model.specs import GangPlacement, Member
from muster_si import keys
from tests.unit.builders import PARTITION, an_ask, resources
from tests.unit.cli.api_server import Json, api_server
from tests.unit.cli.conftest import Served, an_application, run


def entries(served: Served, subject: str, *options: str) -> list[Any]:
    result = served.run("explain", subject, "--history", *options, "-o", "json")
    assert result.exit_code == 0, result.output
    found: list[Any] = json.loads(result.stdout)["history"]["entries"]
    return found


def submit(served: Served, *pods: str, vcore: int = 100) -> None:
    served.scenario.send(ApplicationAdded(an_application("story", queue="root.b")))
    submit_more(served, *pods, vcore=vcore)


def submit_more(served: Served, *pods: str, vcore: int) -> None:
    for pod in pods:
        tags = {keys.TAG_NAMESPACE: "ns", keys.TAG_POD_NAME: pod}
        served.scenario.ask(replace(an_ask(f"uid-{pod}", app="story", vcore=vcore), tags=tags))


def an_event(pod: str, at: str, reason: str, **fields: Any) -> Json:
    return {
        "kind": "Event",
        "metadata": {"namespace": "ns", "name": f"{pod}-{reason}"},
        "involvedObject": {"kind": "Pod", "name": pod, "uid": f"uid-{pod}"},
        "reason": reason,
        "message": f"about {pod}",
        "lastTimestamp": at,
        "reportingComponent": "kubelet",
        **fields,
    }


def test_states_requests_and_allocations_are_listed_in_order(served: Served) -> None:
    submit(served, "p", "q")
    found = entries(served, "story")
    assert [(entry["what"], entry["names"]) for entry in found] == [
        ("state New", []),
        ("state Accepted", []),
        ("requested", ["ns/p", "ns/q"]),
        ("allocated", ["ns/p", "ns/q"]),
        ("state Running", []),
    ]
    assert [entry["time"] for entry in found] == sorted(entry["time"] for entry in found)
    page = served.run("explain", "story", "--history").stdout
    assert page.index("state New") < page.index("requested") < page.index("state Running")


def test_slots_are_shown_by_their_task_group_and_not_by_their_key(served: Served) -> None:
    app = ApplicationId("space#2/story")
    spec = replace(
        an_application("story", queue="root.b", gang=3),
        id=app,
        gang_placement=GangPlacement.AUTO,
        members=(Member(TaskGroup("workers"), 3, resources(vcore=1000, pods=1)),),
    )
    served.scenario.send(ApplicationAdded(spec))
    served.scenario.ask(replace(an_ask("uid", group="workers"), application=app))
    served.scenario.send(ApplicationRemoved(PARTITION, app))
    found = entries(served, "story")
    assert [(entry["what"], entry["names"], entry["count"]) for entry in found if "slot" in str(entry["names"])] == [
        ("reserved", ["slot of workers"], 3),
        ("reservation ended", ["slot of workers"], 2),
    ]
    assert "#" not in served.run("explain", "story", "--history").stdout


def test_equal_things_within_seconds_are_one_entry(served: Served) -> None:
    submit(served, *"abcde", vcore=9000)
    served.run("explain", "story")  # these have the present time
    served.scenario.wait(60)
    submit_more(served, "f", vcore=9000)
    found = [entry for entry in entries(served, "story") if entry["what"] == "requested"]
    assert [(entry["count"], entry["names"]) for entry in found] == [(5, ["ns/a", "ns/b", "ns/c"]), (1, ["ns/f"])]
    page = " ".join(served.run("explain", "story", "--history").stdout.split())
    assert "a, b, c and 2 more requested (5 times)" in page


def test_the_reason_of_a_waiting_pod_is_in_its_history(served: Served) -> None:
    submit(served, "p", vcore=9000)
    last = entries(served, "pod/p")[-1]
    assert last["what"] == "waits: nodes"
    assert "Insufficient cpu" in last["message"]


def test_a_rejected_application_tells_why(served: Served) -> None:
    last = entries(served, "lost", "-A")[-1]
    assert last["what"] == "state Rejected"
    assert "root.none" in last["message"] or last["message"]


def test_the_history_of_a_pod_leaves_out_other_pods(served: Served) -> None:
    submit(served, "p", "q")
    names = {name for entry in entries(served, "pod/q") for name in entry["names"]}
    assert names == {"ns/q"}
    assert "state Running" in {entry["what"] for entry in entries(served, "pod/q")}


def test_without_events_of_the_core_the_states_are_those_of_its_log(served: Served) -> None:
    submit(served, "p")
    served.scenario.records.clear()
    assert [entry["what"] for entry in entries(served, "story")] == ["state New", "state Accepted", "state Running"]


def test_events_of_present_and_past_pods_are_between_those_of_the_core(served: Served, tmp_path: Path) -> None:
    submit(served, "p", "gone")
    served.scenario.send(AskReleased(PARTITION, served.scenario.app("story").id, None, Termination.STOPPED_BY_RM))
    objects = [
        an_event("p", "1970-01-01T00:16:39Z", "FailedMount", count=7),
        an_event("gone", "", "Evicted", eventTime="2030-01-01T00:00:00.123456Z", reportingComponent="taint"),
        an_event("other", "2030-01-01T00:00:00Z", "Killing"),
    ]
    with api_server(*objects) as api:
        found = entries(served, "story", "-n", "ns", "--kubeconfig", api.kubeconfig(tmp_path))
    first, last = found[0], found[-1]
    assert (first["what"], first["source"], first["count"], first["message"]) == (
        *("FailedMount", "kubelet", 7),
        "about p",
    )
    assert (last["what"], last["source"], last["names"]) == ("Evicted", "taint", ["ns/gone"])
    assert "Killing" not in {entry["what"] for entry in found}


def test_a_history_names_what_could_not_be_read(served: Served, tmp_path: Path) -> None:
    with api_server() as api:
        api.failing["/api/v1/namespaces/ns/events"] = 403
        page = served.run("explain", "waits", "--history", "--kubeconfig", api.kubeconfig(tmp_path), "-n", "ns").stdout
    assert "events of pods: request to the API server" in page


def test_a_history_is_bounded(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    submit(served, "p", "q")
    monkeypatch.setattr(history, "MOST_ENTRIES", 3)
    result = served.run("explain", "story", "--history", "-o", "json")
    found = json.loads(result.stdout)["history"]
    assert [entry["what"] for entry in found["entries"]] == ["requested", "allocated", "state Running"]
    assert "2 earlier entries are left out" in found["notes"]


def test_a_history_says_that_a_namespace_has_more_events_than_are_read(
    served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history, "MOST_EVENTS", 1)
    with api_server(*(an_event(name, "2030-01-01T00:00:00Z", "Killing") for name in "pq")) as api:
        result = served.run("explain", "waits", "--history", "--kubeconfig", api.kubeconfig(tmp_path), "-n", "ns")
    assert "namespace ns has more than 1; the others are left out" in result.stdout


def test_a_history_is_not_watched(served: Served) -> None:
    result = served.run("explain", "waits", "--history", "--watch")
    assert result.exit_code == 2
    assert "--history cannot be used with --watch" in result.stderr


def test_without_the_core_the_history_is_that_of_the_pods(tmp_path: Path) -> None:
    condition = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": "no node fits",
        "lastTransitionTime": "2030-01-01T00:00:01Z",
    }
    pod = {
        "kind": "Pod",
        "metadata": {
            "namespace": "ns",
            "name": "p",
            "uid": "uid-p",
            "creationTimestamp": "2030-01-01T00:00:00Z",
            "labels": {"yunikorn.apache.org/app-id": "train"},
        },
        "spec": {"schedulerName": "muster", "containers": []},
        "status": {"phase": "Pending", "conditions": [condition]},
    }
    with api_server(pod, an_event("p", "2030-01-01T00:00:02Z", "Scheduling")) as api:
        api.failing["/api/v1/namespaces/muster/pods"] = 403
        line = ("explain", "train", "--history", "-n", "ns", "--kubeconfig", api.kubeconfig(tmp_path))
        found = json.loads(run(*line, "-o", "json").stdout)["history"]
        page = run(*line).stdout
    assert [(entry["what"], entry["message"], entry["names"]) for entry in found["entries"]] == [
        ("created", "", ["ns/p"]),
        ("condition PodScheduled=False Unschedulable", "no node fits", ["ns/p"]),
        ("Scheduling", "about p", ["ns/p"]),
    ]
    assert "2030-01-01T00:00:01Z" in page
