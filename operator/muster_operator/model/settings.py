"""Settings of the operator and of admission."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol

from muster_operator.model.pods import Placement


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of the operator. Defaults are YuniKorn's if it has the setting."""

    scheduler_names: frozenset[str] = frozenset({"muster", "yunikorn"})
    """Pods with one of these in ``spec.schedulerName`` are ours, all others are foreign."""

    partition: str = "default"
    """The only partition that is served."""

    placeholder_image: str = "registry.k8s.io/pause:3.7"
    """``service.placeholderImage``. Must be on the nodes or quick to pull: every gang member waits for it."""

    placeholder_run_as_user: int = 0
    """``service.placeholderRunAsUser``; 0 = the image decides."""

    placeholder_run_as_group: int = 0
    """``service.placeholderRunAsGroup``; 0 = the image decides."""

    placeholder_fs_group: int = 0
    """``service.placeholderFsGroup``; 0 = unset."""

    disable_gang: bool = False
    """``service.disableGangScheduling``: task groups are then ignored."""

    gang_placement: Placement = Placement.RESERVE
    """``gang.placement``: that of gangs that name none, when they begin (semantics 16). A change applies to new gangs.

    ``Reserve`` is what YuniKorn does and what an autoscaler understands best; ``Direct`` costs fewest writes."""

    unique_app_ids: bool = False
    """``admissionController.filtering.generateUniqueAppId``: a pod without an id gets an application of its own."""

    sharing_groups: Mapping[str, str] = field(default_factory=dict)
    """``applications.sharingGroups``: by namespace, the group whose namespaces share application IDs."""

    instance_type_label: str = "node.kubernetes.io/instance-type"
    """``service.nodeInstanceTypeNodeLabelKey``, the node label that names its instance type."""

    condition_delay_s: float = 2.0
    """A pod that waits longer than this gets a condition (semantics 28). Shorter costs a write per pod."""

    condition_refresh_s: float = 60.0
    """How often a pod's condition may be written when only its message changed; a new reason is written at once."""

    delete_retry_s: float = 5.0
    """After how long an order to delete that shows no effect is sent again (semantics 14, contract 1.8)."""

    delete_warning_s: float = 30.0
    """After how long a pod that is not deleted is reported in an event (semantics 14)."""

    create_retry_s: float = 10.0
    """After how long a placeholder that should exist and was never seen is created again."""

    avoid_node_s: float = 60.0
    """How long a node on which binds failed for good, or whose kubelet refused the pod, is avoided (semantics 5)."""

    volume_bind_s: float = 600.0
    """``service.volumeBindTimeout``: how long a pod that has its node waits until its claims are bound."""

    keep_place_s: float = 120.0
    """How long the place of a gang's pod that a kubelet refused is kept for the pod that replaces it.

    Longer than ``avoid_node_s``, so that the place is still there when its node may be tried again, and than the first
    back-offs of a Job (10, 20 and 40 s)."""


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
    scheduler_name: str = "muster"
