"""A raw pod becomes a Pod or a ForeignPod (contract 1.1, 1.2, 1.9, 1.10)."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from muster_operator.model import vocabulary as words
from muster_operator.model.errors import BadInputError
from muster_operator.model.ids import NodeName, PodUid
from muster_operator.model.pods import Condition, ForeignPod, Membership, Pod, PodPhase, PodRef
from muster_operator.model.settings import Settings
from muster_operator.translate.company import company_tag
from muster_operator.translate.constraints import constraints_tag, required_node
from muster_operator.translate.kubelet import kubelet_refusal
from muster_operator.translate.membership import membership
from muster_operator.translate.ports import ports_tag
from muster_operator.translate.preferences import preferences_tag
from muster_operator.translate.raw import Raw, epoch_ms, integer, mapping, objects, strings, text
from muster_operator.translate.requests import pod_resources
from muster_operator.translate.volumes import volumes_tag
from muster_si import keys

#: Longest JSON text of one tag that the core reads, in characters.
_MAX_TEXT: Final = 65_536


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


def _tags(metadata: Raw, spec: Raw, ref: PodRef) -> dict[str, str]:
    """What others read of the pod where it is, and what it asks of those near it."""
    labels = strings(metadata.get("labels"))
    tags = _name_tags(ref)
    for key, value in labels.items():
        tags[keys.TAG_POD_LABEL_PREFIX + key] = value
    if metadata.get("deletionTimestamp"):
        tags[keys.TAG_TERMINATING] = "true"
    facts = {keys.TAG_POD_CONSTRAINTS: company_tag(spec, ref.namespace, labels), keys.CONTAINER_PORTS: ports_tag(spec)}
    if "volumes" in spec:
        facts[keys.TAG_VOLUMES] = volumes_tag(spec, ref)
    return _with(tags, facts)


def _own_tags(metadata: Raw, spec: Raw, ref: PodRef, created_s: int) -> dict[str, str]:
    """The same, and where the pod may go."""
    tags = _tags(metadata, spec, ref)
    tags[keys.TAG_CREATION_TIME] = str(created_s)
    facts = {keys.TAG_CONSTRAINTS: constraints_tag(spec), keys.TAG_PREFERENCES: preferences_tag(spec)}
    if node := required_node(metadata, spec):
        tags[keys.TAG_REQUIRED_NODE] = node
    return _with(tags, facts)


def _with(tags: dict[str, str], facts: dict[str, str]) -> dict[str, str]:
    for tag, value in facts.items():
        if len(value) > _MAX_TEXT:
            raise BadInputError(tag, f"has more than {_MAX_TEXT} characters", "ask for less of it")
        if value:
            tags[tag] = value
    return tags


def _allow_preemption(metadata: Raw) -> bool | None:
    """True or false as the pod says, None when it says nothing or something else (contract 1.2)."""
    value = strings(metadata.get("annotations")).get(words.ANNOTATION_ALLOW_PREEMPTION)
    return {"true": True, "false": False}.get(value or "")


def _foreign(raw: Raw, ref: PodRef) -> ForeignPod:
    metadata, spec, status = (mapping(raw.get(part)) for part in ("metadata", "spec", "status"))
    try:
        resources = pod_resources(spec, status)
    except BadInputError:
        resources = {keys.PODS: 1}  # a pod that other schedulers placed is there, whatever it says
    try:
        tags = _tags(metadata, spec, ref)
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
    """Resources and tags; what is wrong with them becomes the membership's refusal."""
    metadata, spec, status = (mapping(raw.get(part)) for part in ("metadata", "spec", "status"))
    try:
        return pod_resources(spec, status), _own_tags(metadata, spec, ref, created_s), member
    except BadInputError as error:
        return {keys.PODS: 1}, _name_tags(ref), replace(member, refusal=member.refusal or str(error))


def _own(raw: Raw, ref: PodRef, settings: Settings) -> Pod:
    metadata, spec, status = (mapping(raw.get(part)) for part in ("metadata", "spec", "status"))
    created_s = (epoch_ms(metadata.get("creationTimestamp")) or 0) // 1000
    resources, tags, member = _facts(raw, ref, membership(metadata, ref, settings), created_s)
    scheduled_at_ms, condition = _scheduled(status)
    return Pod(
        ref=ref,
        membership=member,
        scheduler_name=text(spec.get("schedulerName")),
        phase=_phase(status),
        node=NodeName(text(spec.get("nodeName"))) or None,
        terminating=bool(metadata.get("deletionTimestamp")),
        created_s=created_s,
        scheduled_at_ms=scheduled_at_ms,
        gates=tuple(text(gate.get("name")) for gate in objects(spec.get("schedulingGates"))),
        claims=tuple(text(claim.get("name")) for claim in objects(spec.get("resourceClaims"))),
        resources=resources,
        priority=integer(spec.get("priority")),
        priority_class=text(spec.get("priorityClassName")),
        allow_preemption=_allow_preemption(metadata),
        preempts_others=spec.get("preemptionPolicy") != "Never",
        tags=tags,
        image_pull_secrets=tuple(
            name for name in (text(entry.get("name")) for entry in objects(spec.get("imagePullSecrets"))) if name
        ),
        condition=condition,
        kubelet_refusal=kubelet_refusal(status),
    )


def read_pod(raw: Raw, settings: Settings) -> Pod | ForeignPod | None:
    """The pod, ours or foreign by its scheduler name; None for an object that is no pod."""
    ref = pod_ref(raw)
    if ref is None:
        return None
    if text(mapping(raw.get("spec")).get("schedulerName")) in settings.scheduler_names:
        return _own(raw, ref, settings)
    return _foreign(raw, ref)
