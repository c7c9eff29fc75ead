"""A raw pod becomes a Pod or a ForeignPod (contract 1.1, 1.2, 1.9, 1.10)."""

from __future__ import annotations

from dataclasses import replace

from muster_operator.model import vocabulary as words
from muster_operator.model.errors import BadInputError
from muster_operator.model.ids import NodeName, PodUid
from muster_operator.model.pods import Condition, ForeignPod, Membership, Pod, PodPhase, PodRef
from muster_operator.model.settings import Settings
from muster_operator.translate.constraints import constraints_tag, required_node
from muster_operator.translate.kubelet import kubelet_refusal
from muster_operator.translate.membership import membership
from muster_operator.translate.raw import Raw, epoch_ms, integer, mapping, objects, strings, text
from muster_operator.translate.requests import pod_resources
from muster_si import keys


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


def _tags(metadata: Raw, spec: Raw, ref: PodRef, created_s: int) -> dict[str, str]:
    tags = {
        keys.TAG_NAMESPACE: ref.namespace,
        keys.TAG_POD_NAME: ref.name,
        keys.TAG_CREATION_TIME: str(created_s),
    }
    for key, value in strings(metadata.get("labels")).items():
        tags[keys.TAG_POD_LABEL_PREFIX + key] = value
    if constraints := constraints_tag(spec):
        tags[keys.TAG_CONSTRAINTS] = constraints
    if node := required_node(metadata, spec):
        tags[keys.TAG_REQUIRED_NODE] = node
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
    is_static = any(owner.get("kind") == "Node" for owner in objects(metadata.get("ownerReferences")))
    return ForeignPod(
        ref=ref,
        node=NodeName(text(spec.get("nodeName"))) or None,
        phase=_phase(status),
        resources=resources,
        kind="static" if is_static else "default",
        priority=integer(spec.get("priority")),
    )


def _facts(
    raw: Raw, ref: PodRef, member: Membership, created_s: int
) -> tuple[dict[str, int], dict[str, str], Membership]:
    """Resources and tags; what is wrong with them becomes the membership's refusal."""
    metadata, spec, status = (mapping(raw.get(part)) for part in ("metadata", "spec", "status"))
    try:
        return pod_resources(spec, status), _tags(metadata, spec, ref, created_s), member
    except BadInputError as error:
        return {keys.PODS: 1}, {}, replace(member, refusal=member.refusal or str(error))


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
