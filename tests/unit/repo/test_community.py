"""What newcomers meet first is there, is a form that the host understands, and agrees with the tree."""

import re
from typing import Any

import pytest
import yaml

from tests.unit.repo.test_workflows import WORKFLOWS
from tests.unit.repo.tree import ROOT

FORMS = sorted(path for path in (ROOT / ".github/ISSUE_TEMPLATE").glob("*.yml") if path.name != "config.yml")
ENTRIES = {"markdown", "textarea", "input", "dropdown", "checkboxes"}
PAGE = (ROOT / "docs/internals/releases.md").read_text()
TABLE = dict(re.findall(r"^\| ([A-Z][\w' ]+) \| ([^|]+) \|", PAGE, re.MULTILINE))


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.stem)
def test_an_issue_form_has_what_its_host_asks_for(form: Any) -> None:
    read: dict[str, Any] = yaml.safe_load(form.read_text())
    assert {"name", "description", "body"} <= read.keys()
    assert {entry["type"] for entry in read["body"]} <= ENTRIES
    asked = [entry for entry in read["body"] if entry["type"] != "markdown"]
    assert all(entry["attributes"]["label"] for entry in asked)
    ids = [entry["id"] for entry in asked]
    assert len(ids) == len(set(ids))
    assert any(entry.get("validations", {}).get("required") for entry in asked)


def test_there_is_a_form_for_bugs_features_and_questions_and_a_bug_comes_with_the_doctors_word() -> None:
    assert [form.stem for form in FORMS] == ["bug", "feature", "question"]
    assert "muster doctor -o json" in (ROOT / ".github/ISSUE_TEMPLATE/bug.yml").read_text()


def test_supported_versions_are_those_that_are_tested_and_that_the_chart_takes() -> None:
    classifiers = re.findall(r"Python :: (3\.\d+)", (ROOT / "pyproject.toml").read_text())
    assert re.findall(r"3\.\d+", TABLE["Python"].partition("(")[0]) == classifiers
    chart = yaml.safe_load((ROOT / "charts/muster/Chart.yaml").read_text())
    assert re.findall(r"\d+\.\d+", TABLE["Kubernetes"]) == re.findall(r"^>=(\d+\.\d+)\.0", chart["kubeVersion"])


def test_the_image_has_the_python_that_the_table_defines() -> None:
    (base,) = re.findall(r"^ARG BASE=python:(3\.\d+)", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    assert f"the image has {base}" in TABLE["Python"]


def test_documents_of_the_community_are_there_and_name_no_address_that_no_one_has() -> None:
    for name in ("SECURITY.md", "CODE_OF_CONDUCT.md", "CONTRIBUTING.md", "CHANGELOG.md", "LICENSE"):
        text = (ROOT / name).read_text()
        assert text.strip()
        assert re.findall(r"[\w.]+@[\w-]+\.[\w.]+", text) == []


def test_workflows_publish_only_what_the_release_page_tells_of() -> None:
    publishing = [name for name, workflow in WORKFLOWS.items() if "packages" in str(workflow)]
    assert all(f"{name}@refs/tags/" in PAGE for name in publishing)
