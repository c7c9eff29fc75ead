"""Values of which one or more are made for every pod.

A frozen dataclass writes each field through `object.__setattr__`: an ask with its
twenty fields takes 5.3 µs to make and a plain one 0.5, a value of six fields 1.8 and
0.5. An ask is decoded in 4 µs, so this would be felt. These are frozen for the type
checker, which all code and all tests pass and which refuses whoever writes to one, and
plain when they run. Events of one field (0.3 µs) and all other values are really frozen.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar, dataclass_transform

T = TypeVar("T")


@dataclass_transform(frozen_default=True)
def value(cls: type[T]) -> type[T]:
    """`dataclass(frozen=True, slots=True)`, but that nothing hashes it and nothing but the type checker keeps it."""
    return dataclass(slots=True)(cls)
