"""Labels, annotations and other names on Kubernetes objects. Event reasons are in ``messages``."""

from __future__ import annotations

from typing import Final

#: Scheduler names that Muster serves by default.
MUSTER: Final = "muster"
YUNIKORN: Final = "yunikorn"

#: Field manager of placeholder creations: one of the marks of our placeholders (docs/internals/semantics.md, 18).
PLACEHOLDER_FIELD_MANAGER: Final = "muster-placeholder"

#: Field manager of all other writes.
FIELD_MANAGER: Final = "muster"

#: ``reportingController`` of Muster's events.
REPORTING_CONTROLLER: Final = "muster"
LABEL_APP_ID: Final = "yunikorn.apache.org/app-id"
LABEL_QUEUE: Final = "yunikorn.apache.org/queue"
LEGACY_LABEL_APP_ID: Final = "applicationId"
LEGACY_LABEL_QUEUE: Final = "queue"
SPARK_LABEL_APP_ID: Final = "spark-app-selector"

#: Prefix of annotations and labels that only Muster writes. Webhook and policy reject such annotations of users.
INTERNAL_PREFIX: Final = "internal.yunikorn.apache.org/"

#: Muster only, on the pod of the leading operator, for the selector of the REST Service.
LABEL_ROLE: Final = "internal.yunikorn.apache.org/role"
ROLE_LEADER: Final = "leader"
ANNOTATION_TASK_GROUPS: Final = "yunikorn.apache.org/task-groups"
ANNOTATION_TASK_GROUP_NAME: Final = "yunikorn.apache.org/task-group-name"
ANNOTATION_PARAMETERS: Final = "yunikorn.apache.org/schedulingPolicyParameters"

#: Muster only: the number of pods of a controller that start together, without task groups.
ANNOTATION_GANG_SIZE: Final = "yunikorn.apache.org/gang-size"
ANNOTATION_USER_INFO: Final = "yunikorn.apache.org/user.info"
ANNOTATION_ALLOW_PREEMPTION: Final = "yunikorn.apache.org/allow-preemption"
ANNOTATION_PLACEHOLDER: Final = "internal.yunikorn.apache.org/placeholder"

#: Muster only, on the originator: the gang was given up (see commands.MarkResumed).
ANNOTATION_GANG_OUTCOME: Final = "internal.yunikorn.apache.org/gang-outcome"
GANG_RESUMED: Final = "resumed"

#: Muster only, on a placeholder: its ordinal and requests, and the signature of both and of its identity.
ANNOTATION_PLACEHOLDER_ORDINAL: Final = "internal.yunikorn.apache.org/placeholder-ordinal"
ANNOTATION_PLACEHOLDER_REQUESTS: Final = "internal.yunikorn.apache.org/placeholder-requests"
ANNOTATION_PLACEHOLDER_SIGNATURE: Final = "internal.yunikorn.apache.org/placeholder-signature"

#: Muster only, on the originator next to ANNOTATION_GANG_OUTCOME: its signature.
ANNOTATION_OUTCOME_SIGNATURE: Final = "internal.yunikorn.apache.org/gang-outcome-signature"

#: Muster only, on a bound pod: the signature of the binding, which proves that Muster bound the pod to its node.
ANNOTATION_BINDING_SIGNATURE: Final = "internal.yunikorn.apache.org/binding-signature"

#: Trace context of W3C, as propagators of OpenTelemetry write it if annotations are the carrier. Kubernetes has no key
#: of its own.
ANNOTATION_TRACEPARENT: Final = "traceparent"

#: Cluster Autoscaler: the ProvisioningRequest whose nodes a pod uses, and its class. It adds no nodes for such a pod.
ANNOTATION_CONSUME_REQUEST: Final = "autoscaling.x-k8s.io/consume-provisioning-request"
ANNOTATION_PROVISIONING_CLASS: Final = "autoscaling.x-k8s.io/provisioning-class-name"
ANNOTATION_NAMESPACE_QUOTA: Final = "yunikorn.apache.org/namespace.quota"
ANNOTATION_NAMESPACE_GUARANTEED: Final = "yunikorn.apache.org/namespace.guaranteed"
ANNOTATION_NAMESPACE_MAX_APPS: Final = "yunikorn.apache.org/namespace.maxApps"
ANNOTATION_NAMESPACE_MAX_CPU: Final = "yunikorn.apache.org/namespace.max.cpu"
ANNOTATION_NAMESPACE_MAX_MEMORY: Final = "yunikorn.apache.org/namespace.max.memory"
ANNOTATION_PARENT_QUEUE: Final = "yunikorn.apache.org/parentqueue"

#: YuniKorn's code and documentation use different names. The first one that is set takes precedence.
ANNOTATION_NAMESPACE_ENABLE: Final = (
    "yunikorn.apache.org/namespace.enableYuniKorn",
    "yunikorn.apache.org/namespace.enableYunikorn",
)

ANNOTATION_NAMESPACE_GENERATE_APP_ID: Final = "yunikorn.apache.org/namespace.generateAppId"

#: Labels of controllers with pods of several owners: JobSet, the replicas of LeaderWorkerSet, and Kueue's groups.
LABEL_JOBSET: Final = "jobset.sigs.k8s.io/jobset-name"
LABEL_LEADER_WORKER_SET: Final = "leaderworkerset.sigs.k8s.io/name"
LABEL_LEADER_WORKER_GROUP: Final = "leaderworkerset.sigs.k8s.io/group-index"
LABEL_KUEUE_GROUP: Final = "kueue.x-k8s.io/pod-group-name"

#: The PodGroup of scheduler-plugins that a pod is a member of, and the resource of these objects.
LABEL_POD_GROUP: Final = "scheduling.x-k8s.io/pod-group"
LABELLED_POD_GROUPS: Final = "podgroups.scheduling.x-k8s.io"

#: Gangs of Koordinator, and what of them Muster cannot follow.
ANNOTATION_KOORDINATOR_NAME: Final = "gang.scheduling.koordinator.sh/name"
ANNOTATION_KOORDINATOR_SIZE: Final = "gang.scheduling.koordinator.sh/min-available"
ANNOTATION_KOORDINATOR_GROUPS: Final = "gang.scheduling.koordinator.sh/groups"
ANNOTATION_KOORDINATOR_TOPOLOGY: Final = "gang.scheduling.koordinator.sh/network-topology-spec"

#: ProvisioningRequest classes that Cluster Autoscaler supports.
CHECK_CAPACITY: Final = "check-capacity.autoscaling.x-k8s.io"
BEST_EFFORT_ATOMIC: Final = "best-effort-atomic-scale-up.autoscaling.x-k8s.io"
PROVISIONING_CLASSES: Final = (CHECK_CAPACITY, BEST_EFFORT_ATOMIC)
