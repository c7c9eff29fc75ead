"""Settings of the operator and of admission."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol

from muster_operator.model import names
from muster_operator.model.pods import Placement


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of the operator. Defaults are YuniKorn's if it has the setting."""

    scheduler_names: frozenset[str] = frozenset({names.MUSTER, names.YUNIKORN})
    """Muster schedules pods with one of these in ``spec.schedulerName``; all others are foreign."""

    scheduler_name: str = names.MUSTER
    """One of `scheduler_names`: the webhook sets it on pods. It does not change while the operator runs."""

    partition: str = "default"
    """The only partition of the operator."""

    placeholder_image: str = "registry.k8s.io/pause:3.7"
    """``service.placeholderImage``. It should be on the nodes or small, because every gang member waits for it."""

    placeholder_run_as_user: int = 0
    """``service.placeholderRunAsUser``; 0 = the image decides."""

    placeholder_run_as_group: int = 0
    """``service.placeholderRunAsGroup``; 0 = the image decides."""

    placeholder_fs_group: int = 0
    """``service.placeholderFsGroup``; 0 = unset."""

    disable_gang: bool = False
    """``service.disableGangScheduling``: ignores task groups."""

    device_claims: bool = False
    """``kubernetes.deviceClaims``: schedules pods with ResourceClaims (experimental)."""

    gang_placement: Placement | None = None
    """``gang.placement``: placement mode of gangs that do not specify one (docs/internals/semantics.md, 16).

    None = ``default_placement``. A change applies to new gangs."""

    placeholders_follow: bool = True
    """``gang.placeholdersFollowMembers``: placeholders of a ``Reserve`` gang request what its present members request.
    """

    member_quiet_s: float = 0.5
    """``gang.memberQuietPeriod``: until an ``Auto`` gang has all its nodes, absent members get placeholder pods when no
    member has appeared or ended for this number of seconds."""

    member_wait_s: float = 5.0
    """``gang.memberWait``: maximum seconds of that wait. If the gang has all its nodes, the wait ends after this number
    of seconds without such a change, and after twelve times as many in total."""

    provisioning_class: str = ""
    """``autoscaling.provisioningRequest``: class of the ProvisioningRequests of gangs that wait for nodes.

    Empty = none; also if the API server does not serve them."""

    unique_app_ids: bool = False
    """``admissionController.filtering.generateUniqueAppId``: each pod without an ID gets an application of its own."""

    sharing_groups: Mapping[str, str] = field(default_factory=dict)
    """``applications.sharingGroups``: by namespace, the group whose namespaces share application IDs."""

    system_namespaces: frozenset[str] = frozenset({"kube-system"})
    """``service.systemNamespaces``, and Muster's own namespace: pods of DaemonSets there preempt on their node."""

    instance_type_label: str = "node.kubernetes.io/instance-type"
    """``service.nodeInstanceTypeNodeLabelKey``, the node label that names its instance type."""

    condition_delay_s: float = 2.0
    """Seconds until a waiting pod gets a condition. A shorter time would cost a write per pod."""

    condition_refresh_s: float = 5.0
    """Minimum seconds between writes of a condition with the same reason. A new reason is written immediately."""

    delete_retry_s: float = 5.0
    """Seconds until the delete of a pod that still exists is repeated (docs/internals/semantics.md, 14)."""

    delete_warning_s: float = 30.0
    """Seconds until a deleted pod that still exists is reported in an event."""

    create_retry_s: float = 10.0
    """Seconds until a created placeholder that was not seen is created again."""

    avoid_node_s: float = 60.0
    """Seconds for which a pod avoids a node after a failed bind or a rejection by the kubelet."""

    volume_bind_s: float = 600.0
    """``service.volumeBindTimeout``: maximum seconds that a pod with a chosen node waits for its claims."""

    keep_slot_s: float = 120.0
    """Seconds for which the slot of a rejected pod of a gang is reserved for its replacement.

    Longer than ``avoid_node_s``, so that the slot still exists when its node can be used again, and longer than the
    first back-offs of a Job (10, 20 and 40 s)."""

    def default_placement(self, scheduler_name: str) -> Placement:
        """The placement of gangs whose pods have this scheduler name and specify none.

        For `yunikorn` it is YuniKorn's. ProvisioningRequests need the placeholders of all members.
        """
        if self.gang_placement is not None:
            return self.gang_placement
        is_reserve = scheduler_name == names.YUNIKORN or bool(self.provisioning_class)
        return Placement.RESERVE if is_reserve else Placement.AUTO


class Pattern(Protocol):
    """A compiled regular expression."""

    def search(self, text: str, /) -> object | None:
        """Returns a value other than None if the pattern matches a part of the text."""


Patterns = tuple[Pattern, ...]

#: Matches no user and no namespace.
NO_PATTERNS: Final[Patterns] = ()


@dataclass(frozen=True, slots=True)
class NamespaceRules:
    """`admissionController.filtering.*`. Empty `process` and `label` mean every namespace."""

    process: Patterns = NO_PATTERNS
    bypass: Patterns = NO_PATTERNS
    label: Patterns = NO_PATTERNS
    no_label: Patterns = NO_PATTERNS


@dataclass(frozen=True, slots=True)
class AccessRules:
    """`admissionController.accessControl.*`: users that may set another user on a pod."""

    bypass_auth: bool = False
    trust_controllers: bool = True
    system_users: Patterns = NO_PATTERNS
    external_users: Patterns = NO_PATTERNS
    external_groups: Patterns = NO_PATTERNS


@dataclass(frozen=True, slots=True)
class AdmissionSettings:
    """Settings of the webhook. `scheduler_name` is set on pods of managed namespaces."""

    namespaces: NamespaceRules = field(default_factory=NamespaceRules)
    access: AccessRules = field(default_factory=AccessRules)
    unique_app_ids: bool = False
    scheduler_name: str = names.MUSTER
