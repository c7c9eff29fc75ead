"""`muster simulate` compares configurations, and writes a report, a table of jobs and JSON."""

import csv
import gzip
from html.parser import HTMLParser
from pathlib import Path

import orjson
import pytest
from typer.testing import CliRunner, Result

from muster.main import app
from muster.simulate import Reader
from muster_core.foresight.workload import BadInput, Job, TraceOptions

NODES = "name,cpu_milli,memory_mib,count\nnode,4000,1024,2\n"
TRACE = (
    "id,submit_s,run_s,pods,cpu_milli,user,queue\na,0,100,1,4000,kim,x\nb,10,50,2,4000,lee,x\nc,20,30,1,1000,lee,y\n"
)
QUEUES = "partitions: [{queues: [{name: root, submitacl: '*', queues: [%s]}]}]"
OPEN, LIMITED = (
    QUEUES % queues for queues in ("{name: x}, {name: y}", "{name: x}, {name: y, resources: {max: {vcore: '0'}}}")
)
HOSTILE = "<script>alert(1)</script>"


def simulate(folder: Path, *options: str, trace: str = TRACE) -> Result:
    (folder / "nodes.csv").write_text(NODES)
    (folder / "trace.csv").write_text(trace)
    files = ("--nodes", str(folder / "nodes.csv"), "-w", str(folder / "trace.csv"))
    return CliRunner().invoke(app, ["simulate", *files, *options])


def test_the_measures_are_printed_one_column_per_configuration(tmp_path: Path) -> None:
    (tmp_path / "open.yaml").write_text(OPEN)
    (tmp_path / "limited.yaml").write_text(LIMITED)
    queues = [part for name in ("open.yaml", "limited.yaml") for part in ("-q", str(tmp_path / name))]
    result = simulate(tmp_path, *queues)
    assert result.exit_code == 0, result.output
    lines = {line.split("  ")[0].strip(): line.split() for line in result.stdout.splitlines()}
    assert lines["jobs completed"][-2:] == ["3", "2"]
    assert lines["jobs waiting"][-2:] == ["0", "1"]
    assert "utilization cpu" in lines


def test_json_contains_all_measures(tmp_path: Path) -> None:
    [found] = orjson.loads(simulate(tmp_path, "-o", "json").stdout)
    assert found["configuration"] == "default"
    assert found["wait_s"]["max"] == 90
    assert [queue["name"] for queue in found["queues"]] == ["root.x", "root.y"]


def test_every_job_is_a_line_of_the_table_of_jobs(tmp_path: Path) -> None:
    assert simulate(tmp_path, "--jobs", str(tmp_path / "jobs.csv")).exit_code == 0
    rows = list(csv.DictReader((tmp_path / "jobs.csv").read_text().splitlines()))
    assert [(row["id"], row["state"], row["wait_s"], row["end_s"]) for row in rows] == [
        ("a", "completed", "0.0", "100.0"),
        ("b", "completed", "90.0", "150.0"),
        ("c", "completed", "0.0", "50.0"),
    ]


CLUSTER = """
kind: List
items:
  - kind: Node
    metadata: {name: a}
    status: {allocatable: {cpu: "4", memory: 8Gi, pods: "9"}}
  - kind: Node
    metadata: {name: b}
    status: {allocatable: {cpu: "4", memory: 8Gi, pods: "9"}}
  - kind: Node
    metadata: {name: cordoned}
    spec: {unschedulable: true}
    status: {allocatable: {cpu: "4", memory: 8Gi, pods: "9"}}
  - kind: Pod
    metadata: {name: present, namespace: other, uid: "1"}
    spec: {nodeName: a, schedulerName: default-scheduler, containers: [{resources: {requests: {cpu: "1"}}}]}
    status: {phase: Running}
"""
JOB = """
kind: Job
metadata: {name: gang, namespace: team}
spec:
  parallelism: %d
  activeDeadlineSeconds: 60
  template:
    metadata:
      labels: {yunikorn.apache.org/app-id: gang}
      annotations:
        yunikorn.apache.org/task-group-name: workers
        yunikorn.apache.org/task-groups: '[{"name": "workers", "minMember": %d, "minResource": {"cpu": "2"}}]'
    spec: {containers: [{name: main, resources: {requests: {cpu: "2"}}}]}
"""


@pytest.mark.parametrize("members, state", [(3, "completed"), (4, "waiting")])
def test_manifests_are_read_as_the_operator_reads_them(tmp_path: Path, members: int, state: str) -> None:
    """There is room for three members, next to the bound pod and without the cordoned node."""
    (tmp_path / "cluster.yaml").write_text(CLUSTER)
    (tmp_path / "job.yaml").write_text(JOB % (members, members))
    files = ("--nodes", str(tmp_path / "cluster.yaml"), "--workload", str(tmp_path / "job.yaml"))
    result = CliRunner().invoke(app, ["simulate", *files, "-o", "json"])
    assert result.exit_code == 0, result.output
    [found] = orjson.loads(result.stdout)
    assert found["jobs"][state] == 1
    assert [queue["name"] for queue in found["queues"]] == ["root.team"]
    assert found["makespan_s"] == (60 if state == "completed" else 0)


POD = """
kind: Pod
metadata: {name: first}
spec: {priorityClassName: protected, containers: [{resources: {requests: {cpu: "4"}}}]}
"""
ONE_NODE = """
kind: Node
metadata: {name: a}
status: {allocatable: {cpu: "4", memory: 8Gi, pods: "9"}}
---
kind: PriorityClass
metadata: {name: protected, annotations: {yunikorn.apache.org/allow-preemption: "false"}}
value: 10
"""


def test_a_workload_can_use_the_priority_classes_of_the_file_with_the_nodes(tmp_path: Path) -> None:
    """The class protects its pods; an unknown class would not."""
    (tmp_path / "nodes.yaml").write_text(ONE_NODE)
    reader = Reader(TraceOptions(), None)
    assert len(reader.nodes(str(tmp_path / "nodes.yaml"))) == 1
    (tmp_path / "pod.yaml").write_text(POD)
    [job] = reader.jobs(str(tmp_path / "pod.yaml"))
    assert not job.pod_sets[0].request.allow_preempt_self


CLASSES = """
kind: PriorityClass
metadata: {name: high}
value: 1000
preemptionPolicy: Never
---
kind: PriorityClass
metadata: {name: usual}
value: 7
globalDefault: true
"""
CPU = 'containers: [{resources: {requests: {cpu: "1"}}}]'


def read(folder: Path, written: str) -> list[Job]:
    (folder / "read.yaml").write_text(written)
    return list(Reader(TraceOptions(), 60).jobs(str(folder / "read.yaml")))


def pod_of(app: str, spec: str) -> str:
    return f"---\nkind: Pod\nmetadata: {{name: {app}, labels: {{applicationId: {app}}}}}\nspec: {{{spec}}}\n"


def test_pods_of_manifests_get_the_priority_of_their_class_as_from_the_api_server(tmp_path: Path) -> None:
    """Wherever in the input the class is. Objects of a cluster have their priority already."""
    pods = (
        pod_of("by-class", f"priorityClassName: high, {CPU}")
        + pod_of("by-default", CPU)
        + pod_of("present", f"priorityClassName: deleted, priority: 5, {CPU}")
        + pod_of("critical", f"priorityClassName: system-node-critical, {CPU}")
    )
    requests = {job.id: job.pod_sets[0].request for job in read(tmp_path, f"{pods}---{CLASSES}")}
    assert {name: one.priority for name, one in requests.items()} == {
        "default/by-class": 1000,
        "default/by-default": 7,
        "default/present": 5,
        "default/critical": 2_000_001_000,
    }
    preempting = {name for name, one in requests.items() if one.allow_preempt_other}
    assert preempting == requests.keys() - {"default/by-class"}


def test_requests_of_manifests_default_to_limits_as_in_the_api_server(tmp_path: Path) -> None:
    """Per resource and container; requests of the pod default to its limits if no container requests the resource."""
    limits = 'resources: {requests: {cpu: "1"}, limits: {cpu: "2", "nvidia.com/gpu": "1"}}'
    init = 'initContainers: [{resources: {limits: {cpu: "3"}}}]'
    pods = pod_of("a", f"containers: [{{{limits}}}], {init}")
    pods += pod_of("b", 'containers: [{}], resources: {limits: {cpu: "2"}}')
    amounts = {job.id: dict(job.pod_sets[0].request.resources.items()) for job in read(tmp_path, pods)}
    assert amounts == {
        "default/a": {"pods": 1, "vcore": 3000, "nvidia.com/gpu": 1},
        "default/b": {"pods": 1, "vcore": 2000},
    }


def test_a_workload_without_cpu_requests_is_simulated(tmp_path: Path) -> None:
    (tmp_path / "nodes.yaml").write_text(ONE_NODE)
    (tmp_path / "pod.yaml").write_text(pod_of("a", "containers: [{resources: {requests: {memory: 1Gi}}}]"))
    files = ("--nodes", str(tmp_path / "nodes.yaml"), "-w", str(tmp_path / "pod.yaml"))
    report = tmp_path / "report.html"
    result = CliRunner().invoke(app, ["simulate", *files, "--run-time", "60", "--report", str(report)])
    assert (result.exit_code, report.is_file()) == (0, True), result.output


def controller(kind: str, metadata: str, app: str, counts: str) -> str:
    template = f"{{metadata: {{labels: {{applicationId: {app}}}}}, spec: {{{CPU}}}}}"
    return f"---\nkind: {kind}\nmetadata: {{{metadata}}}\nspec: {{{counts}, template: {template}}}\n"


def test_no_controller_replaces_the_pods_of_another_one(tmp_path: Path) -> None:
    """Names are generated as by the API server, and differ between kinds."""
    written = (
        controller("Job", "generateName: train-", "one", "parallelism: 2")
        + controller("Job", "generateName: train-", "two", "parallelism: 2")
        + controller("Job", "name: same", "three", "parallelism: 3")
        + controller("Deployment", "name: same", "four", "replicas: 4")
        + controller("StatefulSet", "name: same", "five", "replicas: 5")
        + f"---\nkind: Pod\nmetadata: {{generateName: train-, labels: {{applicationId: six}}}}\nspec: {{{CPU}}}\n"
    )
    counts = {job.id.rpartition("/")[2]: job.pods for job in read(tmp_path, written)}
    assert counts == {"one": 2, "two": 2, "three": 3, "four": 4, "five": 5, "six": 1}


@pytest.mark.parametrize("counts, pods", [("completions: 2, parallelism: 8", 2), ("completions: 8", 1)])
def test_a_job_has_no_more_pods_than_completions(tmp_path: Path, counts: str, pods: int) -> None:
    [job] = read(tmp_path, controller("Job", "name: a", "a", counts))
    assert job.pods == pods


def test_the_limit_of_pods_is_on_all_files_together(tmp_path: Path) -> None:
    reader = Reader(TraceOptions(), 60)
    for name in ("a", "b"):
        (tmp_path / name).with_suffix(".yaml").write_text(controller("Job", f"name: {name}", name, "parallelism: 2"))
    reader.pods = 99_997
    assert len(reader.jobs(str(tmp_path / "a.yaml"))) == 1
    with pytest.raises(BadInput, match="the controllers have 100001 pods, at most 100000 are allowed"):
        reader.jobs(str(tmp_path / "b.yaml"))


@pytest.mark.parametrize(
    "text, message",
    [
        ("kind: CronJob", "kind 'CronJob' is not simulated; write objects of kind Node, Pod,"),
        ("[", "is not a manifest: "),
        ("just text", "is neither a CSV file nor a manifest"),
        ("--- {kind: Job, metadata: {name: a}, spec: {parallelism: 1000000}}", "the controllers have 1000000 pods"),
        (
            "".join(f"--- {{kind: Job, metadata: {{name: {name}}}, spec: {{parallelism: 60000}}}}\n" for name in "ab"),
            "the controllers have 120000 pods, at most 100000 are allowed",
        ),
        (
            "--- {kind: Job, metadata: {name: a}, spec: {parallelism: -1}}",
            "Job 'a': parallelism is -1; write",
        ),
        (
            "--- {kind: Deployment, metadata: {name: a}, spec: {replicas: x}}",
            "Deployment 'a': replicas is 'x'",
        ),
        (
            "--- {kind: Job, metadata: {name: a}, spec: {activeDeadlineSeconds: 0}}",
            "Job 'a': activeDeadlineSeconds is 0; write 1 or more",
        ),
        (
            "--- {kind: Pod, metadata: {name: a}, spec: {activeDeadlineSeconds: -5}}",
            "Pod 'default/a': activeDeadlineSeconds is -5; write 1 or more",
        ),
        ("--- {kind: Job, spec: {parallelism: 1}}", "a Job has no name"),
        (
            "--- {kind: Pod, metadata: {name: a}}\n---\n{kind: Pod, metadata: {name: a}}",
            "has two objects: Pod",
        ),
        (
            "--- {kind: Pod, metadata: {name: a, uid: x}}\n--- {kind: Pod, metadata: {name: b, uid: x}}",
            "has two objects: Pod with uid 'x'",
        ),
        (
            "--- {kind: Pod, metadata: {name: a}, spec: {priorityClassName: typo}}",
            "Pod 'default/a': priorityClassName is 'typo'; add the PriorityClass",
        ),
    ],
)
def test_an_unusable_manifest_is_one_line_and_exit_code_2(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "job.yaml").write_text(text)
    result = simulate(tmp_path, "-w", str(tmp_path / "job.yaml"))
    assert result.exit_code == 2
    assert f"job.yaml: {message}" in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_two_workload_files_with_a_pod_of_the_same_name_are_an_error(tmp_path: Path) -> None:
    options: list[str] = []
    for name in ("a", "b"):
        pod = f"kind: Pod\nmetadata: {{name: same, uid: {name}, labels: {{applicationId: {name}}}}}\nspec: {{}}\n"
        (tmp_path / name).with_suffix(".yaml").write_text(pod)
        options += ["-w", str(tmp_path / f"{name}.yaml")]
    result = simulate(tmp_path, *options)
    assert result.exit_code == 2
    assert result.stderr == "muster: two files of --workload have a pod default/same; write unique names\n"
    assert simulate(tmp_path, *options[:2]).exit_code == 0


@pytest.mark.parametrize(
    "text",
    [
        "{kind: Pod, metadata: {name: a}}",
        '{"kind": "Pod", "metadata": {"name": "a"}}\n---\n{"kind": "Node", "metadata": {"name": "n"}}',
        '{"kind": "List", "items": [{"kind": "Pod", "metadata": {"name": "a"}}]}',
    ],
)
def test_manifests_in_json_may_be_written_in_the_flow_style_of_yaml(tmp_path: Path, text: str) -> None:
    (tmp_path / "pod.json").write_text(text)
    [found] = orjson.loads(simulate(tmp_path, "-w", str(tmp_path / "pod.json"), "-o", "json").stdout)
    assert found["jobs"]["completed"] + found["jobs"]["running"] == 4


class Tags(HTMLParser):
    """Collects start tags with their attributes."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


def test_the_report_loads_nothing_and_shows_hostile_names_as_text(tmp_path: Path) -> None:
    trace = TRACE.replace("kim", HOSTILE)
    assert simulate(tmp_path, "--report", str(tmp_path / "out.html"), trace=trace).exit_code == 0
    text = (tmp_path / "out.html").read_text()
    tags = Tags()
    tags.feed(text)
    assert HOSTILE not in text
    assert not {"script", "link", "img", "iframe"} & {tag for tag, _ in tags.found}
    assert not [attributes for _, attributes in tags.found if {"src", "href", "onload"} & attributes.keys()]
    assert "http" not in text.replace("http-equiv", "")
    assert sum(tag == "svg" for tag, _ in tags.found) == 4


def test_a_compressed_trace_is_read(tmp_path: Path) -> None:
    more = "id,submit_s,run_s,pods,cpu_milli\nd,0,1,1,1\n"
    (tmp_path / "more.csv.gz").write_bytes(gzip.compress(more.encode()))
    [found] = orjson.loads(simulate(tmp_path, "-w", str(tmp_path / "more.csv.gz"), "-o", "json").stdout)
    assert found["jobs"]["completed"] == 4


@pytest.mark.parametrize(
    "options, trace, message",
    [
        (
            (),
            "id\n",
            "trace.csv:1: has no column submit_s, pods; name the columns in the first line. Columns: id",
        ),
        (("-q", "missing.yaml"), TRACE, "missing.yaml cannot be read: No such file or directory"),
        (("-w", "missing.csv.gz"), TRACE, "missing.csv.gz cannot be read"),
    ],
)
def test_an_unusable_file_is_one_line_and_exit_code_2(
    tmp_path: Path, options: tuple[str, ...], trace: str, message: str
) -> None:
    result = simulate(tmp_path, *options, trace=trace)
    assert result.exit_code == 2
    assert message in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_jobs_that_do_not_start_are_counted_by_reason(tmp_path: Path) -> None:
    """Rejected, because a gang needs a queue in order of age, or waiting for more than there is."""
    (tmp_path / "fair.yaml").write_text(QUEUES % "{name: x, properties: {application.sort.policy: fair}}, {name: y}")
    trace = f"{TRACE}d,20,30,1,9000,lee,y\n"
    options = ("-q", str(tmp_path / "fair.yaml"), "--jobs", str(tmp_path / "jobs.csv"), "--report", str(tmp_path / "r"))
    printed = simulate(tmp_path, *options, trace=trace).stdout
    [found] = orjson.loads(simulate(tmp_path, *options, "-o", "json", trace=trace).stdout)
    why = {one["state"]: (one["jobs"], one["reason"]) for one in found["reasons"]}
    assert why["rejected"][0] == why["waiting"][0] == 1
    assert "sorts its applications by fair share" in why["rejected"][1]
    rows = csv.DictReader((tmp_path / "jobs.csv").read_text().splitlines())
    reasons = {row["id"]: row["reason"] for row in rows if row["reason"]}
    assert reasons == {"b": why["rejected"][1], "d": why["waiting"][1]}
    for state, (_, reason) in why.items():
        assert f"fair.yaml: 1 job {state}: {reason}" in printed
        assert reason in (tmp_path / "r").read_text()
