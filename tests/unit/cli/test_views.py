"""Commands that read a running core: the real one, over HTTP."""

import json
import signal
import subprocess
import sys
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
import yaml

from muster_core.model.events import ApplicationAdded
from muster_core.model.specs import GangPlacement
from tests.unit.builders import an_ask
from tests.unit.cli.conftest import NO_CLUSTER, Served, an_application, rows, run

LOOKING = ("status", "queues", "apps", "nodes", "version")


def test_the_status_reports_usage_and_missing_resources(served: Served) -> None:
    result = served.run("status")
    assert result.exit_code == 0
    lines = dict(line.split("  ", 1) for line in result.stdout.splitlines())
    summary = {label: text.strip() for label, text in lines.items()}
    assert summary["core"] == "schedules"
    assert summary["nodes"] == "3, fair order"
    assert summary["used"] == "cpu 3/12 (25%), pods 3/300 (1%)"
    assert summary["applications"] == "1 Accepted, 1 Rejected, 1 Running"
    assert summary["resources missing"] == "1 pod"
    assert "1 x cpu 9, pods 1 for 1 application" in served.run("status", "-o", "wide").stdout


def test_a_core_without_an_operator_is_not_healthy(empty_core: str) -> None:
    result = run("status", "--server", empty_core)
    assert result.exit_code == 1
    assert "no operator has registered" in result.stdout
    assert run("queues", "--server", empty_core).exit_code == 3


def test_queues_show_usage_and_limits(served: Served) -> None:
    result = served.run("queues")
    assert result.exit_code == 0
    assert rows(result)[1] == ["root.a", "Active", "1", "3/6", "0", "cpu", "1,", "pods", "1"]


def test_a_queue_is_shown_with_its_children(served: Served) -> None:
    assert [row[0] for row in rows(served.run("queues", "root"))] == ["root", "root.a", "root.b"]
    assert [row[0] for row in rows(served.run("queues", "ROOT.a"))] == ["root.a"]


def test_a_wide_table_has_more_columns(served: Served) -> None:
    assert "HEADROOM" in served.run("queues", "-o", "wide").stdout
    assert "HEADROOM" not in served.run("queues").stdout


def test_applications_show_their_allocations_and_pending_requests(served: Served) -> None:
    table = {row[0]: row for row in rows(served.run("apps"))}
    assert table["gang"][1:8] == ["root.a", "Running", "kim", "1", "2", "1", "1"]
    assert table["waits"][1:7] == ["root.b", "Accepted", "lee@example.org", "0", "0", "1"]
    assert "3 Insufficient cpu" in served.run("apps", "-o", "wide").stdout


def test_a_waiting_gang_has_as_many_pending_pods_as_members(served: Served) -> None:
    gang = an_application("big", gang=13, queue="root.b")
    served.scenario.send(ApplicationAdded(replace(gang, gang_placement=GangPlacement.AUTO)))
    served.scenario.ask(*(an_ask(f"big-r{index}", app="big", group="workers") for index in range(13)))
    table = {row[0]: row for row in rows(served.run("apps"))}
    assert table["big"][4:7] == ["0", "0", "13"]
    assert "pods 14" in served.run("queues", "root.b").stdout, "with the pod of another application"


@pytest.mark.parametrize(
    "options, found",
    [
        (["--queue", "root.b"], ["waits"]),
        (["-q", "root"], ["gang", "waits"]),
        (["--user", "kim"], ["gang"]),
        (["--state", "completed"], []),
        (["--state", "rejected"], []),
        (["-n", "elsewhere"], []),
    ],
)
def test_applications_are_filtered_by_queue_user_and_state(
    served: Served, options: list[str], found: list[str]
) -> None:
    assert [row[0] for row in rows(served.run("apps", *options))] == found


def test_a_gang_is_shown_with_its_phases_its_groups_and_its_members(served: Served) -> None:
    result = served.run("app", "gang")
    assert result.exit_code == 0
    lines = [line.split() for line in result.stdout.splitlines()]
    assert [line[0] for line in lines if line and line[0] in ("New", "Accepted", "Running")] == [
        "New",
        "Accepted",
        "Running",
    ]
    assert ["workers", "cpu", "1", "2", "2", "0", "0", "0", "1"] in lines
    assert any(line[:4] == ["gang-p1", "workers", "placeholder", "n1"] for line in lines)
    assert "replaces gang-p0-0" in result.stdout


def test_a_gang_that_was_lost_by_invalid_task_groups_is_shown_as_none_with_the_problem(served: Served) -> None:
    spec = an_application("lost", queue="root.b")
    served.scenario.send(ApplicationAdded(replace(spec, tags={"muster/gang-problem": "task-groups: is not JSON"})))
    for command in ("app", "explain"):
        assert ["gang", "none:", "task-groups:", "is", "not", "JSON"] in [
            line.split() for line in served.run(command, "lost").stdout.splitlines()
        ]


def test_a_member_of_an_incomplete_gang_reports_it(served: Served) -> None:
    served.scenario.gang(an_application("big", gang=9, queue="root.b"), 9)
    served.scenario.ask(an_ask("member", app="big", group="workers"))
    [member] = [line for line in served.run("app", "big").stdout.splitlines() if line.startswith("member ")]
    assert "its gang is not complete" in member


def test_nodes_show_their_usage(served: Served) -> None:
    assert rows(served.run("nodes"))[2] == ["n2", "SCHEDULABLE", "1/4", "25%", "0/16Gi", "0%", "1", "1"]
    assert [row[0] for row in rows(served.run("nodes", "n1", "n0"))] == ["n0", "n1"]


def test_the_version_shows_client_and_core(served: Served) -> None:
    found = json.loads(served.run("version", "-o", "json").stdout)
    assert found["client"] == found["core"] != ""


def test_all_namespaces_adds_a_column_and_the_applications_without_a_namespace(served: Served) -> None:
    for namespace, queue in (("red", "root.a"), ("blue", "root.b")):
        served.scenario.send(ApplicationAdded(an_application("train", queue=queue, namespace=namespace)))
    found = {tuple(row[:2]) for row in rows(served.run("apps", "-A"))}
    assert found == {("ns", "gang"), ("ns", "waits"), ("red", "train"), ("blue", "train")}
    assert rows(served.run("apps", "-A", "--state", "rejected"))[0][:2] == ["-", "lost"]
    assert [row[:2] for row in rows(served.run("apps", "-n", "blue"))] == [["train", "root.b"]]
    for line in (["train", "-n", "blue"], ["blue/train"]):
        assert json.loads(served.run("app", *line, "-o", "json").stdout)["queueName"] == "root.b"
    missing = served.run("app", "train")
    assert missing.stderr.endswith("train found in namespace ns; it exists in other namespaces: use -n or -A\n")
    several = served.run("app", "train", "-A")
    assert (several.exit_code, "write NAMESPACE/ID" in several.stderr) == (2, True)


@pytest.mark.parametrize("text", [None, "nonsense: [", "current-context: prod", "current-context: ''"])
def test_a_server_needs_no_kubeconfig_and_shows_all_namespaces_without_one(
    served: Served, text: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "other-kubeconfig"
    if text is not None:
        path.write_text(text)
    monkeypatch.setenv("KUBECONFIG", str(path))
    served.scenario.send(ApplicationAdded(an_application("train", queue="root.b", namespace="red")))
    result = served.run("apps")
    assert {tuple(row[:2]) for row in rows(result)} == {("ns", "gang"), ("ns", "waits"), ("red", "train")}
    assert [row[0] for row in rows(served.run("apps", "-n", "red"))] == ["train"]
    for command in ("app", "explain"):
        assert served.run(command, "train").exit_code == 0


def test_the_version_of_the_client_is_printed_without_a_context() -> None:
    result = run("version", "--context", "prod")
    assert result.exit_code == 2
    assert version("muster-scheduler") in result.stdout
    assert 'context "prod" does not exist' in result.stderr


@pytest.mark.parametrize("output", ["json", "yaml"])
def test_structured_output_uses_the_rest_field_names(served: Served, output: str) -> None:
    def data(*arguments: str) -> Any:
        result = served.run(*arguments, "-o", output)
        assert (result.exit_code, result.stderr) == (0, "")
        return yaml.safe_load(result.stdout)

    assert data("queues")["queuename"] == "root"
    assert data("status")["ready"] == {"ready": True, "message": "ok"}
    assert data("app", "gang")["applicationID"] == "gang"
    assert data("nodes", "n1")["nodeID"] == "n1"
    assert data("explain", "waits")["application"] == "waits"
    for arguments, key, found in (
        (["apps"], "applicationID", ["gang", "waits"]),
        (["nodes", "n1", "n0"], "nodeID", ["n1", "n0"]),
        (["nodes"], "nodeID", ["n0", "n1", "n2"]),
    ):
        listed = data(*arguments)
        assert (listed["kind"], listed["apiVersion"]) == ("List", "v1")
        assert [item[key] for item in listed["items"]] == found


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["app", "nothing"], "no application nothing found in namespace ns (-n or -A selects others)"),
        (["app", "nothing", "-A"], "no application nothing found"),
        (["app", "ns/nothing"], "no application ns/nothing found"),
        (
            ["app", "gang", "-n", "other"],
            "no application gang found in namespace other; it exists in namespace ns: use -n ns",
        ),
        (["queues", "root.nothing"], "no queue root.nothing found; muster queues lists all"),
        (["apps", "-q", "root.nothing"], "no queue root.nothing found; muster queues lists all"),
        (["nodes", "n1", "nothing"], "no node nothing found"),
    ],
)
def test_a_missing_object_gives_one_line_and_exit_code_1(served: Served, arguments: list[str], message: str) -> None:
    result = served.run(*arguments)
    assert (result.exit_code, result.stdout, result.stderr) == (1, "", f"muster: {message}\n")


@pytest.mark.parametrize("command", LOOKING)
def test_an_unreachable_core_gives_one_line_and_exit_code_3(command: str) -> None:
    result = run(command, "--server", NO_CLUSTER)
    assert result.exit_code == 3
    assert result.stderr == f"muster: request to the core at {NO_CLUSTER} failed: Connection refused\n"


def test_a_server_that_is_not_a_core_is_reported(served: Served) -> None:
    result = run("queues", "--server", f"{served.url}/elsewhere")
    assert result.exit_code == 3
    assert "is it the REST address of a Muster core?" in result.stderr


@pytest.mark.parametrize(
    "options",
    [
        ["--server", "nonsense"],
        ["--server", "http://host:port"],
        ["--server", "https://host", "--certificate-authority", "missing.pem"],
        ["--server", "http://host", "--token-file", "missing"],
        ["--output", "nonsense"],
        ["--watch", "-o", "json", "--server", NO_CLUSTER],
    ],
)
def test_invalid_options_give_exit_code_2(options: list[str]) -> None:
    assert run("queues", *options).exit_code == 2


def test_a_name_with_special_characters_reaches_the_core_unchanged(served: Served) -> None:
    served.scenario.send(ApplicationAdded(an_application("a/b c+d%41", queue="root.b")))
    assert served.run("app", "a/b c+d%41").exit_code == 0


#: As in a terminal. A test run in the background ignores interrupts, and its children inherit that.
_INTERRUPTIBLE = (
    "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); from muster.main import app; app()"
)


def test_watched_output_is_printed_again_on_changes_until_interrupted(served: Served) -> None:
    line = [sys.executable, "-c", _INTERRUPTIBLE, "queues", "root.b", "--watch", "--server", served.url]
    with subprocess.Popen(line, stdout=subprocess.PIPE, text=True) as watching:
        try:
            assert watching.stdout is not None
            first = [watching.stdout.readline() for _ in range(4)]
            served.scenario.ask(an_ask("one-more", app="waits", vcore=100))
            second = [watching.stdout.readline() for _ in range(4)]
            watching.send_signal(signal.SIGINT)
            watching.communicate(timeout=30)
        finally:
            watching.kill()
    assert watching.returncode == 130
    assert first[0].split() == second[0].split()
    assert first[2] != second[2]
