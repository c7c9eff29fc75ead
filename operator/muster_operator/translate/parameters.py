"""``schedulingPolicyParameters``: style, time-outs, placement and topology of a gang (contract 1.4, semantics 2, 8, 10,
16).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from muster_operator.model.groups import NO_TOPOLOGY, Placement, Topology
from muster_si import keys

#: 31 years: more is a typing error, and would not fit the core's clock.
_MAX_SECONDS: Final = 10**9
_TIMEOUT: Final = "placeholderTimeoutInSeconds"
_WAIT: Final = "gangWaitTimeoutInSeconds"
_STYLE: Final = "gangSchedulingStyle"
_PLACEMENT: Final = "gangPlacement"
_PLACEMENTS: Final = {placement.value: placement for placement in Placement}
_TOPOLOGY: Final = "topologyKey"
_TOPOLOGY_MODE: Final = "topologyMode"
_MODES: Final = {"required": True, "preferred": False}
#: A label's key: a DNS name and a slash, which may be missing, and a name.
_LABEL_KEY: Final = re.compile(
    r"(?=[^/]{1,253}/|[^/]+$)([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-\w.]{0,61}[A-Za-z0-9])?"
)


@dataclass(frozen=True, slots=True)
class Parameters:
    """Milliseconds, 0 = the core's default. ``placement``: None = the configuration's.

    ``warnings`` name the parameter, the problem and what was taken.
    """

    style: str = keys.STYLE_SOFT
    placeholder_timeout_ms: int = 0
    wait_timeout_ms: int = 0
    topology: Topology = NO_TOPOLOGY
    placement: Placement | None = None
    warnings: tuple[str, ...] = ()


def _milliseconds(name: str, value: str, warnings: list[str]) -> int:
    """Whole seconds as milliseconds; what cannot be read counts as 0 = default."""
    if value.isascii() and value.isdigit() and len(value) <= 19 and int(value) <= _MAX_SECONDS:
        return int(value) * 1000
    warnings.append(f'{name}: "{value[:40]}" is not a number of seconds; the default is used, write a whole number')
    return 0


def _style(value: str, warnings: list[str]) -> str:
    if value not in {keys.STYLE_SOFT, keys.STYLE_HARD}:
        warnings.append(f'{_STYLE}: "{value[:40]}" is unknown; Soft is used, write Soft or Hard')
        return keys.STYLE_SOFT
    return value


def _placement(value: str, default: Placement, warnings: list[str]) -> Placement | None:
    if value not in _PLACEMENTS:
        warnings.append(
            f'{_PLACEMENT}: "{value[:40]}" is unknown; {default}, the default, is used, write Reserve, Atomic or Direct'
        )
    return _PLACEMENTS.get(value)


def _topology(pairs: dict[str, str], warnings: list[str]) -> Topology:
    """Of the label that the gang is packed by; ``preferred`` where no mode is given."""
    key, mode = pairs.get(_TOPOLOGY, ""), pairs.get(_TOPOLOGY_MODE, "preferred")
    if mode not in _MODES:
        warnings.append(f'{_TOPOLOGY_MODE}: "{mode[:40]}" is unknown; preferred is used, write required or preferred')
    if _TOPOLOGY not in pairs:
        if _TOPOLOGY_MODE in pairs:
            warnings.append(f"{_TOPOLOGY_MODE}: is ignored without {_TOPOLOGY}, write the key of a node label there")
        return NO_TOPOLOGY
    if not key.isascii() or not _LABEL_KEY.fullmatch(key):
        warnings.append(f'{_TOPOLOGY}: "{key[:40]}" is ignored, write the key of a node label')
        return NO_TOPOLOGY
    return Topology(key, _MODES.get(mode, False))


def _pairs(text: str, warnings: list[str]) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for entry in text.split():
        name, sign, value = entry.partition("=")
        if not sign or not name or "=" in value:
            warnings.append(f'schedulingPolicyParameters: "{entry[:40]}" is ignored, write name=value')
        else:
            pairs[name] = value
    return pairs


def read_parameters(text: str, default: Placement = Placement.RESERVE) -> Parameters:
    """The parameters of an annotation's text; unknown names are ignored (contract 1.4).

    ``default``: the configuration's placement, which a warning names.
    """
    warnings: list[str] = []
    pairs = _pairs(text, warnings)
    timeout = _milliseconds(_TIMEOUT, pairs[_TIMEOUT], warnings) if _TIMEOUT in pairs else 0
    wait = _milliseconds(_WAIT, pairs[_WAIT], warnings) if _WAIT in pairs else 0
    style = _style(pairs[_STYLE], warnings) if _STYLE in pairs else keys.STYLE_SOFT
    placement = _placement(pairs[_PLACEMENT], default, warnings) if _PLACEMENT in pairs else None
    topology = _topology(pairs, warnings)
    return Parameters(style, timeout, wait, topology, placement, tuple(warnings))
