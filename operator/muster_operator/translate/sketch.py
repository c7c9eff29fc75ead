"""A pod's JSON as far as it is read, in one pass over the bytes: what nobody reads is not even made.

Of 3 KB, some hundred bytes matter. What is plain text is decoded, what has a structure is kept as it is written
(`Raw`), for most pods say there what another one has said (`translate.classes`). Made for objects as the API server
writes them: one that has something of another kind somewhere is refused here, and is read whole.
"""

from __future__ import annotations

from typing import Any, Final

from msgspec import UNSET, Raw, Struct, UnsetType
from msgspec.json import Decoder

from muster_operator.model import vocabulary as words

Part = Raw | UnsetType

_ANNOTATIONS: Final = {
    "app_id": words.LABEL_APP_ID,
    "queue": words.LABEL_QUEUE,
    "task_groups": words.ANNOTATION_TASK_GROUPS,
    "task_group": words.ANNOTATION_TASK_GROUP_NAME,
    "parameters": words.ANNOTATION_PARAMETERS,
    "user": words.ANNOTATION_USER_INFO,
    "allow_preemption": words.ANNOTATION_ALLOW_PREEMPTION,
    "placeholder": words.ANNOTATION_PLACEHOLDER,
    "gang_outcome": words.ANNOTATION_GANG_OUTCOME,
    "requests": words.ANNOTATION_PLACEHOLDER_REQUESTS,
    "ordinal": words.ANNOTATION_PLACEHOLDER_ORDINAL,
    "placeholder_signature": words.ANNOTATION_PLACEHOLDER_SIGNATURE,
    "outcome_signature": words.ANNOTATION_OUTCOME_SIGNATURE,
    "binding_signature": words.ANNOTATION_BINDING_SIGNATURE,
}


class Annotations(Struct, omit_defaults=True, gc=False, rename=_ANNOTATIONS):
    """Those that are read."""

    app_id: str | UnsetType = UNSET
    queue: str | UnsetType = UNSET
    task_groups: str | UnsetType = UNSET
    task_group: str | UnsetType = UNSET
    parameters: str | UnsetType = UNSET
    user: str | UnsetType = UNSET
    allow_preemption: str | UnsetType = UNSET
    placeholder: str | UnsetType = UNSET
    gang_outcome: str | UnsetType = UNSET
    requests: str | UnsetType = UNSET
    ordinal: str | UnsetType = UNSET
    placeholder_signature: str | UnsetType = UNSET
    outcome_signature: str | UnsetType = UNSET
    binding_signature: str | UnsetType = UNSET


class Owner(Struct, omit_defaults=True, gc=False, rename="camel"):
    """OwnerReference."""

    api_version: str = ""
    kind: str = ""
    uid: str = ""


class Metadata(Struct, gc=False, rename="camel"):
    """ObjectMeta."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    labels: dict[str, str] | None = None
    annotations: Annotations | UnsetType = UNSET
    owner_references: list[Owner] | UnsetType = UNSET


class Container(Struct, omit_defaults=True, gc=False, rename="camel"):
    """A container or an init container."""

    name: Part = UNSET
    image: Part = UNSET
    resources: Part = UNSET
    ports: Part = UNSET
    restart_policy: Part = UNSET
    restart_policy_rules: Part = UNSET


class Volume(Struct, omit_defaults=True, gc=False, rename="camel"):
    """Of the kinds that matter to where a pod may go; every other one is as good as none."""

    persistent_volume_claim: Part = UNSET
    ephemeral: Part = UNSET
    image: Part = UNSET
    iscsi: Part = UNSET
    rbd: Part = UNSET
    gce_persistent_disk: Part = UNSET
    aws_elastic_block_store: Part = UNSET
    azure_disk: Part = UNSET
    cinder: Part = UNSET
    portworx_volume: Part = UNSET


class Spec(Struct, omit_defaults=True, gc=False, rename="camel"):
    """PodSpec."""

    node_name: str = ""
    scheduler_name: str = ""
    containers: list[Container] | UnsetType = UNSET
    init_containers: list[Container] | UnsetType = UNSET
    volumes: list[Volume] | UnsetType = UNSET
    node_selector: Part = UNSET
    affinity: Part = UNSET
    tolerations: Part = UNSET
    topology_spread_constraints: Part = UNSET
    overhead: Part = UNSET
    resources: Part = UNSET
    scheduling_gates: Part = UNSET
    resource_claims: Part = UNSET
    image_pull_secrets: Part = UNSET
    priority: Part = UNSET
    priority_class_name: Part = UNSET
    preemption_policy: Part = UNSET
    host_network: Part = UNSET
    host_users: Part = UNSET


class Condition(Struct, gc=False, rename="camel"):
    """PodCondition."""

    type: str = ""
    status: str = ""
    reason: str | None = None
    message: str | None = None
    last_transition_time: str | None = None


class ContainerStatus(Struct, omit_defaults=True, gc=False, rename="camel"):
    """What a container has been granted."""

    name: Part = UNSET
    resources: Part = UNSET
    allocated_resources: Part = UNSET


class Status(Struct, omit_defaults=True, gc=False, rename="camel"):
    """PodStatus."""

    phase: str = ""
    reason: str = ""
    resize: str = ""
    nominated_node_name: str = ""
    conditions: list[Condition] | UnsetType = UNSET
    container_statuses: list[ContainerStatus] | UnsetType = UNSET
    init_container_statuses: list[ContainerStatus] | UnsetType = UNSET
    resources: Part = UNSET
    allocated_resources: Part = UNSET


class Sketch(Struct, gc=False, rename="camel"):
    """A pod. `json`: what it was read from, an object or an event of a watch; `is_event` tells them apart."""

    metadata: Metadata
    spec: Spec
    status: Status
    json: Any = None
    is_event: bool = False


class SketchedEvent(Struct, gc=False, rename="camel"):
    """An event of a watch of pods."""

    type: str
    object: Sketch


_POD: Final = Decoder(Sketch)
_EVENT: Final = Decoder(SketchedEvent)


def sketched_pod(json: bytes | memoryview) -> Sketch:
    """A pod of a list. Raises msgspec.DecodeError: it is nothing that can be read this way."""
    sketch = _POD.decode(json)
    sketch.json, sketch.is_event = json, False
    return sketch


def sketched_event(json: bytes) -> SketchedEvent:
    """An event of a watch. Raises msgspec.DecodeError: it is nothing that can be read this way."""
    event = _EVENT.decode(json)
    event.object.json, event.object.is_event = json, True
    return event
