"""Annotations of the internal prefix, which only Muster writes: the marks of placeholders, signatures, gang outcomes.

Only pods that are ours or would be are looked at: placeholders of a YuniKorn in the same cluster are its own business.
An annotation from before can be removed, unless Muster signed the pod; a pod that has one can be changed otherwise.
"""

from __future__ import annotations

from typing import Final

from muster_operator.admission.deciding.case import Case
from muster_operator.model import vocabulary as words

#: Characters of a key in a message.
_SHOWN: Final = 120


def refusal(case: Case, *, is_trusted: bool) -> str:
    """What is wrong with these annotations; empty = nothing. Trust permits only their removal."""
    if not case.ours:
        return ""
    before, now = _internal(case.old_annotations), _internal(case.annotations)
    if before == now:
        return ""
    for key, value in now.items():
        if before.get(key) != value:
            return f"{case.where(key[:_SHOWN])} is written by Muster only: leave it out"
    if case.kind.is_pod and not is_trusted and words.SIGNATURES & before.keys():
        key = min(before.keys() - now.keys())
        return f"{case.where(key[:_SHOWN])} is Muster's and stays: delete the pod if it is not wanted"
    return ""


def _internal(annotations: dict[str, str]) -> dict[str, str]:
    return {key: value for key, value in annotations.items() if key.startswith(words.INTERNAL_PREFIX)}
