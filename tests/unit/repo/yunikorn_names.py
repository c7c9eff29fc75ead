"""The names of YuniKorn's public interface that docs/reference/compatibility.yaml must contain.

The lists are independent of the code on purpose, so that a name that the code loses is reported.
"""

#: Every key of queues.yaml, below the key of its mapping; `[]` is one item of a list.
CONFIG_KEYS = [
    "partitions",
    "checksum",
    "partitions[].name",
    "partitions[].queues",
    "partitions[].placementrules",
    "partitions[].limits",
    "partitions[].preemption",
    "partitions[].nodesortpolicy",
    "partitions[].usergroupresolver",
    "preemption.enabled",
    "preemption.quotapreemptionenabled",
    "nodesortpolicy.type",
    "nodesortpolicy.resourceweights",
    "usergroupresolver.type",
    "queues[].name",
    "queues[].parent",
    "queues[].queues",
    "queues[].maxapplications",
    "queues[].properties",
    "queues[].adminacl",
    "queues[].submitacl",
    "queues[].resources",
    "queues[].limits",
    "queues[].childtemplate",
    "resources.guaranteed",
    "resources.max",
    "childtemplate.maxapplications",
    "childtemplate.properties",
    "childtemplate.resources",
    "limits[].limit",
    "limits[].users",
    "limits[].groups",
    "limits[].maxapplications",
    "limits[].maxresources",
    "placementrules[].name",
    "placementrules[].create",
    "placementrules[].parent",
    "placementrules[].value",
    "placementrules[].filter",
    "filter.type",
    "filter.users",
    "filter.groups",
]

#: Properties of a queue.
PROPERTIES = [
    "application.sort.policy",
    "application.sort.priority",
    "priority.policy",
    "priority.offset",
    "preemption.policy",
    "preemption.delay",
    "quota.preemption.delay",
    "application.unschedasks.backoff",
    "application.unschedasks.backoff.delay",
]

#: Placement rules.
RULES = ["provided", "user", "fixed", "tag", "recovery"]

#: User group resolvers; the empty name means that none is configured.
RESOLVERS = ["", "ldap", "os", "test"]

#: Keys of the ConfigMaps.
SETTINGS = [
    "service.clusterId",
    "service.policyGroup",
    "service.schedulingInterval",
    "service.volumeBindTimeout",
    "service.eventChannelCapacity",
    "service.dispatchTimeout",
    "service.disableGangScheduling",
    "service.enableConfigHotRefresh",
    "service.placeholderImage",
    "service.placeholderRunAsUser",
    "service.placeholderRunAsGroup",
    "service.placeholderFsGroup",
    "service.instanceTypeNodeLabelKey",
    "service.nodeInstanceTypeNodeLabelKey",
    "service.operatorPlugins",
    "kubernetes.qps",
    "kubernetes.burst",
    "health.checkInterval",
    "log.level",
    "log.<subsystem>.level",
    "event.trackingEnabled",
    "event.ringBufferCapacity",
    "event.ringbufferCapacity",
    "event.requestCapacity",
    "event.RESTResponseSize",
    "event.maxStreams",
    "event.maxStreamsPerHost",
    "admissionController.webHook.amServiceName",
    "admissionController.webHook.schedulerServiceAddress",
    "admissionController.filtering.processNamespaces",
    "admissionController.filtering.bypassNamespaces",
    "admissionController.filtering.labelNamespaces",
    "admissionController.filtering.noLabelNamespaces",
    "admissionController.filtering.defaultQueue",
    "admissionController.accessControl.bypassAuth",
    "admissionController.accessControl.trustControllers",
    "admissionController.accessControl.systemUsers",
    "admissionController.accessControl.externalUsers",
    "admissionController.accessControl.externalGroups",
    "admissionController.filtering.generateUniqueAppId",
    "<policyGroup>.yaml",
]

#: What the admission webhook writes, rejects and leaves unchanged. The names are Muster's.
ADMISSION = [
    "pod-create-user",
    "pod-create-user-by-controller",
    "pod-create-scheduler",
    "pod-create-application",
    "pod-create-queue",
    "pod-create-allow-preemption",
    "pod-create-placeholder",
    "pod-update",
    "workload-create",
    "workload-update",
    "label-app-yunikorn",
    "namespace.enableYuniKorn, .enableYunikorn",
    "namespace.generateAppId",
    "static-pods",
    "without-webhook",
]

#: Endpoints of the REST API.
ENDPOINTS = """
GET /ws/v1/clusters
GET /ws/v1/metrics
GET /ws/v1/config
POST /ws/v1/validate-conf
GET /ws/v1/partitions
GET /ws/v1/partition/{partition}/placementrules
GET /ws/v1/partition/{partition}/queues
GET /ws/v1/partition/{partition}/queue/{queue}
GET /ws/v1/partition/{partition}/applications/{state}
GET /ws/v1/partition/{partition}/queue/{queue}/applications
GET /ws/v1/partition/{partition}/queue/{queue}/applications/{state}
GET /ws/v1/partition/{partition}/application/{application}
GET /ws/v1/partition/{partition}/queue/{queue}/application/{application}
GET /ws/v1/partition/{partition}/nodes
GET /ws/v1/partition/{partition}/node/{node}
GET /ws/v1/scheduler/node-utilizations
GET /ws/v1/partition/{partition}/usage/users
GET /ws/v1/partition/{partition}/usage/user/{user}
GET /ws/v1/partition/{partition}/usage/groups
GET /ws/v1/partition/{partition}/usage/group/{group}
GET /ws/v1/history/apps
GET /ws/v1/history/containers
GET /ws/v1/scheduler/healthcheck
GET /ws/v1/events/batch
GET /ws/v1/events/stream
GET /debug/fullstatedump
GET /debug/stack
GET /debug/pprof/
GET /ws/v1/fullstatedump
GET /ws/v1/stack
""".strip().splitlines()

#: JSON names per object of the REST API.
OBJECTS = {
    "Cluster": "startTime rmBuildInformation partition clusterName",
    "Partition": "clusterId name state lastStateTransitionTime capacity nodeSortingPolicy applications totalContainers "
    "totalNodes preemptionEnabled quotaPreemptionEnabled",
    "Rule": "name parameters filter parentRule",
    "Queue": "queuename status partition pendingResource maxResource guaranteedResource allocatedResource "
    "preemptingResource headroom isLeaf isManaged properties parent template children childNames absUsedCapacity "
    "maxRunningApps runningApps currentPriority allocatingAcceptedApps sortingPolicy prioritySorting preemptionEnabled "
    "isPreemptionFence preemptionDelay quotaPreemptionDelay isPriorityFence priorityOffset isQuotaPreemptionRunning "
    "quotaPreemptionStartTime unschedAskBackoff askBackoffDelay",
    "App": "applicationID usedResource maxUsedResource pendingResource partition queueName submissionTime finishedTime "
    "requests allocations applicationState user groups rejectedMessage stateLog placeholderData hasReserved "
    "reservations maxRequestPriority startTime resourceHistory backoffDeadline",
    "Ask": "allocationKey allocationTags requestTime resource priority requiredNodeId applicationId placeholder "
    "taskGroupName allocationLog triggeredPreemption originator schedulingAttempted triggeredScaleUp",
    "Alloc": "allocationKey allocationTags requestTime allocationTime allocationDelay resource priority nodeId "
    "applicationId placeholder placeholderUsed taskGroupName preempted originator",
    "ForeignAlloc": "allocationKey allocationTags allocationTime resource priority nodeId preemptable",
    "Node": "nodeID hostName rackName attributes capacity allocated occupied available utilized allocations "
    "foreignAllocations schedulable isReserved reservations",
    "UserUsage": "userName groups queues",
    "GroupUsage": "groupName applications queues",
    "UsageTree": "queuePath resourceUsage runningApplications maxResources maxApplications children",
    "Event": "type objectID referenceID message timestampNano eventChangeType eventChangeDetail resource",
}

#: Metrics and their labels.
METRICS = {
    "yunikorn_scheduler_container_allocation_attempt_total": "state",
    "yunikorn_scheduler_application_submission_total": "result",
    "yunikorn_scheduler_application_total": "state",
    "yunikorn_scheduler_node": "state",
    "yunikorn_scheduler_scheduling_latency_milliseconds": "",
    "yunikorn_scheduler_scheduling_cycle_milliseconds": "",
    "yunikorn_scheduler_node_sorting_latency_milliseconds": "level",
    "yunikorn_scheduler_trynode_latency_milliseconds": "",
    "yunikorn_scheduler_trynode_evaluation_milliseconds": "",
    "yunikorn_scheduler_trypreemption_latency_milliseconds": "",
    "yunikorn_scheduler_<resource>_node_usage_total": "range",
    "yunikorn_queue_app": "queue state",
    "yunikorn_queue_app_total": "queue state",
    "yunikorn_queue_resource": "queue state resource",
    "yunikorn_<queue>_queue_container": "state",
    "yunikorn_event_total_created": "",
    "yunikorn_event_total_channeled": "",
    "yunikorn_event_total_not_channeled": "",
    "yunikorn_event_total_processed": "",
    "yunikorn_event_total_stored": "",
    "yunikorn_event_total_not_stored": "",
    "yunikorn_event_total_collected": "",
    "yunikorn_runtime_go_mem_stats": "",
    "yunikorn_runtime_go_pause_ns": "",
    "yunikorn_runtime_go_pause_end": "",
    "yunikorn_runtime_go_alloc_bysize_maxsize": "",
    "yunikorn_runtime_go_alloc_bysize_free": "",
    "yunikorn_runtime_go_alloc_bysize_malloc": "",
    "yunikorn_runtime_go_generic": "",
    "process_*": "",
    "go_*": "",
    "promhttp_*": "",
}

#: EventRecord's types and details with their numbers.
EVENT_TYPES = {"REQUEST": 1, "APP": 2, "NODE": 3, "QUEUE": 4, "USERGROUP": 5}
EVENT_DETAILS = {
    "DETAILS_NONE": 0,
    "REQUEST_CANCEL": 100,
    "REQUEST_ALLOC": 101,
    "REQUEST_TIMEOUT": 102,
    "APP_ALLOC": 200,
    "APP_REQUEST": 201,
    "APP_REJECT": 202,
    "APP_NEW": 203,
    "APP_ACCEPTED": 204,
    "APP_RUNNING": 206,
    "APP_COMPLETING": 207,
    "APP_COMPLETED": 208,
    "APP_FAILING": 209,
    "APP_FAILED": 210,
    "APP_RESUMING": 211,
    "APP_EXPIRED": 212,
    "APP_CANNOTRUN_QUEUE": 213,
    "APP_RUNNABLE_QUEUE": 214,
    "APP_CANNOTRUN_QUOTA": 215,
    "APP_RUNNABLE_QUOTA": 216,
    "NODE_DECOMISSION": 300,
    "NODE_READY": 301,
    "NODE_SCHEDULABLE": 302,
    "NODE_ALLOC": 303,
    "NODE_CAPACITY": 304,
    "NODE_OCCUPIED": 305,
    "NODE_RESERVATION": 306,
    "QUEUE_CONFIG": 400,
    "QUEUE_DYNAMIC": 401,
    "QUEUE_TYPE": 402,
    "QUEUE_MAX": 403,
    "QUEUE_GUARANTEED": 404,
    "QUEUE_APP": 405,
    "QUEUE_ALLOC": 406,
    "QUEUE_PREEMPTION": 407,
    "ALLOC_CANCEL": 500,
    "ALLOC_PREEMPT": 501,
    "ALLOC_TIMEOUT": 502,
    "ALLOC_REPLACED": 503,
    "ALLOC_NODEREMOVED": 504,
    "UG_USER_LIMIT": 600,
    "UG_GROUP_LIMIT": 601,
    "UG_APP_LINK": 602,
    "UG_USER_RESOURCE": 603,
    "UG_GROUP_RESOURCE": 604,
}

#: Reasons of Kubernetes events and of failed pods.
REASONS = [
    "Scheduling",
    "GangScheduling",
    "Scheduled",
    "PodBindSuccessful",
    "PodBindFailure",
    "AssumePodFailed",
    "PodUnschedulable",
    "TaskFailed",
    "TaskCompleted",
    "TaskRejected",
    "FailedScheduling",
    "ApplicationFailed",
    "Informational",
    "NodeAccepted",
    "NodeDeleted",
    "NodeRejected",
    "ApplicationRejected",
    "ResourceReservationTimeout",
    "Unschedulable",
    "SchedulingSkipped",
]

#: States.
STATES = {
    "operator application": "New Submitted Accepted Reserving Running Completed Resuming Rejected Failed Failing "
    "Killing Killed",
    "operator task": "New Pending Scheduling Allocated Bound Completed Rejected Failed Killing Killed",
    "application": "New Accepted Running Completing Completed Expired Rejected Failing Failed Resuming",
    "queue": "Active Draining Stopped",
    "termination": "STOPPED_BY_RM TIMEOUT PREEMPTED_BY_SCHEDULER PLACEHOLDER_REPLACED",
    "node action": "CREATE UPDATE DRAIN_NODE DECOMISSION DRAIN_TO_SCHEDULABLE CREATE_DRAIN",
}

#: Behaviour that must have a row.
BEHAVIOURS = [
    "preemption-by-guarantee",
    "preemption-law-1",
    "preemption-law-2",
    "preemption-law-3",
    "preemption-law-4",
    "preemption-law-5",
    "preemption-law-6",
    "preemption-law-7",
    "preemption-fence",
    "preemption-opt-out",
    "preemption-required-node",
    "preemption-quota",
    "preemption-thrashing",
    "priority-of-queues",
    "priority-fence",
    "priority-offset",
    "sorting-applications",
    "sorting-queues",
    "sorting-nodes",
    "limits",
    "maxapplications",
    "gang-flow",
    "gang-timeout",
    "gang-fair-rejected",
    "gang-over-quota-rejected",
    "node-removed-during-replacement",
    "health-checks",
    "state-dump",
    "restart",
    "recovery-queue",
    "foreign-pods",
    "application-summary",
    "quantities",
    "rest-errors",
    "rest-headers",
    "log-subsystems",
]
