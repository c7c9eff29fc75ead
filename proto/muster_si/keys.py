"""Names in the string maps of the Scheduler Interface: attributes, tags, resources, settings.

Names that operator and core share are defined only here: first those of YuniKorn's scheduler-interface, then the tags
that YuniKorn sends, then Muster's under `muster/`.

The maps carry what the core's filters need of pods and nodes. Structured values are canonical JSON (sorted keys, no
blanks), so that equal values are equal strings, and a class of pods is encoded and parsed once.
"""

from __future__ import annotations

from typing import Final

# -- node attributes of YuniKorn's scheduler-interface ------------------------
ARCH: Final = "si/arch"
HOST_NAME: Final = "si/hostname"
RACK_NAME: Final = "si/rackname"
OS: Final = "si/os"
INSTANCE_TYPE: Final = "si/instance-type"
FAILURE_DOMAIN_ZONE: Final = "si/zone"
FAILURE_DOMAIN_REGION: Final = "si/region"
#: JSON object {image name: bytes} of the images on the node, with every name of each image.
LOCAL_IMAGES: Final = "si/local-images"
NODE_PARTITION: Final = "si/node-partition"
NODE_READY: Final = "ready"

# -- allocation attributes and tags of YuniKorn's scheduler-interface ---------
APPLICATION_ID: Final = "si/application-id"
CONTAINER_IMAGE: Final = "si/container-image"
#: JSON array of a pod's host ports: [host IP ("0.0.0.0" = every), protocol, port].
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

# -- resources of YuniKorn's scheduler-interface ------------------------------
MEMORY: Final = "memory"  # bytes
CPU: Final = "vcore"  # millicores
PODS: Final = "pods"  # 1 per pod
#: End of the name of the number of devices of a DeviceClass, as Kubernetes' ResourceQuota names it.
DEVICES_OF_CLASS: Final = ".deviceclass.resource.k8s.io/devices"
#: Begin of the name of the extended resource that each DeviceClass provides, whatever its own name for it.
RESOURCE_OF_CLASS: Final = "deviceclass.resource.kubernetes.io/"

# -- application tags, as YuniKorn sends them ---------------------------------
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

# -- Muster: requests and allocations -----------------------------------------
#: JSON object of a pod's hard constraints, absent if it has none:
#: `nodeSelector` {label: value}; `nodeAffinity` [{`matchExpressions`:
#: [{key, operator, values}], `matchFields`: [...]}], terms are ORed;
#: `tolerations` [{key, operator, value, effect}]; `nodeName` string; `features`
#: [name] that the node must declare (NODE_FEATURES).
#: Spelling and meaning are those of a Kubernetes PodSpec (nodeAffinity is
#: requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms).
TAG_CONSTRAINTS: Final = "muster/constraints"
#: When an existing allocation was bound, epoch milliseconds (from the pod's
#: PodScheduled condition). The gang's timer continues from it (docs/internals/semantics.md, 10).
TAG_ALLOCATED_AT: Final = "muster/allocated-at"
#: "true", on an existing allocation: the pod may be a placeholder whose signature cannot be
#: verified. It counts, but does not prove that its gang has run already.
TAG_UNVERIFIED: Final = "muster/unverified"
#: The pod is being deleted: TERMINATING_PREEMPTED if a scheduler preempted it (condition
#: DisruptionTarget), otherwise "true". It uses resources until it is gone, but topology
#: spread does not count it any more.
TAG_TERMINATING: Final = "muster/terminating"
TERMINATING_PREEMPTED: Final = "preempted"
#: The pod's terminationGracePeriodSeconds, if it is not DEFAULT_GRACE_PERIOD_S. A victim of
#: preemption has this time plus `service.releaseTimeout` to end before another victim may be
#: selected for the same request.
TAG_GRACE_PERIOD: Final = "muster/grace-period"
DEFAULT_GRACE_PERIOD_S: Final = 30
#: When a pod that is being deleted has to be gone (deletionTimestamp), epoch seconds. It
#: replaces the grace period.
TAG_DELETION_TIME: Final = "muster/deletion-time"
#: Comma-separated nodes that this request avoids (docs/internals/semantics.md, 5).
TAG_AVOID_NODES: Final = "muster/avoid-nodes"

#: JSON object of a pod's preferences for nodes, absent if it has none: `nodeAffinity`
#: [{`weight`, `preference`: a term as in TAG_CONSTRAINTS}]; `images` [one per
#: container, including init containers] and `volumeImages` [one per image volume],
#: normalised as nodes report them (with the tag `:latest` if there is none).
TAG_PREFERENCES: Final = "muster/preferences"
#: JSON object of a pod's constraints for other pods, absent if it has none. With
#: T = {`topologyKey`; `labelSelector` {matchLabels, matchExpressions}, absent =
#: matches no pod; `namespaces` [name], the pod's own if Kubernetes uses it;
#: `namespaceSelector` like labelSelector, absent = selects none}:
#: `affinity` [T], `antiAffinity` [T] (required ones), `preferred` [{`weight`, T's
#: fields}] (weight < 0 for anti-affinity), `spread` [{`maxSkew`, `topologyKey`,
#: `whenUnsatisfiable`, `labelSelector`, `minDomains`, `nodeAffinityPolicy`,
#: `nodeTaintsPolicy`}] as in a PodSpec, with defaults. The sender merges matchLabelKeys
#: and mismatchLabelKeys into the selectors.
TAG_POD_CONSTRAINTS: Final = "muster/pod-constraints"
#: JSON object of a pod's volumes, absent if it has none: `claims`
#: ["namespace/name" of its PersistentVolumeClaims, including generic ephemeral ones,
#: in the order of the pod]; `disks` [{`kind`: gce | aws | iscsi | rbd, `id`, `readOnly`,
#: and further identifying fields}] of in-tree disks that pods on one node cannot
#: share; `attached` {CSI driver: [handle]} of inline volumes that count as
#: attached; `ephemeral` {claim: UID of the pod}: claims of generic ephemeral
#: volumes, which may not exist yet and must belong to the pod (`owner` of a CLAIM).
#: Disks: gce and aws have `id`; iscsi `id` = its IQN; rbd `id` = pool/image and
#: `monitors` [address].
TAG_VOLUMES: Final = "muster/volumes"
#: On a new allocation of the core: JSON object {claim: volume} with the volume
#: of each unbound claim of the pod. An empty volume = it is provisioned by the
#: storage class for the node.
TAG_CHOSEN_VOLUMES: Final = "muster/chosen-volumes"
#: JSON array of a pod's ResourceClaims, in the order of the pod, absent if it has none:
#: [{`claim`: "namespace/name", `uid`, `reserved`: true if the pod has reserved it already}]. Only
#: a request of a pod whose claims exist, are its own or shared, and are not being deleted has it.
TAG_DEVICE_CLAIMS: Final = "muster/device-claims"
#: On a new allocation of the core: JSON array with the devices of each claim of the pod that
#: is not allocated yet: [{`claim`, `uid`, `results` [{`request` ("request" or
#: "request/subrequest"), `driver`, `pool`, `device`, `admin`, `consumed`: {name: quantity} of a
#: share, `conditions` and `failures` for the bind}], and where they can be used: `node` name, or
#: `terms` (node selector), or neither = everywhere}].
TAG_CHOSEN_DEVICES: Final = "muster/chosen-devices"

#: JSON object of a PlacementConstraint (first version of the Scheduler Interface), with
#: its field names: {"simpleConstraint": {"nodeAffinityConstraint": {"targetExpressions": [T]},
#: "allocationAffinityAttribute": {"scope", "tragetExpressions": [T] (its spelling;
#: targetExpressions is accepted too), "minCardinality", "maxCardinality",
#: "required"}}}, T = {"targetOperator": "IN" | "NOT_IN" | "EXIST" | "NOT_EXIST"
#: (default IN), "targetKey", "targetValues"}. Targets of nodes are an attribute or
#: label, those of allocations a tag of a request; scope is an attribute or label.
#: The present AllocationAsk has no field for it. Absent minCardinality = 0, absent
#: maxCardinality = unlimited, absent required = preferred.
TAG_PLACEMENT: Final = "muster/placement-constraint"

#: Message of a release (STOPPED_BY_RM) of a pod that has succeeded. Its gang has not lost it
#: (docs/internals/semantics.md, 32).
RELEASE_SUCCEEDED: Final = "the pod has succeeded"
#: End of the message of a release (PLACEHOLDER_REPLACED): the replaced pod may be deleted without waiting until its
#: container has ended, because its node holds it and the pod that replaces it (docs/internals/semantics.md, 14).
RELEASE_AT_ONCE: Final = " at once"

# -- Muster: applications -----------------------------------------------------
#: gangWaitTimeoutInSeconds of schedulingPolicyParameters, in milliseconds.
APP_TAG_GANG_WAIT_TIMEOUT: Final = "muster/gang-wait-timeout-ms"
#: JSON array of a gang's members: [{"name", "minMember", "resource": {name:
#: int}, "constraints": TAG_CONSTRAINTS' object, "podConstraints":
#: TAG_POD_CONSTRAINTS' object, "labels": {key: value}, "preferences":
#: TAG_PREFERENCES' object, "priority": int, "allowPreemptSelf": bool,
#: "allowPreemptOther": bool}]. With it the core reports immediately that the gang
#: would not fit even on empty nodes, with member and resource (docs/internals/semantics.md,
#: 10). A Direct or Auto gang is reserved by it and rejected without it.
APP_TAG_MEMBERS: Final = "muster/members"
#: The application ID as written by users, if the ID of the message is qualified (`<namespace>/<id>`, `@<group>/<id>`,
#: or `<namespace>#<number>/<id>` for a further run): REST, metrics and events use it. Absent = the ID of the message.
APP_TAG_APPLICATION_ID: Final = "muster/application-id"
#: "true": the application exists already. The message only updates the quota tags of
#: its namespace, and has no answer.
APP_TAG_RENEWAL: Final = "muster/namespace-changed"
#: With APP_TAG_RENEWAL: why the resource manager gives up the gang. The core then fails
#: an application that still reserves, as after a timeout of a Hard gang.
APP_TAG_GIVEN_UP: Final = "muster/gang-given-up"
#: With APP_TAG_RENEWAL: why a gang that still reserves waits for members that nothing creates; empty = all exist now.
#: The core then starts the timeout of the gang, also if the gang holds nothing.
APP_TAG_MEMBERS_MISSING: Final = "muster/gang-members-missing"

#: Why the task groups that the user wrote are ignored: the application is no gang. Shown to users.
APP_TAG_GANG_PROBLEM: Final = "muster/gang-problem"

#: What is wrong with the parameters of a gang, so that defaults are used. Shown to users.
APP_TAG_GANG_WARNINGS: Final = "muster/gang-warnings"

#: JSON object {"key": node label, "required": bool}: pack the gang into as few
#: values of the label as possible (topologyKey of schedulingPolicyParameters).
APP_TAG_TOPOLOGY: Final = "muster/gang-topology"
#: How a gang gets its reservations (gangPlacement of schedulingPolicyParameters): one
#: of PLACEMENT_*; absent = Reserve (docs/internals/semantics.md, 16). The reason why a
#: Direct or Auto gang waits is the scheduling state of `<application>/<task group>`, which is
#: not the key of a pod: FAILED or SKIPPED, and SCHEDULED at its end.
APP_TAG_GANG_PLACEMENT: Final = "muster/gang-placement"

# -- Muster: nodes ------------------------------------------------------------
NODE_LABEL_PREFIX: Final = "kubernetes.io/label/"  # + label key = value
#: JSON array of taints [{key, value, effect}], absent if there are none.
NODE_TAINTS: Final = "muster/taints"

#: "true": cordoned (spec.unschedulable), which some pods tolerate. The node is drained as well.
NODE_UNSCHEDULABLE: Final = "muster/unschedulable"
#: JSON array of the features that the node declares (status.declaredFeatures).
NODE_FEATURES: Final = "muster/declared-features"
#: JSON object {CSI driver: maximum number of volumes, null = no limit} of
#: the node's CSINode; absent = it has no CSINode.
NODE_VOLUME_LIMITS: Final = "muster/volume-limits"
#: JSON array of the in-tree plugins that are migrated to CSI on the node,
#: from its CSINode ("kubernetes.io/gce-pd").
NODE_MIGRATED: Final = "muster/migrated-plugins"
#: JSON object {CSI driver: [handle]} of the node's VolumeAttachments.
NODE_ATTACHED: Final = "muster/attached-volumes"

# -- Muster: other objects of the cluster (muster.v1 UpdateFacts) ----------------
#: A NAMESPACE has its labels as attributes. All other kinds have one attribute: a JSON
#: object with the fields of the Kubernetes object that filters need, with the same
#: names and with quantities in bytes (a fraction as text in billionths: "1500000000n"):
#: VOLUME (PersistentVolume): `capacity`, `accessModes`, `volumeMode`,
#:   `storageClassName`, `labels`, `nodeAffinity` (terms), `claimRef` {namespace,
#:   name, uid}, `phase`, `csi` {driver, volumeHandle, inTree: whether they are those
#:   of a migrated in-tree source}, `migrated` {plugin, nodeAffinity: the one for nodes that
#:   have the plugin in NODE_MIGRATED}, `attributesClass`, `deleting`.
#: CLAIM (PersistentVolumeClaim): `uid`, `storageClassName`, `volumeName`, `bound`
#:   (bind-completed), `request`, `accessModes`, `volumeMode`, `selector`, `phase`,
#:   `selectedNode` (present if the annotation is, even an empty one), `deleting`,
#:   `owner` (UID of its controller), `attributesClass`.
#: STORAGE_CLASS: `provisioner`, `driver` (CSI driver with which its volumes count
#:   on nodes), `bindingMode`, `allowedTopologies` [[{key, values}]].
#: STORAGE_DRIVER (CSIDriver): `storageCapacity`, `preventPodSchedulingIfMissing`.
#: STORAGE_CAPACITY (CSIStorageCapacity): `storageClassName`, `nodeTopology` (label
#:   selector; absent = no node), `capacity`, `maximumVolumeSize`.
#: Devices have names of their own, and quantities as Kubernetes writes them. `unsupported` names
#: a feature that Muster does not have; what has it cannot be allocated.
#: DEVICE_SLICE (ResourceSlice): `driver`, `pool`, `generation`, `slices` (their number in the
#:   pool), `devices` [{`name`, `attributes` {name: {bool | int | string | version: value}},
#:   `capacity` {name: quantity}, `taints` [{key, value, effect}], `unsupported`}], names of
#:   attributes with their domain; `shared`, `policies` {name: {`default`, `values`, `min`,
#:   `max`, `step`}} of capacities; `conditions` and `failures` for the bind, `binds` (to the
#:   node); `counters` {set: {counter: quantity}}, and `consumes` of a device likewise;
#:   `unsupported`. Where the devices are: `node` name, `nodes` (terms), `all`, or `perDevice`:
#:   then each device has one of the first three.
#: DEVICE_CLASS: `selectors` [CEL], `unsupported`.
#: DEVICE_CLAIM (ResourceClaim): `uid`, `owner` (UID of its controller), `requests` [{`name`,
#:   `class`, `selectors` [CEL], `mode`, `count`, `admin`, `tolerations`, `capacity`} or {`name`,
#:   `alternatives` [the same without `admin`]}], `constraints` [{`requests` [name], absent =
#:   all, `match` or `distinct`: attribute with its domain}], `allocation` {`results` as in
#:   TAG_CHOSEN_DEVICES, `nodes` (terms), absent = everywhere}, `reserved` [UID], `deleting`, `unsupported` (of the
#:   requests if there is no allocation, else of the allocation), `waits` (why no pod can get it now).
#: Absent fields are omitted.
FACT_OBJECT: Final = "muster/object"

# -- Muster: registration and configuration (extraConfig) ---------------------
#: "true": nothing is scheduled for this session before its recovery barrier (docs/internals/semantics.md, 19).
EXTRA_BARRIER: Final = "muster/recoveryBarrier"
#: Why the ConfigMaps as they are now are not the configuration of the message: one line for each error. For users.
EXTRA_REJECTED: Final = "muster/rejectedConfiguration"
#: "true": this resource manager reports actual usage, which `nodesortpolicy: {type: utilization}` needs. It is sent
#: with each configuration. Muster's operator does not set it.
EXTRA_UTILIZATION: Final = "muster/utilization"
#: "true": accepts `usergroupresolver: {type: test}`, which puts every user into one known group. For tests only; a
#: ConfigMap cannot have this key.
EXTRA_TEST_GROUPS: Final = "muster/test-groups"
#: Default placeholder timeout, Go duration; 15m.
EXTRA_PLACEHOLDER_TIMEOUT: Final = "gang.placeholderTimeout"
#: Maximum placeholder timeout of an application, Go duration; 24h.
EXTRA_MAX_PLACEHOLDER_TIMEOUT: Final = "gang.maxPlaceholderTimeout"
#: Default of the wait timeout, Go duration; 0s = off (docs/internals/semantics.md, 10).
EXTRA_WAIT_TIMEOUT: Final = "gang.waitTimeout"
#: Age from which a gang that waits for headroom reserves first; 10m (docs/internals/semantics.md, 11).
EXTRA_STARVATION_AGE: Final = "gang.starvationAge"
#: Whether lost members of a gang precede applications of other queues, bool; true (docs/internals/semantics.md, 32).
EXTRA_REPAIR_ACROSS_QUEUES: Final = "gang.repairAcrossQueues"
#: How long an application is Completing before it is Completed; 30s.
EXTRA_COMPLETING_TIMEOUT: Final = "service.completingTimeout"
#: Timeout of an unconfirmed release; 2m (docs/internals/semantics.md, 14).
EXTRA_CONFIRM_TIMEOUT: Final = "service.releaseTimeout"
#: How long the state of a lost resource manager is kept; 5m.
EXTRA_MANAGER_TIMEOUT: Final = "service.managerTimeout"
#: How long a request that fits on no node waits before a node is reserved for it; 2s.
EXTRA_RESERVATION_DELAY: Final = "service.reservationDelay"
#: Maximum duration of a node reservation; 1h.
EXTRA_RESERVATION_TIMEOUT: Final = "service.reservationTimeout"
#: Minimum time between two preemption attempts of one request; 15s.
EXTRA_PREEMPTION_INTERVAL: Final = "service.preemptionInterval"
#: How long preemption for a pod that fits on no node waits for a new node; 0s = not at all.
EXTRA_SCALE_UP_DELAY: Final = "preemption.scaleUpDelay"
#: Minimum time between recommendations of a node that could be emptied, while no request waits; 0s = never.
EXTRA_EMPTY_NODE_INTERVAL: Final = "service.emptyNodeInterval"
#: How long an ended application is kept for REST; 72h.
EXTRA_EXPIRY: Final = "service.expiry"
#: Whether the core has YuniKorn's metrics with the path of a queue in their name; true.
EXTRA_QUEUE_NAMES: Final = "metrics.yunikornQueueNames"

# -- settings of YuniKorn that the core uses ----------------------------------
SETTING_HEALTH_INTERVAL: Final = "health.checkInterval"
SETTING_LOG_LEVEL: Final = "log.level"
#: `log.<subsystem>.level`.
SETTING_LOG_PREFIX: Final = "log."
SETTING_LOG_SUFFIX: Final = ".level"
SETTING_EVENT_TRACKING: Final = "event.trackingEnabled"
SETTING_EVENT_RING: Final = "event.ringBufferCapacity"
#: The spelling in YuniKorn's documentation of settings.
SETTING_EVENT_RING_OTHER: Final = "event.ringbufferCapacity"
SETTING_EVENT_REQUESTS: Final = "event.requestCapacity"
SETTING_EVENT_RESPONSE: Final = "event.RESTResponseSize"
SETTING_EVENT_STREAMS: Final = "event.maxStreams"
SETTING_EVENT_STREAMS_PER_HOST: Final = "event.maxStreamsPerHost"

# -- names --------------------------------------------------------------------
DEFAULT_PARTITION: Final = "default"
#: Values of gangSchedulingStyle.
STYLE_SOFT: Final = "Soft"
STYLE_HARD: Final = "Hard"
#: A placeholder per member. A gang that does not fit completely reserves a part.
PLACEMENT_RESERVE: Final = "Reserve"
#: No placeholder pods. The core keeps the reservations for the members.
PLACEMENT_DIRECT: Final = "Direct"
#: Like Direct, but each placeholder pod that is requested replaces one of these reservations.
PLACEMENT_AUTO: Final = "Auto"
#: A mode that was removed. It is accepted with a warning.
PLACEMENT_REMOVED: Final = "Atomic"

#: States of an application, which are visible to users (UpdatedApplication.state).
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

#: Kinds of reasons why a request waits, which are visible to users (`reason` in REST; SchedulingStates.reasonKinds).
REASON_QUOTA: Final = "quota"
REASON_USER_QUOTA: Final = "user quota"
REASON_APPLICATIONS: Final = "applications"
REASON_QUEUE_ORDER: Final = "queue order"
REASON_NODES: Final = "nodes"
REASON_RESERVED: Final = "reserved"
REASON_ADMISSION: Final = "admission"
REASON_CLUSTER: Final = "cluster"
#: In the message of a request that exceeds the complete maximum or limit.
NEVER_FITS: Final = "it can never fit"
#: Of a task group of an Auto gang, with the state SCHEDULED: absent members have no reservation any more.
REASON_TIMED_OUT: Final = "timed out"
