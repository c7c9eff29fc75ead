"""Links, folders and sources on the documentation site; it loads nothing from other sites."""

from pathlib import Path

import yaml

from tests.unit.repo.tree import ROOT
from tools import pages

ADR = "internals/adr/0001-placeholders-and-the-scheduler-interface.md"


def test_a_link_out_of_the_documents_points_to_a_page_of_the_site() -> None:
    text = "[a](../../deploy/rbac.yaml) [b](../../examples/01-gang) [c](../internals/adr/) [d](pods.md#a)"
    assert pages.led(text, pages.DOCS / "concepts" / "gangs.md") == (
        "[a](../deploy/rbac.yaml.md) [b](../examples/01-gang/README.md) [c](../internals/adr/README.md) [d](pods.md#a)"
    )
    text = "[up](../../docs/concepts/applications.md#which-placement) [file](gang.yaml)"
    assert pages.led(text, ROOT / "examples" / "01-gang" / "README.md") == (
        "[up](../../concepts/applications.md#which-placement) [file](gang.yaml.md)"
    )


def test_a_link_in_a_code_block_is_not_changed() -> None:
    text = "```\n[a](../deploy/rbac.yaml)\n```\n"
    assert pages.led(text, pages.DOCS / "concepts" / "gangs.md") == text


def test_linked_files_outside_the_documents_become_pages() -> None:
    found = pages.outside()
    assert found["CONTRIBUTING.md"] == ROOT / "CONTRIBUTING.md"
    assert found["deploy/rbac.yaml.md"] == ROOT / "deploy" / "rbac.yaml"
    assert not any(path.is_relative_to(pages.DOCS) for path in found.values())
    assert pages.as_page(found["deploy/rbac.yaml.md"]).startswith("# deploy/rbac.yaml\n\n```yaml\n")


def test_a_folder_in_the_navigation_lists_its_pages_readme_first() -> None:
    [decisions] = pages.written_out([{"Decisions": "internals/adr/*"}])
    assert decisions["Decisions"][:2] == ["internals/adr/README.md", ADR]
    assert "examples/01-gang/README.md" in pages.written_out("examples/*")


def test_every_document_is_in_the_navigation() -> None:
    text = (ROOT / "mkdocs.yml").read_text().replace("!!python/object/apply:", "")
    listed = str(pages.written_out(yaml.safe_load(text[text.index("nav:") :])["nav"]))
    documents = [path.relative_to(pages.DOCS).as_posix() for path in pages.DOCS.rglob("*.md")]
    assert [name for name in documents if f"'{name}'" not in listed] == []


def test_assets_from_another_host_are_found(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text(
        '<a href="//x.org">x</a><link rel="next" href="//x.org/"><script src="//x.org/y.js"></script><img src="p.svg">'
    )
    (tmp_path / "b.css").write_text("@font-face { src: url(https://x.org/f.woff) } a { background: url(p.png) }")
    assert pages.remote_assets(tmp_path) == ["a.html: //x.org/y.js", "b.css: url(https://"]


def test_no_diagram_loads_assets_from_another_host() -> None:
    assert pages.remote_assets(pages.DOCS / "pictures") == []
