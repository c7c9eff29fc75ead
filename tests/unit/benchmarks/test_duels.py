"""Duels read the workloads and templates of scheduler_perf, and give each scheduler the same pods."""

from pathlib import Path

import pytest
import yaml

from benchmarks.cluster.benches import Contender
from benchmarks.duels.run import pods_of
from benchmarks.duels.templates import render
from benchmarks.duels.workloads import Duel, Operation, operations

PRIORITY = "{{if .priority}}{{AddInt 0 .priority}}{{else}}8{{end}}"


@pytest.mark.parametrize(
    "text, values, rendered",
    [
        ("gang-{{DivideInt .Index .size}} {{Mod .Index 3}}", {"Index": 7, "size": 4}, "gang-1 1"),
        ("{{AddInt 7000 (Mod .Index (DivideInt .pods .nodes))}}", {"Index": 12, "pods": 1000, "nodes": 100}, "7002"),
        (PRIORITY, {"priority": 5}, "5"),
        (PRIORITY, {}, "8"),
        ("{{$n := (or .n 2) | Int}}{{range $n}}[{{.}}{{$n}}]{{end}}!", {}, "[02][12]!"),
        ("{{range .n}}{{if .}}{{DivideInt 6 .}}{{end}}{{end}}", {"n": 3}, "63"),
        ("{{(or .missing nil) | JSON}} {{.missing}}", {}, "null "),
    ],
)
def test_templates_are_rendered_as_by_go(text: str, values: dict[str, int], rendered: str) -> None:
    assert render(text, values) == rendered


@pytest.mark.parametrize("text", ["{{.a | Unknown}}", "{{printf .a}}", "{{.a 1}}", "{{.a + 1}}", "{{end}}"])
def test_other_actions_are_an_error(text: str) -> None:
    with pytest.raises((ValueError, KeyError)):
        render(text, {"a": 1})


CASES = """
- name: Gangs
  workloadTemplate:
  - {opcode: createNodes, countParam: $nodes}
  - {opcode: createNamespaces, prefix: ns, count: 2}
  - {opcode: createPodSets, count: 2, namespacePrefix: ns, createPodsOp: {opcode: createPods, countParam: $first}}
  - opcode: createPods
    countParam: $gangs
    countMultiplierParam: $size
    podTemplatePath: gang.yaml
    templateParams: {size: $size, other: $none|3}
    collectMetrics: true
  workloads:
  - {name: large, params: {nodes: 100, first: 4, gangs: 10, size: 3}}
  - {name: small, params: {nodes: 2, first: 1, gangs: 1, size: 2}}
- name: Churn
  workloadTemplate: [{opcode: churn}]
  workloads: [{name: small, params: {}}]
"""
GANG = "{kind: Pod, metadata: {generateName: pod-}, spec: {group: 'gang-{{DivideInt .Index .size}}-{{.other}}'}}"


@pytest.fixture
def perf(tmp_path: Path) -> Path:
    """A folder like that of scheduler_perf."""
    (tmp_path / "topic").mkdir()
    (tmp_path / "templates").mkdir()
    (tmp_path / "topic/performance-config.yaml").write_text(CASES)
    (tmp_path / "topic/gang.yaml").write_text(GANG)
    (tmp_path / "templates/node-default.yaml").write_text("{kind: Node, metadata: {generateName: node-}}")
    (tmp_path / "templates/pod-default.yaml").write_text("{kind: Pod, metadata: {name: one}, spec: {}}")
    return tmp_path


def duel(case: str = "Gangs") -> Duel:
    return Duel("topic", case, "large", "small", {"gangs": 5})


def summary(steps: list[Operation]) -> list[tuple[str, str, int, bool]]:
    return [(step.kind, step.namespace, step.count, step.measured) for step in steps]


def test_a_workload_is_read_with_its_parameters(perf: Path) -> None:
    assert summary(operations(duel(), perf, quick=False)) == [
        ("nodes", "", 100, False), ("namespaces", "", 1, False),
        ("pods", "ns-0", 4, False), ("pods", "ns-1", 4, False), ("pods", "namespace-0", 15, True),
    ]  # fmt: skip
    assert summary(operations(duel(), perf, quick=True))[-1] == ("pods", "namespace-0", 2, True)


def test_an_operation_that_is_not_supported_is_an_error(perf: Path) -> None:
    with pytest.raises(ValueError, match="churn"):
        operations(duel("Churn"), perf, quick=True)


def test_nodes_have_their_name_as_a_label(perf: Path) -> None:
    nodes = list(operations(duel(), perf, quick=True)[0].manifests())
    assert [node["metadata"]["labels"]["kubernetes.io/hostname"] for node in nodes] == ["node-0", "node-1"]


def test_the_schedulers_get_the_same_pods(perf: Path) -> None:
    step = operations(duel(), perf, quick=False)[-1]
    pods = {contender: pods_of(step, contender) for contender in Contender}
    names = {contender: {pod["spec"].pop("schedulerName") for pod in found} for contender, found in pods.items()}
    assert [names[one] for one in (Contender.AUTO, Contender.KUBE, Contender.FLOOR)] == [
        {"muster"}, {"default-scheduler"}, {"none"},
    ]  # fmt: skip
    assert all(found == pods[Contender.AUTO] for found in pods.values())
    assert yaml.safe_dump(pods[Contender.AUTO][7]["spec"]) == "group: gang-2-3\n"
