"""Writes the generated files of the chart, and the tables of its values and of those of YuniKorn's chart.

The chart has copies of files of ``deploy/``, because Helm reads only files of the chart. Called by ``make diagrams``;
a test fails if a file is stale.
"""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from muster_operator.config.catalog import SETTINGS, Takes
from tools.tables import put

ROOT = Path(__file__).resolve().parent.parent
CHART = ROOT / "charts" / "muster"
REJECTED = CHART / "files" / "yunikorn-values.yaml"
REJECTED_HEADING = "### Values that the chart rejects"
PAGE = ROOT / "docs" / "reference" / "helm-values.md"
COPIES = {
    CHART / "files" / source.name: source
    for source in (
        ROOT / "deploy" / "rbac.yaml",
        ROOT / "deploy" / "rest-auth.yaml",
        ROOT / "deploy" / "provisioning-requests.yaml",
        ROOT / "deploy" / "admission-policy.yaml",
        ROOT / "deploy" / "operator-policy.yaml",
        ROOT / "deploy" / "node-name-policy.yaml",
        ROOT / "deploy" / "resize-policy.yaml",
        ROOT / "deploy" / "monitoring" / "alerts.yaml",
        ROOT / "deploy" / "monitoring" / "dashboard.json",
    )
}
AT_START = CHART / "files" / "at-start.txt"
KNOWN = CHART / "files" / "values.txt"
BEGIN = "<!-- written by `make diagrams` from charts/muster/values.schema.json and values.yaml -->\n"
END = "<!-- end -->\n"
SHORT = 60
"""Maximal length of a default in the table, in characters. For longer ones the table refers to values.yaml."""


def leaves(schema: dict[str, Any], values: dict[str, Any], path: str = "") -> Iterator[tuple[str, str, str]]:
    """Yield key, default and meaning of each value. A group precedes its values and has no default."""
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
    """Return the rows between the two markers."""
    schema = json.loads((CHART / "values.schema.json").read_text())
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    rows = [f"| `{key}` | {default} | {meaning} |" for key, default, meaning in leaves(schema, values)]
    return "\n".join([BEGIN, "| Value | Default | Meaning |", "|---|---|---|", *rows, "", END])


def page() -> str:
    """Return the page with the current tables."""
    before, _, rest = PAGE.read_text().partition(BEGIN)
    rows = "".join(f"| `{key}` | {instead} |\n" for key, instead in yaml.safe_load(REJECTED.read_text()).items())
    rejected = {REJECTED_HEADING: "| YuniKorn | Muster |\n|---|---|\n" + rows}
    return put(before + table() + rest.partition(END)[2], rejected)


def at_start() -> str:
    """Return the keys of settings that are read only at startup, one per line. A change of them restarts the pods."""
    return "".join(f"{setting.key}\n" for setting in SETTINGS.values() if setting.takes is Takes.AT_START)


def known() -> str:
    """Return the top-level values, one per line. The templates report the others, YuniKorn's with a replacement."""
    schema = json.loads((CHART / "values.schema.json").read_text())
    return "".join(f"{key}\n" for key in schema["properties"])


def stale() -> list[str]:
    """Return the names of stale files."""
    copies = [copy for copy, source in COPIES.items() if not copy.exists() or copy.read_bytes() != source.read_bytes()]
    made = [
        path for path, text in ((PAGE, page()), (AT_START, at_start()), (KNOWN, known())) if path.read_text() != text
    ]
    return [path.relative_to(ROOT).as_posix() for path in (*copies, *made)]


if __name__ == "__main__":
    for copy, source in COPIES.items():
        shutil.copyfile(source, copy)
    AT_START.write_text(at_start())
    KNOWN.write_text(known())
    PAGE.write_text(page())
