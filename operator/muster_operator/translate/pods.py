"""Pods as values of ``model``: application, queue, user, resource requests and constraints."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import chain, islice
from typing import Final

from muster_operator.model import limits, names
from muster_operator.model.devices import PodClaim
from muster_operator.model.errors import BadInputError
from muster_operator.model.ids import NodeName, PodUid, added, larger
from muster_operator.model.messages import PREEMPTION
from muster_operator.model.pods import (
    Condition,
    ForeignPod,
    Membership,
    Pod,
    PodPhase,
    PodRef,
)
from muster_operator.model.settings import Settings
from muster_operator.model.signing import SIGNATURE_CHARACTERS
from muster_operator.translate import extended_resources
from muster_operator.translate.constraints import (
    constraints_tag,
    pod_constraints_tag,
    ports_tag,
    preferences_tag,
    required_node,
)
from muster_operator.translate.devices import pod_claims, resolved
from muster_operator.translate.membership import membership
from muster_operator.translate.storage import volumes_tag
from muster_operator.translate.values import (
    Raw,
    amounts,
    canonical_name,
    controller,
    deletion_requested_s,
    epoch_ms,
    integer,
    mapping,
    nanos,
    objects,
    strings,
    text,
    text_bytes,
)
from muster_si import keys

Nanos = dict[str, int]


def _read(field: str, raw: Raw) -> Nanos:
    return {canonical_name(name): nanos(f"{field}.{name}", value) for name, value in raw.items()}


def _is_resize_infeasible(status: Raw) -> bool:
    """Kubernetes 1.33 and later report it as a condition, earlier versions in ``status.resize``."""
    for condition in objects(status.get("conditions")):
        if condition.get("type") == "PodResizePending":
            return condition.get("reason") == "Infeasible"
    return status.get("resize") == "Infeasible"


def _effective_requests(field: str, written: Nanos, status: Raw | None, *, infeasible: bool) -> Nanos:
    """The maximum of the requested, allocated and actual resources. An infeasible resize does not count.

    ``status`` is that of a container, or of a pod with pod-level resources. Without ``resources`` it is ignored.
    Source: Kubernetes, resource helpers ``PodRequests``.
    """
    resources = status.get("resources") if status is not None else None
    if status is None or not isinstance(resources, dict):
        return written
    granted = _read(field, mapping(status.get("allocatedResources")))
    actual = larger(granted, _read(field, mapping(resources.get("requests"))))
    return actual if infeasible else larger(written, actual)


def _is_sidecar(container: Raw) -> bool:
    return container.get("restartPolicy") == "Always"


class _Containers:
    """Resource requests of the containers of one pod, with its current status."""

    def __init__(self, status: Raw) -> None:
        self.infeasible = _is_resize_infeasible(status)
        entries = (*objects(status.get("containerStatuses")), *objects(status.get("initContainerStatuses")))
        self._statuses = {text(entry.get("name")): entry for entry in entries}

    def takes(self, container: Raw, *, resizable: bool = True) -> Nanos:
        name = text(container.get("name"))
        field = f"container {name}"
        written = _read(field, mapping(mapping(container.get("resources")).get("requests")))
        return _effective_requests(
            field, written, self._statuses.get(name) if resizable else None, infeasible=self.infeasible
        )


def _container_requests(spec: Raw, containers: _Containers) -> Nanos:
    """The sum of all containers and sidecars, or the peak during initialization if that is larger.

    While an init container runs, the sidecars before it run too. Of the init containers only sidecars can be resized.
    """
    total: Nanos = {}
    for container in objects(spec.get("containers")):
        total = added(total, containers.takes(container))
    sidecars: Nanos = {}
    peak: Nanos = {}
    for container in objects(spec.get("initContainers")):
        if _is_sidecar(container):
            sidecars = added(sidecars, containers.takes(container))
            peak = larger(peak, sidecars)
        else:
            peak = larger(peak, added(sidecars, containers.takes(container, resizable=False)))
    return larger(added(total, sidecars), peak)


def _is_pod_level_resource(resource: str) -> bool:
    """Whether Kubernetes supports the resource at pod level. It ignores all others there."""
    return resource in {keys.CPU, keys.MEMORY} or resource.startswith("hugepages-")


def _pod_level_requests(spec: Raw, status: Raw, *, infeasible: bool) -> Nanos:
    """Pod-level requests, which replace the sum of the containers."""
    field = "pod resources"
    written = _read(field, mapping(mapping(spec.get("resources")).get("requests")))
    written = {name: amount for name, amount in written.items() if _is_pod_level_resource(name)}
    actual = _effective_requests(field, written, status, infeasible=infeasible)
    return {name: actual.get(name, 0) for name in written}


def _pod_nanos(spec: Raw, status: Raw) -> Nanos:
    containers = _Containers(status)
    whole = _container_requests(spec, containers) | _pod_level_requests(spec, status, infeasible=containers.infeasible)
    return added(whole, _read("overhead", mapping(spec.get("overhead"))))


def _special_claim(status: Raw) -> tuple[tuple[PodClaim, ...], frozenset[str]]:
    """The claim for extended resources, and these; few pods have one."""
    has_one = "extendedResourceClaimStatus" in status
    return extended_resources.claim_of_status(status) if has_one else ((), frozenset())


def pod_resources(spec: Raw, status: Raw) -> dict[str, int]:
    """Resources of the pod in the scheduler's units, including ``pods``: 1, without those that a claim provides.

    Raises:
        BadInputError: an amount is not a quantity, is negative, or does not fit 64 bits.
    """
    _, by_claim = _special_claim(status)
    found = amounts(_pod_nanos(spec, status))
    result = {name: value for name, value in found.items() if value and name not in by_claim}
    for name, value in result.items():
        if value < 0:
            raise BadInputError(name, "is negative", "request zero or more")
    result[keys.PODS] = 1
    return result


#: Prefix of reasons such as ``OutOfcpu`` or ``OutOfnvidia.com/gpu``: the kubelet counts fewer free resources.
_OUT_OF: Final = "OutOf"

#: The other reasons with which a kubelet rejects a pod. ``Evicted`` and ``NodeShutdown`` also end running pods.
_REASONS: Final = frozenset(
    {
        "UnexpectedAdmissionError",
        "TopologyAffinityError",
        "SMTAlignmentError",
        "NodeAffinity",
        "NodeName",
        "NodePorts",
        "NodeUnschedulable",
        "TaintToleration",
        "PodOSNotSupported",
        "PodOSSelectorNodeLabelDoesNotMatch",
        "PodFeatureUnsupported",
        "AppArmor",
        "Evicted",
        "NodeShutdown",
        "Preempting",
    }
)

_CONTAINERS: Final = ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses")


def _has_run(status: Raw) -> bool:
    """Whether a container of the pod has ever started."""
    states = (
        mapping(container.get(state))
        for field in _CONTAINERS
        for container in objects(status.get(field))
        for state in ("state", "lastState")
    )
    return any(state.get("running") or state.get("terminated") for state in states)


def kubelet_refusal(status: Raw) -> str:
    """The kubelet's reason for rejecting the pod; empty for all other pods.

    A rejected pod stays Failed, and its controller creates another. A pod that was evicted while running is not
    rejected.
    """
    reason = text(status.get("reason"))
    is_refusal = reason in _REASONS or reason.startswith(_OUT_OF)
    return reason if is_refusal and status.get("phase") == "Failed" and not _has_run(status) else ""


def signature(annotations: Mapping[str, str], key: str) -> str:
    """A signature of the pod; empty if the text is too long to be one."""
    found = annotations.get(key, "")
    return found if len(found) <= SIGNATURE_CHARACTERS else ""


def traceparent(written: str) -> str:
    """The trace context as written; empty if its length is wrong."""
    return written if len(written) == limits.TRACEPARENT_CHARACTERS else ""


#: Maximum characters of an ordinal.
ORDINAL_CHARACTERS: Final = 10

#: The tag, its name in messages, and the function that builds its value.
_Fact = tuple[str, str, Callable[[], str]]


def pod_ref(raw: Raw) -> PodRef | None:
    """Identifies the pod. Returns None if it has no name or UID."""
    metadata = mapping(raw.get("metadata"))
    name, uid = text(metadata.get("name")), text(metadata.get("uid"))
    return PodRef(text(metadata.get("namespace")), name, PodUid(uid)) if name and uid else None


def _phase(status: Raw) -> PodPhase:
    try:
        return PodPhase(text(status.get("phase")))
    except ValueError:
        return PodPhase.PENDING


def _scheduled(status: Raw) -> tuple[int | None, Condition | None]:
    """Time at which the pod was scheduled in epoch milliseconds, or the condition with the reason why it was not."""
    for condition in objects(status.get("conditions")):
        if condition.get("type") == "PodScheduled":
            if condition.get("status") == "True":
                return epoch_ms(condition.get("lastTransitionTime")), None
            nominated = NodeName(text(status.get("nominatedNodeName")))
            return None, Condition(text(condition.get("reason")), text(condition.get("message")), nominated)
    return None, None


def _name_tags(ref: PodRef) -> dict[str, str]:
    return {keys.TAG_NAMESPACE: ref.namespace, keys.TAG_POD_NAME: ref.name}


def labels_bytes(labels: Mapping[str, str]) -> int:
    """Bytes of the labels as sent to the core."""
    prefix = len(keys.TAG_POD_LABEL_PREFIX)
    return sum(prefix + text_bytes(key) + text_bytes(value) for key, value in labels.items())


def _inter_pod_facts(spec: Raw, ref: PodRef, labels: Mapping[str, str]) -> Iterator[_Fact]:
    """Constraints that also matter for bound pods: inter-pod affinity, topology spread, ports and volumes."""
    tag = keys.TAG_POD_CONSTRAINTS
    yield tag, "pod affinity and topology spread constraints", lambda: pod_constraints_tag(spec, ref.namespace, labels)
    yield keys.CONTAINER_PORTS, "host ports", lambda: ports_tag(spec)
    if "volumes" in spec:
        yield keys.TAG_VOLUMES, "volumes", lambda: volumes_tag(spec, ref)


def _node_facts(spec: Raw) -> Iterator[_Fact]:
    """Constraints and preferences about nodes. They matter for pods that are not bound."""
    yield keys.TAG_CONSTRAINTS, "node constraints", lambda: constraints_tag(spec)
    yield keys.TAG_PREFERENCES, "images and node preferences", lambda: preferences_tag(spec)


def is_preemption(kind: object, status: object, reason: object) -> bool:
    """Whether the condition reports a preemption by a scheduler. Writing it requires permission for `pods/status`."""
    return (kind, status, reason) == ("DisruptionTarget", "True", PREEMPTION)


def deletion_tags(stamp: object, *, is_preempted: bool) -> dict[str, str]:
    """Tags of a pod that is being deleted. ``stamp``: its ``deletionTimestamp``."""
    tags = {keys.TAG_TERMINATING: keys.TERMINATING_PREEMPTED if is_preempted else "true"}
    if gone_ms := epoch_ms(stamp):
        tags[keys.TAG_DELETION_TIME] = str(gone_ms // 1000)
    return tags


def _termination_tags(metadata: Raw, spec: Raw, status: Raw) -> dict[str, str]:
    """Tags about how long the pod may take to terminate, and whether it is being deleted."""
    tags = {}
    if stamp := metadata.get("deletionTimestamp"):
        conditions = objects(status.get("conditions"))
        is_preempted = any(
            is_preemption(each.get("type"), each.get("status"), each.get("reason")) for each in conditions
        )
        tags = deletion_tags(stamp, is_preempted=is_preempted)
    grace_s = integer(spec.get("terminationGracePeriodSeconds"), keys.DEFAULT_GRACE_PERIOD_S)
    if grace_s != keys.DEFAULT_GRACE_PERIOD_S:
        tags[keys.TAG_GRACE_PERIOD] = str(max(grace_s, 0))
    return tags


def _tags(
    metadata: Raw, spec: Raw, status: Raw, ref: PodRef, *, is_waiting: bool, own: tuple[int, Settings] | None = None
) -> dict[str, str]:
    """Tags of the pod for the core, POD_TAGS_BYTES at most.

    ``own``: creation time of a pod of this scheduler, and the settings; None for foreign pods. Tags of a bound or
    foreign pod that are invalid or too large are left out, because its resources count in any case.

    Raises:
        BadInputError: a tag of a pod that waits for a node is invalid or too large.
    """
    labels = strings(metadata.get("labels"))
    tags = _name_tags(ref) | _termination_tags(metadata, spec, status)
    facts = _inter_pod_facts(spec, ref, labels)
    if own is not None:
        created_s, settings = own
        tags[keys.TAG_CREATION_TIME] = str(created_s)
        facts = chain(facts, _node_facts(spec))
        if node := required_node(metadata, spec, settings.system_namespaces):
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
    addition = f" in addition to {others} bytes of labels and other constraints" if others else ""
    problem = f"{size} bytes{addition}, more than {limits.POD_TAGS_BYTES} in total"
    return BadInputError(field, problem, "write fewer or shorter entries")


def _resources(spec: Raw, status: Raw, *, is_waiting: bool) -> dict[str, int]:
    """Resources of the pod. A pod that waits for a node can have at most POD_RESOURCES different resources."""
    resources = pod_resources(spec, status)
    if is_waiting and len(resources) > limits.POD_RESOURCES:
        problem = f"{len(resources)} different resources, more than {limits.POD_RESOURCES}"
        raise BadInputError("resource requests", problem, "request fewer resources")
    if is_waiting and (name := next((name for name in resources if name.endswith(keys.DEVICES_OF_CLASS)), "")):
        raise BadInputError("resource requests", f"{name} is a name of quotas", "request devices by a ResourceClaim")
    return resources


def _allow_preemption(metadata: Raw) -> bool | None:
    """The pod's allow-preemption annotation; None if it is not set or invalid."""
    value = strings(metadata.get("annotations")).get(names.ANNOTATION_ALLOW_PREEMPTION)
    return {"true": True, "false": False}.get(value or "")


def _names(listed: object) -> tuple[str, ...]:
    """Names of the objects in a list, POD_NAMES at most."""
    return tuple(text(entry.get("name")) for entry in islice(objects(listed), limits.POD_NAMES))


def _foreign(raw: Raw, ref: PodRef) -> ForeignPod:
    metadata, spec, status = (mapping(raw.get(part)) for part in ("metadata", "spec", "status"))
    try:
        resources = pod_resources(spec, status)
    except BadInputError:
        resources = {keys.PODS: 1}  # the pod exists, even if its requests are invalid
    try:
        tags = _tags(metadata, spec, status, ref, is_waiting=False)
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


#: Exceptions that invalid resource requests can raise.
_UNREADABLE: Final = (BadInputError, TypeError, ValueError, AttributeError, LookupError, ArithmeticError)


def read_bound(raw: Raw) -> ForeignPod | None:
    """Resources and node of a bound pod for which `read_pod` fails. Returns None if the pod is not bound."""
    ref, spec, status = pod_ref(raw), mapping(raw.get("spec")), mapping(raw.get("status"))
    node = text(spec.get("nodeName"))
    if ref is None or not node:
        return None
    try:
        resources = pod_resources(spec, status)
    except _UNREADABLE:
        resources = {keys.PODS: 1}
    return ForeignPod(ref, NodeName(node), _phase(status), resources, "default", 0, {})


def _facts(
    raw: Raw, ref: PodRef, member: Membership, created_s: int, settings: Settings
) -> tuple[dict[str, int], dict[str, str], Membership]:
    """Resources and tags. An error in those of a pod that waits for a node becomes the membership's refusal."""
    metadata, spec, status = (mapping(raw.get(part)) for part in ("metadata", "spec", "status"))
    is_waiting = not text(spec.get("nodeName"))
    try:
        resources = _resources(spec, status, is_waiting=is_waiting)
        return resources, _tags(metadata, spec, status, ref, is_waiting=is_waiting, own=(created_s, settings)), member
    except BadInputError as error:
        if is_waiting:
            member = replace(member, refusal=member.refusal or str(error))
        return {keys.PODS: 1}, _name_tags(ref), member


def _claims(spec: Raw, status: Raw, member: Membership) -> tuple[tuple[PodClaim, ...], Membership]:
    """The pod's resource claims. Too many of a pod that waits for a node become the membership's refusal."""
    special, _ = _special_claim(status)
    if "resourceClaims" not in spec:
        return special, member
    try:
        return (*resolved(pod_claims(spec), status.get("resourceClaimStatuses")), *special), member
    except BadInputError as error:
        is_waiting = not text(spec.get("nodeName"))
        return (), replace(member, refusal=member.refusal or str(error)) if is_waiting else member


def _own(raw: Raw, ref: PodRef, settings: Settings) -> Pod:
    metadata, spec, status = (mapping(raw.get(part)) for part in ("metadata", "spec", "status"))
    created_s = (epoch_ms(metadata.get("creationTimestamp")) or 0) // 1000
    resources, tags, member = _facts(raw, ref, membership(metadata, ref, settings, spec), created_s, settings)
    claims, member = _claims(spec, status, member)
    scheduled_at_ms, condition = _scheduled(status)
    annotations, controlled_by = strings(metadata.get("annotations")), controller(metadata)
    ordinal = "" if member.claim is None else annotations.get(names.ANNOTATION_PLACEHOLDER_ORDINAL, "")
    seal_key = names.ANNOTATION_OUTCOME_SIGNATURE if member.claim is None else names.ANNOTATION_PLACEHOLDER_SIGNATURE
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
        claims=claims,
        resources=resources,
        priority=integer(spec.get("priority")),
        priority_class=text(spec.get("priorityClassName")),
        allow_preemption=_allow_preemption(metadata),
        preempts_others=spec.get("preemptionPolicy") != "Never",
        tags=tags,
        image_pull_secrets=tuple(name for name in _names(spec.get("imagePullSecrets")) if name),
        condition=condition,
        kubelet_refusal=kubelet_refusal(status),
        seal=signature(annotations, seal_key),
        ordinal=ordinal[:ORDINAL_CHARACTERS],
        binding=signature(annotations, names.ANNOTATION_BINDING_SIGNATURE),
        traceparent=traceparent(annotations.get(names.ANNOTATION_TRACEPARENT, "")),
        controller=controlled_by[0],
        deleted_s=deletion_requested_s(
            metadata.get("deletionTimestamp"), integer(metadata.get("deletionGracePeriodSeconds"))
        ),
        controller_name=controlled_by[1],
    )


def read_pod(raw: Raw, settings: Settings) -> Pod | ForeignPod | None:
    """Returns a Pod if the scheduler name is served, else a ForeignPod. None if the object has no name or UID."""
    ref = pod_ref(raw)
    if ref is None:
        return None
    if text(mapping(raw.get("spec")).get("schedulerName")) in settings.scheduler_names:
        return _own(raw, ref, settings)
    return _foreign(raw, ref)
