"""What a binding may write on its pod: the API server merges its annotations into the pod's.

So neither whose the pod is nor the mark of placeholders may come with one, from nobody, be it empty. Whoever schedules
has no reason to write either.
"""

from __future__ import annotations

from typing import Final

from muster_operator.admission.deciding.case import annotations_of
from muster_operator.admission.known import Known
from muster_operator.admission.registering.conditions import GUARDED
from muster_operator.admission.review import Review

KIND: Final = "Binding"


def refusal(review: Review, known: Known) -> str:
    """What is wrong with the binding; empty = nothing."""
    if known.is_protected(review.namespace) or review.submitter.name == known.account:
        return ""
    written = [key for key in GUARDED if key in annotations_of(review.object)]
    if not written:
        return ""
    return f"a binding says where a pod runs, not whose it is: leave metadata.annotations[{written[0]}] out of it"
