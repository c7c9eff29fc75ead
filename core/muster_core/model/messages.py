"""Messages that users read in conditions, events, REST and `muster explain`, each worded by one function.

The first paragraph of a docstring says what the message means, the second one what to do. Units are Kubernetes'.
"""

from __future__ import annotations

from typing import Final

from muster_core.model.quantities import quantity, resource_name
from muster_si import keys


# Both begin with YuniKorn's complete messages, for which users and tools search.
def queue_quota_exceeded(queue: str, resource: str, requested: int, available: int, most: int) -> str:
    """The request does not fit the maximum of a queue on its path.

    Wait until pods in this queue end, or raise its maximum.
    """
    return f"Not enough queue quota: {queue}, {_amounts(resource, requested, available, most)}"


def user_quota_exceeded(subject: str, queue: str, resource: str, requested: int, available: int, most: int) -> str:
    """The request does not fit the limit of its user or group in a queue.

    Wait until pods of this user or group end, or raise the limit.
    """
    return f"Not enough user quota: {subject} in queue {queue}, {_amounts(resource, requested, available, most)}"


def needed_by_others(exceeded: str) -> str:
    """Earlier requests of the queue, user or group wait for nodes and will use the rest of the quota.

    An autoscaler adds nodes only for them. Wait until they run or are deleted, or raise the maximum.
    """
    return f"{exceeded}, after deducting earlier requests that wait for nodes"


def _amounts(resource: str, requested: int, available: int, most: int) -> str:
    asked = f"requested {resource_name(resource)} {quantity(resource, requested)}"
    never = f" ({keys.NEVER_FITS})" if requested > most else ""
    return f"{asked}, available {quantity(resource, available)} of {quantity(resource, most)}{never}"


def gang_exceeds_queue(queue: str, resource: str, requested: int, most: int) -> str:
    """All members of the gang together exceed the maximum of a queue, so the gang can never be reserved.

    Lower `minMember` or `minResource`, or raise the maximum of the queue.
    """
    bound = f"the maximum of queue {queue} is {quantity(resource, most)}"
    return f"{_gang_requests(resource, requested)}, {bound}: {_NEVER} the maximum"


def gang_exceeds_limit(subject: str, queue: str, resource: str, requested: int, most: int) -> str:
    """All members of the gang together exceed the limit of its user or group, so the gang can never be reserved.

    Lower `minMember` or `minResource`, or raise the limit.
    """
    bound = f"the limit of {subject} in queue {queue} is {quantity(resource, most)}"
    return f"{_gang_requests(resource, requested)}, {bound}: {_NEVER} the limit"


_NEVER: Final = "it can never be reserved; lower minMember or minResource, or raise"


def _gang_requests(resource: str, requested: int) -> str:
    return f"the gang requests {resource_name(resource)} {quantity(resource, requested)} in total"


def other_queue(requested: str, queue: str, why: str) -> str:
    """A placement rule selected another queue than the pods name.

    Use a queue that the rules allow (`muster queues`), or change `placementrules`.
    """
    return f"queue {requested} is ignored: {why}a placement rule of queues.yaml selected {queue}"


def gang_in_fair_queue(queue: str, origin: str) -> str:
    """Gangs need a leaf queue that sorts its applications by age.

    Set `application.sort.policy: fifo`, or use another queue.
    """
    order = f"fair share (set by {origin})" if origin else "fair share"
    return f"queue {queue} sorts its applications by {order}: a gang needs a leaf with application.sort.policy fifo"


def too_many_applications(subject: str, running: int, most: int, origin: str) -> str:
    """The maximum number of applications of a queue, user or group runs.

    Wait until an application ends, or raise `maxapplications`.
    """
    subject += f" (set by {origin})" if origin else ""
    return f"{subject} is running {running} of at most {most} application{'' if most == 1 else 's'}"


def queued_behind_gang(gang: str, queue: str) -> str:
    """An earlier gang of the queue waits for quota, and later applications do not overtake it.

    Wait until the gang has its quota; `muster explain` shows why it waits.
    """
    return f"queued behind gang {gang} in queue {queue}, which is waiting for quota"


def queued_behind_takeover(gang: str) -> str:
    """An earlier gang took over reservations of this gang.

    Wait until the earlier gang runs; this gang then reserves again.
    """
    return f"queued behind gang {gang}, which took over reservations of this gang"


def cannot_use_reservation(count: int, members: int, group: str, difference: str) -> str:
    """All members of the gang have reservations, and some of their pods do not fit there or elsewhere.

    No member starts. Give the task group the resources and constraints of its pods, or free resources elsewhere.
    """
    found = f"{count} of {members} members of task group {group} cannot use their reservations"
    return f"{found} ({difference})" if difference else found


def nodes_not_freed_for_gang(nodes: int) -> str:
    """No pod on the nodes that were reserved for a starving gang ended within `gang.starvationAge`.

    The nodes are free for other pods again, and the gang gets another set after a pause. End pods on nodes that it can
    use, add nodes, or give its queue a guarantee.
    """
    return f"the {nodes} nodes reserved for the gang are released: no pod there has ended meanwhile"


def nodes_reserved_for_gang(nodes: int, minutes: int) -> str:
    """The gang has waited longer than `gang.starvationAge` for free nodes.

    Resources on a set of nodes are reserved for it until all its members fit. To start it earlier, end pods on nodes
    that it can use, add nodes, or give its queue a guarantee.
    """
    return f"no room for all members for {minutes} min: {nodes} nodes are reserved until other pods there have ended"


def waiting_for_placeholder_deletion(group: str) -> str:
    """A member appeared while a placeholder pod has its slot.

    The gang is planned as soon as the placeholder pod is deleted, which normally takes less than a second.
    """
    return f"waiting until a placeholder pod of task group {group} is deleted, because its member exists now"


def waiting_for_takeover(gangs: str) -> str:
    """The gang takes over reservations of later gangs, and their placeholders are being deleted.

    Wait a few seconds. If the message persists, check the nodes and finalizers of the placeholders.
    """
    return f"waiting for the release of reservations taken over from {gangs}"


def no_nodes() -> str:
    """The cluster has no node that accepts pods.

    Add nodes, or uncordon them.
    """
    return "no nodes available to schedule pods"


#: End of `gang_exceeds_cluster`, unless no node has a resource of such a name.
WAITS_FOR_NODES: Final = "It waits for nodes to be added"


def gang_exceeds_cluster(missing: int, members: int, group: str, domain: str, reasons: str, advice: str) -> str:
    """The nodes of the cluster could not hold the gang even if they were empty.

    Add nodes that have what the message names, make the members smaller, or correct the name of a resource.
    """
    found = f"{missing} of {members} members of task group {group} would not fit{domain}"
    why = f"{found}: {reasons or 'there are no nodes.'} {advice}"
    return f"the gang would not fit even in an empty cluster: {why}"


def no_such_resource(resource: str, nearest: str) -> str:
    """No node has the requested resource, but nodes have one of a similar name.

    Correct the name in the requests of the pods and in `minResource`.
    """
    return f"No node has {resource}; did you mean {nearest}?"


def larger_than_placeholder(difference: str) -> str:
    """The pod requests more than its task group reserves for a member, so it cannot use its placeholder.

    Raise `minResource` of the task group to the requests of the pod, including injected containers.
    """
    effect = "it is scheduled without the reservation"
    return f"the pod requests more than its placeholder reserves: {effect} ({difference})"


def cannot_use_placeholder(node: str, difference: str) -> str:
    """The pod has constraints that its task group leaves out, and cannot run on the node of its placeholder.

    Write the constraints of the pod in its task group. Host ports and volumes cannot be written there.
    """
    return f"the pod cannot use its reservation on node {node} ({difference})"


def gang_without_members(count: int, then: str) -> str:
    """Members of a complete gang could not use their reservations, and still wait at the placeholder timeout.

    The events of these members name what differs from their task group, and what to write there.
    """
    return f"the placeholder timeout expired while {count} of its members cannot use their reservations: {then}"


def placeholder_not_released(placeholder: str) -> str:
    """The placeholder that the pod replaces was not deleted in time.

    Check the node and the finalizers of the placeholder.
    """
    return f"placeholder {placeholder} was not deleted in time: the pod is scheduled without its reservation"


def preempted_pods_not_released(count: int) -> str:
    """Pods that were preempted for this pod did not terminate in time; the preemption is cancelled.

    Check the nodes, the finalizers and the termination grace periods of these pods.
    """
    return f"{count} preempted allocations did not terminate in time: preemption cancelled"


def members_fit(there: int, total: int, group: str, where: str) -> str:
    """Not all members of a task group fit. The reasons of the nodes follow.

    Free resources or add nodes for the missing members, by the reasons of the nodes.
    """
    return f"{there} of {total} members of task group {group} fit{where}"


#: End of `members_fit` for a task group that fits by itself.
TOGETHER: Final = " together with the others"


def gang_below_minimum(app: str, there: int, least: int, group: str) -> str:
    """A running gang has lost members, and no replacement has a node yet.

    Look at the reason why the replacement waits, and whether the controller of the pods has created one.
    """
    return f"gang {app} runs with {there} of {least} members of task group {group}"


def node_reserved(node: str) -> str:
    """A node is reserved for the pod, but its resources are not free yet.

    Wait until pods on the node end.
    """
    return f"node {node} is reserved for the pod until enough resources are free"


def waiting_for_preempted_pods() -> str:
    """Pods are being preempted for the missing members of the gang. Their nodes are reserved for the gang.

    Wait until the preempted pods end.
    """
    return "waiting for preempted pods to terminate"


def quota_fits_again(reason: str) -> str:
    """The quota does not block the request any more, but another reason does.

    Follow the reason.
    """
    return f"the request fits the quota again; {reason}"


def same_for_others(reason: str, others: int) -> str:
    """Other requests of the application wait for the same reason.

    Follow the reason.
    """
    return f"{reason} (and {others} more requests like it)"


def held_back_by_gang(reason: str) -> str:
    """A pod of a gang was requested before the gang is reserved. The reason of the gang follows.

    Follow the reason.
    """
    return f"waiting for the reservation of the gang: {reason}"


def not_evaluated() -> str:
    """The placeholders of the gang were requested, and are evaluated next."""
    return "the placeholders have not been evaluated yet"


def members_not_requested() -> str:
    """Not all placeholders of the gang were requested yet.

    Check whether the resource manager creates all placeholders.
    """
    return "not all placeholders have been requested yet"


def gang_timed_out() -> str:
    """The placeholder timeout of a gang expired.

    Set a longer `placeholderTimeoutInSeconds`. `muster explain` reports why a gang waits.
    """
    return "the placeholder timeout expired before all members were reserved"


def gang_wait_timed_out() -> str:
    """A gang without any reservation waited until the timeout of its parameter `gangWaitTimeoutInSeconds`.

    Set a longer timeout. `muster explain` reports why a gang waits.
    """
    return "the gang wait timeout expired without a reservation"


def application_timed_out() -> str:
    """The application ran longer than its execution timeout.

    Set a longer timeout.
    """
    return "the application exceeded its execution timeout"


def preempted_for_queue(queue: str) -> str:
    """The pod was preempted for a request of the queue that the message names.

    See the guarantees and priorities of both queues.
    """
    return f"preempted for a request of queue {queue}"


def preempted_over_maximum(queue: str) -> str:
    """The pod was preempted because its queue uses more than its maximum.

    Raise the maximum of the queue.
    """
    return f"preempted because queue {queue} uses more than its maximum"


def preemption_without_right() -> str:
    """Preemption is not allowed: the queue is at its guarantee, or the others are. As in YuniKorn.

    Set a guarantee on the queue of the request.
    """
    return "Preemption queue guarantees check failed"


def preemption_without_help() -> str:
    """Preemption would not free enough resources. As in YuniKorn.

    Free resources on suitable nodes, or add nodes.
    """
    return "Preemption does not help"


def preemption_falls_short() -> str:
    """Preemption would free resources, but not enough. As in YuniKorn.

    Free resources on suitable nodes, or add nodes.
    """
    return "Preemption helped but short of resources"


def preemption_exhausted(limit: str = "") -> str:
    """The search for victims ended at a limit. The message names it if a smaller gang would help. As in YuniKorn.

    Split the gang, free resources on suitable nodes, or add nodes.
    """
    end = f": {limit}. Split the gang, or free nodes." if limit else ""
    return f"Preemption max attempts exhausted{end}"


def preemption_on_node_without_help() -> str:
    """A pod must run on one node, as those of a DaemonSet, and preemption there does not help. As in YuniKorn.

    Free resources on the node.
    """
    return "No fit on required node, preemption does not help"


def not_placed(results: str, fix: str) -> str:
    """No placement rule gives the application a queue. The message has the result of each rule.

    Do what the message suggests: it depends on the results.
    """
    return f"{NOT_PLACED} ({results}); {fix}"


#: Beginning of `not_placed`.
NOT_PLACED: Final = "application rejected: no placement rule matched"


def no_task_groups(placement: str) -> str:
    """The gang has the placement `Direct` or `Auto`, but its task groups were not sent.

    Use `Reserve`.
    """
    return f"gangPlacement is {placement}, but no task groups were sent: the core cannot reserve resources for them"


def removed_placement(removed: str, used: str) -> str:
    """The gang has a placement mode that was removed; another one is used.

    Send one of the modes that exist: `Reserve`, `Direct` or `Auto`.
    """
    return f"gangPlacement {removed} was removed; {used} is used. Valid values: Reserve, Direct or Auto"


def unknown_groups(user: str, problem: str) -> str:
    """The groups of a user cannot be looked up.

    Restore the group directory.
    """
    return f"groups of user {user} are unknown: {problem}"


def waiting_for_groups(user: str, problem: str, setting: str) -> str:
    """The groups of the user are unknown, and the setting that the message names needs them.

    Restore the group directory.
    """
    return f"waiting for the groups of user {user} ({problem}): {setting}"


def too_many_wait_for_groups(reason: str, most: int) -> str:
    """The groups of the user are unknown, and too many applications wait for groups.

    Restore the group directory, and create the pods again.
    """
    return f"{reason}; the limit of {most} applications that wait for groups is reached"


def queue_missing(queue: str) -> str:
    """The application was recovered, but its queue was removed from the configuration.

    Add the queue.
    """
    return f"queue {queue} does not exist"


def waiting_for_queue() -> str:
    """The application was recovered, and is being moved to a queue."""
    return "waiting for a queue"


def not_scheduled(subject: str, error: str, seconds: int) -> str:
    """Scheduling of an application or partition raised an error. It is tried again after a pause.

    Report it with the log of the core.
    """
    fix = f"retry in {seconds} s; report this error with the core's log"
    return f"{subject} is not scheduled because of an internal error: {error}; {fix}"


def internal_error(error: str) -> str:
    """The core failed on a request, which is rejected.

    Report it with the log of the core.
    """
    return f"internal error: {error}; report it with the core's log"


def application_exists(app: str, state: str) -> str:
    """An application with this ID already exists.

    Use another application ID, or wait until the application has ended.
    """
    return f"application {app} already exists in state {state}"


def application_ends(app: str, state: str) -> str:
    """The application has ended or failed, and accepts no requests.

    Create the pod with another application ID.
    """
    return f"application {app} is {state}"


def constraints_ignored(problem: str) -> str:
    """The constraints of a bound pod are invalid. Its resources count.

    Fix what the message names before the pod is created again.
    """
    return f"constraints are ignored, resources count: {problem}"


def definition_ignored(problem: str) -> str:
    """The definition of an application with bound pods is invalid. Its pods count.

    Fix what the message names before the pods are created again.
    """
    return f"the definition is ignored, bound pods count: {problem}"


def namespace_quota_ignored(problem: str) -> str:
    """A part of the quota of a namespace is invalid and ignored.

    Fix the annotation of the namespace.
    """
    return f"the namespace quota is ignored: {problem}"


def check_node(failures: int, minutes: int) -> str:
    """Bindings to a node failed repeatedly.

    Check the node.
    """
    return f"{failures} pods could not be bound to this node within {minutes} minutes: check the node"


def node_can_be_emptied(allocations: int) -> str:
    """All pods of a node would fit on other nodes.

    Drain the node if you want to remove it.
    """
    return f"the node could be emptied: its {allocations} allocations would fit on the other nodes"


# -- queues and partitions --------------------------------------------------------------------------------------------


def preemption_paused(queue: str, other: str, seconds: int) -> str:
    """Two queues preempt from each other repeatedly, because their guarantees cannot both be met.

    Give both queues guarantees that can be met at the same time.
    """
    pause = f"preemption between them is paused for {seconds} s"
    fix = "Give both queues guarantees that can be met at the same time"
    return f"queues {queue} and {other} preempt from each other repeatedly; {pause}. {fix}"


def becomes_parent(queue: str, applications: int) -> str:
    """The configuration gives a leaf child queues, and the leaf still has applications.

    Wait until they end, or use another queue.
    """
    what = f"becomes a parent queue when its applications ({applications} now) have ended"
    return f"queue {queue} {what}; until then it accepts no new applications"


def becomes_leaf(queue: str, children: int) -> str:
    """The configuration removes all child queues of a queue, and some are not empty yet.

    Wait until their applications end, or use another queue.
    """
    what = f"becomes a leaf when the queues below it ({children} now) are removed"
    return f"queue {queue} {what}; until then it accepts no new applications"


def partition_closing(partition: str) -> str:
    """The partition was removed from the configuration."""
    return f"partition {partition} is being removed"


def partition_removed(partition: str) -> str:
    """The partition of the application was removed from the configuration."""
    return f"partition {partition} was removed"


def partition_unknown(partition: str) -> str:
    """The configuration does not have the partition.

    Add the partition, or use another one.
    """
    return f"partition {partition} is no longer configured"


# -- event records: as in YuniKorn -------------------------------------------------------------------------------------


def node_added() -> str:
    """A node was added."""
    return "Node added to the scheduler"


def node_left() -> str:
    """A node was removed."""
    return "Node removed from the scheduler"


def node_schedulable(schedulable: str) -> str:
    """A node was cordoned, drained or opened."""
    return f"schedulable: {schedulable}"


def queue_type(leaf: str) -> str:
    """An empty queue became a leaf or a parent."""
    return f"leaf queue: {leaf}"


def preempting(count: int) -> str:
    """Pods are preempted for requests of the queue. The record refers to their application."""
    return f"{count} allocations are preempted"


# -- rejected requests, which show a bug of the resource manager unless the meaning says otherwise ---------------------


def unknown_node(node: str) -> str:
    """A pod runs on a node that the core has not received."""
    return f"node {node} is not known"


def node_exists() -> str:
    """A node was added twice."""
    return "node already exists; UPDATE changes it"


def node_not_added() -> str:
    """A node was updated that was not added."""
    return "node is not known; CREATE it first"


def no_node_for_action(action: str) -> str:
    """A node was drained, opened or removed that was not added."""
    return f"node is not known: cannot apply {action}"


def node_not_draining(state: str) -> str:
    """A node was opened that is not draining."""
    return f"node is not draining, it is {state}"


def unknown_application(app: str) -> str:
    """A pod belongs to an application that was not submitted, was rejected or has ended."""
    return f"application {app} is not known"


def undecided_application(app: str) -> str:
    """A pod was requested before the groups of its user were known.

    Restore the group directory.
    """
    return f"application {app} is not accepted yet: the groups of its user are unknown"


def completed_before_request(app: str) -> str:
    """The application completed at the moment at which one of its pods was requested. The operator submits it again."""
    return f"application {app} completed before the request arrived"


def placeholder_not_needed(app: str) -> str:
    """A placeholder was requested at the moment at which the reservation of its gang ended."""
    return f"application {app} no longer reserves resources: the placeholder is not needed"


def one_placeholder_per_request(count: int) -> str:
    """A placeholder request of an `Auto` gang asks for several allocations."""
    return f"gangPlacement is Auto: a request is for one placeholder, not {count}; send one request for each"


def reserved_key(key: str) -> str:
    """A request has the key of a virtual placeholder."""
    return f"{key} is the scheduler's own key"


def allocated_already(key: str) -> str:
    """A pod was requested that has a node."""
    return f"ask {key} is allocated already; release its allocation first"


def other_request(allocation: str, key: str) -> str:
    """A pod was reported with the allocation of another pod."""
    return f"allocation {allocation} already exists for ask {key}"


def on_another_node(key: str, node: str, reported: str) -> str:
    """A pod was reported on another node than before."""
    return f"allocation {key} is on node {node} already: release it there before it is on node {reported}"


def too_many_selector_labels(namespace: str, used: int, more: int, most: int) -> str:
    """The label selectors of the pods of a namespace read too many different labels. This is not a bug.

    Use fewer labels in selectors.
    """
    return (
        f"label selectors of pods in namespace {namespace!r} use {used} different labels, this one adds {more}, the "
        f"limit is {most}: use fewer labels in selectors"
    )


# -- releases: why a pod is deleted ------------------------------------------------------------------------------------


def allocation_timed_out() -> str:
    """The pod ran longer than the execution timeout of its request.

    Set a longer timeout.
    """
    return "the allocation exceeded its execution timeout"


def node_removed(node: str) -> str:
    """The node of the pod was removed."""
    return f"node {node} was removed"


def application_removed() -> str:
    """The application of the pod was removed."""
    return "the application was removed"
