"""Maps files of the repository to paths of the documentation site, and rewrites links.

Pages are also read as plain Markdown, on a code host or in an editor, so they link to files and folders of the
repository. Linked files outside of ``docs/`` become pages of the site. ``tools/site.py`` is the MkDocs hook.
"""

import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path, PurePosixPath
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
HOME = DOCS / "README.md"
INDEX = "README.md"
ALL = "/*"
LINK = re.compile(r"(?<=\]\()(?!https?://|mailto:|#)(?P<path>[^)#\s]+)(?P<anchor>#[^)\s]*)?(?=\))")
CODE_BLOCK = re.compile(r"^(```.*?^```[ ]*$)", re.MULTILINE | re.DOTALL)
SHOWN = {".yaml": "yaml", ".yml": "yaml", ".py": "python", ".toml": "toml"}
"""Suffixes of sources that become pages, and their syntax highlighting. Other files are copied unchanged."""
LOADING = {"script": "src", "img": "src", "iframe": "src", "source": "src", "link": "href", "object": "data"}
NAMING = {"canonical", "alternate", "next", "prev"}
"""Values of ``rel`` of links that browsers do not load."""
REMOTE = re.compile(r"^(?:https?:)?//")
REMOTE_STYLE = re.compile(r"(?:url\(|@import)\s*['\"]?(?:https?:)?//")


def written_out(entry: Any) -> Any:  # nested lists, mappings and paths from YAML
    """Return the navigation with ``folder/*`` replaced by the pages of that folder and of its subfolders."""
    match entry:
        case list():
            return [written_out(one) for one in entry]
        case dict():
            return {key: written_out(value) for key, value in entry.items()}
        case str() if entry.endswith(ALL):
            return pages_of(entry.removesuffix(ALL))
        case _:
            return entry


def pages_of(folder: str) -> list[str]:
    """Return the folder's README, then its other pages and the READMEs of its subfolders, sorted by name."""
    top = DOCS / folder if (DOCS / folder).is_dir() else ROOT / folder
    below = sorted({*top.glob("*.md"), *top.glob(f"*/{INDEX}")} - {top / INDEX})
    return [address(path) for path in (top / INDEX, *below)]


def address(path: Path) -> str:
    """Return the path of a repository file in the sources of the site."""
    if path == ROOT / INDEX:
        path = HOME
    if path.is_dir():
        path /= INDEX
    name = path.relative_to(DOCS if path.is_relative_to(DOCS) else ROOT).as_posix()
    return f"{name}.md" if path.suffix in SHOWN else name


def links(text: str) -> Iterator[str]:
    """Yield the link targets of a page, unresolved."""
    return (found["path"] for part in CODE_BLOCK.split(text)[::2] for found in LINK.finditer(part))


def outside() -> dict[str, Path]:
    """Return the files outside of ``docs/`` that pages link to, directly or indirectly, by their path in the site."""
    todo = [*DOCS.rglob("*.md"), *ROOT.glob("*.md"), *(ROOT / "examples").rglob(INDEX)]
    seen = {ROOT / INDEX}
    while todo:
        path = todo.pop()
        path = path / INDEX if path.is_dir() else path
        if path in seen or not path.is_file() or not path.is_relative_to(ROOT):
            continue
        seen.add(path)
        if path.suffix == ".md":
            todo += [(path.parent / link).resolve() for link in links(path.read_text())]
    return {address(path): path for path in seen if not path.is_relative_to(DOCS) and path != ROOT / INDEX}


def led(markdown: str, origin: Path) -> str:
    """Return the text of a page with its links rewritten for the site. `origin` is the file of the page."""
    here = PurePosixPath(address(origin)).parent

    def there(found: re.Match[str]) -> str:
        target = (origin.parent / found["path"]).resolve()
        if not target.is_relative_to(ROOT) or not target.exists():
            return found[0]
        return relative(PurePosixPath(address(target)), here) + (found["anchor"] or "")

    parts = CODE_BLOCK.split(markdown)
    parts[::2] = [LINK.sub(there, part) for part in parts[::2]]
    return "".join(parts)


def as_page(path: Path) -> str:
    """Return a source file as a page: its name and a code block."""
    return f"# {path.relative_to(ROOT).as_posix()}\n\n```{SHOWN[path.suffix]}\n{path.read_text().rstrip()}\n```\n"


def relative(target: PurePosixPath, folder: PurePosixPath) -> str:
    """Return the relative path from a folder of the site to a file."""
    common = 0
    while common < min(len(target.parts), len(folder.parts)) and target.parts[common] == folder.parts[common]:
        common += 1
    return "/".join([".."] * (len(folder.parts) - common) + list(target.parts[common:]))


class Assets(HTMLParser):
    """Collects the addresses that a page loads from other hosts."""

    def __init__(self) -> None:
        super().__init__()
        self.remote: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Record an address that the browser loads with the page."""
        attributes = dict(attrs)
        address = attributes.get(LOADING.get(tag, "")) or ""
        if REMOTE.match(address) and attributes.get("rel") not in NAMING:
            self.remote.append(address)


def remote_assets(site: Path) -> list[str]:
    """Return `file: address` for everything that built pages and styles load from other hosts."""
    found: list[str] = []
    for path in sorted(site.rglob("*.html")):
        parser = Assets()
        parser.feed(path.read_text())
        found += [f"{path.relative_to(site)}: {one}" for one in parser.remote]
    for path in sorted((*site.rglob("*.css"), *site.rglob("*.svg"))):
        found += [f"{path.relative_to(site)}: {match}" for match in REMOTE_STYLE.findall(path.read_text())]
    return found
