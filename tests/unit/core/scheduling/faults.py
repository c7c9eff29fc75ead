"""Injects exceptions into the engine. This is the only module of the core's unit tests that replaces functions.

Inputs cannot test the isolation of exceptions, because an input that raises is a bug that gets fixed. The real function
is called otherwise.
"""

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

#: Modules whose functions write state during a commit.
WRITERS: Final = (
    selectors,
    commit,
    requeue,
    gangs,
    ledger,
    lifecycle,
    queues,
    reservations,
    takeovers,
    victims,
)

#: The exception that is raised.
FAULT = ZeroDivisionError("an injected fault")


@contextmanager
def fault(owner: object, name: str, when: Callable[..., bool], *, after: bool = False) -> Iterator[None]:
    """Make `owner.name` raise FAULT inside the block if `when(arguments)` is true, before or after the real call."""
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
    """Raises FAULT once, at the `left`-th next call of a writing function, before or `after` it. 0 = never, or done."""

    left: int
    after: bool = False

    @contextmanager
    def armed(self) -> Iterator[None]:
        """Count calls inside the block. Afterwards the functions are those that were there before."""
        own = [(module, name, getattr(module, name)) for module, name in _written()] if self.left else []
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
def _written() -> tuple[tuple[ModuleType, str], ...]:
    """Return the names of the functions of the writing modules."""
    return tuple((module, name) for module in WRITERS for name, found in vars(module).items() if _is_own(module, found))


def _is_own(module: ModuleType, found: object) -> bool:
    return isinstance(found, FunctionType) and found.__module__ == module.__name__
