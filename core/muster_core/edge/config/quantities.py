"""Amounts as queues.yaml writes them: digits, a blank or none, a suffix or none.

vcore counts cores and takes `m` for thousandths; the model's unit is the
millicore. Everything else is in its own unit (memory: bytes).
Source: contract 2.4.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from muster_core.edge.config.document import below
from muster_core.model.errors import ConfigurationError
from muster_si.keys import CPU

_FORM = re.compile(r"([0-9]+)\s*([A-Za-z]*)")
_POWERS = "kMGTPE"
_FACTORS = (
    {"": 1}
    | {suffix: 1000**power for power, suffix in enumerate(_POWERS, start=1)}
    | {f"{suffix.upper()}i": 1024**power for power, suffix in enumerate(_POWERS, start=1)}
)
_MILLI = "m"
_LARGEST = 2**63 - 1
# Longer than any int64: the digits are not even looked at.
_MOST_DIGITS = 24


def quantity(resource: str, text: str, path: str) -> int:
    """The amount that `text` says of `resource`, in the model's unit. Raises ConfigurationError."""
    match = _FORM.fullmatch(text)
    if match is None:
        raise ConfigurationError(path, text, "is not a quantity", _fix(resource))
    digits, suffix = match.groups()
    if suffix == _MILLI and resource == CPU:
        factor = 1
    elif suffix in _FACTORS:
        factor = _FACTORS[suffix] * (1000 if resource == CPU else 1)
    else:
        raise ConfigurationError(path, text, f"has an unknown suffix {suffix!r}", _fix(resource))
    if len(digits) > _MOST_DIGITS or int(digits) * factor > _LARGEST:
        raise ConfigurationError(path, text, "is too large for 64 bits", "write less, or leave it out for no bound")
    return int(digits) * factor


def amounts(texts: Mapping[str, str] | None, path: str) -> dict[str, int]:
    """Resource by resource; nothing for None. Raises ConfigurationError."""
    return {name: quantity(name, text, below(path, name)) for name, text in (texts or {}).items()}


def as_written(resource: str, amount: int) -> str:
    """An amount of the model as queues.yaml would say it."""
    return f"{amount}m" if resource == CPU else str(amount)


def _fix(resource: str) -> str:
    if resource == CPU:
        return "write whole cores (10) or thousandths of a core (500m)"
    return "write a whole number, with one of k M G T P E or Ki Mi Gi Ti Pi Ei if you like (512Mi)"
