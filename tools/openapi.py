"""Writes the description of the REST interface to ``docs/reference/openapi.json``.

Called by ``make diagrams``; a test fails if the file is stale.
"""

import json
import sys
from pathlib import Path

from muster_core.rest.server import document

PAGE = Path(__file__).resolve().parent.parent / "docs" / "reference" / "openapi.json"


def rendered() -> str:
    """Return the description of the current routes as JSON text."""
    return json.dumps(document(), indent=1, ensure_ascii=False) + "\n"


def is_stale() -> bool:
    """Whether the file differs from the current description."""
    return not PAGE.exists() or PAGE.read_text() != rendered()


def main() -> int:
    """Write the file if it is stale, and print its name."""
    if is_stale():
        PAGE.write_text(rendered())
        print(PAGE.relative_to(PAGE.parent.parent))
    return 0


if __name__ == "__main__":
    sys.exit(main())
