"""The newest resource version of each object that was seen, and which objects a complete list does not contain.

A list runs next to the watch, so an object may arrive by both in any order. An older state never replaces a newer one,
and a deleted object does not come back with a page that was read before its deletion. While a list is open, objects
move from `unconfirmed` to the known ones as the list, the watch or a read shows them. What is left at its end was last
seen before the list began and is not in it: it was deleted, and no event reported that. So the end of a list costs as
much as the number of missed deletions, not as the number of objects.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from muster_operator.model.limits import REMEMBERED_DELETIONS
from muster_operator.translate.raw import Raw, mapping, text
from muster_operator.translate.sketch import Sketch

#: The kind of an object that was read by itself, and may be older than what the stream has shown since.
READ: Final = "READ"


@dataclass(slots=True)
class _OpenList:
    """A list that is not complete. `is_reset`: versions from before it mean nothing, the store was set back.

    `deleted`: by the watch since the list began; a page that was read before must not bring these objects back. It
    holds as many as are deleted during one list.
    """

    unconfirmed: dict[str, str]
    is_reset: bool
    deleted: dict[str, str] = field(default_factory=dict)


class Versions:
    """Resource versions by resource and key (`key_of`)."""

    def __init__(self) -> None:
        self._seen: dict[str, dict[str, str]] = defaultdict(dict)
        self._lists: dict[str, _OpenList] = {}
        self._deleted: OrderedDict[tuple[str, str], str] = OrderedDict()

    def __len__(self) -> int:
        known = sum(len(of_kind) for of_kind in self._seen.values())
        return known + sum(len(one.unconfirmed) for one in self._lists.values())

    def is_news(self, plural: str, key: str, kind: str | None, version: str) -> bool:
        """Whether this state is new; it is remembered. `kind`: as in a watch event, READ, or None from a list."""
        known, before = self._seen[plural], None
        seen = known.get(key)
        if seen is None and (one := self._lists.get(plural)) is not None:
            before = one.unconfirmed.pop(key, None)
            if before is not None and not one.is_reset:
                known[key] = seen = before
        if kind == "DELETED":
            if _is_older(version, seen):
                return False  # the list has already shown a newer object of the same name
            known.pop(key, None)
            self._remember_deleted(plural, key, version)
            return True
        if (version and version == seen) or _is_older(version, seen):
            return False
        if seen is None and before is None and self._is_deleted(plural, key, kind, version):
            return False
        known[key] = version
        return True

    def begin_list(self, plural: str, *, is_reset: bool = False) -> None:
        """A list is about to be requested; one that was open was given up. `is_reset`: the store was set back."""
        known = self._seen.pop(plural, {})
        if (open_list := self._lists.get(plural)) is not None:
            open_list.unconfirmed.update(known)
            known, is_reset = open_list.unconfirmed, is_reset or open_list.is_reset
        self._lists[plural] = _OpenList(known, is_reset)
        if is_reset:
            for key in [one for one in self._deleted if one[0] == plural]:
                del self._deleted[key]

    def end_list(self, plural: str, version: str) -> Iterator[str]:
        """The list of that version is complete: the keys of what was deleted unseen. To be consumed to its end."""
        one = self._lists[plural]
        while one.unconfirmed:
            key, seen = one.unconfirmed.popitem()
            if not one.is_reset and _is_older(version, seen):
                self._seen[plural][key] = seen  # newer than the list, which says nothing about it
                continue
            self._remember_deleted(plural, key, version if version.isdecimal() else seen)
            yield key
        if self._lists.get(plural) is one:
            del self._lists[plural]

    def _is_deleted(self, plural: str, key: str, kind: str | None, version: str) -> bool:
        """Whether the state is from before the object's deletion."""
        one = self._lists.get(plural)
        at = one.deleted.get(key) if one is not None else None
        if at is None:
            at = self._deleted.get((plural, key))
        return at is not None and (kind == READ or version == at or _is_older(version, at))

    def _remember_deleted(self, plural: str, key: str, version: str) -> None:
        self._deleted[plural, key] = version
        if len(self._deleted) > REMEMBERED_DELETIONS:
            self._deleted.popitem(last=False)
        if (one := self._lists.get(plural)) is not None:
            one.deleted[key] = version


def key_of(plural: str, raw: Raw | Sketch) -> str:
    """What tells an object from others of its kind: a pod's UID, another's name, or `namespace/name`."""
    if isinstance(raw, Sketch):
        return raw.metadata.uid
    metadata = mapping(raw.get("metadata"))
    if plural == "pods":
        return text(metadata.get("uid"))
    namespace, name = text(metadata.get("namespace")), text(metadata.get("name"))
    return f"{namespace}/{name}" if namespace else name


def version_of(raw: Raw | Sketch) -> str:
    """Its resource version; empty = it has none."""
    if isinstance(raw, Sketch):
        return raw.metadata.resource_version
    return text(mapping(raw.get("metadata")).get("resourceVersion"))


def _is_older(version: str, seen: str | None) -> bool:
    """Compares where both are numbers, as Kubernetes 1.35 promises for its own resources; else nothing is older."""
    if not seen or not version.isdecimal() or not seen.isdecimal():
        return False
    return len(version) < len(seen) or (len(version) == len(seen) and version < seen)
