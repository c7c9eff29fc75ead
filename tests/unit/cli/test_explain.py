"""`muster explain` on the real core: what is missing, on how many nodes, and what is queued before."""

import json
from dataclasses import replace
from typing import Any

import pytest

from muster import pending
from muster_core.model.decisions import ReasonKind
from muster_core.model.events import ApplicationAdded
from muster_core.model.resources import Limit
from muster_core.model.specs import NamespaceQuota
from muster_si import keys
from tests.unit.builders import an_ask
from tests.unit.cli.conftest import Served, an_application


def explained(served: Served, subject: str, *options: str) -> Any:
    result = served.run("explain", subject, *options, "-o", "json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def submit(served: Served, name: str, queue: str, *pods: str, vcore: int = 9000) -> None:
    """Submit an application with requests of pods with these names, NAMESPACE/NAME."""
    served.scenario.send(ApplicationAdded(an_application(name, queue=queue)))
    submit_more(served, name, *pods, vcore=vcore)


def submit_more(served: Served, name: str, *pods: str, vcore: int = 9000) -> None:
    """Submit further requests of an existing application."""
    for pod in pods:
        namespace, _, short = pod.partition("/")
        tags = {keys.TAG_NAMESPACE: namespace, keys.TAG_POD_NAME: short}
        served.scenario.ask(replace(an_ask(f"uid-{pod}", app=name, vcore=vcore), tags=tags))


def test_node_reasons_are_counted(served: Served) -> None:
    [reason] = explained(served, "waits")["reasons"]
    assert (reason["reason"], reason["nodes"], reason["pods"]) == ("nodes", {"Insufficient cpu": 3}, ["too-big"])
    page = served.run("explain", "waits").stdout
    assert "1 ask (too-big): 0/3 nodes are available: 3 Insufficient cpu." in page
    assert ["3", "Insufficient", "cpu"] in [line.split() for line in page.splitlines()]
    assert "Suggestion: " in page


def test_applications_ahead_in_the_queue_are_listed_in_order(served: Served) -> None:
    submit(served, "second", "root.b", "default/p")
    found = explained(served, "second")
    assert [item["applicationID"] for item in found["ahead"]] == ["waits"]
    assert explained(served, "waits")["ahead"] == []
    assert "Ahead in queue root.b: 1 application" in served.run("explain", "second").stdout


def test_a_blocking_quota_is_reported_with_its_queue(served: Served) -> None:
    submit(served, "greedy", "root.a", "default/a", "default/b", vcore=3500)
    found = explained(served, "greedy")
    [reason] = found["reasons"]
    assert (reason["reason"], reason["count"]) == ("quota", 2)
    assert "root.a" in reason["message"]
    assert found["quota"]["headroom"]["vcore"] == 3000
    assert found["status"] == "Pending: 2 blocked by queue quota"
    assert "2 pods (default/a, default/b): Not enough queue quota: root.a" in served.run("explain", "greedy").stdout


def test_the_status_of_a_partially_running_application_counts_pending_requests(served: Served) -> None:
    submit(served, "half", "root.b", "default/fits", vcore=100)
    submit_more(served, "half", "default/large")
    assert explained(served, "half")["status"] == "Pending: 1 of 2 blocked by insufficient free resources on nodes"


def test_every_blocking_reason_has_a_text_and_a_suggestion() -> None:
    assert set(pending.BLOCKED_BY) == set(pending.SUGGESTIONS) == {kind.value for kind in ReasonKind}


def test_a_pod_is_found_in_the_namespace_of_the_option_the_name_or_the_context(served: Served) -> None:
    submit(served, "one", "root.b", "team-a/p", "team-a/q", "ns/r")
    for line in (["p", "-n", "team-a"], ["pod/p", "-A"], ["team-a/p"], ["pod/team-a/p", "-n", "ns"]):
        found = explained(served, *line)
        assert (found["application"], found["pod"], found["pending"]) == ("one", "team-a/p", 1)
    assert explained(served, "r")["pod"] == "ns/r"
    result = served.run("explain", "p")
    assert result.exit_code == 1
    assert result.stderr.startswith("muster: no application or pod p found in namespace ns (-n or -A selects others)")


def test_a_pod_name_in_several_namespaces_must_be_qualified(served: Served) -> None:
    submit(served, "one", "root.b", "team-a/p")
    submit(served, "two", "root.b", "team-b/p")
    result = served.run("explain", "p", "-A")
    assert result.exit_code == 2
    assert "team-a/p, team-b/p" in result.stderr
    assert explained(served, "team-b/p")["application"] == "two"


def test_an_application_and_a_pod_of_the_same_name_can_be_selected(served: Served) -> None:
    submit(served, "same", "root.b", "ns/same", "ns/other")
    assert explained(served, "same")["pod"] == ""
    assert explained(served, "app/same")["pending"] == 2
    assert explained(served, "pod/same")["pending"] == 1


def test_a_waiting_gang_member_is_explained_by_its_placeholders(served: Served) -> None:
    served.scenario.gang(ApplicationAdded(an_application("big", gang=13, queue="root.b")), 13)
    served.scenario.ask(an_ask("member", app="big", group="workers"))
    found = explained(served, "pod/member")
    assert (
        found["status"]
        == "Unsatisfiable: its gang is not complete, and even empty nodes or unused quotas could not hold it"
    )
    assert sum(reason["count"] for reason in found["reasons"]) > 0
    assert all(reason["reason"] for reason in found["reasons"])
    assert found["preemption"] == [], "waiting for the gang is no preemption attempt"
    assert "placeholders of workers: " in served.run("explain", "big").stdout


def test_a_member_and_the_placeholder_of_its_slot_are_one_pending_pod(served: Served) -> None:
    served.scenario.gang(ApplicationAdded(an_application("big", gang=13, queue="root.b")), 13)
    served.scenario.ask(an_ask("first", app="big", group="workers"), an_ask("other", app="big"))
    assert explained(served, "big")["pending"] == 6, "8 of the 13 members have reservations"
    assert explained(served, "pod/first")["pending"] == 1


def test_a_member_without_a_request_waits_for_the_reservation_of_its_gang(served: Served) -> None:
    served.scenario.gang(ApplicationAdded(an_application("big", gang=13, queue="root.b")), 13)
    app = json.loads(served.run("app", "big", "-o", "json").stdout)
    found = pending.explain(app, None, [], "default/member")
    assert (found.status, found.pending) == (
        "Unsatisfiable: its gang is not complete, and even empty nodes or unused quotas could not hold it",
        1,
    )
    assert found.reasons[0].nodes == {"Insufficient cpu": 3}
    gone = pending.explain(json.loads(served.run("app", "waits", "-o", "json").stdout), None, [], "default/member")
    assert gone.status.startswith("Not known to the core")


@pytest.mark.parametrize(
    "subject, status",
    [
        ("lost", "Rejected: "),
        ("more", "Bound to n2"),
        ("real", "Replacing placeholders that are being deleted: replaces gang-p0-0"),
    ],
)
def test_an_explained_object_that_is_not_pending_reports_its_state(served: Served, subject: str, status: str) -> None:
    assert explained(served, subject, "-A")["status"].startswith(status)


def test_an_unknown_object_gives_exit_code_1(served: Served) -> None:
    result = served.run("explain", "nothing")
    assert result.exit_code == 1
    assert result.stderr.startswith("muster: no application or pod nothing found")


def test_a_gang_too_large_for_an_empty_cluster_is_unsatisfiable(served: Served) -> None:
    served.scenario.gang(ApplicationAdded(an_application("huge", gang=100, queue="root.b")), 100)
    assert explained(served, "huge")["status"].startswith("Unsatisfiable: ")
    assert "Suggestion: request less, or add larger nodes" in served.run("explain", "huge").stdout
    served.scenario.gang(ApplicationAdded(an_application("later", gang=10, queue="root.b")), 10)
    assert explained(served, "later")["status"].startswith("Pending: ")


def test_a_rejected_application_is_explained(served: Served) -> None:
    never = an_application("never", queue="", gang=1000, namespace="small")
    served.scenario.send(ApplicationAdded(replace(never, quota=NamespaceQuota(max=Limit({"vcore": 1000})))))
    result = served.run("explain", "never", "-n", "small")
    assert "Rejected: " in result.stdout, result.output
