"""The vocabulary of the SI's string maps: attributes, tags, resources, settings.

A name that crosses the border between resource manager and scheduler is
spelled here and nowhere else. Constants of seed 003 first, then the tags of
the public contract (1.9), then ours under `muster/`.

Facts travel, questions do not: what the feasibility filters read of a pod or
node is sent in these maps. A value that is a structure is canonical JSON
(sorted keys, no blanks), so equal facts are equal strings and a class of pods
is encoded, and parsed, once (semantics 21).
"""

from __future__ import annotations

from typing import Final

# -- seed 003: node attributes ------------------------------------------------
ARCH: Final = "si/arch"
HOST_NAME: Final = "si/hostname"
RACK_NAME: Final = "si/rackname"
OS: Final = "si/os"
INSTANCE_TYPE: Final = "si/instance-type"
FAILURE_DOMAIN_ZONE: Final = "si/zone"
FAILURE_DOMAIN_REGION: Final = "si/region"
LOCAL_IMAGES: Final = "si/local-images"
NODE_PARTITION: Final = "si/node-partition"
NODE_READY: Final = "ready"

# -- seed 003: allocation attributes and tags ---------------------------------
APPLICATION_ID: Final = "si/application-id"
CONTAINER_IMAGE: Final = "si/container-image"
CONTAINER_PORTS: Final = "si/container-ports"
DOMAIN_K8S: Final = "kubernetes.io/"
DOMAIN_YUNIKORN: Final = "yunikorn.apache.org/"
GROUP_META: Final = "meta/"
GROUP_LABEL: Final = "label/"
GROUP_ANNOTATION: Final = "annotation/"
TAG_NAMESPACE: Final = "kubernetes.io/meta/namespace"
TAG_POD_NAME: Final = "kubernetes.io/meta/podName"
TAG_POD_LABEL_PREFIX: Final = "kubernetes.io/label/"
TAG_REQUIRED_NODE: Final = "yunikorn.apache.org/requiredNode"
TAG_CREATION_TIME: Final = "creationTime"  # epoch seconds
#: The pod belongs to another scheduler: "default", or "static" for mirror pods.
TAG_FOREIGN: Final = "foreign"

# -- seed 003: resources ------------------------------------------------------
MEMORY: Final = "memory"  # bytes
CPU: Final = "vcore"  # millicores
PODS: Final = "pods"  # 1 a pod (contract 1.10)

# -- application tags (seed 003, contract 1.9) --------------------------------
APP_TAG_NAMESPACE: Final = "namespace"
APP_TAG_PARENT_QUEUE: Final = "namespace.parentqueue"
APP_TAG_RESOURCE_QUOTA: Final = "namespace.resourcequota"
APP_TAG_RESOURCE_GUARANTEED: Final = "namespace.resourceguaranteed"
APP_TAG_RESOURCE_MAX_APPS: Final = "namespace.resourcemaxapps"
APP_TAG_STATE_AWARE_DISABLE: Final = "application.stateaware.disable"
APP_TAG_CREATE_FORCE: Final = "application.create.force"
APP_TAG_CREATION_TIME: Final = "yunikorn.apache.org/creationTime"  # epoch seconds
APP_TAG_TASK_GROUPS: Final = "yunikorn.apache.org/task-groups"
APP_TAG_POLICY_PARAMETERS: Final = "yunikorn.apache.org/schedulingPolicyParameters"

# -- ours: asks and allocations -----------------------------------------------
#: JSON object of a pod's hard constraints, absent when it has none:
#: `nodeSelector` {label: value}; `nodeAffinity` [{`matchExpressions`:
#: [{key, operator, values}], `matchFields`: [...]}], terms are ORed;
#: `tolerations` [{key, operator, value, effect}]; `nodeName` string.
#: Same spelling and meaning as in a Kubernetes PodSpec (nodeAffinity is
#: requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms).
TAG_CONSTRAINTS: Final = "muster/constraints"
#: When an existing allocation got its node, epoch milliseconds (from the
#: pod's PodScheduled condition): the gang's clock goes on from it (semantics 10).
TAG_ALLOCATED_AT: Final = "muster/allocated-at"
#: Node ids, comma separated, to keep off for this ask (semantics 5).
TAG_AVOID_NODES: Final = "muster/avoid-nodes"

#: JSON object of seed 001's PlacementConstraint, with its fields' names:
#: {"simpleConstraint": {"nodeAffinityConstraint": {"targetExpressions": [T]},
#: "allocationAffinityAttribute": {"scope", "tragetExpressions": [T] (as the seed
#: spells it; targetExpressions is understood, too), "minCardinality",
#: "maxCardinality", "required"}}}, T = {"targetOperator": "IN" | "NOT_IN" |
#: "EXIST" | "NOT_EXIST" (IN where absent), "targetKey", "targetValues"}. Targets
#: of nodes name an attribute or label, those of allocations a tag of an ask;
#: scope names an attribute or label. The seed's AllocationAsk had a field for
#: it, seed 003's has none left. Absent minCardinality = 0, absent
#: maxCardinality = no bound, absent required = preferred.
TAG_PLACEMENT: Final = "muster/placement-constraint"

# -- ours: applications -------------------------------------------------------
#: gangWaitTimeoutInSeconds of schedulingPolicyParameters, in milliseconds.
APP_TAG_GANG_WAIT_TIMEOUT: Final = "muster/gang-wait-timeout-ms"
#: JSON array of a gang's members: [{"name", "minMember", "resource": {name:
#: int}, "constraints": TAG_CONSTRAINTS' object}]; lets the core say at once
#: that no empty cluster of these nodes could hold it, naming member and
#: resource (semantics 10).
APP_TAG_MEMBERS: Final = "muster/members"
#: "true": the application is there already, and this says what the quota tags of
#: its namespace are now; nothing else of the message counts, nothing is answered.
APP_TAG_RENEWAL: Final = "muster/namespace-changed"

# -- ours: nodes --------------------------------------------------------------
NODE_LABEL_PREFIX: Final = "kubernetes.io/label/"  # + label key = value
#: JSON array of taints [{key, value, effect}], absent when there are none.
NODE_TAINTS: Final = "muster/taints"

# -- ours: registration and configuration (extraConfig) -----------------------
#: "true": nothing is scheduled for this session before its fence (semantics 19).
EXTRA_FENCE: Final = "muster/fence"
#: Placeholder time-out where the application names none, Go duration; 15m.
EXTRA_PLACEHOLDER_TIMEOUT: Final = "gang.placeholderTimeout"
#: The wait clock's default, Go duration; 0s = off (semantics 10).
EXTRA_WAIT_TIMEOUT: Final = "gang.waitTimeout"
#: Age at which a gang waiting for head room pledges first; 10m (semantics 11).
EXTRA_STARVATION_AGE: Final = "gang.starvationAge"
#: How long an application is Completing before it is Completed; 30s.
EXTRA_COMPLETING_TIMEOUT: Final = "service.completingTimeout"
#: Deadline of an unconfirmed release; 2m (semantics 14).
EXTRA_CONFIRM_TIMEOUT: Final = "service.releaseTimeout"
#: How long a lost resource manager keeps its world; 5m.
EXTRA_MANAGER_TIMEOUT: Final = "service.managerTimeout"
#: How long an ask without room on any node waits before one is reserved; 2s.
EXTRA_RESERVATION_DELAY: Final = "service.reservationDelay"
#: How long a node stays reserved for one ask; 1h.
EXTRA_RESERVATION_TIMEOUT: Final = "service.reservationTimeout"
#: Between two attempts of one ask to preempt; 15s.
EXTRA_PREEMPTION_INTERVAL: Final = "service.preemptionInterval"
#: How often at most a node that could be emptied is recommended, while nothing waits; 0s = never.
EXTRA_EMPTY_NODE_INTERVAL: Final = "service.emptyNodeInterval"
#: How long an ended application can be looked at; 72h.
EXTRA_EXPIRY: Final = "service.expiry"

# -- settings of the public contract that the core owns (contract 3) ----------
SETTING_HEALTH_INTERVAL: Final = "health.checkInterval"
SETTING_LOG_LEVEL: Final = "log.level"
#: `log.<subsystem>.level`.
SETTING_LOG_PREFIX: Final = "log."
SETTING_LOG_SUFFIX: Final = ".level"
SETTING_EVENT_TRACKING: Final = "event.trackingEnabled"
SETTING_EVENT_RING: Final = "event.ringBufferCapacity"
#: As the documentation of the settings spells it (contract 14, 3).
SETTING_EVENT_RING_OTHER: Final = "event.ringbufferCapacity"
SETTING_EVENT_REQUESTS: Final = "event.requestCapacity"
SETTING_EVENT_RESPONSE: Final = "event.RESTResponseSize"
SETTING_EVENT_STREAMS: Final = "event.maxStreams"
SETTING_EVENT_STREAMS_PER_HOST: Final = "event.maxStreamsPerHost"

# -- names --------------------------------------------------------------------
DEFAULT_PARTITION: Final = "default"
#: gangSchedulingStyle (contract 1.4).
STYLE_SOFT: Final = "Soft"
STYLE_HARD: Final = "Hard"

#: UpdatedApplication.state (architecture 3; names that users see).
APP_NEW: Final = "New"
APP_ACCEPTED: Final = "Accepted"
APP_RUNNING: Final = "Running"
APP_RESUMING: Final = "Resuming"
APP_COMPLETING: Final = "Completing"
APP_COMPLETED: Final = "Completed"
APP_FAILING: Final = "Failing"
APP_FAILED: Final = "Failed"
APP_REJECTED: Final = "Rejected"
APP_EXPIRED: Final = "Expired"
