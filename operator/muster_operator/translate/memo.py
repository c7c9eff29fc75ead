"""A cache of what texts were translated to, bounded in bytes.

Entries are known by the digest of their text, so that the text itself is not kept. Long texts and long results are
never kept: nobody writes a thousand pods with the same one, and a few hundred of them would fill the memory.
"""

from __future__ import annotations

import sys
from collections import OrderedDict
from collections.abc import Callable
from hashlib import blake2b
from typing import Final, Generic, TypeVar

from muster_operator.model import limits

V = TypeVar("V")

#: Bytes of an entry beside its value: the digest, its place in the dictionary.
_OVERHEAD: Final = 160


def digest(text: bytes) -> bytes:
    """Collision-resistant digest of 16 bytes."""
    return blake2b(text, digest_size=16).digest()


class Memo(Generic[V]):
    """Holds `limit_bytes` at most; what was used least recently goes first. `weigh`: bytes of a value."""

    def __init__(self, weigh: Callable[[V], int] = sys.getsizeof, limit_bytes: int = limits.MEMO_BYTES) -> None:
        self._weigh, self._limit = weigh, limit_bytes
        self._known: OrderedDict[bytes, tuple[V, int]] = OrderedDict()
        self.bytes = 0

    def __len__(self) -> int:
        return len(self._known)

    def get(self, text: bytes, build: Callable[[bytes], V]) -> V:
        """The value of the text, built if it is not known; what `build` raises is not kept."""
        if len(text) > limits.MEMO_ENTRY_BYTES:
            return build(text)
        key = digest(text)
        known = self._known.get(key)
        if known is not None:
            self._known.move_to_end(key)
            return known[0]
        value = build(text)
        size = self._weigh(value) + _OVERHEAD
        if size <= self._limit // 64:
            self._known[key] = value, size
            self.bytes += size
            while self.bytes > self._limit:
                self.bytes -= self._known.popitem(last=False)[1][1]
        return value
