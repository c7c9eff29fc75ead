"""The checks can fail: each violation is found."""

import copy
from typing import Any

import pytest

from devcluster.api import Json
from devcluster.nodes import FakeNode
from tests.e2e.faults import checks, consistency, logs
from tests.e2e.faults.items import RUN_FOR, Item, Outcome
from tests.e2e.faults.pod_versions import ITEM_LABEL, PodObserver
from tests.e2e.manifests import PLACEHOLDER, a_pod

TRACEBACK = "Traceback (most recent call last):"


def a_version(
    name: str, *, node: str = "", phase: str = "Pending", cpu: str = "1", item: str = "it", **more: Any
) -> Json:
    """A pod as etcd has it."""
    pod = copy.deepcopy(a_pod(name, cpu=cpu, labels={ITEM_LABEL: item}))
    pod["metadata"] |= {"uid": f"uid-{name}", "namespace": "ns", **more}
    pod["metadata"]["annotations"] |= {RUN_FOR: "1s"}
    pod["spec"] |= {"nodeName": node} if node else {}
    return {**pod, "status": {"phase": phase}}


def a_placeholder(name: str, owner: str, node: str = "") -> Json:
    pod = a_version(name, node=node, ownerReferences=[{"uid": f"uid-{owner}"}])
    pod["metadata"]["annotations"] = {PLACEHOLDER: "true"}
    return pod


@pytest.fixture
def observer() -> PodObserver:
    return PodObserver([FakeNode("n1", cpu="2"), FakeNode("n2", cpu="2")])


def test_a_real_pod_bound_before_its_placeholder_is_deleted_exceeds_the_node(observer: PodObserver) -> None:
    observer.see(a_placeholder("tg-0", "a", node="n1"))
    observer.see(a_version("a", node="n1"))
    assert observer.violations == []
    observer.see(a_version("b", node="n1"))
    assert ["n1 is over its cpu" in violation for violation in observer.violations] == [True]


def test_resources_of_finished_and_deleted_pods_are_free(observer: PodObserver) -> None:
    observer.see(a_version("a", node="n1", cpu="2"))
    observer.see(a_version("a", node="n1", cpu="2", phase="Succeeded"))
    observer.see(a_version("b", node="n1", cpu="2"))
    observer.see(a_version("b", node="n1", cpu="2"), deleted=True)
    observer.see(a_version("c", node="n1", cpu="2"))
    assert observer.violations == []


def unfinished_of(observer: PodObserver, outcome: Outcome, pods: int = 1) -> list[str]:
    return checks.unfinished([Item("it", "pod", [], outcome, single=pods)], observer)


def test_a_pod_that_was_never_created_or_never_ran_is_lost(observer: PodObserver) -> None:
    assert unfinished_of(observer, Outcome.BOUND)
    observer.see(a_version("a"))
    assert unfinished_of(observer, Outcome.BOUND)
    observer.see(a_version("a", node="n1", phase="Succeeded"))
    assert unfinished_of(observer, Outcome.BOUND) == []
    assert unfinished_of(observer, Outcome.BOUND, pods=2)
    assert unfinished_of(observer, Outcome.DELETED)


def test_a_waiting_pod_without_a_message_is_a_violation(observer: PodObserver) -> None:
    without_message = a_version("a")
    observer.see(without_message)
    assert unfinished_of(observer, Outcome.REJECTED)
    assert unfinished_of(observer, Outcome.FAILED)
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/2 nodes"}
    observer.see({**without_message, "status": {"phase": "Pending", "conditions": [condition]}})
    assert unfinished_of(observer, Outcome.REJECTED) == []
    assert unfinished_of(observer, Outcome.FAILED)


def test_a_placeholder_may_stay_only_while_its_originator_waits(observer: PodObserver) -> None:
    observer.see(a_version("a"))
    observer.see(a_placeholder("tg-0", "a"))
    assert checks.leaked(observer) == []
    observer.see(a_version("a", phase="Failed"))
    assert checks.leaked(observer)
    observer.see(a_placeholder("tg-0", "a"), deleted=True)
    assert checks.leaked(observer) == []


def a_dump(uid: str = "uid-a", node: str = "n1", vcore: int = 1000, phase: str = "LIVE") -> Json:
    """The state of core and operator when ``uid`` is on ``node``."""
    allocated = {"memory": 64 * 2**20, "pods": 1, "vcore": vcore}
    names = ("n1", "n2")
    nodes = [
        {"nodeID": n, "allocations": [uid] * (n == node), "allocated": allocated if n == node else {}} for n in names
    ]
    queue = {"queuename": "root.q", "allocatedResource": allocated, "children": []}
    task = {"pod": {"ref": {"uid": uid}}, "node": node}
    return {
        "nodes": [{"nodesInfo": nodes}],
        "ledgers": {"releasing": 0, "replacements": 0, "placeholders": 0},
        "invariants": [],
        "applications": [{"queueName": "root.q", "allocations": [{"allocationKey": uid}]}],
        "queues": [{"queuename": "root", "allocatedResource": allocated, "children": [queue]}],
        "rmDiagnostics": {
            "rm": {
                "phase": phase,
                "applications": {"app": {"members": {uid: task}, "placeholders": {}}},
                "deletions": {},
                "untrackedPods": {},
                "podsAwaitingNode": {},
            }
        },
    }


def test_state_that_matches_the_cluster_has_no_differences(observer: PodObserver) -> None:
    observer.see(a_version("a", node="n1"))
    assert consistency.differences(a_dump(), observer.pods.values()) == []


@pytest.mark.parametrize(
    "dump, parts",
    [
        pytest.param(a_dump(uid="uid-x"), {"core", "operator"}, id="another pod"),
        pytest.param(a_dump(node="n2"), {"core", "operator"}, id="another node"),
        pytest.param(a_dump(vcore=2000), {"core"}, id="another size"),
        pytest.param(a_dump(phase="RECOVERING"), {"operator"}, id="not live"),
    ],
)
def test_state_that_differs_from_the_cluster_is_found(observer: PodObserver, dump: Json, parts: set[str]) -> None:
    observer.see(a_version("a", node="n1"))
    found = consistency.differences(dump, observer.pods.values())
    assert {violation.partition(":")[0].partition(",")[0] for violation in found} == parts


@pytest.mark.parametrize(
    "line",
    [
        TRACEBACK,
        '{"event": "the operator failed on an input, continuing", "level": "error"}',
        "Task exception was never retrieved",
        '{"event": "something", "level": "critical", "logger": "python"}',
        '{"event": "x", "level": "warning", "exception": "ValueError"}',
    ],
)
def test_an_unhandled_exception_is_found_in_a_log(line: str) -> None:
    assert logs.unhandled("core", ["a line", line, "another"])


def test_a_retried_request_counts_as_handled() -> None:
    handled = '{"event": "a request failed; will retry", "level": "warning", "logger": "muster.watch", "error": "E"}'
    assert logs.unhandled("operator", [handled, '{"event": "a command failed", "level": "info"}']) == []


def test_an_interrupted_kopf_task_is_ignored_and_any_other_is_reported() -> None:
    line = '{"event": "Task exception was never retrieved\\nfuture: <... defined at /x/%s:60>", "level": "error"}'
    assert logs.unhandled("operator", [line % "kopf/_cogs/clients/scanning.py"]) == []
    assert logs.unhandled("operator", [line % "muster_operator/kube/watch.py"])


def test_an_interrupted_kopf_watch_is_ignored_and_any_other_is_reported() -> None:
    line = (
        '{"event": "an error occurred during closing of asynchronous generator <async_generator object %s>", '
        '"level": "error", "exception": "Traceback (most recent call last):\\n  File \\"/x/%s\\", line 88"}'
    )
    assert logs.unhandled("operator", [line % ("infinite_watch", "kopf/_cogs/clients/watching.py")]) == []
    assert logs.unhandled("operator", [line % ("lines", "muster_operator/kube/watch.py")])


def test_a_closed_connection_in_uvloop_is_handled_and_an_open_one_is_not() -> None:
    line = (
        '{"event": "Fatal error on SSL protocol\\ntransport: <TCPTransport closed=%s>", "level": "error", '
        '"logger": "asyncio", "exception": "Traceback (most recent call last):\\n  File \\"uvloop/sslproto.pyx\\""}'
    )
    assert logs.unhandled("operator", [line % "True"]) == []
    assert logs.unhandled("operator", [line % "False"])
