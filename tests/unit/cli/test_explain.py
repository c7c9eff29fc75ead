"""`muster explain` on the real core: what is missing, on how many nodes, and what is queued before."""

import json
from dataclasses import replace
from typing import Any

import pytest
from rich.console import Console

from muster import pending, printers
from muster_core.model.decisions import ReasonKind
from muster_core.model.events import ApplicationAdded, NodeAdded
from muster_core.model.resources import Limit
from muster_core.model.specs import ApplicationSpec, GangPlacement, GangStyle, NamespaceQuota
from muster_si import keys
from tests.unit.builders import a_node, an_ask, resources
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


def test_an_ignored_queue_and_ignored_parameters_are_shown(served: Served) -> None:
    app = served.scenario.app("gang")
    tags = {**app.spec.tags, keys.APP_TAG_GANG_WARNINGS: "gangPlacement: no"}
    app.spec = replace(app.spec, queue="root.elsewhere", tags=tags)
    page = " ".join(served.run("explain", "gang").stdout.split())
    assert "ignored queue root.elsewhere of its pods: a placement rule selected another one" in page
    assert "warnings gangPlacement: no" in page
    page = " ".join(served.run("app", "gang").stdout.split())
    assert f"{app.queue.path} (a placement rule selected it; queue root.elsewhere of its pods is ignored)" in page
    assert "gang warnings gangPlacement: no" in page
    found = json.loads(served.run("app", "gang", "-o", "json").stdout)
    assert (found["requestedQueue"], found["gangWarnings"]) == ("root.elsewhere", "gangPlacement: no")


@pytest.mark.parametrize(
    "resource, suggestion",
    [
        ("example.com/gpus", "no node has example.com/gpus; did you mean example.com/gpu?"),
        ("example.com/fpga", "no node has example.com/fpga; correct the name, or add nodes that have it"),
        ("example.com/gpu", "free resources on suitable nodes, or add nodes"),
    ],
)
def test_a_resource_that_no_node_has_is_answered_with_its_name(served: Served, resource: str, suggestion: str) -> None:
    node = a_node("with-gpu")
    served.scenario.send(NodeAdded(replace(node, capacity=node.capacity + resources(**{"example.com/gpu": 1}))))
    served.scenario.send(ApplicationAdded(an_application("typo", queue="root.b")))
    ask = an_ask("p", app="typo")
    served.scenario.ask(replace(ask, resources=ask.resources + resources(**{resource: 2})))
    page = " ".join(served.run("explain", "typo").stdout.split())
    assert f"Suggestion: {suggestion}" in page


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
    served.scenario.gang(an_application("big", gang=13, queue="root.b"), 13)
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
    served.scenario.gang(an_application("big", gang=13, queue="root.b"), 13)
    served.scenario.ask(an_ask("first", app="big", group="workers"), an_ask("other", app="big"))
    assert explained(served, "big")["pending"] == 6, "8 of the 13 members have reservations"
    assert explained(served, "pod/first")["pending"] == 1


def test_a_member_without_a_request_waits_for_the_reservation_of_its_gang(served: Served) -> None:
    served.scenario.gang(an_application("big", gang=13, queue="root.b"), 13)
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
    served.scenario.gang(an_application("huge", gang=100, queue="root.b"), 100)
    assert explained(served, "huge")["status"].startswith("Unsatisfiable: ")
    assert (
        "Suggestion: request less, or add nodes: all nodes together could not hold"
        in served.run("explain", "huge").stdout
    )
    served.scenario.gang(an_application("later", gang=10, queue="root.b"), 10)
    assert explained(served, "later")["status"].startswith("Pending: ")


def test_a_rejected_application_is_explained(served: Served) -> None:
    never = an_application("never", queue="", gang=1000, namespace="small")
    served.scenario.send(ApplicationAdded(replace(never, quota=NamespaceQuota(max=Limit({"vcore": 1000})))))
    result = served.run("explain", "never", "-n", "small")
    assert "Rejected: " in result.stdout, result.output


# -- gangs without placeholder pods --------------------------------------------------------------


def submit_direct(served: Served, name: str, members: int, present: int, vcore: int = 1000) -> ApplicationSpec:
    """Submit a gang with virtual placeholders of 1 core, of which only some members exist."""
    spec = replace(an_application(name, queue="root.b", gang=members), gang_placement=GangPlacement.DIRECT)
    served.scenario.send(ApplicationAdded(spec))
    submit_members(served, name, present, vcore)
    return spec


def submit_members(served: Served, name: str, present: int, vcore: int = 1000) -> None:
    for number in range(present):
        tags = {keys.TAG_NAMESPACE: "ns", keys.TAG_POD_NAME: f"{name}-{number}"}
        pod = an_ask(f"uid-{name}-{number}", app=name, vcore=vcore, group="workers")
        served.scenario.ask(replace(pod, tags=tags))


def report_missing(served: Served, spec: ApplicationSpec, why: str) -> None:
    served.scenario.send(ApplicationAdded(replace(spec, is_renewal=True, members_missing=why)))


@pytest.mark.parametrize("placement", list(GangPlacement))
def test_missing_members_are_the_first_reason_of_a_waiting_gang(served: Served, placement: GangPlacement) -> None:
    spec = replace(an_application("part", queue="root.b", gang=10), gang_placement=placement)
    if placement is GangPlacement.RESERVE:
        served.scenario.gang(spec, 10)
    else:
        served.scenario.send(ApplicationAdded(spec))
    submit_members(served, "part", 2)
    why = "waiting for 10 members of task group workers: 2 exist, and no other one was created for 60 s"
    assert explained(served, "part")["reasons"][0]["reason"] != "members"
    report_missing(served, spec, why)
    for subject in ("part", "part-1"):
        found = explained(served, subject)
        assert (found["reasons"][0]["reason"], found["reasons"][0]["message"]) == ("members", why)
        page = " ".join(served.run("explain", subject).stdout.split())
        assert f"gang: {why}" in page
        assert "blocked by missing members, insufficient free resources" in page
    report_missing(served, spec, "")
    assert explained(served, "part")["reasons"][0]["reason"] != "members"


def test_reserved_slots_are_not_bound_pods(served: Served) -> None:
    submit_direct(served, "slots", 3, 2)
    found = explained(served, "slots")
    assert (found["bound"], found["reserved"], found["pending"]) == (2, 1, 0)
    bound, reserved = found["status"].split("; ")
    assert bound.startswith("Bound to n")
    assert reserved.startswith("Reserved for members without a pod: n")
    assert "1 slot of members without a pod" in served.run("explain", "slots").stdout


def test_slots_are_listed_by_their_number_and_not_by_the_name_of_a_member(served: Served) -> None:
    submit_direct(served, "train", 90, 2)
    rows = [line.split() for line in served.run("app", "train").stdout.splitlines()]
    names = [row[0] for row in rows[rows.index([]) :] if row and "workers" in row[1:3]]
    assert len(names) == len({*names})
    assert ["90", "slots", "workers", "slot"] in [row[:4] for row in rows]


def test_slots_without_pods_are_not_called_placeholders(served: Served) -> None:
    submit_direct(served, "large", 13, 1)
    page = served.run("explain", "large").stdout
    assert "slots of workers: " in page
    assert page.count("Not enough") + page.count("nodes are available") == 1, "members and slots share a reason"
    assert "placeholders of workers" not in page


# -- suggestions ---------------------------------------------------------------------------------


def reason_of(kind: str, message: str = "why", **nodes: int) -> Any:
    """The explained reason of an application with one pending pod."""
    entry = {"message": message, "reason": kind, "reasons": {key.replace("_", " "): n for key, n in nodes.items()}}
    item = {
        "placeholder": False,
        "taskGroupName": "",
        "allocationKey": "k",
        "pendingCount": 1,
        "allocationLog": [entry],
    }
    app = {"applicationID": "a", "applicationState": "Accepted", "queueName": "q", "rejectedMessage": ""}
    return pending.explain({**app, "allocations": [], "requests": [item]}, None, [])


@pytest.mark.parametrize("kind", ["nodes", "cluster"])
def test_constraints_are_not_called_missing_resources(kind: str) -> None:
    found = reason_of(kind, didnt_match_selector=2, didnt_match_pod_anti_affinity_rules=1)
    assert found.status == "Pending: 1 blocked by constraints that no node satisfies"
    assert "constraints in the message" in found.reasons[0].suggestion
    assert "free resources" not in found.reasons[0].suggestion
    assert "larger nodes" not in found.reasons[0].suggestion
    mixed = reason_of(kind, Insufficient_cpu=1, didnt_match_selector=2)
    assert mixed.reasons[0].suggestion == pending.SUGGESTIONS[kind]


@pytest.mark.parametrize(
    "reason, short, suggestion",
    [
        ("cannot allocate all claims", "insufficient free devices", "free matching devices"),
        ('persistentvolumeclaim "nosuch" not found', "an object that does not exist", "create the object"),
        ("pod has unbound immediate PersistentVolumeClaims", "its volume claims", "correct the claim"),
    ],
)
@pytest.mark.parametrize("kind", ["nodes", "cluster"])
def test_constraints_that_are_not_about_nodes_are_named(kind: str, reason: str, short: str, suggestion: str) -> None:
    found = reason_of(kind, "why", **{reason: 8})
    assert found.status == f"Pending: 1 blocked by {short}"
    assert found.reasons[0].suggestion.startswith(suggestion)


def test_a_request_above_the_complete_limit_gets_no_suggestion_to_wait(served: Served) -> None:
    submit(served, "never", "root.a", "default/huge", vcore=9500)
    [reason] = explained(served, "never")["reasons"]
    assert reason["message"].startswith("Not enough user quota: user kim in queue root.a, requested cpu 9500m")
    assert reason["message"].endswith("of 9 (it can never fit)")
    assert reason["suggestion"] == "request less, or raise the limit in the message"
    of_queue = reason_of("quota", f"Not enough queue quota: root.a ({keys.NEVER_FITS})")
    assert of_queue.reasons[0].suggestion == "request less, or raise the maximum of the queue in the message"


def test_a_queue_that_was_never_created_is_not_called_deleted(served: Served) -> None:
    page = printers.explanation(reason_of("nodes").data(), False, 0)
    console = Console(width=200)
    with console.capture() as capture:
        console.print(page)
    assert "q, which does not exist" in capture.get()


# -- ended gangs ---------------------------------------------------------------------------------


def test_a_failed_gang_is_explained_with_its_failure(served: Served) -> None:
    spec = an_application("hard", queue="root.b", gang=13)
    served.scenario.gang(replace(spec, style=GangStyle.HARD, timeout_ns=10**9), 13)
    served.scenario.wait(30)
    why = "Failing: the placeholder timeout expired before all members were reserved"
    assert explained(served, "hard")["status"] == why
    app = json.loads(served.run("app", "hard", "-o", "json").stdout)
    ended = {**app, "applicationState": "Failed", "finishedTime": 1, "requests": [], "allocations": []}
    assert pending.explain(ended, None, []).status == why.replace("Failing", "Failed")
    assert pending.explain(ended, None, [], "ns/hard-0").status == why.replace(
        "Failing:", "Failed with its application:"
    )
