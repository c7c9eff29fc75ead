"""Keeps the chart in step: its copies of files of ``deploy/`` (Helm reads none outside of a chart), and its values in
``docs/reference/helm-values.md``. Called by ``make diagrams``; a test fails when one of them is stale.
"""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from muster_operator.config.catalog import SETTINGS, Takes

ROOT = Path(__file__).resolve().parent.parent
CHART = ROOT / "charts" / "muster"
PAGE = ROOT / "docs" / "reference" / "helm-values.md"
COPIES = {
    CHART / "files" / source.name: source
    for source in (
        ROOT / "deploy" / "rbac.yaml",
        ROOT / "deploy" / "rest-auth.yaml",
        ROOT / "deploy" / "admission-policy.yaml",
        ROOT / "deploy" / "operator-policy.yaml",
        ROOT / "deploy" / "node-name-policy.yaml",
        ROOT / "deploy" / "monitoring" / "alerts.yaml",
        ROOT / "deploy" / "monitoring" / "dashboard.json",
    )
}
AT_START = CHART / "files" / "at-start.txt"
BEGIN = "<!-- written by `make diagrams` from charts/muster/values.schema.json and values.yaml -->\n"
END = "<!-- end -->\n"
SHORT = 60
"""Longest default that is shown; the others are to be looked up in values.yaml."""


def leaves(schema: dict[str, Any], values: dict[str, Any], path: str = "") -> Iterator[tuple[str, str, str]]:
    """Key, default and meaning of each value; of a group first the group itself, without a default."""
    for name, below in schema["properties"].items():
        key = f"{path}{name}"
        if "properties" in below and isinstance(values.get(name), dict) and values[name]:
            yield key, "", below["description"]
            yield from leaves(below, values[name], f"{key}.")
        elif name in values:
            yield key, _shown(values[name]), below["description"]


def _shown(value: object) -> str:
    text = json.dumps(value)
    return f"`{text}`" if len(text) <= SHORT else "see values.yaml"


def table() -> str:
    """The rows, between the two remarks."""
    schema = json.loads((CHART / "values.schema.json").read_text())
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    rows = [f"| `{key}` | {default} | {meaning} |" for key, default, meaning in leaves(schema, values)]
    return "\n".join([BEGIN, "| Value | Default | Meaning |", "|---|---|---|", *rows, "", END])


def page() -> str:
    """The page with the table as it has to be."""
    before, _, rest = PAGE.read_text().partition(BEGIN)
    return before + table() + rest.partition(END)[2]


def at_start() -> str:
    """The keys of settings that are read when the operator starts, one a line: a change of them starts new pods."""
    return "".join(f"{setting.key}\n" for setting in SETTINGS.values() if setting.takes is Takes.AT_START)


def stale() -> list[str]:
    """What is not as its source."""
    copies = [copy for copy, source in COPIES.items() if not copy.exists() or copy.read_bytes() != source.read_bytes()]
    made = [path for path, text in ((PAGE, page()), (AT_START, at_start())) if path.read_text() != text]
    return [path.relative_to(ROOT).as_posix() for path in (*copies, *made)]


if __name__ == "__main__":
    for copy, source in COPIES.items():
        shutil.copyfile(source, copy)
    AT_START.write_text(at_start())
    PAGE.write_text(page())
