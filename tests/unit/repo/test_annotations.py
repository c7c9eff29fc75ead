"""docs/reference/labels-and-annotations.md has every label and annotation of the operator, and each key of a group."""

import re

from muster_operator.model import names
from muster_operator.translate import go_json
from tests.unit.repo.tree import ROOT

PAGE = (ROOT / "docs" / "reference" / "labels-and-annotations.md").read_text()
ROWS = [line for line in PAGE.splitlines() if line.startswith("|")]
NAMES = {name.removeprefix("…") for row in ROWS for name in re.findall(r"`([^`]+)`", row)}
DOMAIN = "yunikorn.apache.org/"
#: Deprecated but still read; docs/concepts/applications.md has the replacements.
DEPRECATED = {names.ANNOTATION_NAMESPACE_MAX_CPU, names.ANNOTATION_NAMESPACE_MAX_MEMORY}


def test_every_label_and_annotation_is_on_the_page() -> None:
    values = [value for key, value in vars(names).items() if re.match(r"(LEGACY_|SPARK_)?(LABEL|ANNOTATION)_", key)]
    spelled = {value if isinstance(value, str) else value[0] for value in values} - DEPRECATED
    assert len(spelled) > 10
    assert [name for name in spelled if not {name, name.removeprefix(DOMAIN)} & NAMES] == []


def test_every_key_of_a_task_group_is_on_the_page() -> None:
    rows = PAGE.partition("\n### Task groups\n")[2].partition("\n## ")[0].splitlines()
    keys = {name for row in rows if row.startswith("| `") for name in re.findall(r"`([^`]+)`", row.split(" | ")[0])}
    assert keys == set(go_json.GROUP_FIELDS)
