"""Catalogue of the Kubernetes events and pod conditions that the operator writes, each worded by one function.

A decorated function is the text of one event. The first paragraph of a docstring says when the message is written, the
second one what to do. ``docs/reference/events.md`` is generated from this module (``make diagrams``).

Problems of what users wrote, which some messages insert, are in ``model/problems.py``. Other values, such as the answer
of the API server, come from where they are found. Messages of the core are in its own catalogue
(``muster_core/model/messages.py``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from muster_operator.model import names
from muster_operator.model.commands import EventType, Importance, Subject
from muster_operator.model.event_texts import event, gang_event
from muster_si import keys


@dataclass(frozen=True, slots=True)
class ConditionReason:
    """A reason of a pod condition: when it is written, and what to do."""

    condition: str
    reason: str
    meaning: str
    remedy: str


# -- reasons of pod conditions: as in YuniKorn, or Muster only --------------------------------------------------------
UNSCHEDULABLE: Final = "Unschedulable"
SKIPPED: Final = "SchedulingSkipped"
APPLICATION_REJECTED: Final = "ApplicationRejected"
APPLICATION_FAILED: Final = "ApplicationFailed"
RESERVATION_TIMEOUT: Final = "ResourceReservationTimeout"

#: kube-scheduler's reason of a preemption.
PREEMPTION: Final = "PreemptionByScheduler"

_NOT_SCHEDULED: Final = "PodScheduled=False"
CONDITIONS: Final = (
    ConditionReason(
        _NOT_SCHEDULED,
        UNSCHEDULABLE,
        "The queues have quota for the pod, but no node fits. The message counts nodes by reason",
        "Free resources or add nodes. Autoscalers act on this reason",
    ),
    ConditionReason(
        _NOT_SCHEDULED,
        SKIPPED,
        "A quota, a limit, the queue order or the pod's own gang blocks the pod. The message names the queue or user, "
        "the resource and the amount",
        "Follow the message. More nodes do not help",
    ),
    ConditionReason(
        _NOT_SCHEDULED, "UnsupportedResourceClaims", "Resource claims (DRA) are off", "Set `kubernetes.deviceClaims`"
    ),
    ConditionReason(
        _NOT_SCHEDULED,
        APPLICATION_REJECTED,
        "The core rejected the application while some of its pods run. The operator submits it again every minute",
        "Fix what the message names: the queue, the access list or the size of the gang",
    ),
    ConditionReason(
        "DisruptionTarget=True",
        PREEMPTION,
        "The pod was preempted and is about to be deleted",
        "No action is needed. The podFailurePolicy of a Job can ignore such failures",
    ),
)

#: `status.reason` of the pods of a failed application: the reason, its meaning, and what to do.
FAILURES: Final = (
    (
        APPLICATION_REJECTED,
        "The core rejected the application",
        "Fix what the message names, and create the pods again",
    ),
    (
        APPLICATION_FAILED,
        "The application failed for a reason other than a timeout",
        "Fix what the message names, and create the pods again",
    ),
    (
        RESERVATION_TIMEOUT,
        "A `Hard` gang was not complete in time",
        "Set a longer `placeholderTimeoutInSeconds`, use `Soft`, or add nodes",
    ),
)

# -- texts of conditions ----------------------------------------------------------------------------------------------

#: Separates the missing resources and the reserved node in the message of a condition.
RESERVED: Final = " Waiting: "

#: Short form of the reason why a gang waits, for members other than the originator: no node, or by kind.
NO_NODES: Final = "not enough suitable nodes"
NO_NODES_EMPTY: Final = "it does not fit even on empty nodes"
SHORT_REASONS: Final = {
    keys.REASON_QUOTA: "not enough queue quota",
    keys.REASON_USER_QUOTA: "not enough user quota",
    keys.REASON_APPLICATIONS: "maximum number of applications reached",
    keys.REASON_QUEUE_ORDER: "waiting for another gang",
    keys.REASON_RESERVED: "waiting for preempted pods to terminate",
}


def waits() -> str:
    """The pod waits, and the core gave no reason."""
    return "request is waiting for cluster resources become available"


def node_reserved(missing: str, reservation: str) -> str:
    """A node is reserved for the pod, but its resources are not free yet.

    Wait until the reserved resources are free.
    """
    return f"{missing}{RESERVED}{reservation}" if missing else reservation


def gang_waits(gang: str, reason: str) -> str:
    """The gang is waiting for its reservation, without placeholder pods. This is the message of the originator.

    Follow the message.
    """
    note = f"gang {gang} is waiting for its reservation"
    return f"{note}: {reason}" if reason else note


def originator_waits(gang: str, bound: int, wanted: int, reason: str) -> str:
    """The gang is waiting for its placeholders. This is the message of the originator.

    Follow the message.
    """
    note = f"gang {gang} is waiting for its reservation: {bound} of {wanted} placeholders are bound"
    return f"{note}; {reason}" if reason else note


def member_waits(gang: str, kind: str, originator: str) -> str:
    """The gang is waiting for its reservation. This is the message of members other than the originator.

    See the condition of the pod that the message names.
    """
    why = f" ({kind})" if kind else ""
    return f"gang {gang} is waiting for its reservation{why}; see pod {originator}"


# -- pods: results ----------------------------------------------------------------------------------------------------


@event("Scheduled", EventType.NORMAL)
def scheduled(namespace: str, pod: str, node: str) -> str:
    """The pod was bound."""
    return f"Successfully assigned {namespace}/{pod} to node {node}"


@event("Preempted", EventType.NORMAL, pod_reason=PREEMPTION)
def preempted(problem: str) -> str:
    """The pod was preempted. The message comes from the core.

    See the guarantees and priorities of the queues.
    """
    return problem or "preempted by the scheduler"


# -- pods: why they wait ----------------------------------------------------------------------------------------------


@event("FailedScheduling", importance=Importance.PROGRESS)
def failed_scheduling(reason: str) -> str:
    """The pod or its gang waits. The message is the same as in the condition.

    Follow the message.
    """
    return reason


@event("Scheduling", EventType.NORMAL)
def waiting_for_gates(gates: str) -> str:
    """The pod has scheduling gates and is not scheduled until they are removed.

    The component that set a gate must remove it.
    """
    return f"waiting for scheduling gates: {gates}"


@event("UnsupportedResourceClaims")
def unsupported_claims(problem: str) -> str:
    """The pod has resource claims (DRA), which are not enabled. It stays pending, because it could not start.

    Set `kubernetes.deviceClaims` to `true` and restart the operator, or use kube-scheduler for the pod.
    """
    return f"{problem}; or use another scheduler, such as default-scheduler"


@event("TaskRejected")
def pod_rejected(problem: str) -> str:
    """The pod cannot be scheduled as written. The message names the field, the problem and the fix.

    Fix what the message names, and create the pod again.
    """
    return problem


@event("TaskRejected")
def request_rejected(problem: str) -> str:
    """The core rejected the request of the pod.

    Fix what the message names, and create the pod again.
    """
    return problem


@event("TaskRejected")
def allocation_rejected(problem: str) -> str:
    """The core rejected a bound pod as part of its application. The resources of the pod count on its node only.

    Fix what the message names before the pod is created again.
    """
    return problem


# -- pods: what was ignored -------------------------------------------------------------------------------------------


@event("UnknownAnnotation")
def unknown_name(problem: str) -> str:
    """A label or an annotation of the pod has no effect, because Muster does not read its name or value.

    Write what the message suggests.
    """
    return problem


@event("Scheduling")
def ignored(problem: str) -> str:
    """A label, an annotation or a constraint of the pod is invalid or contradicts another one, and was ignored.

    Fix what the message names.
    """
    return problem


@event("InvalidAnnotation")
def namespace_of_application_ignored(namespace: str, problem: str) -> str:
    """An annotation of the application's namespace is invalid and was ignored.

    Fix the annotation of the namespace.
    """
    return f"namespace {namespace}: {problem}"


# -- pods: what failed ------------------------------------------------------------------------------------------------


@event("PodBindFailure")
def bind_failed(node: str, problem: str) -> str:
    """The API server rejected the binding, or did not answer. The operator tries another node.

    If it repeats, check the node and admission plugins.
    """
    return f"binding to node {node} failed: {problem}"


@event("PodVolumesBindFailure")
def volumes_failed(node: str, problem: str) -> str:
    """Volumes of the pod could not be bound in time or at all. The operator tries another node.

    Check `kubectl describe pvc`, the log of the provisioner, and `service.volumeBindTimeout`.
    """
    return f"binding volumes for node {node} failed: {problem}"


@event("PodDevicesBindFailure")
def devices_failed(node: str, problem: str) -> str:
    """A ResourceClaim of the pod could not be allocated or reserved. The operator undoes it and tries another node.

    If it repeats, check `kubectl describe resourceclaim`, and whether another scheduler allocates the same claim.
    """
    return f"reserving devices for node {node} failed: {problem}"


@event(APPLICATION_REJECTED)
def application_rejected(app: str, reason: str) -> str:
    """No queue accepts the application: placement rules, access, a gang larger than its queue, or a `fair` leaf.

    Follow the message, which lists the result of each rule. Pods without a node fail.
    """
    return f"Application {app} was rejected: {reason}"


@event(APPLICATION_FAILED)
def application_failed(problem: str) -> str:
    """The application failed for a reason other than a timeout. Its pods that are not bound fail.

    Fix what the message names, and create the pods again.
    """
    return problem or "the application failed"


_REPORT: Final = "see the operator's log and report it"


@event("InternalError")
def internal_error() -> str:
    """The operator could not process a change of the pod or of its application, because of an internal error.

    Report it with the operator's log. Muster tries again, at first after a second and later every hour. Until it
    succeeds, a pending pod may not be scheduled, and a bound pod may count on its node only.
    """
    return f"internal error while processing the pod or its application: Muster tries again; {_REPORT}"


@event("InternalError")
def undecodable_pod() -> str:
    """The operator cannot decode a bound pod.

    Report it with the operator's log.
    """
    return (
        "internal error: the pod cannot be decoded; the requests that could be read count on its node, but not in its "
        f"application or queue; {_REPORT}"
    )


# -- gangs ------------------------------------------------------------------------------------------------------------


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


@gang_event("CreatingPlaceholders", EventType.NORMAL)
def creating_placeholders(count: int, members: int) -> str:
    """The operator creates the placeholders of a gang."""
    return f"Creating {_count(count, 'placeholder')} for {_count(members, 'member')}"


@gang_event("PlaceholderAllocated", EventType.NORMAL)
def placeholders_bound(bound: int, wanted: int) -> str:
    """More placeholders of the gang are bound than before."""
    return f"{bound} of {wanted} placeholders are bound"


@gang_event("GangReservationComplete", EventType.NORMAL)
def all_placeholders_bound(count: int) -> str:
    """All placeholders are bound, and the members are scheduled."""
    return "The only placeholder is bound" if count == 1 else f"All {count} placeholders are bound"


@gang_event("GangReservationComplete", EventType.NORMAL)
def all_members_reserved(members: int) -> str:
    """The core has reserved resources for all members of a gang without placeholder pods."""
    return "The only member is reserved" if members == 1 else f"All {members} members are reserved"


@gang_event("TaskGroupsError")
def gang_ignored(problem: str) -> str:
    """The task groups are invalid. The message names the field, the problem and the fix.

    Fix the annotation, and create the pods again.
    """
    return f"{problem}{'' if problem.endswith('?') else '.'} The application runs without gang scheduling."


@gang_event("TaskGroupsError")
def parameter_ignored(problem: str) -> str:
    """A scheduling parameter is invalid, and a default is used.

    Fix what the message names.
    """
    return problem


@event("TaskGroupsError")
def unknown_group(problem: str) -> str:
    """The pod names no task group of its application, but requests the same, or one that is not defined.

    Use a task group that the message names.
    """
    return problem


@event("TaskGroupsError")
def missing_groups(annotation: str, app: str, originator: str) -> str:
    """The first pod of the application defines no task groups, but this pod refers to one. The event is on the pod.

    Define the task groups on every pod, and use one application ID per gang.
    """
    creator = f"pod {originator} without task groups; this pod" if originator else "this pod without task groups, which"
    return (
        f"{annotation}: application {app} was created by {creator} is scheduled without a gang. Set "
        f"{names.ANNOTATION_TASK_GROUPS} on every pod of the application, and use a separate {names.LABEL_APP_ID} for "
        "each gang"
    )


@event("TaskGroupsError")
def gang_of_its_own(app: str, other: str, own: str, count: int) -> str:
    """Pods of two controllers have the same application ID, and those of each are a complete gang.

    Give the pods of each controller an application ID of their own, so that commands and limits show them apart.
    """
    return (
        f"application {app} has pods of {other}: the {count} pods of {own} are another gang with the same ID, which "
        f"waits and starts by itself. Give the pods of {own} a {names.LABEL_APP_ID} of their own"
    )


@event("TaskGroupsError")
def members_of_two(group: str, app: str, minimum: int, members: int, other: str, own: str) -> str:
    """Pods of several controllers are in one task group, and are more than the gang needs. The event is on the pod.

    If they are different workloads, use one application ID per workload. If they are one gang, raise `minMember`.
    """
    return (
        f"task group {group} of application {app} needs {minimum} members and has {members}, which {other} and {own} "
        f"created; those beyond the minimum are scheduled one by one. If {own} is another workload, give its pods a "
        f"{names.LABEL_APP_ID} of their own; if all are one gang, set minMember to {members}"
    )


@event("TaskGroupsError")
def task_groups_too_large(placement: str) -> str:
    """The task groups are too large for the placement `Direct` or `Auto`.

    Define fewer or smaller task groups, or use `Reserve`.
    """
    return (
        f"gangPlacement {placement} does not support task groups of this size, so Reserve is used; define fewer or "
        "smaller groups"
    )


@gang_event("PlaceholderCreateFailed")
def placeholders_impossible(problem: str) -> str:
    """A placeholder cannot be created (ResourceQuota, LimitRange, image policy, webhook). The reservation is abandoned.

    Fix what the message names. Placeholders count in the ResourceQuota of the namespace in addition to the pods.
    """
    return problem


@event("PlaceholdersFollowMembers", EventType.NORMAL, importance=Importance.PROGRESS)
def placeholders_follow(group: str, differences: str, fields: str) -> str:
    """All present members of a task group request more than it defines, or have constraints that it leaves out.

    Write the fields that the message lists in the task group. `gang.placeholdersFollowMembers: "false"` turns this off.
    """
    return (
        f"placeholders of task group {group} are created as its pods request ({differences}); "
        f"write in the task group: {fields}"
    )


@event("PlaceholdersFollowMembers", EventType.NORMAL, importance=Importance.PROGRESS)
def scheduler_follows(group: str, constraints: str) -> str:
    """All present members have constraints that only Muster reserves for. The placeholder pods do not have them.

    If an autoscaler adds the nodes of the gang, write the constraints and the labels that they select in the task
    group. Host ports cannot be written there.
    """
    return (
        f"placeholders of task group {group} are planned with the {constraints} of its pods; autoscalers and other "
        "schedulers see these constraints only on placeholders whose task group has them"
    )


@event("PlaceholderCreateFailed")
def slots_without_pods(problem: str) -> str:
    """A placeholder of an `Auto` gang cannot be created. The gang continues, but autoscalers do not see absent members.

    Fix what the message names. Placeholders count in the ResourceQuota of the namespace in addition to the pods.
    """
    return f"{problem}; the gang continues without placeholder pods for absent members"


@event("NodesNotProvided")
def nodes_not_provided(problem: str) -> str:
    """The autoscaler reports a problem with the ProvisioningRequest of the gang. The gang continues to wait.

    Follow the message of the autoscaler. To request the nodes again, delete the ProvisioningRequest.
    """
    return f"the autoscaler did not provide nodes for the gang: {problem}"


@event("NodesNotRequested")
def nodes_not_requested(name: str, problem: str) -> str:
    """The ProvisioningRequest of a gang or one of its PodTemplates cannot be created or read. Muster retries.

    Fix what the message names. See `deploy/provisioning-requests.yaml` for the permissions.
    """
    return f"ProvisioningRequest {name} cannot be created or read: {problem}"


@event("PlaceholderCreateFailed")
def no_signing_key() -> str:
    """The operator has no key to sign placeholders, so gangs wait.

    Check the operator's log, and its permission to read and create the Secret.
    """
    return (
        "placeholders cannot be signed: the operator cannot read or create the Secret muster-signing; check its log "
        "and permissions"
    )


@gang_event("PlaceholderTimeOut", pod_reason=RESERVATION_TIMEOUT)
def reservation_timed_out(problem: str) -> str:
    """A `Hard` gang was not complete in time. Its pods fail.

    Set a longer `placeholderTimeoutInSeconds`, use `Soft`, or add nodes.
    """
    text = "Scheduling has timed out due to insufficient resources"
    return f"{text}: {problem}" if problem else text


@gang_event("GangSchedulingFailed")
def gang_resumed(problem: str) -> str:
    """A `Soft` gang was not complete in time. Its pods are scheduled one by one.

    Add nodes, or set a longer `placeholderTimeoutInSeconds`.
    """
    return f"{problem or 'the reservation ended'}; the members are scheduled one by one"


@event("MemberRejected")
def member_rejected(node: str, pod: str, problem: str) -> str:
    """A kubelet rejected a pod of the gang.

    Check the node.
    """
    return f"the kubelet of node {node} rejected pod {pod} ({problem})"


@event("MemberRejected")
def member_rejected_slot_kept(node: str, pod: str, problem: str, seconds: int, group: str) -> str:
    """A kubelet rejected a pod of the gang, and the gang needs a replacement. Its slot is reserved for some time.

    Check the node. The controller of the pods must create a replacement in that time.
    """
    return (
        f"the kubelet of node {node} rejected pod {pod} ({problem}); its slot is reserved for {seconds} s for another "
        f"pod of task group {group}"
    )


@event("DeleteUnconfirmed")
def delete_unconfirmed(seconds: int, reason: str) -> str:
    """A deleted placeholder still exists. The event is on the placeholder.

    Check its node (is the kubelet running?) and its finalizers.
    """
    return f"deleted {seconds} s ago ({reason}) but still exists; check the pod's node and finalizers"


@event("GangFailed")
def gang_failed(problem: str) -> str:
    """A gang failed: a `Hard` gang was not complete in time, or its placeholders cannot be created.

    Follow the message. The pods of the gang fail, and their controller decides whether it creates others.
    """
    return problem


@event("GangIncomplete", importance=Importance.PROGRESS)
def gang_incomplete(problem: str) -> str:
    """A gang waits because not all its members have resources, or its members are scheduled one by one.

    Follow the message.
    """
    return problem


@event("ApplicationProblem")
def application_problem(problem: str) -> str:
    """The core reports a problem of an application, for example an invalid tag that it ignores.

    Fix what the message names.
    """
    return problem


# -- other objects ----------------------------------------------------------------------------------------------------


@event("NodeAccepted", EventType.NORMAL, Subject.NODE, importance=Importance.PROGRESS)
def node_accepted(node: str) -> str:
    """A node was added."""
    return f"node {node} was added to the scheduler"


@event("NodeAccepted", EventType.NORMAL, Subject.NODE, importance=Importance.PROGRESS)
def cordoned_node_accepted(node: str) -> str:
    """A cordoned node was added."""
    return f"cordoned node {node} was added to the scheduler"


@event("NodeRejected", subject=Subject.NODE)
def node_rejected(problem: str) -> str:
    """The core rejected the node because of invalid quantities.

    Fix what the message names.
    """
    return problem


@event("NodeRecommendation", subject=Subject.NODE)
def node_recommendation(recommendation: str) -> str:
    """The kubelet or bindings failed repeatedly, or the node could be emptied.

    Check the node. Muster does not change it.
    """
    return recommendation


@event("Scheduling", EventType.NORMAL, Subject.NODE, importance=Importance.PROGRESS)
def node_notice(notice: str) -> str:
    """The core reports a notice about the node."""
    return notice


@event("InternalError", subject=Subject.NODE)
def internal_error_of_node() -> str:
    """The operator could not process a change of a node, because of an internal error.

    Report it with the operator's log. Muster tries again.
    """
    return f"internal error while processing the node: Muster tries again; {_REPORT}"


@event("InvalidAnnotation", subject=Subject.NAMESPACE)
def namespace_problem(problem: str) -> str:
    """Annotations of the namespace are invalid. The quotas of running applications stay in effect.

    Fix what the message names.
    """
    return problem


@event("UnknownAnnotation", subject=Subject.NAMESPACE)
def namespace_names(problem: str) -> str:
    """Annotations or labels of the namespace, or resources in its quota, have names without effect.

    Use the names that the message suggests.
    """
    return problem


@event("ConfigurationRejected", subject=Subject.CONFIG_MAP)
def configuration_rejected(part: str, problem: str) -> str:
    """The changed queues or settings are invalid. The other part applies. The message contains path, value and rule.

    Fix what the message names. Run `muster validate FILE` before a change.
    """
    return f"{part} rejected; the previous {part} remain active: {problem}"


@event("ConfigurationRejected", subject=Subject.CONFIG_MAP)
def cannot_start(problem: str) -> str:
    """The configuration is invalid, so the operator exits.

    Fix what the message names. Run `muster validate FILE` before a change.
    """
    return f"Muster cannot start: {problem}"


@event("ConfigurationWarning", subject=Subject.CONFIG_MAP)
def configuration_warning(findings: str) -> str:
    """The configuration was applied, but contains an unknown key or a change that requires a restart.

    Follow the message, which suggests the intended key.
    """
    return findings


@event("LeaderElection", EventType.NORMAL, Subject.LEASE, importance=Importance.PROBLEM)
def became_leader(replica: str) -> str:
    """Another replica became the leader.

    No action is needed. If it repeats, check why operators restart or cannot renew the Lease.
    """
    return f"{replica} became leader"


@event("WatchesStale", EventType.WARNING, Subject.LEASE, action="LeaderElection")
def watches_stale(resources: str) -> str:
    """A watch of pods or nodes received nothing for two minutes.

    Check the API server, proxies in front of it, and the operator's permission to watch.
    """
    return f"watches of {resources} are stale: binds, deletes and creates are paused until they receive events again"


@event("WatchesFresh", EventType.NORMAL, Subject.LEASE, action="LeaderElection", importance=Importance.PROBLEM)
def watches_fresh() -> str:
    """The watches receive events again, and the operator continues."""
    return "watches of pods and nodes receive events again"
