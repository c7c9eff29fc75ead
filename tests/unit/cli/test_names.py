"""What a command answers to a name that it does not find: the nearest name, or which scheduler a pod has."""

import json
from pathlib import Path
from typing import Any

import pytest

from muster_core.model.events import ApplicationAdded
from tests.unit.builders import an_ask
from tests.unit.cli.api_server import Json, api_server
from tests.unit.cli.conftest import NO_CLUSTER, Served, an_application, run


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
