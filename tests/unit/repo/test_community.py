"""The files for new contributors exist, have a valid format, and agree with the tree."""

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
def test_an_issue_form_has_the_fields_that_github_requires(form: Any) -> None:
    read: dict[str, Any] = yaml.safe_load(form.read_text())
    assert {"name", "description", "body"} <= read.keys()
    assert {entry["type"] for entry in read["body"]} <= ENTRIES
    fields = [entry for entry in read["body"] if entry["type"] != "markdown"]
    assert all(entry["attributes"]["label"] for entry in fields)
    ids = [entry["id"] for entry in fields]
    assert len(ids) == len(set(ids))
    assert any(entry.get("validations", {}).get("required") for entry in fields)


def test_issue_forms_exist_and_the_bug_form_requests_the_doctor_output() -> None:
    assert [form.stem for form in FORMS] == ["bug", "feature", "question"]
    assert "muster doctor -o json" in (ROOT / ".github/ISSUE_TEMPLATE/bug.yml").read_text()


def test_supported_versions_match_the_classifiers_and_the_chart() -> None:
    classifiers = re.findall(r"Python :: (3\.\d+)", (ROOT / "pyproject.toml").read_text())
    assert re.findall(r"3\.\d+", TABLE["Python"].partition("(")[0]) == classifiers
    chart = yaml.safe_load((ROOT / "charts/muster/Chart.yaml").read_text())
    assert re.findall(r"\d+\.\d+", TABLE["Kubernetes"]) == re.findall(r"^>=(\d+\.\d+)\.0", chart["kubeVersion"])


def test_the_image_has_the_python_of_the_support_table() -> None:
    (base,) = re.findall(r"^ARG BASE=python:(3\.\d+)", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    assert f"the image has {base}" in TABLE["Python"]


def test_community_documents_exist_and_contain_no_email_address() -> None:
    for name in ("SECURITY.md", "CODE_OF_CONDUCT.md", "CONTRIBUTING.md", "CHANGELOG.md", "LICENSE"):
        text = (ROOT / name).read_text()
        assert text.strip()
        assert re.findall(r"[\w.]+@[\w-]+\.[\w.]+", text) == []


def test_every_publishing_workflow_is_on_the_release_page() -> None:
    publishing = [name for name, workflow in WORKFLOWS.items() if "packages" in str(workflow)]
    assert all(f"{name}@refs/tags/" in PAGE for name in publishing)
