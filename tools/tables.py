"""Puts generated tables under the headings of a page whose other words are written by hand.

Called by the tools that write one page each; a test fails when a page is stale.
"""

import re
from collections.abc import Mapping


def put(page: str, tables: Mapping[str, str]) -> str:
    """The page with these tables, in Markdown, by their headings (`## Queue`), instead of those that stand there.

    Raises LookupError where a heading is missing.
    """
    for heading, table in tables.items():
        head = f"\n{heading}\n\n"
        if head not in page:
            raise LookupError(f"the page has no heading {heading!r}")
        before, after = page.split(head, 1)
        page = before + head + table + "\n" + re.sub(r"\A(?:\|.*\n)*\n*", "", after)
    return page.rstrip("\n") + "\n"
