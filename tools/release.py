"""Checks that all files have the version of a release tag, and prints its facts (`make release-facts TAG=v0.1.0`).

Prints `version`, `image-tag` and `created` as `name=value` for the CI workflows. Exits with 1 and the reason if the tag
does not match the tree, or if changelog.d still has notes. For a ref that is not a release tag, `image-tag` is `edge`.
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
    """The versions in the files of the tree."""

    project: str
    chart: str
    app: str
    changelog: str
    notes: int
    """Number of notes in changelog.d."""


def read() -> Tree:
    """Read the versions of the working tree."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    chart: dict[str, Any] = yaml.safe_load((ROOT / "charts/muster/Chart.yaml").read_text())
    notes = [path for path in (ROOT / "changelog.d").glob("*.md") if path.name != "README.md"]
    changelog = (ROOT / "CHANGELOG.md").read_text()
    return Tree(project["version"], str(chart["version"]), str(chart["appVersion"]), changelog, len(notes))


def faults(tree: Tree, tag: str) -> list[str]:
    """Return the reasons why the tag cannot be released. Refs that are not release tags have none."""
    if not is_release(tag):
        return []
    version = tag.removeprefix("v")
    places = {"pyproject.toml": tree.project, "Chart.yaml version": tree.chart, "Chart.yaml appVersion": tree.app}
    found = [f"{place} is {actual}" for place, actual in places.items() if actual != version]
    if f"\n## {version} (" not in tree.changelog:
        found.append(f"CHANGELOG.md has no section {version}: make changelog VERSION={version}")
    if tree.notes:
        found.append(f"{tree.notes} notes are in changelog.d: run make changelog")
    return found


def is_release(ref: str) -> bool:
    """Whether the ref is a release tag: it starts with v and a digit."""
    return ref.startswith("v") and ref[1:2].isdigit()


def main() -> int:
    """Print the facts. Returns 1 if the tag does not match the tree."""
    parser = argparse.ArgumentParser(prog="release", description="check and print the facts of a release")
    parser.add_argument("tag", help="a tag such as v0.1.0, or a branch")
    tag = parser.parse_args().tag
    tree = read()
    wrong = faults(tree, tag)
    for words in wrong:
        print(f"{tag} cannot be released: {words}", file=sys.stderr)
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
