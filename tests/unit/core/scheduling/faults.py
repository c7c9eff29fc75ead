"""Injects exceptions into the engine: the one place where unit tests of the core replace a function.

What an exception does to the others cannot be shown with input alone, because input that raises is a bug that gets
fixed. The real function is called in all other respects.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from types import FunctionType, ModuleType
from typing import Any, Final

from muster_core.scheduling import (
    commit,
    gangs,
    ledger,
    lifecycle,
    queues,
    requeue,
    reservations,
    selectors,
    takeovers,
    victims,
)

#: Modules whose functions write state on the way of some commit.
WRITERS: Final = (
    selectors,
    commit,
    requeue,
    gangs,
    requeue,
    ledger,
    ledger,
    lifecycle,
    gangs,
    queues,
    reservations,
    takeovers,
    victims,
    victims,
)

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


@dataclass
class FaultAt:
    """Raises FAULT once, at the call of a writing function that is `left` calls away: before it, or `after` it.
    0 = it does not, or did already.
    """

    left: int
    after: bool = False

    @contextmanager
    def armed(self) -> Iterator[None]:
        """Inside the block calls count."""
        own = _written() if self.left else ()
        for module, name, found in own:
            setattr(module, name, partial(self._call, found))
        try:
            yield
        finally:
            for module, name, found in own:
                setattr(module, name, found)

    def _call(self, real: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        is_due = self.left == 1
        self.left -= self.left > 0
        if is_due and not self.after:
            raise FAULT
        found = real(*arguments, **named)
        if is_due:
            raise FAULT
        return found


@cache
def _written() -> tuple[tuple[ModuleType, str, Callable[..., Any]], ...]:
    """The functions of the modules that write, as they really are."""
    return tuple(
        (module, name, found) for module in WRITERS for name, found in vars(module).items() if _is_own(module, found)
    )


def _is_own(module: ModuleType, found: object) -> bool:
    return isinstance(found, FunctionType) and found.__module__ == module.__name__
