"""An ask and an allocation as the Scheduler Interface carries them (seed 003)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec import Struct, field

from muster_operator.model.enums import NumberEnum
from muster_operator.model.ids import NO_ALLOCATION_ID, AllocationId, AppId, NodeName, PodUid
from muster_operator.model.resources import Resources
from muster_si import keys


class TerminationType(NumberEnum):
    """Why an allocation or ask ends; the numbers of seed 003."""

    UNKNOWN = 0
    STOPPED_BY_RM = 1
    TIMEOUT = 2
    PREEMPTED_BY_SCHEDULER = 3
    PLACEHOLDER_REPLACED = 4


#: What an ask may say beside what it has in common with its class.
OWN_TAGS: Final = (
    keys.TAG_POD_NAME,
    keys.TAG_CREATION_TIME,
    keys.TAG_TERMINATING,
    keys.TAG_AVOID_NODES,
    keys.TAG_ALLOCATED_AT,
)


class AskSpec(Struct, frozen=True, gc=False):
    """One pod that wants a node: an ask, and, once it has one, the body of its allocation.

    ``app`` is None for a pod of another scheduler, which is counted on its node only (semantics 7). ``common``: those
    of its tags that its class has in common, as one object; what is beside them in ``tags`` is in ``OWN_TAGS``.
    """

    key: PodUid
    app: AppId | None
    resources: Resources
    priority: int = 0
    tags: Mapping[str, str] = field(default_factory=dict)
    task_group: str = ""
    placeholder: bool = False
    originator: bool = False
    allow_preempt_self: bool = True
    allow_preempt_other: bool = True
    common: Mapping[str, str] = field(default_factory=dict)


class AllocationSpec(Struct, frozen=True, gc=False):
    """An allocation that exists in Kubernetes and that the core has to account for."""

    ask: AskSpec
    node: NodeName
    allocation_id: AllocationId = NO_ALLOCATION_ID
