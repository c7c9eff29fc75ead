"""Reads the core's state dump: whether its ledgers are empty and agree with each other."""

from __future__ import annotations

from collections.abc import Iterator

from devcluster.api import Json

NOT_OURS = {"foreign", "ignored"}
"""Keys of the dump's ``ledgers`` that may be anything: what other schedulers run, and counts of odd messages."""


def leftovers(dump: Json) -> list[str]:
    """What is still held or wanted when nothing should be, and every broken invariant; empty if all is well."""
    held = {key: value for key, value in dump["ledgers"].items() if key not in NOT_OURS}
    applications = [f"{app['applicationID']} is {app['applicationState']}" for app in dump["applications"]]
    broken = [f"invariant: {words}" for words in dump["invariants"] or []]
    return [f"{path} = {value}" for path, value in _amounts("", held)] + applications + broken


def _amounts(path: str, value: object) -> Iterator[tuple[str, object]]:
    """Every number other than zero in a tree of maps, with its path."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _amounts(f"{path}/{key}" if path else key, inner)
    elif value:
        yield path, value
