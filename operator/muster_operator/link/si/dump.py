"""The agent's ledger as one JSON document, for the core's full state dump (semantics 7). For people; not stable."""

from __future__ import annotations

from typing import Final

import msgspec
import orjson

from muster_operator.agent.ledger import Ledger

_OPTIONS: Final = orjson.OPT_NON_STR_KEYS


def as_json(ledger: Ledger) -> str:
    """Everything the agent remembers, except the heap of deadlines."""
    parts = {
        "phase": ledger.phase.name,
        "applications": ledger.applications,
        "pods": ledger.pods,
        "foreignPods": ledger.foreign,
        "nodes": ledger.nodes,
        "namespaces": ledger.namespaces,
        "deletions": ledger.deletions,
        "strays": ledger.strays,
        "homeless": ledger.homeless,
    }
    return orjson.dumps(parts, default=_plain, option=_OPTIONS).decode()


def _plain(value: object) -> object:
    """Structs become objects, sets sorted lists, anything else its text; what a pod says twice is said once."""
    if isinstance(value, msgspec.Struct):
        return {name: part for name, part in msgspec.structs.asdict(value).items() if name != "common"}
    return sorted(value, key=str) if isinstance(value, set | frozenset) else str(value)
