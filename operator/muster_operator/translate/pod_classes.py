"""Partial decoding of pods, and a cache of their translation per class of equal pods.

Pods of one template differ in a few fields: name, UID, labels, times, node. All other fields are translated once per
class and shared by its pods, which saves time and memory.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import orjson
from msgspec import UNSET, Raw, Struct, UnsetType
from msgspec.json import Decoder, Encoder

from muster_operator.model import limits, names
from muster_operator.model.devices import PodClaim
from muster_operator.model.ids import NodeName, PodUid
from muster_operator.model.limits import Shares
from muster_operator.model.pods import Condition, ForeignPod, Pod, PodPhase, PodRef
from muster_operator.model.settings import Settings
from muster_operator.model.signing import SIGNATURE_CHARACTERS
from muster_operator.translate.devices import resolved
from muster_operator.translate.known_names import (
    APPLICATION_IDS,
    KEY_STARTS,
    KNOWN_KEYS,
    MISTAKES,
    OURS,
    POD_LABELS,
    resembles_application_id,
)
from muster_operator.translate.pods import (
    ORDINAL_CHARACTERS,
    deletion_tags,
    is_preemption,
    read_pod,
    traceparent,
)
from muster_operator.translate.values import controller_name, deletion_requested_s, epoch_ms, text_bytes
from muster_si import keys

RawField = Raw | UnsetType

_ANNOTATIONS: Final = {
    "app_id": names.LABEL_APP_ID,
    "queue": names.LABEL_QUEUE,
    "task_groups": names.ANNOTATION_TASK_GROUPS,
    "task_group": names.ANNOTATION_TASK_GROUP_NAME,
    "parameters": names.ANNOTATION_PARAMETERS,
    "gang_size": names.ANNOTATION_GANG_SIZE,
    "koordinator_name": names.ANNOTATION_KOORDINATOR_NAME,
    "koordinator_size": names.ANNOTATION_KOORDINATOR_SIZE,
    "koordinator_groups": names.ANNOTATION_KOORDINATOR_GROUPS,
    "koordinator_topology": names.ANNOTATION_KOORDINATOR_TOPOLOGY,
    "user": names.ANNOTATION_USER_INFO,
    "allow_preemption": names.ANNOTATION_ALLOW_PREEMPTION,
    "placeholder": names.ANNOTATION_PLACEHOLDER,
    "gang_outcome": names.ANNOTATION_GANG_OUTCOME,
    "requests": names.ANNOTATION_PLACEHOLDER_REQUESTS,
    "ordinal": names.ANNOTATION_PLACEHOLDER_ORDINAL,
    "placeholder_signature": names.ANNOTATION_PLACEHOLDER_SIGNATURE,
    "outcome_signature": names.ANNOTATION_OUTCOME_SIGNATURE,
    "binding_signature": names.ANNOTATION_BINDING_SIGNATURE,
    "traceparent": names.ANNOTATION_TRACEPARENT,
}


class Annotations(Struct, omit_defaults=True, gc=False, rename=_ANNOTATIONS):
    """The annotations that the operator reads."""

    app_id: str | UnsetType = UNSET
    queue: str | UnsetType = UNSET
    task_groups: str | UnsetType = UNSET
    task_group: str | UnsetType = UNSET
    parameters: str | UnsetType = UNSET
    gang_size: str | UnsetType = UNSET
    koordinator_name: str | UnsetType = UNSET
    koordinator_size: str | UnsetType = UNSET
    koordinator_groups: str | UnsetType = UNSET
    koordinator_topology: str | UnsetType = UNSET
    user: str | UnsetType = UNSET
    allow_preemption: str | UnsetType = UNSET
    placeholder: str | UnsetType = UNSET
    gang_outcome: str | UnsetType = UNSET
    requests: str | UnsetType = UNSET
    ordinal: str | UnsetType = UNSET
    placeholder_signature: str | UnsetType = UNSET
    outcome_signature: str | UnsetType = UNSET
    binding_signature: str | UnsetType = UNSET
    traceparent: str | UnsetType = UNSET


class Owner(Struct, omit_defaults=True, gc=False, rename="camel"):
    """OwnerReference."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool = False


class Metadata(Struct, gc=False, rename="camel"):
    """ObjectMeta."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: int | None = None
    labels: dict[str, str] | None = None
    annotations: Annotations | UnsetType = UNSET
    owner_references: list[Owner] | UnsetType = UNSET


class Mount(Struct, omit_defaults=True, gc=False, rename="camel"):
    """A volume mount. Its name differs per pod: that of the service account token has a random part."""

    bind_mount_options: RawField = UNSET


class Container(Struct, omit_defaults=True, gc=False, rename="camel"):
    """A container, init container or ephemeral container."""

    name: RawField = UNSET
    image: RawField = UNSET
    resources: RawField = UNSET
    ports: RawField = UNSET
    restart_policy: RawField = UNSET
    restart_policy_rules: RawField = UNSET
    volume_mounts: list[Mount] | UnsetType = UNSET


class PartialVolume(Struct, omit_defaults=True, gc=False, rename="camel"):
    """The volume kinds that restrict the choice of a node. Volumes of other kinds decode to an empty object."""

    persistent_volume_claim: RawField = UNSET
    ephemeral: RawField = UNSET
    image: RawField = UNSET
    iscsi: RawField = UNSET
    rbd: RawField = UNSET
    gce_persistent_disk: RawField = UNSET
    aws_elastic_block_store: RawField = UNSET
    azure_disk: RawField = UNSET
    cinder: RawField = UNSET
    portworx_volume: RawField = UNSET


class Spec(Struct, omit_defaults=True, gc=False, rename="camel"):
    """PodSpec."""

    node_name: str = ""
    scheduler_name: str = ""
    containers: list[Container] | UnsetType = UNSET
    init_containers: list[Container] | UnsetType = UNSET
    ephemeral_containers: list[Container] | UnsetType = UNSET
    volumes: list[PartialVolume] | UnsetType = UNSET
    node_selector: RawField = UNSET
    affinity: RawField = UNSET
    tolerations: RawField = UNSET
    topology_spread_constraints: RawField = UNSET
    overhead: RawField = UNSET
    resources: RawField = UNSET
    scheduling_gates: RawField = UNSET
    resource_claims: RawField = UNSET
    image_pull_secrets: RawField = UNSET
    priority: RawField = UNSET
    priority_class_name: RawField = UNSET
    preemption_policy: RawField = UNSET
    host_network: RawField = UNSET
    host_users: RawField = UNSET
    termination_grace_period_seconds: RawField = UNSET
    scheduling_group: RawField = UNSET


class PartialCondition(Struct, gc=False, rename="camel"):
    """PodCondition."""

    type: str = ""
    status: str = ""
    reason: str | None = None
    message: str | None = None
    last_transition_time: str | None = None


class ContainerStatus(Struct, omit_defaults=True, gc=False, rename="camel"):
    """Resources of a container, as allocated and as in effect."""

    name: RawField = UNSET
    resources: RawField = UNSET
    allocated_resources: RawField = UNSET


class Status(Struct, omit_defaults=True, gc=False, rename="camel"):
    """PodStatus."""

    phase: str = ""
    reason: str = ""
    resize: str = ""
    nominated_node_name: str = ""
    conditions: list[PartialCondition] | UnsetType = UNSET
    container_statuses: list[ContainerStatus] | UnsetType = UNSET
    init_container_statuses: list[ContainerStatus] | UnsetType = UNSET
    resources: RawField = UNSET
    allocated_resources: RawField = UNSET
    resource_claim_statuses: RawField = UNSET
    extended_resource_claim_status: RawField = UNSET


class PartialPod(Struct, gc=False, rename="camel"):
    """The fields of a pod that the operator reads.

    `json` is the input: an object, or a watch event if `is_event` is set.
    """

    metadata: Metadata
    spec: Spec
    status: Status
    json: Any = None
    is_event: bool = False


class PartialPodEvent(Struct, gc=False, rename="camel"):
    """A watch event of a pod."""

    type: str
    object: PartialPod


_POD: Final = Decoder(PartialPod)
_EVENT: Final = Decoder(PartialPodEvent)


def partial_pod(json: bytes | memoryview) -> PartialPod:
    """Decodes a pod of a list.

    Raises:
        msgspec.DecodeError: a field does not have the expected type.
    """
    incoming = _POD.decode(json)
    incoming.json, incoming.is_event = json, False
    return incoming


def partial_pod_event(json: bytes) -> PartialPodEvent:
    """Decodes a watch event.

    Raises:
        msgspec.DecodeError: a field does not have the expected type.
    """
    event = _EVENT.decode(json)
    event.object.json, event.object.is_event = json, True
    return event


#: Bytes of a cached class in addition to those that follow from its key.
_OVERHEAD: Final = 2_048

#: Number of interned texts, and of interned label tags.
_SHARED: Final = 16_384

#: Labels that decide the application, the queue or the gang of a pod.
_LABELS: Final = (
    names.LABEL_APP_ID,
    names.LEGACY_LABEL_APP_ID,
    names.SPARK_LABEL_APP_ID,
    names.LABEL_QUEUE,
    names.LEGACY_LABEL_QUEUE,
    names.LABEL_JOBSET,
    names.LABEL_LEADER_WORKER_SET,
    names.LABEL_LEADER_WORKER_GROUP,
    names.LABEL_KUEUE_GROUP,
    names.LABEL_POD_GROUP,
)

#: Name, UID and label of the pod that a class is read from. If it appears in the result, the result is not shared.
_PROBE: Final = "muster.dev/probe"

#: `matchLabelKeys` and `mismatchLabelKeys` read labels of the pod itself, so that all its labels belong to the class.
_BY_LABELS: Final = b"abelKeys"

#: A generic ephemeral volume has a claim that is named after the pod.
_BY_NAME: Final = b'"ephemeral"'
_OWN_TAGS: Final = frozenset({keys.TAG_NAMESPACE, keys.TAG_POD_NAME, keys.TAG_CREATION_TIME})
_PHASES: Final = {phase.value: phase for phase in PodPhase}
_PENDING: Final = PodPhase.PENDING  # reading it from its class takes 60 ns in Python 3.11


class _Amounts(Struct, omit_defaults=True, gc=False, rename="camel"):
    """Resources in the status of a pod."""

    container_statuses: list[ContainerStatus] | UnsetType = UNSET
    init_container_statuses: list[ContainerStatus] | UnsetType = UNSET
    resources: RawField = UNSET
    allocated_resources: RawField = UNSET


class _Common(Struct, omit_defaults=True, gc=False, rename="camel"):
    """Metadata that the pods of a class share."""

    namespace: str
    labels: dict[str, str]
    annotations: Annotations | UnsetType = UNSET
    owner_references: list[Owner] | UnsetType = UNSET


class _Key(Struct, gc=False, rename="camel"):
    """A pod without the fields that differ per pod. Its JSON is the key of the class."""

    metadata: _Common
    spec: Spec
    status: _Amounts


_NO_POD_ANNOTATIONS: Final = (UNSET, UNSET, UNSET, UNSET, UNSET)
_NO_AMOUNTS: Final = _Amounts()
_ENCODER: Final = Encoder()


@dataclass(frozen=True, slots=True)
class _Class:
    """A translated class: `pod` has the shared fields, `shared_tags` the shared tags.

    `labels` and `tags` are those of the first pod of the class. `tags` has no name, creation time or deletion mark.
    """

    pod: Pod | ForeignPod
    shared_tags: Mapping[str, str]
    labels: Mapping[str, str]
    tags: dict[str, str]


class _Known:
    """LRU cache of classes by namespace and key, `limit_bytes` at most.

    If it is full, the namespace with most classes loses its least recently used class. A user who varies an annotation
    therefore does not evict classes of other namespaces.
    """

    def __init__(self, limit_bytes: int) -> None:
        self._limit, self._bytes = limit_bytes, 0
        self._classes: dict[str, OrderedDict[bytes, tuple[_Class | None, int]]] = {}
        self._shares = Shares()

    def __len__(self) -> int:
        return sum(len(classes) for classes in self._classes.values())

    def clear(self) -> None:
        self._classes.clear()
        self._shares.clear()
        self._bytes = 0

    def find(self, namespace: str, key: bytes) -> tuple[_Class | None, int] | None:
        """Returns the class (None = its pods have to be read one by one) and its bytes, or None if it is not cached."""
        classes = self._classes.get(namespace)
        if classes is None:
            return None
        found = classes.get(key)
        if found is not None:
            classes.move_to_end(key)
        return found

    def add(self, namespace: str, key: bytes, found: _Class | None, size: int) -> None:
        self._classes.setdefault(namespace, OrderedDict())[key] = found, size
        self._shares.add(namespace)
        self._bytes += size
        while self._bytes > self._limit:
            largest = self._shares.largest()
            self._bytes -= self._classes[largest].popitem(last=False)[1][1]
            self._shares.remove(largest)
            if not self._classes[largest]:
                del self._classes[largest]


class PodClasses:
    """Translates pods by class. The cache is dropped if the settings change and has `limit_bytes` at most."""

    def __init__(self, limit_bytes: int = limits.CLASSES_BYTES) -> None:
        self._known = _Known(limit_bytes)
        self._settings: Settings | None = None
        self._label_tags: dict[str, str] = {}
        self._texts: dict[str, str] = {}

    def __len__(self) -> int:
        return len(self._known)

    def read(self, incoming: PartialPod, settings: Settings) -> Pod | ForeignPod | None:
        """Translates the pod. Returns None if the pod has to be decoded completely and read by `read_pod`."""
        if settings is not self._settings:
            self._known.clear()
            self._settings = settings
        metadata, status = incoming.metadata, incoming.status
        if not metadata.name or not metadata.uid or status.reason or status.resize or _is_misspelt(incoming, settings):
            return None
        if status.extended_resource_claim_status is not UNSET:
            return None
        scheduled: PartialCondition | None = None
        is_preempted = False
        for each in status.conditions or ():
            if each.type == "PodScheduled":
                scheduled = scheduled or each
            elif is_preemption(each.type, each.status, each.reason):
                is_preempted = True
            elif each.type == "PodResizePending":
                return None
        controller = _controller(metadata)
        found = self._class_of(incoming, settings)
        if found is None:
            return None
        pod = found.pod
        ref = PodRef(pod.ref.namespace, metadata.name, PodUid(metadata.uid))
        is_usual = (metadata.labels or {}) == found.labels  # true for nearly all pods of a class
        tags = found.tags.copy() if is_usual else self._unusual_tags(found, ref, metadata)
        tags[keys.TAG_POD_NAME] = ref.name
        if metadata.deletion_timestamp:
            tags |= deletion_tags(metadata.deletion_timestamp, is_preempted=is_preempted)
        if isinstance(pod, ForeignPod):
            node = self._node(incoming.spec.node_name or status.nominated_node_name)
            phase = _PHASES.get(status.phase, _PENDING)
            return ForeignPod(ref, node, phase, pod.resources, pod.kind, pod.priority, tags)
        return self._own(pod, ref, tags, incoming, scheduled, found.tags if is_usual else {}, controller)

    def _own(  # noqa: PLR0913, PLR0917 # long: parts of the pod that the caller has read already
        self,
        pod: Pod,
        ref: PodRef,
        tags: dict[str, str],
        incoming: PartialPod,
        scheduled: PartialCondition | None,
        common: Mapping[str, str],
        controller: tuple[str, str],
    ) -> Pod:
        metadata = incoming.metadata
        created_s, tags[keys.TAG_CREATION_TIME] = _created(metadata.creation_timestamp)
        since, why = None, None
        if scheduled is not None and scheduled.status == "True":
            since = epoch_ms(scheduled.last_transition_time)
        elif scheduled is not None:
            nominated = NodeName(incoming.status.nominated_node_name)
            why = Condition(scheduled.reason or "", scheduled.message or "", nominated)
        annotations, seal, ordinal, binding, context = metadata.annotations, "", "", "", ""
        if annotations is not UNSET:
            seal, ordinal, binding = _signatures(annotations, is_claim=pod.membership.claim is not None)
            context = "" if annotations.traceparent is UNSET else annotations.traceparent
        # Positional arguments take 0.2 us here, keyword arguments 1.3 us.
        return Pod(
            ref,
            pod.membership,
            pod.scheduler_name,
            _PHASES.get(incoming.status.phase, _PENDING),
            self._node(incoming.spec.node_name),
            bool(metadata.deletion_timestamp),
            created_s,
            since,
            pod.gates,
            _claims(pod, incoming.status) if pod.claims else (),
            pod.resources,
            pod.priority,
            pod.priority_class,
            pod.allow_preemption,
            pod.preempts_others,
            tags,
            pod.image_pull_secrets,
            why,
            "",
            common,
            seal,
            ordinal,
            binding,
            traceparent(context) if context else "",
            self._shared(controller[0]),
            deletion_requested_s(metadata.deletion_timestamp, metadata.deletion_grace_period_seconds)
            if metadata.deletion_timestamp
            else 0,
            self._shared(controller[1]),
        )

    def _node(self, name: str) -> NodeName | None:
        return NodeName(self._shared(name)) if name else None

    def _unusual_tags(self, found: _Class, ref: PodRef, metadata: Metadata) -> dict[str, str]:
        """Returns the tags of a pod with other labels than the first one of its class, without its name."""
        return {
            **self._pod_label_tags(metadata.labels or {}),
            **found.shared_tags,
            keys.TAG_NAMESPACE: ref.namespace,
        }

    def _pod_label_tags(self, labels: Mapping[str, str]) -> dict[str, str]:
        if len(self._label_tags) >= _SHARED:
            self._label_tags.clear()
        known, prefix = self._label_tags, keys.TAG_POD_LABEL_PREFIX
        return {
            known.get(label) or known.setdefault(label, prefix + label): self._shared(value)
            for label, value in labels.items()
        }

    def _shared(self, value: str) -> str:
        """Returns an equal text that other pods share, so that each text is in memory once."""
        known = self._texts.get(value)
        if known is not None:
            return known
        if len(self._texts) >= _SHARED:
            self._texts.clear()
        self._texts[value] = value
        return value

    def _class_of(self, incoming: PartialPod, settings: Settings) -> _Class | None:
        """Returns the class of the pod, or None if the pod has to be read on its own."""
        labels = incoming.metadata.labels or {}
        if len(labels) > limits.CLASS_LABELS:
            return None
        key = _key(incoming)
        if len(key) > limits.CLASS_BYTES:
            return None
        namespace = incoming.metadata.namespace
        known = self._known.find(namespace, key)
        if known is not None:
            return known[0]
        found = self._first(_read(key, settings), labels)
        self._known.add(namespace, key, found, _OVERHEAD + (1 if found is None else 3) * len(key))
        return found

    def _first(self, pod: Pod | ForeignPod | None, labels: Mapping[str, str]) -> _Class | None:
        """Builds the class from its first pod, which has these labels."""
        if pod is None:
            return None
        prefix = keys.TAG_POD_LABEL_PREFIX
        shared_tags = {
            tag: value for tag, value in pod.tags.items() if tag not in _OWN_TAGS and not tag.startswith(prefix)
        }
        if sum(map(text_bytes, shared_tags.values())) > limits.POD_TAGS_BYTES // 2:
            return None  # with the labels of some pods of the class the tags would exceed the limit
        tags = {**self._pod_label_tags(labels), **shared_tags, keys.TAG_NAMESPACE: pod.ref.namespace}
        return _Class(pod, shared_tags, dict(labels), tags)


def _controller(metadata: Metadata) -> tuple[str, str]:
    """UID and name of the controller. Call it before the class is determined, which drops both of owners."""
    for owner in metadata.owner_references or ():
        if owner.controller:
            return owner.uid, controller_name(owner.kind, owner.name)
    return "", ""


def _is_misspelt(incoming: PartialPod, settings: Settings) -> bool:
    """Whether a waiting pod may have names without effect, which its class does not contain."""
    spec = incoming.spec
    is_waiting = not spec.node_name and spec.scheduler_name in settings.scheduler_names
    return is_waiting and _may_have_problems(incoming.json, incoming.metadata.labels or ())


def _may_have_problems(json: bytes | memoryview, labels: Iterable[str]) -> bool:
    """Whether a pod may have labels or annotations without effect: its JSON, and the keys of its labels.

    Fast, because nearly all pods have none. If it returns False, `known_names.pod_problems` returns nothing.
    """
    has_application = False
    for key in labels:
        if key.startswith(OURS) and key not in POD_LABELS:
            return True
        has_application = has_application or key in APPLICATION_IDS
    if not has_application and any(key[:1] in "aA" and resembles_application_id(key) for key in labels):
        return True
    text = json if isinstance(json, bytes) else bytes(json)
    return any(_has_unknown(text, start) for start in KEY_STARTS) or any(part in text for part in MISTAKES)


def _has_unknown(text: bytes, start: bytes) -> bool:
    """Whether the JSON has a key that begins in this way and is no name of a pod. Escaped quotes are in a value."""
    at = text.find(start)
    while at >= 0:
        end = text.find(b'"', at + 1)
        if b"/" in text[at:end] and text[at + 1 : end] not in KNOWN_KEYS and text[at - 1 : at] != b"\\":
            return True
        at = text.find(start, end)
    return False


def _signatures(annotations: Annotations, *, is_claim: bool) -> tuple[str, str, str]:
    """Signature, ordinal and signature of the binding, as `read_pod` reads them."""
    seal = annotations.placeholder_signature if is_claim else annotations.outcome_signature
    ordinal = annotations.ordinal if is_claim else UNSET
    return (
        _signature(seal),
        "" if ordinal is UNSET else ordinal[:ORDINAL_CHARACTERS],
        _signature(annotations.binding_signature),
    )


def _claims(pod: Pod, status: Status) -> tuple[PodClaim, ...]:
    """The resource claims of a pod of the class, with the names in its own status."""
    statuses = status.resource_claim_statuses
    return resolved(pod.claims, None if statuses is UNSET else orjson.loads(bytes(statuses)))


def _signature(found: str | UnsetType) -> str:
    return "" if found is UNSET or len(found) > SIGNATURE_CHARACTERS else found


@lru_cache(maxsize=4096)
def _created(stamp: str | None) -> tuple[int, str]:
    """Creation time in epoch seconds, and the value of its tag."""
    created_s = (epoch_ms(stamp) or 0) // 1000
    return created_s, str(created_s)


def _key(incoming: PartialPod) -> bytes:
    """The key of the class: the pod as JSON without the fields that differ per pod.

    Names of owners, and UIDs of owners that are not pods, are dropped, because nothing reads them, unless the pods of a
    controller are a gang.
    """
    metadata, spec, status = incoming.metadata, incoming.spec, incoming.status
    node, spec.node_name = spec.node_name, ""
    labels, annotations, owners = metadata.labels or {}, metadata.annotations, metadata.owner_references
    if owners and (annotations is UNSET or annotations.gang_size is UNSET):
        for owner in owners:
            owner.name = ""
            if owner.kind != "Pod":
                owner.uid = ""
    pod_annotations = None if annotations is UNSET else _take_pod_annotations(annotations)
    common = _Common(
        metadata.namespace,
        {label: labels[label] for label in _LABELS if label in labels},
        annotations,
        owners,
    )
    amounts = _NO_AMOUNTS
    if status.container_statuses or status.init_container_statuses or status.resources or status.allocated_resources:
        amounts = _Amounts(
            status.container_statuses, status.init_container_statuses, status.resources, status.allocated_resources
        )
    key = _ENCODER.encode(_Key(common, spec, amounts))
    if _BY_LABELS in key:
        common.labels = labels
        key = _ENCODER.encode(_Key(common, spec, amounts))
    spec.node_name = node
    if pod_annotations is not None and annotations is not UNSET:
        (
            annotations.ordinal,
            annotations.placeholder_signature,
            annotations.outcome_signature,
            annotations.binding_signature,
            annotations.traceparent,
        ) = pod_annotations
    return key


def _take_pod_annotations(annotations: Annotations) -> tuple[str | UnsetType, ...] | None:
    """Removes and returns the annotations that differ per pod. Returns None if there are none."""
    pod_annotations = (
        annotations.ordinal,
        annotations.placeholder_signature,
        annotations.outcome_signature,
        annotations.binding_signature,
        annotations.traceparent,
    )
    if pod_annotations == _NO_POD_ANNOTATIONS:
        return None
    annotations.ordinal = annotations.placeholder_signature = UNSET
    annotations.outcome_signature = annotations.binding_signature = annotations.traceparent = UNSET
    return pod_annotations


def _read(key: bytes, settings: Settings) -> Pod | ForeignPod | None:
    """Reads the pod of a key. Returns None if its result depends on the name, UID or labels of each pod."""
    raw = orjson.loads(key)
    raw["metadata"] |= {"name": _PROBE, "uid": _PROBE}
    raw["metadata"]["labels"][_PROBE] = _PROBE
    pod = read_pod(raw, settings)
    if pod is None or keys.TAG_POD_LABEL_PREFIX + _PROBE not in pod.tags or _BY_NAME in key:
        return None
    if isinstance(pod, Pod) and (pod.membership.refusal or _PROBE in pod.membership.app):
        return None
    return pod
