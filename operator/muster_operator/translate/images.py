"""The images that lie on a node as the attribute ``si/local-images`` (see muster_si.keys).

A node reports up to fifty images with some names each, and every ten seconds the same ones: a list that was read before
is recognised as it is written. The order of a list is of no meaning: one that was merely sorted anew is no news.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Any, Final

import orjson

from muster_operator.model.resources import MAX_AMOUNT
from muster_operator.translate.raw import Raw, integer, items, objects, text

#: Characters of JSON that the core reads of one value, less what a name may need to be quoted.
_MAX_TEXT: Final = 250_000
#: What stands around a name and its size: quotes, colon, comma and 19 digits.
_AROUND: Final = 23
#: Distinct lists remembered; beyond it the memo starts anew. A node has one.
_REMEMBERED: Final = 8192


def _attribute(images: Any) -> str:
    """The largest images first, until the text is long enough: small ones matter to nobody."""
    sizes: dict[str, int] = {}
    left = _MAX_TEXT
    for image in sorted(objects(images), key=_size, reverse=True):
        for name in map(text, items(image.get("names"))):
            if not name or name in sizes:
                continue
            left -= len(name.encode()) + _AROUND
            if left < 0:
                return _text(sizes)
            sizes[name] = _size(image)
    return _text(sizes) if sizes else ""


def _text(sizes: dict[str, int]) -> str:
    """Canonical; remembered by the list that it is of, and nowhere else."""
    return orjson.dumps(sizes, option=orjson.OPT_SORT_KEYS).decode()


def _size(image: Raw) -> int:
    return min(max(integer(image.get("sizeBytes")), 0), MAX_AMOUNT)


class _Lists:
    """Lists that were read before, by digest: the lists themselves are long."""

    def __init__(self) -> None:
        self._known: dict[bytes, str] = {}

    def attribute(self, images: Any) -> str:
        try:
            digest = blake2b(orjson.dumps(images), digest_size=16).digest()
        except (TypeError, RecursionError):
            return _attribute(images)
        known = self._known.get(digest)
        if known is None:
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            known = self._known[digest] = _attribute(images)
        return known


_LISTS: Final = _Lists()


def images_attribute(status: Raw) -> str:
    """The attribute's value, empty for a node that reports no image."""
    images = status.get("images")
    return _LISTS.attribute(images) if images else ""
