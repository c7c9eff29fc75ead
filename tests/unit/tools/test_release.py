"""When a tag is a release, and what a packaged chart has."""

from dataclasses import replace

import pytest

from tests.unit.repo.tree import ROOT
from tools.package import reference, with_image
from tools.release import Tree, faults

DIGEST = "sha256:" + "0a" * 32
RELEASED = Tree("1.2.3", "1.2.3", "1.2.3", "# Changes\n\n## 1.2.3 (2030-01-02)\n", 0)


def test_a_tag_is_a_release_if_all_versions_match() -> None:
    assert faults(RELEASED, "v1.2.3") == []
    assert faults(replace(RELEASED, notes=3), "main") == []


@pytest.mark.parametrize(
    "tree, words",
    [
        (replace(RELEASED, project="1.2.4"), "pyproject.toml is 1.2.4"),
        (replace(RELEASED, chart="0.1.0"), "Chart.yaml version is 0.1.0"),
        (replace(RELEASED, app="0.1.0"), "Chart.yaml appVersion is 0.1.0"),
        (replace(RELEASED, changelog=""), "CHANGELOG.md has no section 1.2.3: make changelog VERSION=1.2.3"),
        (replace(RELEASED, notes=2), "2 notes are in changelog.d: run make changelog"),
    ],
)
def test_the_reason_why_a_tag_is_not_a_release_is_reported(tree: Tree, words: str) -> None:
    assert faults(tree, "v1.2.3") == [words]


def test_a_packaged_chart_has_the_image_of_its_release() -> None:
    values = (ROOT / "charts/muster/values.yaml").read_text()
    changed = with_image(values, "ghcr.io/somebody/muster")
    assert [line for line in changed.splitlines() if line not in values.splitlines()] == [
        "  repository: ghcr.io/somebody/muster"
    ]
    with pytest.raises(ValueError, match=r"no image\.repository"):
        with_image("replicas: 1\n", "x")


def test_a_pushed_chart_is_signed_by_its_digest() -> None:
    assert (
        reference(f"Pushed: ghcr.io/a/charts/muster:0.1.0\nDigest: {DIGEST}\n") == f"ghcr.io/a/charts/muster@{DIGEST}"
    )
    with pytest.raises(ValueError, match="has no digest"):
        reference("Error: denied")
