"""Puts generated tables under the headings of a page that is otherwise written by hand.

Called by the tools that each write one page.
"""

import re
from collections.abc import Mapping


def put(page: str, tables: Mapping[str, str]) -> str:
    """Return the page with its tables replaced. ``tables`` has Markdown tables by heading (`## Queue`).

    Raises LookupError if a heading is missing.
    """
    for heading, table in tables.items():
        head = f"\n{heading}\n\n"
        if head not in page:
            raise LookupError(f"the page has no heading {heading!r}")
        before, after = page.split(head, 1)
        page = before + head + table + "\n" + re.sub(r"\A(?:\|.*\n)*\n*", "", after)
    return page.rstrip("\n") + "\n"
