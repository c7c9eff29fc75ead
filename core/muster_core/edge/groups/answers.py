"""What a directory says of a user. A directory is a function that may block: it runs in a thread of its own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Answer:
    """`problem`: why there are no groups; empty = these are they. `is_silent`: the directory itself
    could not be asked, so that it makes no sense to ask it about others at once.
    """

    groups: tuple[str, ...] = ()
    problem: str = ""
    is_silent: bool = False


Directory = Callable[[str], Answer]
