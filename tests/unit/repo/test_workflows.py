"""Workflows call only make, with minimal permissions. zizmor (`make check`) checks that actions are pinned."""

import re
import shlex
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from tests.unit.repo.test_docs import TARGET, makefile
from tests.unit.repo.tree import ROOT

Json = dict[str, Any]

PATHS = sorted((ROOT / ".github/workflows").iterdir())
#: YAML 1.1 reads the key `on` as true.
WORKFLOWS: dict[str, Json] = {path.name: yaml.safe_load(path.read_text()) for path in PATHS}
EACH = pytest.mark.parametrize("workflow", WORKFLOWS.values(), ids=list(WORKFLOWS))


def jobs(workflow: Json) -> Iterator[Json]:
    yield from workflow["jobs"].values()


def commands(workflow: Json) -> list[list[str]]:
    lines = [line for job in jobs(workflow) for step in job["steps"] for line in step.get("run", "").splitlines()]
    return [shlex.split(line) for line in lines]


def test_each_purpose_has_a_workflow() -> None:
    assert set(WORKFLOWS) == {
        "chart.yaml",
        "docs.yaml",
        "e2e-frameworks.yaml",
        "e2e-kind.yaml",
        "image.yaml",
        "soak.yaml",
        "test.yaml",
    }


@EACH
def test_workflows_run_only_make_and_cosign_sign(workflow: Json) -> None:
    targets = set(TARGET.findall(makefile))
    for words in commands(workflow):
        if words[0] == "cosign":
            assert words[1] == "sign"
            continue
        assert words[0] == "make"
        assert next(word for word in words[1:] if not word.startswith("-")) in targets


@EACH
def test_every_job_lists_its_permissions_and_has_a_timeout(workflow: Json) -> None:
    assert workflow["permissions"] == {}
    assert "concurrency" in workflow
    for job in jobs(workflow):
        assert job["permissions"]
        assert job["timeout-minutes"] <= 90


@EACH
def test_a_checkout_does_not_persist_credentials(workflow: Json) -> None:
    for job in jobs(workflow):
        for step in job["steps"]:
            if step.get("uses", "").startswith("actions/checkout@"):
                assert step["with"]["persist-credentials"] is False


def test_only_push_jobs_have_write_permissions() -> None:
    writing = {
        (name, key)
        for name, workflow in WORKFLOWS.items()
        for key, job in workflow["jobs"].items()
        if "write" in job["permissions"].values()
    }
    assert writing == {("image.yaml", "push"), ("chart.yaml", "push"), ("docs.yaml", "publish")}
    assert all("if" in WORKFLOWS[name]["jobs"][key] for name, key in writing)


def test_the_test_matrix_has_the_supported_python_versions() -> None:
    classifiers = re.findall(r"Python :: (3\.\d+)", (ROOT / "pyproject.toml").read_text())
    assert WORKFLOWS["test.yaml"]["jobs"]["test"]["strategy"]["matrix"]["python"] == classifiers


def test_the_node_matrix_has_three_consecutive_minor_versions() -> None:
    nodes = WORKFLOWS["e2e-kind.yaml"]["jobs"]["kind"]["strategy"]["matrix"]["node"]
    minors = [int(node.split(".")[1]) for node in nodes]
    assert minors == list(range(minors[0], minors[0] + 3))
