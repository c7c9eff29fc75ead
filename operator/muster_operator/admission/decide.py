"""The one entrance: a question, what is known and the settings become an answer. Pure; never raises."""

from __future__ import annotations

from muster_operator.admission.known import Known
from muster_operator.admission.review import Answer, Review
from muster_operator.model.admission import AdmissionSettings


def decide(review: Review, known: Known, settings: AdmissionSettings) -> Answer:
    """Whether the object may be stored, and how."""
    if known.is_protected(review.namespace):
        return Answer()
    return Answer()
