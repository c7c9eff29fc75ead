"""The facts of a release, checked: every place that has the version has the same (`make release-facts TAG=v0.1.0`).

Prints `version`, `image-tag` and `created` as `name=value`, the form in which a CI takes them over. A tag that does not
fit the tree, or whose changes are still in changelog.d, ends with 1 and says why. Any other ref is `edge`.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True, slots=True)
class Tree:
    """What the tree says of its version."""

    project: str
    chart: str
    app: str
    changelog: str
    notes: int
    """How many notes are in changelog.d still."""


def read() -> Tree:
    """As it is checked out."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    chart: dict[str, Any] = yaml.safe_load((ROOT / "charts/muster/Chart.yaml").read_text())
    notes = [path for path in (ROOT / "changelog.d").glob("*.md") if path.name != "README.md"]
    changelog = (ROOT / "CHANGELOG.md").read_text()
    return Tree(project["version"], str(chart["version"]), str(chart["appVersion"]), changelog, len(notes))


def faults(tree: Tree, tag: str) -> list[str]:
    """What keeps this tag from being a release; nothing is asked of other refs, which do not begin with v."""
    if not is_release(tag):
        return []
    version = tag.removeprefix("v")
    places = {"pyproject.toml": tree.project, "Chart.yaml version": tree.chart, "Chart.yaml appVersion": tree.app}
    found = [f"{place} says {said}" for place, said in places.items() if said != version]
    if f"\n## {version} (" not in tree.changelog:
        found.append(f"CHANGELOG.md has no section {version}: make changelog VERSION={version}")
    if tree.notes:
        found.append(f"{tree.notes} notes are still in changelog.d")
    return found


def is_release(ref: str) -> bool:
    """Whether it is the tag of a release: v and a number."""
    return ref.startswith("v") and ref[1:2].isdigit()


def main() -> int:
    """Print the facts; 1 where the tag does not fit the tree."""
    parser = argparse.ArgumentParser(prog="release", description="what a release is called, once it all agrees")
    parser.add_argument("tag", help="v0.1.0, or a branch")
    tag = parser.parse_args().tag
    tree = read()
    wrong = faults(tree, tag)
    for words in wrong:
        print(f"{tag} is no release yet: {words}", file=sys.stderr)
    if wrong:
        return 1
    moment = subprocess.run(
        ["git", "show", "--no-patch", "--format=%cI", "HEAD"], cwd=ROOT, check=True, capture_output=True, text=True
    )
    print(f"version={tree.project}")
    print(f"image-tag={tree.project if is_release(tag) else 'edge'}")
    print(f"created={moment.stdout.strip()}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
