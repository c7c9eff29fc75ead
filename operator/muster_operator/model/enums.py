"""Enumerations whose members are keys of what is looked up for every pod.

An enum's own hash is a Python function over the member's name, 0.15 us each time, and a pod on its way to its node
looks up some thirty: states, events, kinds of writes. These hash as the text or number that they equal anyway.
"""

from __future__ import annotations

from enum import IntEnum, StrEnum


class TextEnum(StrEnum):
    """A StrEnum with the hash of its text."""

    __hash__ = str.__hash__


class NumberEnum(IntEnum):
    """An IntEnum with the hash of its number."""

    __hash__ = int.__hash__
