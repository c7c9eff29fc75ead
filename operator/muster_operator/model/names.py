"""Labels, annotations, event reasons and other names on Kubernetes objects."""

from __future__ import annotations

from typing import Final

#: The field manager of placeholder creates: one of the three signs that a placeholder is ours (semantics 18).
PLACEHOLDER_FIELD_MANAGER: Final = "muster-placeholder"

#: The field manager of every other write.
FIELD_MANAGER: Final = "muster"

#: ``reportingController`` of our events.
REPORTING_CONTROLLER: Final = "muster"
LABEL_APP_ID: Final = "yunikorn.apache.org/app-id"
LABEL_QUEUE: Final = "yunikorn.apache.org/queue"
LEGACY_LABEL_APP_ID: Final = "applicationId"
LEGACY_LABEL_QUEUE: Final = "queue"
SPARK_LABEL_APP_ID: Final = "spark-app-selector"

#: Annotations and labels that only Muster writes; webhook and policy refuse such annotations to everybody else.
INTERNAL_PREFIX: Final = "internal.yunikorn.apache.org/"

#: Ours, on the pod of the operator that leads; the Service of REST selects by it.
LABEL_ROLE: Final = "internal.yunikorn.apache.org/role"
ROLE_LEADER: Final = "leader"
ANNOTATION_TASK_GROUPS: Final = "yunikorn.apache.org/task-groups"
ANNOTATION_TASK_GROUP_NAME: Final = "yunikorn.apache.org/task-group-name"
ANNOTATION_PARAMETERS: Final = "yunikorn.apache.org/schedulingPolicyParameters"
ANNOTATION_USER_INFO: Final = "yunikorn.apache.org/user.info"
ANNOTATION_ALLOW_PREEMPTION: Final = "yunikorn.apache.org/allow-preemption"
ANNOTATION_PLACEHOLDER: Final = "internal.yunikorn.apache.org/placeholder"

#: Ours, on the originator: the gang's reservation ended without the gang (see commands.MarkResumed).
ANNOTATION_GANG_OUTCOME: Final = "internal.yunikorn.apache.org/gang-outcome"
GANG_RESUMED: Final = "resumed"

#: Ours, on a placeholder: its ordinal and requests, and our signature of both and of its identity.
ANNOTATION_PLACEHOLDER_ORDINAL: Final = "internal.yunikorn.apache.org/placeholder-ordinal"
ANNOTATION_PLACEHOLDER_REQUESTS: Final = "internal.yunikorn.apache.org/placeholder-requests"
ANNOTATION_PLACEHOLDER_SIGNATURE: Final = "internal.yunikorn.apache.org/placeholder-signature"

#: Ours, on the originator next to ANNOTATION_GANG_OUTCOME: our signature of it.
ANNOTATION_OUTCOME_SIGNATURE: Final = "internal.yunikorn.apache.org/gang-outcome-signature"

#: Ours, on a bound pod: our signature of the binding, which shows that Muster bound the pod to its node.
ANNOTATION_BINDING_SIGNATURE: Final = "internal.yunikorn.apache.org/binding-signature"
ANNOTATION_NAMESPACE_QUOTA: Final = "yunikorn.apache.org/namespace.quota"
ANNOTATION_NAMESPACE_GUARANTEED: Final = "yunikorn.apache.org/namespace.guaranteed"
ANNOTATION_NAMESPACE_MAX_APPS: Final = "yunikorn.apache.org/namespace.maxApps"
ANNOTATION_NAMESPACE_MAX_CPU: Final = "yunikorn.apache.org/namespace.max.cpu"
ANNOTATION_NAMESPACE_MAX_MEMORY: Final = "yunikorn.apache.org/namespace.max.memory"
ANNOTATION_PARENT_QUEUE: Final = "yunikorn.apache.org/parentqueue"

#: The source and the documentation of YuniKorn spell it differently; the first that is set counts (contract 14, 5).
ANNOTATION_NAMESPACE_ENABLE: Final = (
    "yunikorn.apache.org/namespace.enableYuniKorn",
    "yunikorn.apache.org/namespace.enableYunikorn",
)

ANNOTATION_NAMESPACE_GENERATE_APP_ID: Final = "yunikorn.apache.org/namespace.generateAppId"

# -- event reasons and actions (contract 6.2) ---------------------------------
REASON_GANG: Final = "GangScheduling"
REASON_SCHEDULING: Final = "Scheduling"
REASON_SCHEDULED: Final = "Scheduled"
REASON_BIND_FAILURE: Final = "PodBindFailure"
REASON_VOLUMES_FAILURE: Final = "PodVolumesBindFailure"
REASON_TASK_REJECTED: Final = "TaskRejected"
REASON_APPLICATION_FAILED: Final = "ApplicationFailed"
REASON_APPLICATION_REJECTED: Final = "ApplicationRejected"

#: Ours, on a pod with resource claims (DRA), and of its condition.
REASON_UNSUPPORTED_CLAIMS: Final = "UnsupportedResourceClaims"
REASON_RESERVATION_TIMEOUT: Final = "ResourceReservationTimeout"
REASON_NODE_ACCEPTED: Final = "NodeAccepted"
REASON_NODE_REJECTED: Final = "NodeRejected"
REASON_INFORMATIONAL: Final = "Informational"
REASON_INTERNAL_ERROR: Final = "InternalError"

#: kube-scheduler's, on the pod that goes.
REASON_PREEMPTED: Final = "Preempted"

#: Ours, on a node: what might be done about it (seed 001, NodeRecommendation).
REASON_NODE_RECOMMENDED: Final = "NodeRecommendation"
ACTION_CREATING_PLACEHOLDERS: Final = "CreatingPlaceholders"
ACTION_PLACEHOLDER_ALLOCATED: Final = "PlaceholderAllocated"
ACTION_RESERVATION_COMPLETE: Final = "GangReservationComplete"
ACTION_TASK_GROUPS_ERROR: Final = "TaskGroupsError"
ACTION_PLACEHOLDER_CREATE_FAILED: Final = "PlaceholderCreateFailed"
ACTION_PLACEHOLDER_TIMEOUT: Final = "PlaceholderTimeOut"
ACTION_GANG_FAILED: Final = "GangSchedulingFailed"

#: Ours: a kubelet refused a pod of a gang (semantics 5).
ACTION_MEMBER_REJECTED: Final = "MemberRejected"

#: Ours: a pod that is being released is still there (semantics 14).
ACTION_DELETE_UNCONFIRMED: Final = "DeleteUnconfirmed"

# -- reasons of the condition PodScheduled=False (contract 6.2) ----------------
CONDITION_UNSCHEDULABLE: Final = "Unschedulable"
CONDITION_SKIPPED: Final = "SchedulingSkipped"
