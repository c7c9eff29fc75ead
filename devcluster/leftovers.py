"""Checks in the core's state dump that nothing is allocated or pending and that the invariants hold."""

from __future__ import annotations

from collections.abc import Iterator

from devcluster.api import Json

NOT_OURS = {"foreign", "ignored"}
"""Keys of ``ledgers`` that are not checked: pods of other schedulers, and counts of ignored messages."""


def leftovers(dump: Json) -> list[str]:
    """Return remaining allocations, requests and applications, and broken invariants; empty if there are none."""
    held = {key: value for key, value in dump["ledgers"].items() if key not in NOT_OURS}
    applications = [f"{app['applicationID']} is {app['applicationState']}" for app in dump["applications"]]
    broken = [f"invariant: {words}" for words in dump["invariants"] or []]
    return [f"{path} = {value}" for path, value in _amounts("", held)] + applications + broken


def _amounts(path: str, value: object) -> Iterator[tuple[str, object]]:
    """Yield every nonzero number in nested maps, with its path."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _amounts(f"{path}/{key}" if path else key, inner)
    elif value:
        yield path, value
