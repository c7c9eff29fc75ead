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
#: JSON object {image name: bytes} of the images that lie on the node, every name of each.
LOCAL_IMAGES: Final = "si/local-images"
NODE_PARTITION: Final = "si/node-partition"
NODE_READY: Final = "ready"

# -- seed 003: allocation attributes and tags ---------------------------------
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
#: `tolerations` [{key, operator, value, effect}]; `nodeName` string; `features`
#: [name] that the node has to declare (NODE_FEATURES).
#: Same spelling and meaning as in a Kubernetes PodSpec (nodeAffinity is
#: requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms).
TAG_CONSTRAINTS: Final = "muster/constraints"
#: When an existing allocation got its node, epoch milliseconds (from the
#: pod's PodScheduled condition): the gang's clock continues from it (semantics 10).
TAG_ALLOCATED_AT: Final = "muster/allocated-at"
#: "true", of an existing allocation: the pod may be a placeholder whose signature cannot be
#: verified. It counts, but does not show that its gang ran already.
TAG_UNVERIFIED: Final = "muster/unverified"
#: "true": the pod is being deleted. It takes its room until it is gone, but topology
#: spread does not count it any more.
TAG_TERMINATING: Final = "muster/terminating"
#: Node ids, comma separated, to keep off for this ask (semantics 5).
TAG_AVOID_NODES: Final = "muster/avoid-nodes"

#: JSON object of what a pod prefers of nodes, absent when nothing: `nodeAffinity`
#: [{`weight`, `preference`: a term as in TAG_CONSTRAINTS}]; `images` [one for each
#: container, init containers too] and `volumeImages` [one for each volume that is an
#: image], normalised as nodes report them (tag `:latest` added).
TAG_PREFERENCES: Final = "muster/preferences"
#: JSON object of what a pod asks of pods near it, absent when nothing. With
#: T = {`topologyKey`; `labelSelector` {matchLabels, matchExpressions}, absent =
#: matches no pod; `namespaces` [name], the pod's own where Kubernetes means it;
#: `namespaceSelector` like labelSelector, absent = selects none}:
#: `affinity` [T], `antiAffinity` [T] (required ones), `preferred` [{`weight`, T's
#: fields}] (weight < 0 for anti-affinity), `spread` [{`maxSkew`, `topologyKey`,
#: `whenUnsatisfiable`, `labelSelector`, `minDomains`, `nodeAffinityPolicy`,
#: `nodeTaintsPolicy`}] as in a PodSpec, defaults filled in. matchLabelKeys and
#: mismatchLabelKeys are merged into the selectors by who sends it.
TAG_POD_CONSTRAINTS: Final = "muster/pod-constraints"
#: JSON object of the volumes that a pod uses, absent when none: `claims`
#: ["namespace/name" of its PersistentVolumeClaims, generic ephemeral ones too, in
#: the pod's order]; `disks` [{`kind`: gce | aws | iscsi | rbd, `id`, `readOnly`,
#: and what else tells one disk from another}] for those in-tree ones that one
#: node may not use twice; `attached` {CSI driver: [handle]} of volumes in the
#: pod itself that count as attached; `ephemeral` {claim: UID of the pod}: those
#: of the claims that are made for a generic ephemeral volume, which may not be
#: there yet, and have to be the pod's own (`owner` of a CLAIM).
#: Disks: gce and aws have `id`; iscsi `id` = its IQN; rbd `id` = pool/image and
#: `monitors` [address].
TAG_VOLUMES: Final = "muster/volumes"
#: In what the core says of a new allocation: JSON object {claim: volume}, which
#: volume each unbound claim of the pod is to get; an empty volume = the claim's
#: storage class has to make one that the node reaches.
TAG_CHOSEN_VOLUMES: Final = "muster/chosen-volumes"

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
#: int}, "constraints": TAG_CONSTRAINTS' object, "podConstraints":
#: TAG_POD_CONSTRAINTS' object, "labels": {key: value}, "preferences":
#: TAG_PREFERENCES' object, "priority": int, "allowPreemptSelf": bool,
#: "allowPreemptOther": bool}]; lets the core say at once that no empty cluster of
#: these nodes could hold it, naming member and resource (semantics 10). A Direct
#: gang's places are held by it: without it such a gang is refused.
APP_TAG_MEMBERS: Final = "muster/members"
#: The application ID as people know it, where the ID on the wire is qualified (`<namespace>/<id>`, `@<group>/<id>`):
#: REST, metrics and events show it. Absent = the ID on the wire.
APP_TAG_APPLICATION_ID: Final = "muster/application-id"
#: "true": the application is there already, and this says what the quota tags of
#: its namespace are now; nothing else of the message counts, nothing is answered.
APP_TAG_RENEWAL: Final = "muster/namespace-changed"

#: JSON object {"key": node label, "required": bool}: pack the gang into as few
#: values of the label as possible (topologyKey of schedulingPolicyParameters).
APP_TAG_TOPOLOGY: Final = "muster/gang-topology"
#: How a gang gets its places (gangPlacement of schedulingPolicyParameters): one
#: of PLACEMENT_*; absent = Reserve (semantics 16). Why a Direct gang waits is said
#: as the scheduling state of `<application>/<task group>`, which is no pod's key:
#: FAILED or SKIPPED, and SCHEDULED when that is over.
APP_TAG_GANG_PLACEMENT: Final = "muster/gang-placement"

# -- ours: nodes --------------------------------------------------------------
NODE_LABEL_PREFIX: Final = "kubernetes.io/label/"  # + label key = value
#: JSON array of taints [{key, value, effect}], absent when there are none.
NODE_TAINTS: Final = "muster/taints"

#: "true": cordoned (spec.unschedulable), which some pods tolerate; the node is drained as well.
NODE_UNSCHEDULABLE: Final = "muster/unschedulable"
#: JSON array of the features that the node declares (status.declaredFeatures).
NODE_FEATURES: Final = "muster/declared-features"
#: JSON object {CSI driver: number of volumes it can attach, null = no limit}, of
#: the node's CSINode; absent = it has no CSINode.
NODE_VOLUME_LIMITS: Final = "muster/volume-limits"
#: JSON array of the plugins that were part of Kubernetes and that CSI drivers have
#: taken over on the node, by its CSINode ("kubernetes.io/gce-pd").
NODE_MIGRATED: Final = "muster/migrated-plugins"
#: JSON object {CSI driver: [handle]} of the node's VolumeAttachments.
NODE_ATTACHED: Final = "muster/attached-volumes"

# -- ours: facts about other objects of the cluster (muster.v1 UpdateFacts) ------
#: Attributes of a NAMESPACE fact are its labels. Of all other kinds there is one
#: attribute: a JSON object with the fields of the Kubernetes object that filters
#: read, spelled as there, quantities in bytes:
#: VOLUME (PersistentVolume): `capacity`, `accessModes`, `volumeMode`,
#:   `storageClassName`, `labels`, `nodeAffinity` (terms), `claimRef` {namespace,
#:   name, uid}, `phase`, `csi` {driver, volumeHandle} (in-tree volumes that CSI
#:   took over, too), `migrated` {plugin, nodeAffinity: what counts on nodes that
#:   name the plugin (NODE_MIGRATED)}, `attributesClass`, `deleting`.
#: CLAIM (PersistentVolumeClaim): `uid`, `storageClassName`, `volumeName`, `bound`
#:   (bind-completed), `request`, `accessModes`, `volumeMode`, `selector`, `phase`,
#:   `selectedNode` (there if the annotation is, even an empty one), `deleting`,
#:   `owner` (UID of its controller), `attributesClass`.
#: STORAGE_CLASS: `provisioner`, `driver` (CSI driver under which its volumes count
#:   at nodes), `bindingMode`, `allowedTopologies` [[{key, values}]].
#: STORAGE_DRIVER (CSIDriver): `storageCapacity`.
#: STORAGE_CAPACITY (CSIStorageCapacity): `storageClassName`, `nodeTopology` (label
#:   selector; absent = reaches no node), `capacity`, `maximumVolumeSize`.
#: Absent fields are left out.
FACT_OBJECT: Final = "muster/object"

# -- ours: registration and configuration (extraConfig) -----------------------
#: "true": nothing is scheduled for this session before its fence (semantics 19).
EXTRA_FENCE: Final = "muster/fence"
#: "true": this resource manager reports what nodes really use, so that `nodesortpolicy: {type: utilization}` has
#: something to go by. It says so with each configuration; Muster's operator does not.
EXTRA_UTILIZATION: Final = "muster/utilization"
#: "true": `usergroupresolver: {type: test}` is accepted, which puts every user into one known group. For tests: no
#: ConfigMap can have this key.
EXTRA_TEST_GROUPS: Final = "muster/test-groups"
#: Placeholder time-out where the application names none, Go duration; 15m.
EXTRA_PLACEHOLDER_TIMEOUT: Final = "gang.placeholderTimeout"
#: The longest placeholder timeout that an application gets, Go duration; 24h.
EXTRA_MAX_PLACEHOLDER_TIMEOUT: Final = "gang.maxPlaceholderTimeout"
#: The wait clock's default, Go duration; 0s = off (semantics 10).
EXTRA_WAIT_TIMEOUT: Final = "gang.waitTimeout"
#: Age at which a gang waiting for headroom pledges first; 10m (semantics 11).
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
#: A placeholder for each member; a gang that does not fit holds what does.
PLACEMENT_RESERVE: Final = "Reserve"
#: A placeholder for each member; all get their places at once, or none is held.
PLACEMENT_ATOMIC: Final = "Atomic"
#: No placeholder pods: the places are held in the core's ledger for the members to come.
PLACEMENT_DIRECT: Final = "Direct"

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
