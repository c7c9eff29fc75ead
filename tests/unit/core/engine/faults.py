"""Injects exceptions into the engine: the one place where unit tests of the core replace a function.

What an exception does to the others cannot be shown with input alone, because input that raises is a bug that gets
fixed. The real function is called in all other respects.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

#: What is raised.
FAULT = ZeroDivisionError("an injected fault")


@contextmanager
def fault(owner: object, name: str, when: Callable[..., bool], *, after: bool = False) -> Iterator[None]:
    """Inside the block `owner.name` raises FAULT where `when`, which is given its arguments, says so: before the real
    call, or after it.
    """
    real = getattr(owner, name)

    def faulty(*arguments: Any, **named: Any) -> Any:
        is_due = when(*arguments)
        if is_due and not after:
            raise FAULT
        found = real(*arguments, **named)
        if is_due:
            raise FAULT
        return found

    setattr(owner, name, faulty)
    try:
        yield
    finally:
        setattr(owner, name, real)
