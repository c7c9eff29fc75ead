"""What is written on a pod so that it is ours: scheduler, application, queue, leave to preempt it (contract 7).

Only on CREATE, and only in namespaces that are served. Nothing here refuses.

Differs: a label that is there is never written over, for the selector of a ReplicaSet may count on it; YuniKorn writes
the canonical id over `applicationId`. Two ids that disagree are told in an event. Differs: a pod that names one of the
served scheduler names keeps it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from muster_operator.admission.deciding.case import Case
from muster_operator.admission.known import Known
from muster_operator.model import vocabulary as words
from muster_operator.model.admission import AdmissionSettings
from muster_operator.translate.membership import shared_app_id, unique_app_id, written_app_id
from muster_operator.translate.raw import mapping, strings, text

#: The canonical label and its older name.
_COPIES: Final = (
    (words.LABEL_APP_ID, words.LEGACY_LABEL_APP_ID),
    (words.LABEL_QUEUE, words.LEGACY_LABEL_QUEUE),
)


@dataclass(frozen=True, slots=True)
class Additions:
    """What has to be written; of an empty one nothing."""

    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    spec: Mapping[str, str] = field(default_factory=dict)


def additions(case: Case, known: Known, settings: AdmissionSettings) -> Additions:
    """What a new pod lacks to be ours.

    A pod that already has a node keeps its scheduler, because there is nothing to schedule; the rest is as for others.
    One of a DaemonSet becomes ours too.
    """
    if not (case.kind.is_pod and case.is_create and case.served):
        return Additions()
    spec = mapping(case.new.get("spec"))
    is_settled = bool(text(spec.get("nodeName"))) or text(spec.get("schedulerName")) in known.scheduler_names
    scheduler = {} if is_settled else {"schedulerName": settings.scheduler_name}
    if not case.labelled:
        return Additions(spec=scheduler)
    return Additions(_labels(case, settings), _preemption(case, known), scheduler)


def _labels(case: Case, settings: AdmissionSettings) -> dict[str, str]:
    metadata = mapping(case.new.get("metadata"))
    labels = strings(metadata.get("labels"))
    wanted: dict[str, str] = {}
    if not written_app_id(metadata):
        name = unique_app_id if settings.unique_app_ids else shared_app_id
        wanted[words.LABEL_APP_ID] = name(case.review.namespace)
    for canonical, legacy in _COPIES:
        if value := labels.get(canonical) or wanted.get(canonical):
            wanted[legacy] = value
    return {key: value for key, value in wanted.items() if not labels.get(key)}


def _preemption(case: Case, known: Known) -> dict[str, str]:
    """What the priority class says, where the pod says neither yes nor no (contract 1.2)."""
    if case.annotations.get(words.ANNOTATION_ALLOW_PREEMPTION) in {"true", "false"}:
        return {}
    name = text(mapping(case.new.get("spec")).get("priorityClassName"))
    return {words.ANNOTATION_ALLOW_PREEMPTION: "true" if known.may_be_preempted.get(name, True) else "false"}
