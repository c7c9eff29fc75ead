"""What was seen last of each object, so that the same state told twice, or an older one, is not taken for news."""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from typing import Final

from muster_operator.translate.raw import Raw, mapping, text
from muster_operator.translate.sketch import Sketch

#: The kind of an object that was read by itself, and may be older than what the stream has shown since.
READ: Final = "READ"
#: Deleted objects remembered: a pod that was read just before it was deleted must not come back to life.
REMEMBERED: Final = 10_000


class Versions:
    """Resource versions by resource and uid."""

    def __init__(self) -> None:
        self._seen: dict[str, dict[str, str]] = defaultdict(dict)
        self._gone: OrderedDict[str, None] = OrderedDict()

    def is_news(self, plural: str, kind: str | None, raw: Raw | Sketch) -> bool:
        """Whether this state is new; it is remembered. `kind`: as in a watch event, READ, or None from a list."""
        if isinstance(raw, Sketch):
            key, version = raw.metadata.uid, raw.metadata.resource_version
        else:
            metadata = mapping(raw.get("metadata"))
            key, version = text(metadata.get("uid")), text(metadata.get("resourceVersion"))
        of_kind = self._seen[plural]
        if kind == "DELETED":
            of_kind.pop(key, None)
            self._remember_gone(f"{plural}/{key}")
            return True
        seen = of_kind.get(key)
        if version and version == seen:
            return False
        if kind == READ and (f"{plural}/{key}" in self._gone or _is_older(version, seen)):
            return False
        of_kind[key] = version
        return True

    def _remember_gone(self, key: str) -> None:
        self._gone[key] = None
        if len(self._gone) > REMEMBERED:
            self._gone.popitem(last=False)


def _is_older(version: str, seen: str | None) -> bool:
    """Compares where both are numbers, as Kubernetes 1.35 promises for its own resources; else nothing is older."""
    return bool(seen) and version.isdecimal() and str(seen).isdecimal() and int(version) < int(str(seen))
