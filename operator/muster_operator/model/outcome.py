"""What follows from one fact, verdict or result: news for the core and commands for Kubernetes, in order."""

from __future__ import annotations

from msgspec import Struct, field

from muster_operator.model.commands import Order
from muster_operator.model.news import News


class Failure(Struct, frozen=True, gc=False):
    """An object that the agent failed on and went on without. `name`: with its namespace if it has one."""

    kind: str
    name: str
    error: Exception


class Outcome(Struct):
    """Filled by the agent while it handles one input, then handed to the link whole."""

    news: list[News] = field(default_factory=list)
    commands: list[Order] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.news or self.commands or self.failures)

    def add(self, more: Outcome) -> None:
        """What follows from something else, after this."""
        self.news += more.news
        self.commands += more.commands
        self.failures += more.failures
