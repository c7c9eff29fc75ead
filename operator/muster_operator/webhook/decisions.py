"""Admission decisions: user identity, scheduler name, labels and internal annotations. No I/O.

Differs: YuniKorn does not check updates of workloads. It rejects a user annotation of an untrusted submitter even if it
names the submitter; Muster accepts it and sets the groups of the login. In YuniKorn the user of a pod from a template
without the annotation is the controller; in Muster the pod has no user.
Differs: a pod with Muster's scheduler name in a namespace that is not managed gets the user annotation too, as do
templates without an application ID. Otherwise users could avoid their limits. Differs: with bypassAuth the user
annotation is set, as the documentation of YuniKorn states; its code sets nothing then.

Differs: an existing label is never changed, because the selector of a ReplicaSet may depend on it; YuniKorn replaces
`applicationId` by the canonical ID. Two different IDs are reported in an event. Differs: a pod with one of the served
scheduler names keeps it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import orjson

from muster_operator.model import messages, names
from muster_operator.model.errors import BadInputError
from muster_operator.model.names import ANNOTATION_USER_INFO
from muster_operator.model.pods import GangDefinition, GangProblem, UserInfo
from muster_operator.model.settings import AccessRules, AdmissionSettings, Settings
from muster_operator.translate import go_json
from muster_operator.translate.gangs.dialects import read_gang
from muster_operator.translate.known_names import pod_problems
from muster_operator.translate.membership import (
    gang_app_id,
    gang_source,
    shared_app_id,
    unique_app_id,
    written_app_id,
)
from muster_operator.translate.values import Raw, mapping, strings, text
from muster_operator.webhook.context import (
    AdmissionAnswer,
    AdmissionContext,
    ClusterSnapshot,
    Review,
    Submitter,
    annotations_of,
    is_guarded,
    is_made_of_a_template,
    is_trusted,
    new_context,
    shortened,
)

#: Maximum characters of the annotation. All annotations of an object can have 256 KiB (Kubernetes object validation).
LIMIT: Final = 64 * 1024
_FIX: Final = 'write {"user": "name", "groups": ["group"]}'


def of_submitter(submitter: Submitter) -> str:
    """The submitter as an annotation value. If there are too many groups, the last ones are left out."""
    groups = [text(group) for group in submitter.groups]
    while True:
        written = orjson.dumps({"user": text(submitter.name), "groups": groups}).decode()
        if len(written) <= LIMIT or not groups:
            return written
        groups = groups[: len(groups) // 2]


def read_user_info(annotation: str) -> UserInfo:
    """Reads the annotation with the decoder that reads it for the core.

    Differs: empty and unprintable names are rejected; YuniKorn accepts them.

    Raises:
        BadInputError: it is not valid.
    """
    if len(annotation) > LIMIT:
        raise _bad(f"has {len(annotation)} characters, more than {LIMIT}")
    try:
        user, groups, warnings = go_json.user_info(ANNOTATION_USER_INFO, annotation)
    except BadInputError as error:
        raise BadInputError(error.field, error.problem, _FIX) from error
    if not go_json.is_printable_name(user):
        raise _bad("; ".join(["has no user, or one that is not printable text", *warnings]))
    if not all(go_json.is_printable_name(group) for group in groups):
        raise _bad("has groups that are not printable text")
    return UserInfo(user, tuple(groups))


def _bad(problem: str) -> BadInputError:
    return BadInputError(ANNOTATION_USER_INFO, problem, _FIX)


_OWNER: Final = names.ANNOTATION_USER_INFO

#: Characters of a name in a message.
_NAME_LENGTH_SHOWN: Final = 80


@dataclass(frozen=True, slots=True)
class UserInfoDecision:
    """`written`: the value to set; None = unchanged."""

    refusal: str = ""
    written: str | None = None
    warning: str = ""


_UNCHANGED: Final = UserInfoDecision()


def evaluate_user_info(context: AdmissionContext, rules: AccessRules) -> UserInfoDecision:
    """Decides about the user annotation, for pods and templates, on CREATE and UPDATE.

    An unchanged annotation is allowed, also if other fields change. Trusted submitters may set any valid user, others
    only themselves with the groups of their login. The user of a pod does not change. If the annotation is missing, the
    submitter is set, except on a pod that a trusted controller created from a template.
    """
    stated, before = context.annotations.get(_OWNER, ""), context.old_annotations.get(_OWNER, "")
    if not stated and not before:
        return _missing_annotation(context, rules)
    if stated == before or rules.bypass_auth:
        return _UNCHANGED
    if is_trusted(context.submitter, rules):
        return UserInfoDecision(_problem(context, stated)) if stated else _UNCHANGED
    if context.kind.is_pod and not context.is_create:
        return UserInfoDecision(f"{context.where(_OWNER)} of a stored pod cannot change: leave it as it is stored")
    if stated:
        return _changed_annotation(context, stated, before)
    return UserInfoDecision(written=before) if _owner(before) else _missing_annotation(context, rules)


def _changed_annotation(context: AdmissionContext, stated: str, before: str) -> UserInfoDecision:
    """Decides about a changed annotation of a submitter that may set no other user."""
    own_info = of_submitter(context.submitter)
    if stated == own_info and not before:
        return _UNCHANGED
    if problem := _problem(context, stated):
        return UserInfoDecision(problem)
    user_info = read_user_info(stated)
    user, owner = user_info.user, _owner(before)
    if user == context.submitter.name and owner in {"", user}:
        return _with_login_groups(context, stated, own_info, user_info.groups)
    if user == owner:
        return UserInfoDecision(
            written=before,
            warning=f"{context.where(_OWNER)}: only {owner[:_NAME_LENGTH_SHOWN]!r} can change the groups",
        )
    return UserInfoDecision(_forged_refusal(context, user, owner))


def _with_login_groups(
    context: AdmissionContext, stated: str, own_info: str, groups: tuple[str, ...]
) -> UserInfoDecision:
    if stated == own_info:
        return _UNCHANGED
    differ = set(groups) != set(context.submitter.groups)
    return UserInfoDecision(
        written=own_info, warning=f"{context.where(_OWNER)}: replaced by the groups of your login" if differ else ""
    )


def _forged_refusal(context: AdmissionContext, user: str, owner: str) -> str:
    if owner:
        problem = f"would change from {owner[:_NAME_LENGTH_SHOWN]!r} to {user[:_NAME_LENGTH_SHOWN]!r}"
    else:
        sender = context.submitter.name[:_NAME_LENGTH_SHOWN]
        problem = f"names user {user[:_NAME_LENGTH_SHOWN]!r}, but the request is from {sender!r}"
    return (
        f"{context.where(_OWNER)} {problem}: remove it, the webhook sets it; "
        "to set other users, add the user to admissionController.accessControl.externalUsers"
    )


def _missing_annotation(context: AdmissionContext, rules: AccessRules) -> UserInfoDecision:
    """Decides about an annotation that is missing now and before.

    An otherwise unchanged template stays as it is, because a change would replace all its pods.
    Stored pods stay as they are too.
    """
    if not context.is_for_muster or not context.submitter.name:
        return _UNCHANGED
    if not context.is_create and (context.kind.is_pod or context.new == context.old):
        return _UNCHANGED
    if is_made_of_a_template(context.review.object) and is_trusted(context.submitter, rules):
        return _UNCHANGED
    return UserInfoDecision(written=of_submitter(context.submitter))


def _problem(context: AdmissionContext, stated: str) -> str:
    """Why the annotation is invalid; empty if it is valid."""
    try:
        read_user_info(stated)
    except BadInputError as error:
        return f"{context.kind.place}metadata.annotations: {error}"
    return ""


def _owner(annotation: str) -> str:
    """The user of the annotation; empty if it is invalid."""
    try:
        return read_user_info(annotation).user
    except BadInputError:
        return ""


#: The canonical label and its legacy name.
_COPIES: Final = (
    (names.LABEL_APP_ID, names.LEGACY_LABEL_APP_ID),
    (names.LABEL_QUEUE, names.LEGACY_LABEL_QUEUE),
)


@dataclass(frozen=True, slots=True)
class Additions:
    """Labels, annotations and spec fields to set."""

    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    spec: Mapping[str, str] = field(default_factory=dict)


def additions(context: AdmissionContext, known: ClusterSnapshot, settings: AdmissionSettings) -> Additions:
    """The missing fields of a new pod in a managed namespace.

    A pod with a node keeps its scheduler name, because it is not scheduled. Pods of DaemonSets are included.
    """
    if not (context.kind.is_pod and context.is_create and context.served):
        return Additions()
    spec = mapping(context.new.get("spec"))
    is_settled = bool(text(spec.get("nodeName"))) or text(spec.get("schedulerName")) in known.scheduler_names
    scheduler = {} if is_settled else {"schedulerName": settings.scheduler_name}
    if not context.labelled:
        return Additions(spec=scheduler)
    return Additions(_labels(context, settings), _preemption(context, known), scheduler)


def _labels(context: AdmissionContext, settings: AdmissionSettings) -> dict[str, str]:
    metadata = mapping(context.new.get("metadata"))
    labels = strings(metadata.get("labels"))
    wanted: dict[str, str] = {}
    if not written_app_id(metadata):
        name = unique_app_id if settings.unique_app_ids else shared_app_id
        namespace, spec = context.review.namespace, mapping(context.new.get("spec"))
        wanted[names.LABEL_APP_ID] = gang_app_id(namespace, metadata, spec) or name(namespace)
    for canonical, legacy in _COPIES:
        if value := labels.get(canonical) or wanted.get(canonical):
            wanted[legacy] = value
    return {key: value for key, value in wanted.items() if not labels.get(key)}


def _preemption(context: AdmissionContext, known: ClusterSnapshot) -> dict[str, str]:
    """The setting of the priority class, if the pod has no valid annotation. As in YuniKorn."""
    if context.annotations.get(names.ANNOTATION_ALLOW_PREEMPTION) in {"true", "false"}:
        return {}
    name = text(mapping(context.new.get("spec")).get("priorityClassName"))
    return {names.ANNOTATION_ALLOW_PREEMPTION: "true" if known.may_be_preempted.get(name, True) else "false"}


#: Characters of a key in a message.
_KEY_LENGTH_SHOWN: Final = 120


def internal_refusal(context: AdmissionContext) -> str:
    """The problem of changed internal annotations; empty if there is none. Only templates can lose them."""
    if not context.is_for_muster:
        return ""
    before, now = _internal(context.old_annotations), _internal(context.annotations)
    if before == now:
        return ""
    for key, value in now.items():
        if before.get(key) != value:
            return f"{context.where(key[:_KEY_LENGTH_SHOWN])} is written by Muster only: remove it"
    if not context.kind.is_pod:
        return ""
    key = min(before.keys() - now.keys())
    return f"{context.where(key[:_KEY_LENGTH_SHOWN])} is written by Muster only: do not remove it"


def _internal(annotations: dict[str, str]) -> dict[str, str]:
    return {key: value for key, value in annotations.items() if key.startswith(names.INTERNAL_PREFIX)}


KIND: Final = "Binding"


def binding_refusal(review: Review, known: ClusterSnapshot) -> str:
    """The problem of the binding; empty if there is none."""
    if known.is_protected(review.namespace) or review.submitter.name == known.account:
        return ""
    written = [key for key in annotations_of(review.object) if is_guarded(key)]
    if not written:
        return ""
    return f"a binding may not set metadata.annotations[{written[0]}] of its pod: remove it"


def decide(review: Review, known: ClusterSnapshot, settings: AdmissionSettings) -> AdmissionAnswer:
    """Decides whether and how the object is stored. The objects of the review are not changed."""
    if review.kind == KIND:
        return AdmissionAnswer(binding_refusal(review, known))
    context = new_context(review, known, settings)
    if context is None:
        return AdmissionAnswer()
    try:
        return _decided(context, known, settings)
    except RecursionError:  # from comparing the objects; valid pods are not nested as deeply
        return AdmissionAnswer(f"{context.review.kind} is nested too deeply: remove unknown fields")


def _decided(context: AdmissionContext, known: ClusterSnapshot, settings: AdmissionSettings) -> AdmissionAnswer:
    user_info = evaluate_user_info(context, settings.access)
    if refusal := internal_refusal(context) or user_info.refusal:
        return AdmissionAnswer(refusal)
    added = additions(context, known, settings)
    owner = {} if user_info.written is None else {names.ANNOTATION_USER_INFO: user_info.written}
    warnings = ((user_info.warning,) if user_info.warning else ()) + _ignored(context, settings)
    return AdmissionAnswer(
        object=_written(context, added.labels, {**added.annotations, **owner}, added.spec), warnings=warnings
    )


def _ignored(context: AdmissionContext, settings: AdmissionSettings) -> tuple[str, ...]:
    """Warnings about labels, annotations and task groups of a new or changed pod or template that have no effect."""
    metadata = mapping(context.new.get("metadata"))
    if not context.is_for_muster or metadata == mapping(context.old.get("metadata")):
        return ()
    name = text(mapping(context.new.get("spec")).get("schedulerName")) or settings.scheduler_name
    found = read_gang(gang_source(context.annotations), Settings().default_placement(name))
    match found:
        case GangProblem(message):
            gang: tuple[str, ...] = (messages.gang_ignored(message).text,)
        case GangDefinition():
            gang = found.warnings
        case _:
            gang = ()
    place = context.kind.place
    return shortened(f"{place}{one}" for one in (*pod_problems(metadata), *gang))


def _written(
    context: AdmissionContext, labels: Mapping[str, str], annotations: Mapping[str, str], spec: Mapping[str, str]
) -> Raw | None:
    """The object with these entries; None if there are none."""
    if not (labels or annotations or spec):
        return None
    metadata = mapping(context.new.get("metadata"))
    for key, entries in (("labels", labels), ("annotations", annotations)):
        if entries:
            metadata = {**metadata, key: {**mapping(metadata.get(key)), **entries}}
    described = {**context.new, "metadata": metadata}
    if spec:
        described["spec"] = {**mapping(context.new.get("spec")), **spec}
    return context.kind.replaced(context.review.object, described)
