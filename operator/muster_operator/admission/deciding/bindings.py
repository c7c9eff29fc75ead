"""What a binding may write on its pod: the API server merges its annotations into the pod's.

So a binding may write neither the pod's user nor an annotation of the internal prefix, be it empty. Only Muster's own
binding does. Another scheduler has no reason to write either.
"""

from __future__ import annotations

from typing import Final

from muster_operator.admission.deciding.case import annotations_of
from muster_operator.admission.known import Known
from muster_operator.admission.registering.conditions import is_guarded
from muster_operator.admission.review import Review

KIND: Final = "Binding"


def refusal(review: Review, known: Known) -> str:
    """What is wrong with the binding; empty = nothing."""
    if known.is_protected(review.namespace) or review.submitter.name == known.account:
        return ""
    written = [key for key in annotations_of(review.object) if is_guarded(key)]
    if not written:
        return ""
    return f"a binding says where a pod runs, not whose it is: leave metadata.annotations[{written[0]}] out of it"
