"""`muster plan`: the outcomes under an edited configuration, against those under the active one, on copies."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from muster import plan
from muster.cluster_copy import ClusterCopy
from muster.plan import _placed
from muster_core.config.load import load
from muster_core.foresight.workload import PARTITION
from muster_core.model.events import ApplicationAdded, Event
from tests.unit.builders import an_application
from tests.unit.cli.api_server import ApiServer, Json, api_server
from tests.unit.cli.conftest import Served, core_thread
from tests.unit.cli.test_changes import node, pod

PRESENT = """
partitions:
  - name: default
    queues:
      - name: root
        submitacl: "*"
        queues: [{name: a, resources: {max: {vcore: 5}}}, {name: b}]
"""


@pytest.fixture
def served() -> Iterator[Served]:
    with core_thread(None, queues=PRESENT) as served:
        yield served


def in_queue(app: str, queue: str, cpu: str, **more: Any) -> Json:
    return pod(app, 0, cpu=cpu, labels={"applicationId": app, "queue": queue}, **more)


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ApiServer]:
    """Two nodes with 4 cores. In root.a, 3 of at most 5 cores are used and 3 are wanted; in root.b 1 is wanted."""
    pods = [
        in_queue("busy", "root.a", "3", at="a"),
        in_queue("wide", "root.a", "3"),
        in_queue("small", "root.b", "1"),
    ]
    with api_server(node("a"), node("b"), *pods) as server:
        monkeypatch.setenv("KUBECONFIG", server.kubeconfig(tmp_path))
        yield server


def queues(tmp_path: Path, *leaves: Json, **partition: Any) -> str:
    root = {"name": "root", "submitacl": "*", "queues": list(leaves)}
    path = tmp_path / "queues.yaml"
    path.write_text(yaml.safe_dump({"partitions": [{"name": "default", "queues": [root], **partition}]}))
    return str(path)


def leaf(name: str, cpu: str = "", **properties: str) -> Json:
    limited = {"resources": {"max": {"vcore": cpu}}} if cpu else {}
    return {"name": name, **limited, **({"properties": properties} if properties else {})}


def planned(served: Served, file: str, *options: str) -> dict[str, Json]:
    """The differences by application or queue."""
    result = served.run("plan", file, *options, "-o", "json")
    found = json.loads(result.stdout)["differences"]
    assert result.exit_code == bool(found), result.output
    return {one.get("application") or one["queue"]: one for one in found}


def test_without_a_difference_the_exit_code_is_0(served: Served, cluster: ApiServer, tmp_path: Path) -> None:
    result = served.run("plan", queues(tmp_path, leaf("a", "5"), leaf("b")))
    assert result.exit_code == 0, result.output
    assert result.stdout == "No difference within 1m\n"
    assert {method for method, _, _ in cluster.requests} == {"GET"}


def test_an_application_that_a_higher_maximum_starts(served: Served, cluster: ApiServer, tmp_path: Path) -> None:
    file = queues(tmp_path, leaf("a", "7"), leaf("b"))
    found = planned(served, file)
    assert found["wide"] == {
        "change": "starts",
        "application": "wide",
        "namespace": "ns",
        "user": "nobody",
        "queue": "root.a",
        "nodes": {"b": 1},
    }
    page = served.run("plan", file)
    assert page.exit_code == 1
    assert "starts" in page.stdout
    assert "ns/wide" in page.stdout
    assert "Within 1m, against the active configuration: 1 started" in page.stdout


def test_usage_above_a_lower_maximum_and_what_then_waits(served: Served, cluster: ApiServer, tmp_path: Path) -> None:
    found = planned(served, queues(tmp_path, leaf("a", "2"), leaf("b", "500m")))
    assert found["root.a"]["used"] == {"vcore": 3000}
    assert found["root.a"]["max"] == {"vcore": 2000}
    assert found["small"]["change"] == "waits"
    assert "root.b" in found["small"]["reason"]
    page = served.run("plan", queues(tmp_path, leaf("a", "2"), leaf("b", "500m"))).stdout
    assert "uses cpu 3, maximum cpu 2" in page


def test_a_maximum_that_a_typing_error_removes(served: Served, cluster: ApiServer, tmp_path: Path) -> None:
    file = Path(queues(tmp_path, leaf("a", "5"), leaf("b")))
    file.write_text(file.read_text().replace("vcore", "vcors"))
    lost = {"change": "unlimited", "queue": "root.a", "max": {"vcore": 5000}}
    assert planned(served, str(file))["root.a"] == lost
    page = served.run("plan", str(file)).stdout
    assert "loses its maximum of cpu 5" in page
    assert "1 without a maximum" in page


def test_pods_that_quota_preemption_would_end(served: Served, cluster: ApiServer, tmp_path: Path) -> None:
    """The delay is longer than the minute that is simulated by default."""
    leaves = leaf("a", "2", **{"quota.preemption.delay": "5m"}), leaf("b")
    file = queues(tmp_path, *leaves, preemption={"quotapreemptionenabled": True})
    assert "busy" not in planned(served, file)
    assert planned(served, file, "--within", "400")["busy"]["change"] == "preempted"


def test_applications_that_would_not_be_placed_again(served: Served, cluster: ApiServer, tmp_path: Path) -> None:
    """They continue until the next restart, so the other differences do not show it."""
    found = planned(served, queues(tmp_path, leaf("b")))
    assert {found["busy"]["change"], found["wide"]["change"]} == {"rejected"}
    assert found["busy"]["reason"].startswith("application rejected: no placement rule matched")
    assert "small" not in found


def test_applications_that_would_be_placed_in_another_queue(served: Served, cluster: ApiServer, tmp_path: Path) -> None:
    rules = [{"name": "fixed", "value": "root.b"}]
    file = queues(tmp_path, leaf("a", "5"), leaf("b"), placementrules=rules)
    found = planned(served, file)
    assert (found["busy"]["change"], found["busy"]["to"]) == ("moves", "root.b")
    assert "small" not in found
    page = served.run("plan", file).stdout
    assert "to root.b" in page
    assert "2 moved if submitted again" in page


def test_of_equal_applications_one_may_be_placed_in_a_queue_that_another_creates() -> None:
    rules = "placementrules: [{name: provided}, {name: user, create: true}]"
    text = f"partitions: [{{name: default, queues: [{{name: root, submitacl: '*'}}], {rules}}}]"
    users = {"first": "lee", "creator": "kim", "second": "lee"}
    apps = [
        ApplicationAdded(an_application(name, user=user, queue="" if user == "kim" else "root.kim"))
        for name, user in users.items()
    ]
    objects: list[Event] = [replace(one, spec=replace(one.spec, partition=PARTITION)) for one in apps]
    configuration = load(text, {}).configuration
    found = _placed(ClusterCopy(configuration, {}, objects, 1), configuration)
    assert {name: place.queue for name, place in found.items()} == {
        "first": "root.lee",
        "creator": "root.kim",
        "second": "root.kim",
    }


def test_a_config_map_with_settings(served: Served, cluster: ApiServer, tmp_path: Path) -> None:
    text = Path(queues(tmp_path, leaf("a", "7"), leaf("b"))).read_text()
    file = tmp_path / "map.yaml"
    file.write_text(yaml.safe_dump({"kind": "ConfigMap", "metadata": {"name": "m"}, "data": {"queues.yaml": text}}))
    assert planned(served, str(file))["wide"]["change"] == "starts"


@pytest.mark.parametrize(
    "text, error",
    [
        (
            "partitions: [{name: default, queues: [{name: root, queues: [{name: a, resources: {max: {vcore: x}}}]}]}]",
            "vcore",
        ),
        ("partitions: []", "partitions"),
        ("{", "queues.yaml: "),
        ("\n", "queues.yaml is empty"),
        ("partitions: [{name: other, queues: [{name: root}]}]", "has no partition 'default'"),
    ],
)
def test_a_file_that_the_core_would_reject_is_one_line(
    served: Served, cluster: ApiServer, tmp_path: Path, text: str, error: str
) -> None:
    file = tmp_path / "queues.yaml"
    file.write_text(text)
    result = served.run("plan", str(file))
    assert (result.exit_code, error in result.stderr) == (2, True), result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_the_length_of_the_file_is_bounded(served: Served, cluster: ApiServer) -> None:
    result = served.run("plan", "/dev/zero")
    assert (result.exit_code, "/dev/zero has more than 16777216 bytes" in result.stderr) == (2, True)
    assert cluster.requests == []


def test_the_time_is_bounded(
    served: Served, cluster: ApiServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plan, "_REAL_S", 0.0)
    result = served.run("plan", queues(tmp_path, leaf("a", "7"), leaf("b")))
    assert (result.exit_code, "use a smaller --within" in result.stderr) == (2, True)


def test_without_permission_to_list_pods_there_is_one_line(served: Served, cluster: ApiServer, tmp_path: Path) -> None:
    cluster.failing["/api/v1/pods"] = 403
    result = served.run("plan", queues(tmp_path, leaf("b")))
    assert (result.exit_code, len(result.stderr.splitlines())) == (3, 1)


def test_names_are_printed_without_control_characters(served: Served, cluster: ApiServer, tmp_path: Path) -> None:
    hostile = in_queue("wide", "root.a", "3", annotations={"yunikorn.apache.org/app-id": "wide\x1b[31m[bold]x"})
    del hostile["metadata"]["labels"]["applicationId"]
    cluster.objects["/api/v1/namespaces/ns/pods/wide-0"] = hostile
    page = served.run("plan", queues(tmp_path, leaf("a", "7"), leaf("b")))
    assert "[bold]x" in page.stdout
    assert "\x1b" not in page.stdout
