"""Whether a configuration may be put in force, and if not, why: for those who only ask.

Asked by REST (`validate-conf`, contract 4) and by `muster validate`; start-up
and hot reload go through `load`, which judges by the same rules.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from muster_core.edge.config.load import FILE, checksum, examine

_NONE: Final[Mapping[str, str]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Verdict:
    """`findings` are the errors, `warnings` what is accepted with a word; each is one line.

    `checksum_match`: whether the checksum that the text says of itself is right; None where it says none.
    """

    findings: tuple[str, ...]
    warnings: tuple[str, ...]
    checksum: str
    checksum_match: bool | None

    @property
    def allowed(self) -> bool:
        """Whether it may be put in force."""
        return not self.findings

    @property
    def reason(self) -> str:
        """Why not; empty = it may."""
        return "; ".join(self.findings[:1])


def validate(text: str, extra: Mapping[str, str] = _NONE, file: str = FILE) -> Verdict:
    """Judge the text of a queues.yaml, and settings if there are any. Raises nothing."""
    examined = examine(text, extra, file)
    actual = checksum(text)
    return Verdict(
        findings=tuple(str(error) for error in examined.errors),
        warnings=examined.warnings,
        checksum=actual,
        checksum_match=examined.claimed.strip().upper() == actual if examined.claimed else None,
    )
