"""The one entrance: a question, what is known and the settings become an answer. Pure; never raises."""

from __future__ import annotations

from collections.abc import Mapping

from muster_operator.admission.deciding import bindings, placeholders, userinfo
from muster_operator.admission.deciding.access import is_trusted
from muster_operator.admission.deciding.case import Case, opened
from muster_operator.admission.deciding.pods import additions
from muster_operator.admission.known import Known
from muster_operator.admission.review import Answer, Review
from muster_operator.model import vocabulary as words
from muster_operator.model.admission import AdmissionSettings
from muster_operator.translate.raw import Raw, mapping


def decide(review: Review, known: Known, settings: AdmissionSettings) -> Answer:
    """Whether the object may be stored, and how. The objects of the review stay as they are."""
    if review.kind == bindings.KIND:
        return Answer(bindings.refusal(review, known))
    case = opened(review, known, settings)
    if case is None:
        return Answer()
    try:
        return _decided(case, known, settings)
    except RecursionError:  # two objects are compared, and no pod is as deep as that
        return Answer(f"{case.review.kind} is nested too deeply: leave out what no pod has")


def _decided(case: Case, known: Known, settings: AdmissionSettings) -> Answer:
    trusted = is_trusted(case.submitter, settings.access)
    verdict = userinfo.judged(case, settings.access)
    if refusal := placeholders.refusal(case, is_trusted=trusted) or verdict.refusal:
        return Answer(refusal)
    added = additions(case, known, settings)
    owner = {} if verdict.written is None else {words.ANNOTATION_USER_INFO: verdict.written}
    warnings = (verdict.warning,) if verdict.warning else ()
    return Answer(object=_written(case, added.labels, {**added.annotations, **owner}, added.spec), warnings=warnings)


def _written(
    case: Case, labels: Mapping[str, str], annotations: Mapping[str, str], spec: Mapping[str, str]
) -> Raw | None:
    """The object with these entries; None where there are none."""
    if not (labels or annotations or spec):
        return None
    metadata = mapping(case.new.get("metadata"))
    for key, entries in (("labels", labels), ("annotations", annotations)):
        if entries:
            metadata = {**metadata, key: {**mapping(metadata.get(key)), **entries}}
    described = {**case.new, "metadata": metadata}
    if spec:
        described["spec"] = {**mapping(case.new.get("spec")), **spec}
    return case.kind.replaced(case.review.object, described)
