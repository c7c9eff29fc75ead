"""A raw pod becomes a Pod or a ForeignPod (contract 1.1, 1.2, 1.9, 1.10)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import chain, islice
from typing import Final

from muster_operator.model import limits
from muster_operator.model import vocabulary as words
from muster_operator.model.errors import BadInputError
from muster_operator.model.ids import NodeName, PodUid
from muster_operator.model.pods import Condition, ForeignPod, Membership, Pod, PodPhase, PodRef
from muster_operator.model.settings import Settings
from muster_operator.translate.company import company_tag
from muster_operator.translate.constraints import constraints_tag, required_node
from muster_operator.translate.kubelet import kubelet_refusal
from muster_operator.translate.membership import membership, signature
from muster_operator.translate.ports import ports_tag
from muster_operator.translate.preferences import preferences_tag
from muster_operator.translate.raw import Raw, epoch_ms, integer, mapping, objects, strings, text, text_bytes
from muster_operator.translate.requests import pod_resources
from muster_operator.translate.volumes import volumes_tag
from muster_si import keys

#: Characters of an ordinal.
ORDINAL_CHARACTERS: Final = 10

#: The tag, its name for people, and what makes it.
_Fact = tuple[str, str, Callable[[], str]]


def pod_ref(raw: Raw) -> PodRef | None:
    """Which pod this is, None when it has no name or UID and so is none."""
    metadata = mapping(raw.get("metadata"))
    name, uid = text(metadata.get("name")), text(metadata.get("uid"))
    return PodRef(text(metadata.get("namespace")), name, PodUid(uid)) if name and uid else None


def _phase(status: Raw) -> PodPhase:
    try:
        return PodPhase(text(status.get("phase")))
    except ValueError:
        return PodPhase.PENDING


def _scheduled(status: Raw) -> tuple[int | None, Condition | None]:
    """Since when the pod has its node, or the condition that says why it has none."""
    for condition in objects(status.get("conditions")):
        if condition.get("type") == "PodScheduled":
            if condition.get("status") == "True":
                return epoch_ms(condition.get("lastTransitionTime")), None
            return None, Condition(text(condition.get("reason")), text(condition.get("message")))
    return None, None


def _name_tags(ref: PodRef) -> dict[str, str]:
    return {keys.TAG_NAMESPACE: ref.namespace, keys.TAG_POD_NAME: ref.name}


def labels_bytes(labels: Mapping[str, str]) -> int:
    """Bytes of labels as sent to the core."""
    prefix = len(keys.TAG_POD_LABEL_PREFIX)
    return sum(prefix + text_bytes(key) + text_bytes(value) for key, value in labels.items())


def _near_facts(spec: Raw, ref: PodRef, labels: Mapping[str, str]) -> Iterator[_Fact]:
    """What a pod asks of those near it, also where it is already."""
    tag = keys.TAG_POD_CONSTRAINTS
    yield tag, "pod affinity and topology spread constraints", lambda: company_tag(spec, ref.namespace, labels)
    yield keys.CONTAINER_PORTS, "host ports", lambda: ports_tag(spec)
    if "volumes" in spec:
        yield keys.TAG_VOLUMES, "volumes", lambda: volumes_tag(spec, ref)


def _where_facts(spec: Raw) -> Iterator[_Fact]:
    """Where a pod may go."""
    yield keys.TAG_CONSTRAINTS, "node constraints", lambda: constraints_tag(spec)
    yield keys.TAG_PREFERENCES, "images and node preferences", lambda: preferences_tag(spec)


def _tags(metadata: Raw, spec: Raw, ref: PodRef, *, is_waiting: bool, created_s: int | None = None) -> dict[str, str]:
    """What the core is told of the pod, POD_TAGS_BYTES at most; ``created_s``: of a pod of ours, None = of another's.

    Of a pod that has its node already, or is none of ours, what cannot be used is left out: its room is counted all the
    same.

    Raises:
        BadInputError: the pod waits for a node, and a part of it cannot be read or is too large.
    """
    labels = strings(metadata.get("labels"))
    tags = _name_tags(ref)
    if metadata.get("deletionTimestamp"):
        tags[keys.TAG_TERMINATING] = "true"
    facts = _near_facts(spec, ref, labels)
    if created_s is not None:
        tags[keys.TAG_CREATION_TIME] = str(created_s)
        facts = chain(facts, _where_facts(spec))
        if node := required_node(metadata, spec):
            tags[keys.TAG_REQUIRED_NODE] = node
    room = limits.POD_TAGS_BYTES - labels_bytes(labels)
    if room >= 0:
        tags |= {keys.TAG_POD_LABEL_PREFIX + key: value for key, value in labels.items()}
    elif is_waiting:
        raise _too_large("labels", limits.POD_TAGS_BYTES - room)
    else:
        room = limits.POD_TAGS_BYTES
    for tag, field, build in facts:
        try:
            value = build()
            if (size := text_bytes(value)) > room:
                raise _too_large(field, size, limits.POD_TAGS_BYTES - room)
        except BadInputError:
            if is_waiting:
                raise
        else:
            room -= size
            if value:
                tags[tag] = value
    return tags


def _too_large(field: str, size: int, others: int = 0) -> BadInputError:
    beside = f" in addition to {others} bytes of labels and other constraints" if others else ""
    problem = f"{size} bytes{beside}, more than {limits.POD_TAGS_BYTES} in total"
    return BadInputError(field, problem, "write fewer or shorter entries")


def _resources(spec: Raw, status: Raw, *, is_waiting: bool) -> dict[str, int]:
    """What the pod takes; one that waits may name POD_RESOURCES resources."""
    resources = pod_resources(spec, status)
    if is_waiting and len(resources) > limits.POD_RESOURCES:
        problem = f"{len(resources)} different resources, more than {limits.POD_RESOURCES}"
        raise BadInputError("resource requests", problem, "request fewer resources")
    return resources


def _allow_preemption(metadata: Raw) -> bool | None:
    """True or false as the pod says, None when it says nothing or something else (contract 1.2)."""
    value = strings(metadata.get("annotations")).get(words.ANNOTATION_ALLOW_PREEMPTION)
    return {"true": True, "false": False}.get(value or "")


def _names(listed: object) -> tuple[str, ...]:
    """Names of a list of objects, POD_NAMES at most."""
    return tuple(text(entry.get("name")) for entry in islice(objects(listed), limits.POD_NAMES))


def _foreign(raw: Raw, ref: PodRef) -> ForeignPod:
    metadata, spec, status = (mapping(raw.get(part)) for part in ("metadata", "spec", "status"))
    try:
        resources = pod_resources(spec, status)
    except BadInputError:
        resources = {keys.PODS: 1}  # a pod that other schedulers placed is there, whatever it says
    try:
        tags = _tags(metadata, spec, ref, is_waiting=False)
    except BadInputError:
        tags = _name_tags(ref)
    is_static = any(owner.get("kind") == "Node" for owner in objects(metadata.get("ownerReferences")))
    return ForeignPod(
        ref=ref,
        node=NodeName(text(spec.get("nodeName")) or text(status.get("nominatedNodeName"))) or None,
        phase=_phase(status),
        resources=resources,
        kind="static" if is_static else "default",
        priority=integer(spec.get("priority")),
        tags=tags,
    )


def _facts(
    raw: Raw, ref: PodRef, member: Membership, created_s: int
) -> tuple[dict[str, int], dict[str, str], Membership]:
    """Resources and tags; what is wrong with those of a pod that waits becomes the membership's refusal."""
    metadata, spec, status = (mapping(raw.get(part)) for part in ("metadata", "spec", "status"))
    is_waiting = not text(spec.get("nodeName"))
    try:
        resources = _resources(spec, status, is_waiting=is_waiting)
        return resources, _tags(metadata, spec, ref, is_waiting=is_waiting, created_s=created_s), member
    except BadInputError as error:
        return {keys.PODS: 1}, _name_tags(ref), replace(member, refusal=member.refusal or str(error))


def _own(raw: Raw, ref: PodRef, settings: Settings) -> Pod:
    metadata, spec, status = (mapping(raw.get(part)) for part in ("metadata", "spec", "status"))
    created_s = (epoch_ms(metadata.get("creationTimestamp")) or 0) // 1000
    resources, tags, member = _facts(raw, ref, membership(metadata, ref, settings, spec), created_s)
    scheduled_at_ms, condition = _scheduled(status)
    annotations = strings(metadata.get("annotations"))
    ordinal = "" if member.claim is None else annotations.get(words.ANNOTATION_PLACEHOLDER_ORDINAL, "")
    sealed_by = words.ANNOTATION_OUTCOME_SIGNATURE if member.claim is None else words.ANNOTATION_PLACEHOLDER_SIGNATURE
    return Pod(
        ref=ref,
        membership=member,
        scheduler_name=text(spec.get("schedulerName")),
        phase=_phase(status),
        node=NodeName(text(spec.get("nodeName"))) or None,
        terminating=bool(metadata.get("deletionTimestamp")),
        created_s=created_s,
        scheduled_at_ms=scheduled_at_ms,
        gates=_names(spec.get("schedulingGates")),
        claims=_names(spec.get("resourceClaims")),
        resources=resources,
        priority=integer(spec.get("priority")),
        priority_class=text(spec.get("priorityClassName")),
        allow_preemption=_allow_preemption(metadata),
        preempts_others=spec.get("preemptionPolicy") != "Never",
        tags=tags,
        image_pull_secrets=tuple(name for name in _names(spec.get("imagePullSecrets")) if name),
        condition=condition,
        kubelet_refusal=kubelet_refusal(status),
        seal=signature(annotations, sealed_by),
        ordinal=ordinal[:ORDINAL_CHARACTERS],
        binding=signature(annotations, words.ANNOTATION_BINDING_SIGNATURE),
    )


def read_pod(raw: Raw, settings: Settings) -> Pod | ForeignPod | None:
    """The pod, ours or foreign by its scheduler name; None for an object that is no pod."""
    ref = pod_ref(raw)
    if ref is None:
        return None
    if text(mapping(raw.get("spec")).get("schedulerName")) in settings.scheduler_names:
        return _own(raw, ref, settings)
    return _foreign(raw, ref)
