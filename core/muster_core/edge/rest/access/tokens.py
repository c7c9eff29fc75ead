"""A token of our own, in a file that may be replaced while the core runs."""

from __future__ import annotations

import hmac
from pathlib import Path
from typing import Final

#: Shorter ones can be guessed.
LEAST_CHARACTERS: Final = 16


class TokenFile:
    """Knows the token that the file holds now. Says it nowhere."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def problem(self) -> str:
        """Why the file is of no use; empty = it is."""
        try:
            token = self._read()
        except (OSError, UnicodeDecodeError) as error:
            return f"token file {self._path}: {error.strerror if isinstance(error, OSError) else 'is not text'}"
        if len(token) < LEAST_CHARACTERS:
            return f"token file {self._path}: holds fewer than {LEAST_CHARACTERS} characters"
        return ""

    def holds(self, token: str) -> bool:
        """Whether this is the token, compared in the same time for every wrong one. A file of no use holds none."""
        if self.problem():
            return False
        return hmac.compare_digest(self._read().encode(), token.encode())

    def _read(self) -> str:
        return self._path.read_text(encoding="utf-8").strip()
