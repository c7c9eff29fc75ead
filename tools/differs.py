"""Finds the ``Differs:`` remarks of the product for ``docs/internals/differences.md``.

A remark in a comment or docstring describes a difference from YuniKorn. It extends from the word ``Differs:`` to the
end of its paragraph.
"""

import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("proto", "core", "operator", "cli")
REMARK = re.compile(r"\bDiffers:`?\s*(?P<text>.+)", re.DOTALL)


class Difference(NamedTuple):
    """One remark: its text, and the module that contains it."""

    module: str
    text: str


def paragraphs(source: str) -> Iterator[str]:
    """Yield the paragraphs of all comments and triple-quoted strings, each as one line.

    Consecutive comment lines are one paragraph.
    """
    comment: list[str] = []
    last = 0
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            if comment and token.start[0] != last + 1:
                yield " ".join(comment)
                comment = []
            comment.append(token.string.lstrip("#: ").strip())
            last = token.start[0]
        elif token.type == tokenize.STRING and token.string.endswith('"""'):
            for paragraph in re.split(r"\n\s*\n", token.string.strip('"')):
                yield " ".join(paragraph.split())
    if comment:
        yield " ".join(comment)


def differences(root: Path = ROOT) -> list[Difference]:
    """Return the remarks of all product modules, sorted by module."""
    found: set[Difference] = set()
    for folder in FOLDERS:
        for path in (root / folder).rglob("*.py"):
            module = ".".join(path.relative_to(root / folder).with_suffix("").parts).removesuffix(".__init__")
            for paragraph in paragraphs(path.read_text()):
                if remark := REMARK.search(paragraph):
                    found.add(Difference(module, remark["text"].strip()))
    return sorted(found)
