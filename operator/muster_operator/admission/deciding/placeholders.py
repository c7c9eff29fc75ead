"""The mark of placeholders, which nobody writes but Muster (contract 1.2, semantics 18).

Only pods that are ours or would be are looked at: beside YuniKorn that one's placeholders are its own business.
A mark that was there before can be taken away, and a pod that has one can be changed in other ways.
"""

from __future__ import annotations

from muster_operator.admission.deciding.case import Case
from muster_operator.model import vocabulary as words
from muster_operator.model.ids import PodUid
from muster_operator.model.pods import PodRef
from muster_operator.model.settings import Settings
from muster_operator.translate.membership import membership
from muster_operator.translate.raw import mapping

_MARK = words.ANNOTATION_PLACEHOLDER


def refusal(case: Case, *, is_trusted: bool) -> str:
    """What is wrong with the mark; empty = nothing. Trust is for taking it away only."""
    before, now = case.old_annotations.get(_MARK), case.annotations.get(_MARK)
    if before == now or not case.ours:
        return ""
    if now is not None:
        return f"{case.where(_MARK)} is written by Muster only: leave it out"
    if case.kind.is_pod and not is_trusted and _was_ours(case):
        return f"{case.where(_MARK)} marks a placeholder of Muster and stays: delete the pod if it is not wanted"
    return ""


def _was_ours(case: Case) -> bool:
    nobody = PodRef(case.review.namespace, case.review.name, PodUid(""))
    return membership(mapping(case.old.get("metadata")), nobody, Settings()).placeholder
