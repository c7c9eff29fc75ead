"""What is found in a configuration: what is wrong with it, and what its writer should know although it is accepted."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from muster_core.model.errors import ConfigurationError, shown

#: Of each kind. More are not told: who sees these will look again.
MOST: Final = 100
_LONGEST: Final = 500


class Notes:
    """Collects both, in the order of the file."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._count = 0
        self._errors: list[ConfigurationError] = []

    def odd(self, path: str, what: str) -> None:
        """What stands at `path` has an effect that its writer may not expect, or none."""
        self._count += 1
        if self._count <= MOST:
            self._lines.append(shown(f"{path}: {what}", _LONGEST))

    def wrong(self, error: ConfigurationError) -> None:
        """The configuration is refused; the reading goes on for what else there is to tell."""
        if len(self._errors) < MOST:
            self._errors.append(error)

    @contextmanager
    def collecting(self) -> Iterator[None]:
        """What is wrong in the block ends the block and is kept."""
        try:
            yield
        except ConfigurationError as error:
            self.wrong(error)

    def lines(self) -> tuple[str, ...]:
        """What its writer should know."""
        more = self._count - len(self._lines)
        return (*self._lines, f"and {more} more") if more else tuple(self._lines)

    def errors(self) -> tuple[ConfigurationError, ...]:
        """What is wrong; nothing = the configuration may be put in force."""
        return tuple(self._errors)
