"""What follows when a pod is not started by the kubelet of its node, or cannot be bound to it (semantics 5, ADR 0011).

A pod that its kubelet refuses is Failed for ever; its controller makes another. That one keeps off the node for a
while. In a gang that runs its place must not be lost meanwhile: the queue would give the head room, and the node the
room, to somebody else, and the gang would be one short. So the core is told of a placeholder in the place of the
refused pod, one without a pod, before it is told that the pod is gone; the pod that comes is asked for as any member
and takes the place over by the ordinary swap, on this node or, as long as it keeps off it, on another. The core's word
that the placeholder has to go is confirmed at once, for there is no pod to delete. A member whose bind failed is asked
for again itself, and takes its own place over.

Differs: YuniKorn gives the place of a refused member to whoever is next.
"""

from __future__ import annotations

from collections import deque

from msgspec.structs import replace

from muster_operator.agent import standing, tasks, telling
from muster_operator.agent.asks import ask_of
from muster_operator.agent.deadlines import remember
from muster_operator.agent.ledger import Application, Deadline, Ledger, Look, Place, Refusal, Task
from muster_operator.model import limits
from muster_operator.model import vocabulary as words
from muster_operator.model.allocations import AllocationSpec
from muster_operator.model.ids import NodeName, PodUid
from muster_operator.model.news import AllocationReleased, AllocationReported
from muster_operator.model.outcome import Outcome
from muster_operator.model.states import AppState
from muster_si import keys

#: Makes the key of a place from the UID of the pod that was refused.
_MARK = "/place"


def refused(ledger: Ledger, out: Outcome, task: Task, now: float) -> None:
    """A kubelet refused the pod. To be called before the core is told that it is gone."""
    app, node = ledger.applications.get(task.app), task.node
    if app is None or node is None or not task.pod.kubelet_refusal:
        return
    is_kept = keep_place(ledger, out, task, now)
    is_free = keys.TAG_REQUIRED_NODE not in task.pod.tags
    if is_free and (is_kept or not task.pod.membership.placeholder):
        nodes = tasks.nodes_to_avoid(task.avoid, node)
        refused_before = app.refusals.setdefault(task.pod.membership.task_group, deque(maxlen=limits.GANG_REFUSALS))
        refused_before.append(Refusal(nodes, now + ledger.settings.avoid_node_s))
    if app.gang is not None:
        _tell(ledger, out, app, task, is_kept=is_kept)


def keep_place(ledger: Ledger, out: Outcome, task: Task, now: float) -> bool:
    """Keep the place of a pod that loses its node for whoever takes it over; False if no gang is short without it."""
    app, node = ledger.applications.get(task.app), task.node
    if app is None or node is None or task.release is not None or not _is_short_without(ledger, app, task):
        return False
    key = _free_key(ledger, task)
    # It is kept from now on: that its pod had the node for long would end a time-out of placeholders at once.
    place = AllocationSpec(replace(ask_of(ledger, task), key=key, placeholder=True, originator=False), node)
    until = now + ledger.settings.keep_place_s
    group = task.pod.membership.task_group
    ledger.places[key] = Place(task.app, group, node, place, until)
    ledger.places_of.setdefault(task.app, {}).setdefault(group, set()).add(key)
    remember(ledger, Deadline(until, Look.PLACE, key))
    out.news.append(AllocationReported(place))
    return True


def _free_key(ledger: Ledger, task: Task) -> PodUid:
    """Of a new place: who cannot be bound again and again may leave one on several nodes."""
    key, number = PodUid(task.uid + _MARK), 1
    while key in ledger.places:
        key, number = PodUid(f"{task.uid}{_MARK}{number}"), number + 1
    return key


def _is_short_without(ledger: Ledger, app: Application, task: Task) -> bool:
    """Whether the gang runs, and has fewer members of the group than it was promised when this one goes."""
    name = task.pod.membership.task_group
    group = app.gang.group(name) if app.gang is not None else None
    runs = app.state is AppState.RUNNING or (app.state is AppState.RESERVING and app.core_is_running)
    if group is None or not runs or app.originator.ref.uid in ledger.resumed or not standing.stands(task):
        return False
    left = app.standing.get(name, 0) - 1 + len(ledger.places_of.get(app.id, {}).get(name, ()))
    return left < group.min_member


def _tell(ledger: Ledger, out: Outcome, app: Application, task: Task, *, is_kept: bool) -> None:
    pod = task.pod
    note = f"the kubelet of node {task.node} refused pod {pod.ref.name} ({pod.kubelet_refusal})"
    if is_kept:
        note += (
            f"; its place is kept for {round(ledger.settings.keep_place_s)} s for another pod of task group "
            f"{pod.membership.task_group}"
        )
    telling.warn_gang(out, app.originator.ref, words.ACTION_MEMBER_REFUSED, note)


def inherit(ledger: Ledger, app: Application, task: Task, now: float) -> None:
    """A pod joins: if it replaces a refused one of its task group, it keeps off the nodes that refused."""
    waiting = app.refusals.get(task.pod.membership.task_group)
    while waiting and waiting[0].until <= now:
        waiting.popleft()
    if waiting and task.node is None and keys.TAG_REQUIRED_NODE not in task.pod.tags:
        found = waiting.popleft()
        tasks.keep_off(ledger, task, found.nodes, found.until)


def resume(ledger: Ledger, now: float) -> None:
    """A session begins and every application has its answer: places of gangs that are still there are told again with
    their nodes, the others are over.
    """
    for key, place in list(ledger.places.items()):
        app = ledger.applications.get(place.app)
        goes_on = app is not None and app.gang is not None and app.state is AppState.ACCEPTED
        if not goes_on or place.node not in ledger.nodes or place.until <= now:
            taken(ledger, key)
        else:
            remember(ledger, Deadline(place.until, Look.PLACE, key))


def taken(ledger: Ledger, key: PodUid) -> None:
    """The core gave the place to a pod, or took it back."""
    place = ledger.places.pop(key, None)
    if place is None:
        return
    of_app = ledger.places_of[place.app]
    of_app[place.group].discard(key)
    if not of_app[place.group]:
        del of_app[place.group]
    if not of_app:
        del ledger.places_of[place.app]


def node_gone(ledger: Ledger, node: NodeName) -> None:
    """The core dropped the places with their node."""
    for key in [key for key, place in ledger.places.items() if place.node == node]:
        taken(ledger, key)


def over(ledger: Ledger, app: Application) -> None:
    """The core does not know the application any more."""
    for key in [key for of_group in ledger.places_of.get(app.id, {}).values() for key in of_group]:
        taken(ledger, key)


def give_up(ledger: Ledger, out: Outcome, key: PodUid, now: float) -> None:
    """Nobody came for the place in time; one that was taken, and is kept once more, has its own."""
    place = ledger.places.get(key)
    if place is not None and place.until <= now:
        taken(ledger, key)
        out.news.append(AllocationReleased(place.app, key, message="nobody came for the place that was kept"))
