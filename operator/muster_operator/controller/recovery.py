"""Recovery at the start of a session.

Builds the requests with which a new session of the core receives the complete state: applications, nodes with their
pods, waiting requests. The order is that of docs/internals/semantics.md, 19. Called by runtime/session.

A failure affects one pod, application, node or input (`isolation`). What the core has not received yet is left out of
the recovery and joins in the next one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Final

from msgspec import structs

from muster_operator.controller import (
    absent_members,
    applications,
    cluster_events,
    device_claims,
    mismatches,
    placeholders,
    pod_groups,
    rejections,
    runs,
    state,
    tasks,
    trust,
    volume_binding,
)
from muster_operator.controller.cluster_events import event_received, record_event
from muster_operator.controller.core_responses import handle_command_result, response_received
from muster_operator.controller.isolation import isolate
from muster_operator.controller.nodes import existing_allocation, existing_places
from muster_operator.controller.state import Application, ForeignAllocation, Ledger, Phase
from muster_operator.controller.volume_binding import as_reported
from muster_operator.model import problems
from muster_operator.model.commands import Outcome, Result
from muster_operator.model.core_messages import (
    AllocationResponse,
    AllocationSpec,
    ApplicationResponse,
    AskSubmitted,
    CoreEvents,
    CoreRequest,
    Node,
    NodeCreated,
    NodeOpened,
    NodeResponse,
    Recommendations,
    SchedulingStates,
)
from muster_operator.model.ids import AppId, NodeName, PodUid
from muster_operator.model.pods import ForeignPod, Placement, Pod
from muster_operator.model.states import AppState

#: Pods that are processed before other tasks can run: about 10 ms.
SLICE: Final = 500

#: Pods that are only inspected before other tasks can run: about 5 ms.
INSPECTED_PODS: Final = 10_000
_RESPONSES = AllocationResponse | ApplicationResponse | CoreEvents | NodeResponse | Recommendations | SchedulingStates


def pause(ledger: Ledger) -> None:
    """The session is lost: from now on events only update the state."""
    for item in ledger.postponed:
        if not isinstance(item, _RESPONSES | Result):
            record_event(ledger, item)
    ledger.postponed.clear()
    ledger.phase = Phase.GATHERING


def begin(ledger: Ledger, now: float) -> Iterator[Outcome]:
    """A session was opened: reports objects for the core's filters, then submits all applications, oldest first."""
    pause(ledger)
    runs.remember(ledger)
    _clear(ledger)
    ledger.phase = Phase.RECOVERING
    device_claims.session_begins(ledger)
    for found in device_claims.tainted_slices(ledger):
        volume_binding.record_object(ledger, found)
    for reported in volume_binding.all_objects(ledger, SLICE):
        yield Outcome(requests=reported)
    out, done, own = Outcome(), 0, list[runs.Run]()
    for run in _by_application(ledger):
        if run is None:
            yield Outcome()
            continue
        steps = [(partial(_rejoin, run=run), pod) for pod in run.members]
        steps += [(partial(_rejoin, run=run, is_sure=False), pod) for pod in run.unsure]
        steps += [(partial(_rejoin_placeholder, app_id=run.id), pod) for pod in run.placeholders]
        for rejoin, pod in steps:
            if not isolate(rejoin, ledger, out, pod, now):
                forget(ledger, pod)
        if (app := ledger.applications.get(run.id)) is not None:
            placeholders.pair_existing(app)
            requests = len(out.requests)
            if not isolate(applications.submit, ledger, out, app, now):
                del out.requests[requests:]
                _leave_out(ledger, app)
        own = _reported_controllers(ledger, out, run, own)
        done += len(steps)
        if done >= SLICE:
            yield out
            out, done = Outcome(), 0
    ledger.earlier_runs.clear()
    yield out


def _reported_controllers(ledger: Ledger, out: Outcome, run: runs.Run, own: list[runs.Run]) -> list[runs.Run]:
    """Reports waiting runs that are gangs of their own next to that of the originator, which comes after them.

    Their pods may have been created while no operator ran. Returns the runs that are still to be reported.
    """
    app = ledger.applications.get(run.id)
    if app is None or run.key != app.common_id:
        return own if app is None or any(pod.node is not None for pod in run.members) else [*own, run]
    for one in own:
        found = ledger.applications.get(one.id)
        if found is not None and found.common_id == app.common_id and found.members:
            pods = [pod for pod in one.members if pod.ref.uid in found.members]
            mismatches.report_controllers(out, app, pods, is_own_run=True)
    return []


def _clear(ledger: Ledger) -> None:
    """Removes the state of the previous session."""
    ledger.applications.clear()
    ledger.runs.clear()
    ledger.newcomers.clear()
    ledger.unsatisfiable.clear()
    ledger.creations.clear()
    ledger.tasks.clear()
    ledger.tasks_by_node.clear()
    ledger.untracked_pods.clear()
    ledger.untracked_by_node.clear()
    ledger.awaiting_node.clear()
    ledger.submissions = 0
    ledger.retired.clear()
    ledger.pending_writes.clear()
    ledger.deadlines.clear()
    ledger.failed.clear()
    ledger.recovery_at, ledger.is_suspect = None, False
    ledger.short_lived.clear()
    ledger.deletions.clear()
    ledger.deleting.clear()
    ledger.storage.waiting.clear()
    ledger.devices.held.clear()
    ledger.devices.changed.clear()
    # The following may contain objects that were deleted while there was no session.
    ledger.unacknowledged_nodes = dict.fromkeys(ledger.unacknowledged_nodes.keys() & ledger.nodes.keys(), 1)
    ledger.resumed &= ledger.pods.keys()
    ledger.noticed &= ledger.pods.keys()
    ledger.ignored = {uid: texts for uid, texts in ledger.ignored.items() if uid in ledger.pods}
    ledger.unverified &= ledger.pods.keys()
    for pod_on_node in ledger.foreign.values():
        pod_on_node.reported = False


def _by_application(ledger: Ledger) -> Iterator[runs.Run | None]:
    """The runs of each application, originator first, oldest application first. None = yield to others.

    The originator is the owner of existing placeholders, or has the signed mark of a gang that was given up. Otherwise
    it is the oldest pod, preferably one that defines a gang. Unsigned annotations are ignored.
    """
    known: set[PodUid | None] = set(ledger.resumed)
    groups: dict[AppId, tuple[list[Pod], list[Pod]]] = defaultdict(lambda: ([], []))
    ages: dict[AppId, int] = {}
    for count, recorded in enumerate(list(ledger.pods.values()), start=1):
        pod = trust.settled(ledger, recorded)
        if pod.membership.pod_group:
            pod = pod_groups.settled(ledger, pod)
        if pod is not recorded:
            ledger.pods[pod.ref.uid] = pod
            if pod.claims:
                device_claims.record_pod(ledger, pod)
        member = pod.membership
        groups[member.app][1 if member.placeholder else 0].append(pod)
        ages[member.app] = min(ages.get(member.app, pod.created_s), pod.created_s)
        if member.placeholder:
            known.add(member.owner)
        if trust.is_resumed(ledger, pod):
            known.add(pod.ref.uid)
        if not count % INSPECTED_PODS:
            yield None

    def rank(pod: Pod) -> tuple[bool, bool, int, bool, str, PodUid]:
        defines = bool(pod.membership.gang.task_groups)
        return pod.membership.marked, pod.ref.uid not in known, pod.created_s, not defines, pod.ref.name, pod.ref.uid

    for app in sorted(groups, key=lambda app: (ages[app], app)):
        for pods_of_kind in groups[app]:
            pods_of_kind.sort(key=rank)
        yield from runs.split(ledger, app, *groups[app])


def _rejoin(ledger: Ledger, out: Outcome, pod: Pod, now: float, *, run: runs.Run, is_sure: bool = True) -> None:
    """Adds a real pod to its application, unless it has ended or is terminating without a node.

    If it is not sure that the pod belongs there, it can be held back first, like a pod that appears now.
    """
    if pod.has_ended or cluster_events.is_held_back(ledger, out, pod, now) or (pod.terminating and pod.node is None):
        return
    app = ledger.applications.get(run.id)
    if not is_sure and app is not None and runs.is_newcomer(ledger, app, pod):
        runs.defer(ledger, app, pod, now)
        return
    if app is None:
        app = applications.create(ledger, out, pod, is_again=True, run=run)
    app.created_s = min(app.created_s, pod.created_s)
    task = applications.attach(ledger, app, pod)
    if app.gang is not None and app.gang.placement is Placement.RESERVE:
        placeholders.member_seen(ledger, out, app, app.gang, pod, now)
    mismatches.report_mismatches(ledger, out, app, task)


def _rejoin_placeholder(ledger: Ledger, out: Outcome, pod: Pod, now: float, *, app_id: AppId) -> None:
    """Adds a placeholder to its gang, or deletes it if the gang does not need it.

    Terminating placeholders do not count (docs/internals/semantics.md, 17). A gang with placeholder pods keeps using
    placeholder pods, even if its placement is Direct now.
    """
    app = ledger.applications.get(app_id)
    if pod.has_ended:
        tasks.order_delete(ledger, out, pod.ref, now, problems.placeholder_ended())
    elif app is None or not _has_placeholders(ledger, app) or pod.terminating or cluster_events.other_requests(pod):
        cluster_events.delete_orphan(ledger, out, pod, now)
    else:
        if app.gang is not None and app.gang.placement is Placement.DIRECT:
            app.gang = replace(app.gang, placement=Placement.RESERVE)
        applications.attach(ledger, app, pod)


def _has_placeholders(ledger: Ledger, app: Application) -> bool:
    """Whether it is a gang without devices, which a placeholder cannot hold for another pod."""
    return app.gang is not None and bool(app.gang.size) and app.common_id not in ledger.devices.apps


def is_answered(ledger: Ledger) -> bool:
    """Whether the core has answered every submitted application."""
    return not any(app.state is AppState.SUBMITTED for app in ledger.applications.values())


def report_nodes(ledger: Ledger, now: float) -> Iterator[Outcome]:
    """Reports every node, as not schedulable, with its allocations."""
    out, done = Outcome(), 0
    rejections.resume_rejected(ledger, now)
    places = existing_places(ledger)
    on_node: dict[NodeName, list[PodUid]] = defaultdict(list)
    occupying = (
        entry.pod for entries in (ledger.tasks, ledger.foreign, ledger.untracked_pods) for entry in entries.values()
    )
    for count, pod in enumerate(list(occupying), start=1):
        if pod.node is not None:
            on_node[pod.node].append(pod.ref.uid)
        if not count % INSPECTED_PODS:
            yield Outcome()
    for node in ledger.nodes.values():
        uids = sorted(on_node.pop(node.name, []))
        if not isolate(partial(_report_node, uids=uids, places=places[node.name]), ledger, out, node, now):
            ledger.awaiting_node[node.name] = set(uids)
        done += 1 + len(uids) + len(places[node.name])
        if done >= SLICE:
            yield out
            out, done = Outcome(), 0
    for name, uids in on_node.items():
        ledger.awaiting_node[name] = set(uids)
    yield out


def _report_node(
    ledger: Ledger, out: Outcome, node: Node, now: float, *, uids: list[PodUid], places: list[AllocationSpec]
) -> None:
    """Reports a node with its allocations. If an allocation cannot be created, the pod counts with its resources."""
    reported, existing = as_reported(ledger, node), list[AllocationSpec]()
    for uid in uids:
        add = partial(_add_existing, node=node.name, existing=existing)
        if not isolate(add, ledger, out, uid, now):
            if (task := ledger.tasks.get(uid)) is not None:
                forget(ledger, task.pod)
            if (pod_on_node := tasks.find_foreign(ledger, uid)) is not None:
                pod_on_node.pod, pod_on_node.reported = structs.replace(pod_on_node.pod, tags={}), False
            isolate(add, ledger, out, uid, now)
    out.requests.append(NodeCreated(reported, drained=True, existing=(*existing, *places)))


def _add_existing(
    ledger: Ledger, _out: Outcome, uid: PodUid, _now: float, *, node: NodeName, existing: list[AllocationSpec]
) -> None:
    if (found := existing_allocation(ledger, uid, node)) is not None:
        existing.append(found)


def submit_asks(ledger: Ledger, now: float) -> Iterator[Outcome]:
    """Continues every accepted application and yields all requests, sorted by the creation of their pods.

    Applications that were accepted after their bound pods had been reported as foreign continue in ``open_nodes``.
    """
    out, done = Outcome(), 0
    for app in list(ledger.applications.values()):
        if app.state is AppState.ACCEPTED and not applications.has_untracked(ledger, app):
            isolate(applications.proceed, ledger, out, app, now)
        done += 1 + len(app.members)
        if done >= SLICE:
            yield Outcome()
            done = 0
    places = {app_id: place for place, app_id in enumerate(ledger.applications)}
    out.requests.sort(key=lambda item: _creation(ledger, places, item))
    yield out


def _creation(ledger: Ledger, places: Mapping[AppId, int], item: CoreRequest) -> tuple[int, int, str, PodUid]:
    """Sort key. Creation times have a resolution of one second; then order of the applications and name decide."""
    if not isinstance(item, AskSubmitted):
        return 0, 0, "", PodUid("")
    task = ledger.tasks[item.ask.key]
    pod = task.pod
    return pod.created_s, places.get(task.app, 0), pod.ref.name, pod.ref.uid


def open_nodes(ledger: Ledger, now: float) -> Outcome:
    """The core has answered the barrier: opens the nodes and handles the events that arrived in the meantime."""
    out = Outcome(requests=[NodeOpened(node.name) for node in ledger.nodes.values() if node.schedulable])
    ledger.phase = Phase.LIVE
    absent_members.session_is_live(ledger, now)
    pod_groups.session_is_live(ledger, out, now)
    device_claims.give_up_broken(ledger, out)
    for app in list(ledger.applications.values()):
        if app.state is AppState.ACCEPTED:  # it was accepted after the nodes or the requests had been sent
            isolate(applications.begin, ledger, out, app, now)
    for item in ledger.postponed:
        if isinstance(item, Result):
            isolate(handle_command_result, ledger, out, item, now)
        elif isinstance(item, _RESPONSES):
            isolate(response_received, ledger, out, item, now)
        else:
            event_received(ledger, out, item, now)
    ledger.postponed.clear()
    state.sweep_later(ledger, now)
    return out


def _leave_out(ledger: Ledger, app: Application) -> None:
    """Removes an application, whose bound pods count on their nodes. Its pods join again in the next recovery."""
    for task in [*app.members.values(), *app.placeholders.values()]:
        forget(ledger, task.pod)
    ledger.drop_application(app)


def forget(ledger: Ledger, pod: Pod) -> None:
    """Removes the pod's task without sending anything. A bound pod counts with its resources on its node only."""
    uid = pod.ref.uid
    task = ledger.tasks.pop(uid, None)
    app = ledger.applications.get(task.app) if task is not None else runs.of(ledger, pod)
    if task is not None:
        task.held = False
        state.recount(task)
        ledger.tasks_by_node.remove(uid, task.node, pod.node)
        if app is not None:
            applications.remove_member(app, uid)
            for present in app.present.values():
                present.remove(uid)
            if app.placeholders.pop(uid, None) is not None:
                app.placeholder_names.discard(pod.ref.name)
    if app is not None and not app.members and not app.placeholders:
        ledger.drop_application(app)
    if pod.node is not None and not pod.has_ended:
        counted = ForeignPod(pod.ref, pod.node, pod.phase, pod.resources, "default", pod.priority, {})
        ledger.untracked_by_node.add(uid, pod.node)
        ledger.untracked_pods[uid] = ForeignAllocation(counted)
