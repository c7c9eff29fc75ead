"""What is said about a configuration that is accepted: for the log, once per load."""

from __future__ import annotations


class Notes:
    """Collects one line per thing, in the order of the file."""

    def __init__(self) -> None:
        self._lines: list[str] = []

    def idle(self, path: str) -> None:
        """What stands at `path` is legal and has no effect in this version."""
        self._lines.append(f"{path}: accepted, not acted on yet")

    def odd(self, path: str, what: str) -> None:
        """What stands at `path` has an effect that its writer may not expect."""
        self._lines.append(f"{path}: {what}")

    def lines(self) -> tuple[str, ...]:
        """All that was collected."""
        return tuple(self._lines)
