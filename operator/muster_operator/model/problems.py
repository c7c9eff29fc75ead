"""Problems of labels, annotations, volumes and placeholders, and reasons of deletes, each worded by one function.

Events insert these texts (``model/messages.py``). The first paragraph of a docstring says when the text is written, the
second one what to do. An invalid field has its problem and fix in ``BadInputError``.
"""

from __future__ import annotations

from typing import Final

from muster_operator.model import limits, names

#: Characters of a value in a message.
_SHOWN: Final = 40
_REQUESTS_SHOWN: Final = 200
_ERROR_SHOWN: Final = 400
_KEY_SHOWN: Final = 100
_GROUP_SHOWN: Final = 60
_GROUPS_SHOWN: Final = 400


#: Characters of a list of gangs.
_GANGS_SHOWN: Final = 300


def _cut(text: str, most: int = _SHOWN) -> str:
    """The start of a text that a user wrote, with a mark if there is more."""
    return text if len(text) <= most else f"{text[:most]}…"


# -- pods and their application ---------------------------------------------------------------------------------------

_FIX: Final = "Use a different application ID to"


def queue_ignored(queue: str, app: str, of_app: str) -> str:
    """The pod names another queue than its application.

    Use another application ID, or remove the label.
    """
    has = f'has been in queue "{of_app}"' if of_app else "has had no queue"
    return (
        f'queue "{queue}" ignored: application "{app}" {has} since its first pod. {_FIX} put this pod in another queue'
    )


def user_ignored(user: str, app: str, of_app: str) -> str:
    """Another user than that of the application created the pod.

    Use another application ID.
    """
    return (
        f'user "{user}" ignored: application "{app}" belongs to user "{of_app}". {_FIX} charge this pod to its own user'
    )


def other_namespace(namespace: str, app: str, of_app: str) -> str:
    """The application was created in another namespace, and the pod counts in the quota of that namespace.

    Use another application ID.
    """
    return (
        f'namespace "{namespace}": application "{app}" started in namespace "{of_app}", whose quota is charged. {_FIX} '
        "charge this pod to its own namespace"
    )


def task_groups_ignored(owner: str, app: str, originator: str) -> str:
    """The pod defines other task groups than the first pod of its application.

    Use another application ID, or write the same task groups on all pods.
    """
    return (
        f'{names.ANNOTATION_TASK_GROUPS} of {owner} ignored: application "{app}" uses those of pod "{originator}". '
        f"{_FIX} run another gang"
    )


def changed_application_ignored(named: str, app: str) -> str:
    """The application ID of a pod was changed after the pod joined its application.

    Create the pod again.
    """
    return (
        f"application ID {named} is ignored: the pod already belongs to application {app}; recreate the pod to move it"
    )


def changed_queue_ignored(queue: str, app: str, of_app: str) -> str:
    """The queue of a pod was changed after the pod joined its application.

    Create the application again.
    """
    where = of_app or "no named queue"
    return f"queue {queue or '(none)'} is ignored: application {app} has been in {where} since its first pod"


def label_ignored(what: str, ignored: str, used: str) -> str:
    """Two labels or annotations of the pod have different values for the same thing.

    Remove the label or annotation that is ignored.
    """
    return f"{what}: {ignored} is ignored, {used} is used"


def pod_group_field(name: str, field: str, problem: str) -> str:
    """A field of the pod's PodGroup has a value that Muster cannot follow.

    Change the field, or use another scheduler.
    """
    return f'PodGroup "{name}": {field} {problem}; change it, or use another scheduler'


def pod_group_missing(name: str) -> str:
    """The PodGroup that the pod names does not exist. Kubernetes' own text.

    Create the PodGroup in the namespace of the pod.
    """
    return f'waiting for pods\'s pod group "{name}" to appear in scheduling queue'


def too_few_pods(name: str, minimum: int) -> str:
    """Fewer pods of the PodGroup exist than start together. Kubernetes' own text with the PodGroup and the number.

    Create the missing pods, or lower the minimum.
    """
    return f'waiting for minCount pods from a gang to appear in scheduling queue: PodGroup "{name}" needs {minimum}'


def too_few_members(title: str, minimum: int, key: str) -> str:
    """Fewer pods of a gang exist than start together.

    Create the missing pods, or lower the number wherever it is written.
    """
    return (
        f"waiting for more pods: {title} needs {minimum} ({key}). Pods that failed or cannot be scheduled yet "
        "do not count. Create the others, or lower the number wherever it is written"
    )


def gang_value(key: str, value: str, problem: str) -> str:
    """A label or annotation of a gang has a value that Muster cannot follow, or is missing.

    Do what the message suggests.
    """
    return " ".join(filter(None, (key, value and f'"{ascii(_cut(value))[1:-1]}"', problem)))


def contradictory_members(title: str, key: str, one: str, other: str) -> str:
    """The pods of a gang have different values of a label or annotation.

    Write the same value on all of them.
    """
    return f'{title}: its pods have "{_cut(one)}" and "{_cut(other)}" as {key}; write the same value on all of them'


def contradictory_gangs(gang: str, key: str, one: str, other: str) -> str:
    """Pods name different gangs that start together with a gang.

    Write the same gangs on the pods of all of them.
    """
    found = f"{_cut(one, _GANGS_SHOWN)}, and of {_cut(other, _GANGS_SHOWN)}"
    return f'gang "{gang}" is one of {found} ({key}); write the same gangs on the pods of all of them'


def gangs_too_large(title: str, size: int, most: int) -> str:
    """Gangs that start together have too many pods.

    Write smaller numbers, or let fewer gangs start together.
    """
    return f"{title} need {size:,} pods together, more than {most:,}"


def gang_without_pods(gang: str, other: str, key: str) -> str:
    """A gang that starts together with others has no pods.

    Create its pods, or remove it from the annotation of all gangs.
    """
    return f'waiting for more pods: gang "{gang}" has none, and starts together with gang "{other}" ({key})'


def other_gang_ignored(ignored: str, used: str) -> str:
    """A pod defines its gang in two ways.

    Remove one of both.
    """
    return f"{ignored} is ignored, because {used} takes precedence; remove one of them"


def pod_group_gangs_disabled(name: str) -> str:
    """The PodGroup is a gang, and the configuration disables gang scheduling.

    Enable it, or use another scheduler.
    """
    return f'PodGroup "{name}": gang scheduling is disabled by service.disableGangScheduling'


def pod_group_paused(title: str) -> str:
    """The PodGroup or its pods changed after its pods had been requested, which ended the requests.

    Nothing: the pods are requested again within ten seconds.
    """
    return f"{title} has changed before it was scheduled, and its pods are requested again after a pause"


def mixed_scheduler_names(one: str, other: str) -> str:
    """Two pods of a PodGroup have different scheduler names. Kubernetes' own text.

    Create the pods with one scheduler name.
    """
    return f'all pods in a single pod group should have the same .spec.schedulerName set, got: "{one}" and "{other}"'


def other_priority(pod: int, group: int) -> str:
    """A pod has another priority than its PodGroup. Kubernetes' own text.

    Write the same priorityClassName on both.
    """
    return (
        "all pods in a single pod group should have the same priority as the pod group's priority, "
        f"got {pod} and {group}"
    )


def other_preemption_policy(pod: str, group: str) -> str:
    """A pod has another preemption policy than its PodGroup. Kubernetes' own text.

    Write the same preemptionPolicy on both.
    """
    return (
        "all pods in a single pod group should have the same preemption policy as the pod group's preemption policy, "
        f"got {pod} and {group}"
    )


def pod_group_precedes(ignored: str, used: str) -> str:
    """A label or annotation of the pod contradicts its PodGroup, which takes precedence.

    Remove the label or annotation.
    """
    return (
        f"{ignored} is ignored, because spec.schedulingGroup takes precedence: {used} is used; remove it from the pod"
    )


def no_effect(where: str, key: str, advice: str) -> str:
    """A label or annotation has a name that nothing reads.

    Do what the message suggests.
    """
    return f"{where} {key[:_KEY_SHOWN]} has no effect; {advice}"


def no_boolean(annotation: str, value: str) -> str:
    """An annotation has another value than "true" or "false".

    Set one of both, in quotes.
    """
    return f'annotation {annotation}: "{_cut(value)}" has no effect; write "true" or "false"'


def unknown_group(group: str, app: str, meant: str, known: str) -> str:
    """A pod names a task group that its application does not define.

    Use one of the task groups that the message lists.
    """
    question = f"Did you mean {meant}? " if meant else ""
    return (
        f"{names.ANNOTATION_TASK_GROUP_NAME}: {group[:_GROUP_SHOWN]} is not a task group of application {app}, so the "
        f"pod is not a member of the gang, and waits until the gang is complete. {question}"
        f"Valid task groups: {known[:_GROUPS_SHOWN]}"
    )


def no_task_group(app: str, group: str) -> str:
    """A pod of an application with task groups is in none, and requests what members of one request that are missing.

    Set the annotation to the name of the task group.
    """
    return (
        f"{names.ANNOTATION_TASK_GROUP_NAME} is missing, so the pod is in no task group of application {app}, and does "
        f"not use the resources reserved for {group}, whose members request the same; set it to {group[:_GROUP_SHOWN]}"
    )


def misspelt_resource(field: str, meant: str) -> str:
    """A task group requests a resource whose name resembles one of Kubernetes.

    Use the name that the message suggests.
    """
    return f"{field}: did you mean {meant}?"


def no_such_resource(field: str, meant: str) -> str:
    """A quota names a resource that no pod requests.

    Use the name that the message suggests.
    """
    return f"{field} limits nothing, because no pod requests a resource of this name; did you mean {meant}?"


def application_id_too_long(app: str, size: int, most: int) -> str:
    """The application ID is too long for a label.

    Set a shorter ID.
    """
    return (
        f"application ID {app[:_SHOWN]}... has {size} characters, more than {most}; set a shorter {names.LABEL_APP_ID}"
    )


def name_too_long(what: str, value: str, size: int, most: int, label: str) -> str:
    """The name of the queue or task group is too long.

    Set a shorter name.
    """
    return f"{what} {value[:_SHOWN]}... has {size} bytes, more than {most}; set a shorter {label}"


def user_annotation_ignored(problem: str, user: str) -> str:
    """The annotation of the user is invalid.

    Set the annotation to `{"user": "ann", "groups": ["dev"]}`.
    """
    return f"annotation {names.ANNOTATION_USER_INFO} is ignored: {problem}; the application belongs to user {user}"


def not_sent(error: str) -> str:
    """The operator cannot send the pod or node to the core.

    Report it with the operator's log.
    """
    return f"internal error: {error}; see the operator's log and report it"


def no_answer() -> str:
    """The API server did not answer a write, which was repeated.

    Check the load of the API server, and proxies in front of it.
    """
    return "the API server did not answer"


# -- volumes: as in kube-scheduler, where it has the problem ----------------------------------------------------------


def not_bound_in_time(seconds: float, claims: str) -> str:
    """The claims were not bound within `service.volumeBindTimeout`.

    Check the log of the provisioner, or set a longer timeout.
    """
    return f"not bound within {seconds:g} s: {claims}"


def node_deleted(node: str) -> str:
    """The node was deleted before the volumes were bound."""
    return f"node {node} was deleted"


def claim_gone(claim: str, kind: str = "persistentvolumeclaim") -> str:
    """The claim was deleted.

    Create the claim again.
    """
    return f'{kind} "{claim}" no longer exists'


def claim_being_deleted(claim: str, kind: str = "persistentvolumeclaim") -> str:
    """The claim is being deleted.

    Create the claim again.
    """
    return f'{kind} "{claim}" is being deleted'


def volume_gone(volume: str) -> str:
    """The volume was deleted. The core chooses another one."""
    return f'persistentvolume "{volume}" no longer exists'


def volume_released(volume: str) -> str:
    """Another client reset the claim of the volume. The core chooses again."""
    return f'ClaimRef got reset for pv "{volume}"'


def volume_taken(volume: str, claim: str) -> str:
    """Another claim was bound to the volume. The core chooses another one."""
    return f'persistentvolume "{volume}" was taken by claim {claim}'


def volume_unreachable(volume: str, node: str) -> str:
    """The claim was bound to a volume that the node cannot access. The core chooses another node."""
    return f'pv "{volume}" node affinity doesn\'t match node "{node}"'


def provisioned_elsewhere(claim: str, node: str) -> str:
    """Another pod selected a node for the claim. The core chooses that node."""
    return f'persistentvolumeclaim "{claim}" is provisioned for node {node}'


def provisioning_failed(claim: str) -> str:
    """The provisioner could not create a volume. The core chooses another node.

    Check the log of the provisioner.
    """
    return f'provisioning failed for PVC "{claim}"'


# -- gangs ------------------------------------------------------------------------------------------------------------


def annotation_too_large(annotation: str, size: int, most: int) -> str:
    """The annotation of a gang is too large.

    Write fewer or shorter entries.
    """
    return f"{annotation}: {size} bytes, more than {most}; write fewer or shorter entries"


def not_a_parameter(entry: str) -> str:
    """An entry of the scheduling parameters is not of the form `name=value`, for example because of a comma.

    Write `name=value`, and separate parameters by spaces.
    """
    return f'schedulingPolicyParameters: "{_cut(entry)}" is ignored; write name=value, with spaces between parameters'


def unknown_parameters(unknown: str, hint: str) -> str:
    """Scheduling parameters are unknown.

    Use the name that the message suggests.
    """
    return f"schedulingPolicyParameters: unknown {unknown} ignored; {hint}"


def misspelt_key(key: str, known: str) -> str:
    """A key of an annotation is unknown and resembles a known one.

    Use the key that the message suggests.
    """
    return f"{key} is ignored; did you mean {known}?"


def not_seconds(parameter: str, value: str) -> str:
    """The value of a timeout is not a number.

    Set a whole number of seconds.
    """
    return f'{parameter}: "{_cut(value)}" is not a number of seconds, so the default is used; set a whole number'


def unknown_value(parameter: str, value: str, used: str, choices: str) -> str:
    """The value of a scheduling parameter is invalid.

    Set one of the values that the message lists.
    """
    return f'{parameter}: "{_cut(value)}" is invalid; {used} is used. Valid values: {choices}'


def removed_value(parameter: str, value: str, used: str, choices: str) -> str:
    """The value of a scheduling parameter was removed.

    Set one of the values that the message lists.
    """
    return f"{parameter}: {value} was removed; {used} is used. Valid values: {choices}"


def mode_without_topology(mode: str, topology: str) -> str:
    """The topology mode is set without a topology.

    Set the topology too.
    """
    return f"{mode} is ignored without {topology}; set {topology} to the key of a node label"


def not_a_label_key(parameter: str, value: str) -> str:
    """The topology is not the key of a node label, or has too many levels.

    Set the key of a node label, or several of them, the outermost first.
    """
    keys = f"the key of a node label, or up to {limits.TOPOLOGY_LEVELS} keys with > between them"
    return f'{parameter}: "{_cut(value)}" is ignored; write {keys}'


def ignored_topology(parameter: str, used: str) -> str:
    """Two parameters set the topology.

    Remove one of them.
    """
    return f"{parameter} is ignored, because {used} is set; remove it"


# -- placeholders -----------------------------------------------------------------------------------------------------


def mark_ignored() -> str:
    """A pod has the annotation of placeholders, which only Muster may write.

    Remove the annotation.
    """
    return f"annotation {names.ANNOTATION_PLACEHOLDER} is reserved and ignored here; remove it"


def unsigned_placeholder() -> str:
    """A pod has the annotation of placeholders, but Muster did not sign it.

    Delete the pod, or create it again without the annotation.
    """
    return (
        f"annotation {names.ANNOTATION_PLACEHOLDER} is reserved, and Muster did not sign this pod: it is not scheduled."
        " Delete the pod, or create it again without the annotation; `muster placeholders` lists such pods"
    )


def unsigned_name() -> str:
    """A pod has the name and the container of a placeholder, but Muster did not sign it.

    Delete the pod, or give it another name.
    """
    return (
        "this pod has the name and the container of a placeholder, but Muster did not sign it, so it is not scheduled. "
        "Delete the pod, or give it another name"
    )


def unknown_key() -> str:
    """A placeholder is signed with a key that Muster does not have.

    Delete the placeholder, or restore the Secret.
    """
    return (
        "this placeholder is signed with a key that Muster does not have; it counts once it is bound, and is neither "
        "used nor deleted. Delete the pod, or restore the Secret with the signing key"
    )


def requests_changed(placeholder: str, requests: str, found: str) -> str:
    """An admission webhook changed the requests of a placeholder.

    Exempt placeholders from the webhook, or set the same requests in the task group.
    """
    return (
        f"placeholder {placeholder} was created with requests {requests[:_REQUESTS_SHOWN]} and has {found}: a webhook "
        "changed them; exempt placeholders from it, or set the same requests in the task group"
    )


def placeholder_not_created(placeholder: str, problem: str) -> str:
    """The API server rejected a placeholder.

    Fix what the message names.
    """
    return f"creating placeholder {placeholder} failed: {_cut(problem, _ERROR_SHOWN)}"


def placeholder_rejected(placeholder: str, problem: str) -> str:
    """The core rejected the request of a placeholder.

    Fix what the message names.
    """
    return f"placeholder {placeholder} was rejected: {problem}"


def placeholder_not_seen(placeholder: str, tries: int) -> str:
    """A placeholder was created repeatedly, but never appeared in the watch.

    Check what deletes the placeholder.
    """
    return f"placeholder {placeholder} was created {tries} times but never appeared in the watch"


def members_missing(group: str, minimum: int, present: int, succeeded: int, unchanged_s: int) -> str:
    """A waiting gang has fewer members than its minimum, and its controller creates no more.

    Create the missing members, or lower `minMember`.
    """
    ended = f", {succeeded} succeeded" if succeeded else ""
    verb = "exists" if present == 1 else "exist"
    return (
        f"waiting for {minimum} members of task group {group}: {present} {verb}{ended}, and no other one was created "
        f"for {unchanged_s} s. Create the others, or lower minMember; otherwise the gang ends with its timeout"
    )


def pods_missing(title: str, minimum: int, present: int, succeeded: int, unchanged_s: int) -> str:
    """The gang of a PodGroup waits and has fewer members than its minimum, and its controller creates no more.

    Create the missing members, or lower the minimum. The gang waits until then.
    """
    ended = f", {succeeded} succeeded" if succeeded else ""
    verb = "exists" if present == 1 else "exist"
    return (
        f"waiting for {minimum} members of {title}: {present} {verb}{ended}, and no other one was created "
        f"for {unchanged_s} s. Create the others, or lower the minimum"
    )


# -- why Muster deletes a pod: in the event `DeleteUnconfirmed`, and in the log ---------------------------------------


def surplus_placeholder() -> str:
    """The gang has more placeholders than members."""
    return "more placeholders than members"


def placeholder_outdated() -> str:
    """The present members request more or less than the placeholder, which has no node yet. Another replaces it."""
    return "the members request more or less than this placeholder, which is replaced"


def member_appeared() -> str:
    """The member of a placeholder without a node has appeared."""
    return "the member appeared before the placeholder had a node"


def application_runs() -> str:
    """The application runs, and the placeholder had no node yet."""
    return "the application runs"


def reservation_ended() -> str:
    """The core released the reservation of a `Soft` gang."""
    return "the gang's reservation ended"


def application_failed() -> str:
    """The application failed."""
    return "the application failed"


def application_rejected() -> str:
    """The core rejected the application."""
    return "the application was rejected"


def application_ended() -> str:
    """The pods of the application have ended."""
    return "the application ended"


def application_completed() -> str:
    """The core completed the application."""
    return "the application completed"


def originator_deleted() -> str:
    """The first pod of the application, which owned the placeholders, was deleted. The operator creates new ones."""
    return "the originator was deleted"


def placeholder_ended() -> str:
    """The container of the placeholder ended, so the placeholder no longer reserves resources."""
    return "the placeholder ended"


def placeholder_not_needed() -> str:
    """The gang of the placeholder has ended or no longer waits."""
    return "no gang waits for this placeholder"


def placeholder_replaced() -> str:
    """A member of the gang takes the resources of the placeholder."""
    return "a member of the gang replaces the placeholder"


def released_by_core() -> str:
    """The core released the pod, and gave no reason."""
    return "the core released the pod"


# -- why an allocation is returned to the core: in its log ------------------------------------------------------------


def bound_by_another_client() -> str:
    """Another client bound the pod."""
    return "the pod was bound by another client"


def unknown_node(node: str) -> str:
    """The core chose a node that was deleted. The core chooses another node."""
    return f"node {node} does not exist"
