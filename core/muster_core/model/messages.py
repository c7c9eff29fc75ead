"""Reasons that users read in conditions, events, REST and `muster explain`, each worded by one function.

The first paragraph of a docstring says what the message means, the second one what to do. Quantities are in
Kubernetes units.
"""

from __future__ import annotations

from typing import Final

from muster_si import keys

_MILLI: Final = 1000
_KIBI: Final = 1024
_BINARY: Final = ("", "Ki", "Mi", "Gi", "Ti", "Pi")
_IN_BYTES: Final = ("memory", "ephemeral-storage")


def quantity(resource: str, amount: int) -> str:
    """An amount as a manifest has it, not rounded: `500m`, `1`, `1536Mi`. CPU is in millicores, memory in bytes."""
    if resource == keys.CPU:
        return f"{amount}m" if amount % _MILLI else str(amount // _MILLI)
    if resource not in _IN_BYTES and not resource.startswith("hugepages-"):
        return str(amount)
    step = 0
    while amount and amount % _KIBI == 0 and step < len(_BINARY) - 1:
        amount, step = amount // _KIBI, step + 1
    return f"{amount}{_BINARY[step]}"


def resource_name(resource: str) -> str:
    """The name that Kubernetes uses."""
    return "cpu" if resource == keys.CPU else resource


def queue_quota_exceeded(queue: str, resource: str, requested: int, available: int, most: int) -> str:
    """The request does not fit the maximum of a queue on its path.

    Wait until pods in this queue end, or raise its maximum.
    """
    return f"Queue quota exceeded: {queue}, {_amounts(resource, requested, available, most)}"


def user_quota_exceeded(subject: str, queue: str, resource: str, requested: int, available: int, most: int) -> str:
    """The request does not fit the limit of its user or group in a queue.

    Wait until pods of this user or group end, or raise the limit.
    """
    return f"User quota exceeded: {subject} in queue {queue}, {_amounts(resource, requested, available, most)}"


def _amounts(resource: str, requested: int, available: int, most: int) -> str:
    asked = f"requested {resource_name(resource)} {quantity(resource, requested)}"
    return f"{asked}, available {quantity(resource, available)} of {quantity(resource, most)}"


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
    return f"the gang requests {resource_name(resource)} {quantity(resource, requested)} in total (placeholderAsk)"


def gang_in_fair_queue(queue: str) -> str:
    """Gangs need a leaf queue that sorts its applications by age.

    Set `application.sort.policy: fifo`, or use another queue.
    """
    return f"queue {queue} sorts its applications by fair share: a gang needs a leaf with application.sort.policy fifo"


def too_many_applications(subject: str, running: int, most: int) -> str:
    """The maximum number of applications of a queue, user or group runs.

    Wait until an application ends, or raise `maxapplications`.
    """
    return f"{subject} runs {running} application{'' if running == 1 else 's'} of at most {most}"


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


def waiting_for_takeover(gangs: str) -> str:
    """The gang takes over reservations of later gangs, and their placeholders are being deleted.

    Wait some seconds. If it lasts, check the nodes and finalizers of the placeholders.
    """
    return f"waiting for the release of reservations taken over from {gangs}"


def no_nodes() -> str:
    """The cluster has no node that accepts pods.

    Add nodes, or uncordon them.
    """
    return "no nodes available to schedule pods"


def gang_exceeds_cluster(missing: int, members: int, group: str, domain: str, reasons: str) -> str:
    """The nodes of the cluster could not hold the gang even if they were empty.

    Add nodes that have what the message names, or make the members smaller.
    """
    return (
        f"even an empty cluster could not hold the gang: {missing} of {members} members of task group {group} would "
        f"not fit{domain}: {reasons or 'there are no nodes.'} It waits for nodes to be added"
    )


def larger_than_placeholder() -> str:
    """The pod requests more than its task group reserves for a member, so it cannot use its placeholder.

    Raise `minResource` of the task group to the requests of the pod, including injected containers.
    """
    return "the pod requests more than its placeholder reserves: it is scheduled without the reservation"


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
