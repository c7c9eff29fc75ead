"""`muster apply --dry-run=server`: manifests are submitted to a copy of the cluster, and nothing else."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from muster import dry_run
from tests.unit.cli.api_server import ApiServer, Json, api_server
from tests.unit.cli.conftest import Served, core_thread
from tests.unit.cli.test_changes import GANG, node, pod
from tests.unit.cli.test_plan import in_queue

GANG_SIZE = "yunikorn.apache.org/gang-size"
PRESENT = """
partitions:
  - name: default
    queues:
      - name: root
        submitacl: "*"
        queues:
          - {name: a, resources: {max: {vcore: 5}}, limits: [{users: [kim], maxresources: {vcore: 1}}]}
          - {name: b, resources: {guaranteed: {vcore: 4}}}
          - {name: c}
"""


@pytest.fixture
def served() -> Iterator[Served]:
    with core_thread(None, queues=PRESENT) as served:
        yield served


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ApiServer]:
    """Two nodes with 4 cores; 3 of the first are used in root.c."""
    high = {"kind": "PriorityClass", "metadata": {"name": "high"}, "value": 1000}
    with api_server(node("a"), node("b"), in_queue("busy", "root.c", "3", at="a")) as server:
        server.objects["/apis/scheduling.k8s.io/v1/priorityclasses/high"] = high
        monkeypatch.setenv("KUBECONFIG", server.kubeconfig(tmp_path))
        yield server


def job(tmp_path: Path, queue: str = "root.a", cpu: str = "3", pods: int = 1, gang: Json = GANG, **spec: Any) -> str:
    """A file with a Job, a gang if it has two pods. The context selects the namespace team-a."""
    labels = {"applicationId": "new", "queue": queue}
    container = {"name": "main", "resources": {"limits": {"cpu": cpu}}}
    template = {
        "metadata": {"labels": labels, "annotations": gang if pods == 2 else {}},
        "spec": {"schedulerName": "muster", "containers": [container], **spec},
    }
    path = tmp_path / "job.yaml"
    found = {"kind": "Job", "metadata": {"name": "new"}, "spec": {"parallelism": pods, "template": template}}
    path.write_text(yaml.safe_dump(found))
    return str(path)


def result_of(served: Served, file: str, *options: str) -> Json:
    result = served.run("apply", "--dry-run=server", "-f", file, *options, "-o", "json")
    [found] = json.loads(result.stdout)["applications"]
    assert result.exit_code == (found["result"] != "starts"), result.output
    assert isinstance(found, dict)
    return found


def test_an_application_that_would_start(served: Served, cluster: ApiServer, tmp_path: Path) -> None:
    found = result_of(served, job(tmp_path))
    assert (found["result"], found["nodes"], found["afterSeconds"]) == ("starts", {"b": 1}, 0)
    assert (found["namespace"], found["queue"], found["user"]) == ("team-a", "root.a", "nobody")
    assert found["limits"] == [
        {"queue": "root.a", "user": "", "group": "", "used": {"vcore": 3000}, "max": {"vcore": 5000}}
    ]
    assert {method for method, _, _ in cluster.requests} == {"GET"}
    page = served.run("apply", "--dry-run=server", "-f", job(tmp_path)).stdout
    assert "team-a/new in queue root.a: would start now on b" in page
    assert "uses cpu 3, maximum cpu 5" in page


@pytest.mark.parametrize("gang", [GANG, {GANG_SIZE: "2"}])
def test_a_gang_that_would_wait(gang: Json, served: Served, cluster: ApiServer, tmp_path: Path) -> None:
    file = job(tmp_path, "root.c", pods=2, gang=gang)
    found = result_of(served, file)
    assert (found["result"], found["nodes"]) == ("waits", {})
    assert "Insufficient cpu" in found["reason"]
    assert "would wait: " in served.run("apply", "--dry-run=server", "-f", file).stdout


def test_pods_of_a_gang_that_lacks_members_are_left_out(served: Served, cluster: ApiServer, tmp_path: Path) -> None:
    result = served.run("apply", "--dry-run=server", "-f", job(tmp_path, pods=2, gang={GANG_SIZE: "3"}))
    assert f'gang "new" ({GANG_SIZE}) needs 3 ({GANG_SIZE})' in result.output


def test_what_would_be_preempted(served: Served, cluster: ApiServer, tmp_path: Path) -> None:
    options = "apply", "--dry-run=server", "-f", job(tmp_path, "root.b", cpu="4", priorityClassName="high")
    found = json.loads(served.run(*options, "-o", "json").stdout)
    assert found["applications"][0]["result"] == "starts"
    assert found["preempted"] == []
    del cluster.objects["/api/v1/nodes/b"]
    found = json.loads(served.run(*options, "-o", "json").stdout)
    assert found["preempted"] == [{"pod": "ns/busy-0", "application": "busy", "node": "a"}]
    assert found["applications"][0]["afterSeconds"] >= 30
    page = served.run("apply", "--dry-run=server", "-f", job(tmp_path, "root.b", cpu="4", priorityClassName="high"))
    assert "for these or for other applications: ns/busy-0 on a" in page.stdout


def test_the_limits_of_the_user(served: Served, cluster: ApiServer, tmp_path: Path) -> None:
    found = result_of(served, job(tmp_path), "--user", "kim", "--group", "research")
    assert (found["result"], found["user"]) == ("waits", "kim")
    assert [limit["user"] for limit in found["limits"]] == ["", "kim"]


def test_an_application_that_would_be_rejected(served: Served, cluster: ApiServer, tmp_path: Path) -> None:
    found = result_of(served, job(tmp_path, "root.nowhere"))
    assert (found["result"], "no placement rule" in found["reason"]) == ("rejected", True)


def test_an_application_that_another_one_of_the_manifests_preempts_tells_it(
    served: Served, cluster: ApiServer, tmp_path: Path
) -> None:
    del cluster.objects["/api/v1/nodes/b"]
    file = tmp_path / "both.yaml"
    pods = [
        {
            "kind": "Pod",
            "metadata": {"name": name, "labels": {"applicationId": name, "queue": queue}},
            "spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": cpu}}}], **more},
        }
        for name, queue, cpu, more in (("x", "root.c", 1, {}), ("y", "root.b", 4, {"priorityClassName": "high"}))
    ]
    file.write_text(yaml.safe_dump_all(pods))
    found = json.loads(served.run("apply", "--dry-run=server", "-f", str(file), "-o", "json").stdout)
    results = {one["application"]: (one["result"], one["reason"]) for one in found["applications"]}
    assert results == {"x": ("waits", "its pods are preempted"), "y": ("starts", "")}
    assert {victim["application"] for victim in found["preempted"]} == {"x", "busy"}


def test_what_the_manifests_have_besides_their_pods(served: Served, cluster: ApiServer, tmp_path: Path) -> None:
    """Services have no pods. Pods with a gate or of another scheduler are not examined, and counted."""
    file = tmp_path / "all.yaml"
    others = [
        {"kind": "Service", "metadata": {"name": "new"}},
        {"kind": "Pod", "metadata": {"name": "gated"}, "spec": {"schedulingGates": [{"name": "later"}]}},
        {"kind": "Pod", "metadata": {"name": "other"}, "spec": {"schedulerName": "default-scheduler"}},
    ]
    file.write_text(f"{Path(job(tmp_path)).read_text()}---\n{yaml.safe_dump_all(others)}")
    found = json.loads(served.run("apply", "--dry-run=server", "-f", str(file), "-o", "json").stdout)
    assert ([one["result"] for one in found["applications"]], found["podsLeftOut"]) == (["starts"], 2)
    assert found["leftOut"][1] == {"pod": "team-a/other", "reason": "has schedulerName default-scheduler"}
    page = served.run("apply", "--dry-run=server", "-f", str(file)).stdout
    assert "Left out: 2 pods" in page
    assert "pod team-a/other has schedulerName default-scheduler" in page
    assert found["warnings"] == []


@pytest.mark.parametrize(
    "annotations, warning",
    [
        ({"yunikorn.apache.org/task-groups": "[{"}, "no gang for pod team-a/new-job-0: "),
        ({"yunikorn.apache.org/task-grups": "[]"}, "did you mean yunikorn.apache.org/task-groups?"),
        ({"yunikorn.apache.org/user.info": "kim"}, "user.info"),
    ],
)
def test_an_annotation_without_effect_is_a_warning_in_the_words_of_the_event(
    served: Served, cluster: ApiServer, tmp_path: Path, annotations: dict[str, str], warning: str
) -> None:
    file = Path(job(tmp_path))
    made = yaml.safe_load(file.read_text())
    made["spec"]["template"]["metadata"]["annotations"] = annotations
    folder = tmp_path / "manifests"
    folder.mkdir()
    (folder / "job.yml").write_text(yaml.safe_dump(made))
    (folder / "notes.txt").write_text("{")
    options = "apply", "--dry-run=server", "-f", str(folder)
    found = json.loads(served.run(*options, "-o", "json").stdout)
    assert (len(found["warnings"]), warning in found["warnings"][0]) == (1, True), found["warnings"]
    assert "Warning: " in served.run(*options).stdout


def test_pods_that_would_join_an_application_are_a_warning(served: Served, cluster: ApiServer, tmp_path: Path) -> None:
    file = tmp_path / "pod.yaml"
    labels = {"applicationId": "busy", "queue": "root.c"}
    file.write_text(yaml.safe_dump(pod("busy", 1, cpu="1", labels=labels)))
    result = served.run("apply", "--dry-run=server", "-f", str(file))
    assert "Warning: application ns/busy exists; the pods of the manifests would be added to it" in result.stdout
    assert "exists" not in served.run("apply", "--dry-run=server", "-f", job(tmp_path)).stdout


def test_a_folder_without_manifests_is_an_error(served: Served, cluster: ApiServer, tmp_path: Path) -> None:
    result = served.run("apply", "--dry-run=server", "-f", str(tmp_path / "."))
    assert (result.exit_code, "has no file that ends in .json, .yaml, .yml" in result.stderr) == (2, True)


@pytest.mark.parametrize("options", [(), ("--dry-run", "client"), ("--dry-run", "none"), ("--dry-run", "-f", "x")])
def test_nothing_is_ever_applied(served: Served, cluster: ApiServer, tmp_path: Path, options: tuple[str, ...]) -> None:
    result = served.run("apply", "-f", job(tmp_path), *options)
    assert (result.exit_code, "use kubectl apply" in result.stderr) == (2, True)
    assert cluster.requests == []


@pytest.mark.parametrize(
    "text, error",
    [
        ("kind: Pod", "a Pod has no name"),
        ("partitions: []", "an object without a kind is not simulated"),
        ("partitions: []", "for a queues.yaml, use muster plan"),
        ("[1]", "is neither a CSV file nor a manifest"),
        ("{", "is not a manifest"),
        ("kind: Node\nmetadata: {name: a}", "nodes are not applied"),
        ("kind: Pod\nmetadata: {name: a}\nspec: {schedulerName: other}", "has no pods that Muster would schedule"),
        ("kind: Pod\nmetadata: {name: a}\nspec: {priorityClassName: absent}", "add the PriorityClass"),
        ("kind: Pods\nmetadata: {name: a}", "kind 'Pods' is not simulated"),
        ("kind: Job\nmetadata: {name: a}\nspec: {parallelism: 999999999}", "at most 100000 are allowed"),
        ("kind: Pod\nmetadata: {name: busy-0, namespace: ns, labels: {queue: root.b}}", "pod ns/busy-0 exists"),
    ],
)
def test_manifests_that_cannot_be_used_are_one_line(
    served: Served, cluster: ApiServer, tmp_path: Path, text: str, error: str
) -> None:
    file = tmp_path / "file.yaml"
    file.write_text(text)
    result = served.run("apply", "--dry-run=server", "-f", str(file))
    assert (result.exit_code, error in result.stderr) == (2, True), result.output
    assert len(result.stderr.splitlines()) == 1


def test_claims_are_not_simulated(served: Served, cluster: ApiServer, tmp_path: Path) -> None:
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}
    result = served.run("apply", "--dry-run=server", "-f", job(tmp_path, volumes=[volume]))
    assert (result.exit_code, "volumes or devices, which are not simulated" in result.stderr) == (2, True)


def test_bytes_and_time_are_bounded(
    served: Served, cluster: ApiServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = served.run("apply", "--dry-run=server", "-f", "/dev/zero")
    assert (result.exit_code, "more than 16777216 bytes" in result.stderr) == (2, True)
    assert cluster.requests == []
    monkeypatch.setattr(dry_run, "_REAL_S", 0.0)
    result = served.run("apply", "--dry-run=server", "-f", job(tmp_path))
    assert (result.exit_code, "cannot be simulated in 0 s" in result.stderr) == (2, True)


@pytest.mark.parametrize("second, found", [("p2", "would start now"), ("p1", "has two objects: Pod 'team-a/p1'")])
def test_pods_of_one_application_can_be_in_several_files(
    served: Served, cluster: ApiServer, tmp_path: Path, second: str, found: str
) -> None:
    files = []
    for number, name in enumerate(("p1", second)):
        path = tmp_path / f"{number}.yaml"
        labels = {"applicationId": "x", "queue": "root.c"}
        container = {"name": "main", "resources": {"requests": {"cpu": "1"}}}
        spec = {"schedulerName": "muster", "containers": [container]}
        path.write_text(yaml.safe_dump({"kind": "Pod", "metadata": {"name": name, "labels": labels}, "spec": spec}))
        files += ["-f", str(path)]
    assert found in served.run("apply", "--dry-run=server", *files).output
