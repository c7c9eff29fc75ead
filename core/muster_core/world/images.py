"""Which container images lie on which nodes, and how large they are there: for the score of image locality.

Written by world/nodes.py; read by plan/liking/node_facts.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

_NOWHERE: Final[Mapping[int, int]] = MappingProxyType({})


class Images:
    """By every name of an image: row → bytes."""

    __slots__ = ("_sizes",)

    def __init__(self) -> None:
        self._sizes: dict[str, dict[int, int]] = {}

    def sizes(self, name: str) -> Mapping[int, int]:
        """Rows where an image of this name lies, and its bytes there."""
        return self._sizes.get(name, _NOWHERE)

    def add(self, row: int, images: Mapping[str, int]) -> None:
        """A row gets its images; it had none."""
        for name, size in images.items():
            self._sizes.setdefault(name, {})[row] = size

    def remove(self, row: int, images: Mapping[str, int]) -> None:
        """A row loses the images that `add` gave it."""
        for name in images:
            there = self._sizes[name]
            del there[row]
            if not there:
                del self._sizes[name]
