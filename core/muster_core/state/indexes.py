"""Changes of indexes and caches.

An index is a mapping of counts, or a mapping of mappings. It has no entry that is 0 or empty. A full cache is emptied.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

Outer = TypeVar("Outer")
Key = TypeVar("Key")
Value = TypeVar("Value")


def count(counts: dict[Key, int], key: Key, times: int) -> int:
    """Adds to a count; a negative number subtracts. Returns the new count."""
    number = counts.get(key, 0) + times
    if number:
        counts[key] = number
    else:
        counts.pop(key, None)
    return number


def count_in(index: dict[Outer, dict[Key, int]], outer: Outer, key: Key, times: int) -> None:
    """Like `count`, in a mapping of the index."""
    counts = index.setdefault(outer, {})
    count(counts, key, times)
    if not counts:
        del index[outer]


def remove(index: dict[Outer, dict[Key, Value]], outer: Outer, key: Key) -> None:
    """Removes a key from a mapping of the index. Raises KeyError."""
    inner = index[outer]
    del inner[key]
    if not inner:
        del index[outer]


def cached(cache: dict[Key, Value], key: Key, most: int, make: Callable[[], Value]) -> Value:
    """Returns the value of a key. Makes it if the cache, which has up to `most` entries, does not have it."""
    if key in cache:
        return cache[key]
    value = make()
    if len(cache) >= most:
        cache.clear()
    cache[key] = value
    return value


class EpochCache(Generic[Key, Value]):
    """A cache of up to `most` values that are valid during one epoch."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._epoch: object = None
        self._known: dict[Key, Value] = {}

    def get(self, epoch: object, key: Key, make: Callable[[], Value]) -> Value:
        """Returns the value of a key. Makes it once per epoch."""
        if self._epoch != epoch:
            self._epoch = epoch
            self._known.clear()
        return cached(self._known, key, self._most, make)
