"""The quota of a namespace, as the tags of its applications carry it.

Amounts travel as the JSON form of the interface's Resource message, a count as
digits. One bad value and the whole of that tag is left out (contract 1.6).
Called by si_decode.py for every application.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from google.protobuf import json_format

from muster_core.edge.fields import Amounts
from muster_core.edge.refusals import Unfit
from muster_core.model.resources import Limit, Resources
from muster_core.model.specs import NamespaceQuota
from muster_si import keys, si_pb2

#: Longer ones are no quota: a few dozen resources fit many times.
_LONGEST: Final = 16_384
_MOST_DIGITS: Final = 18

NO_QUOTA: Final = NamespaceQuota()


def read(tags: Mapping[str, str], amounts: Amounts) -> tuple[NamespaceQuota, list[str]]:
    """The quota, and for each tag that was left out what is wrong with it."""
    odd: list[str] = []
    most, least = (_message(tags, tag, amounts, odd) for tag in _AMOUNTS)
    count = _count(tags.get(keys.APP_TAG_RESOURCE_MAX_APPS, ""), odd)
    if most is None and least is None and count is None:
        return NO_QUOTA, odd
    return NamespaceQuota(
        max=None if most is None else Limit(most),
        guaranteed=None if least is None else Resources(least),
        max_applications=count,
    ), odd


_AMOUNTS: Final = (keys.APP_TAG_RESOURCE_QUOTA, keys.APP_TAG_RESOURCE_GUARANTEED)


def _message(tags: Mapping[str, str], tag: str, amounts: Amounts, odd: list[str]) -> dict[str, int] | None:
    text = tags.get(tag, "")
    if not text:
        return None
    if len(text) > _LONGEST:
        odd.append(f"{tag} is longer than {_LONGEST} characters")
        return None
    message = si_pb2.Resource()
    try:
        json_format.Parse(text, message, max_recursion_depth=10)
        amounts.read(message, tag)
    except (json_format.ParseError, RecursionError) as error:
        odd.append(f'{tag} is not a quota such as {{"resources": {{"vcore": {{"value": 1000}}}}}}: {error}'[:300])
        return None
    except Unfit as unfit:
        odd.append(str(unfit))
        return None
    return {name: quantity.value for name, quantity in message.resources.items()}


def _count(text: str, odd: list[str]) -> int | None:
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS):
        odd.append(f"{keys.APP_TAG_RESOURCE_MAX_APPS} is {text[:40]!r}, not a count")
        return None
    return int(text)
