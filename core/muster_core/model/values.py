"""Values of which one or more are made for every pod.

A frozen dataclass writes each field through `object.__setattr__`: an ask with
its twenty takes 5 µs to make, a plain one 1.5. These are frozen for the type
checker, which finds whoever writes to one, and plain when they run.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar, dataclass_transform

T = TypeVar("T")


@dataclass_transform(frozen_default=True)
def value(cls: type[T]) -> type[T]:
    """`dataclass(frozen=True, slots=True)`, but that nothing hashes it and nothing but the type checker keeps it."""
    return dataclass(slots=True)(cls)
