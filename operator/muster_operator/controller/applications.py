"""Applications: submission, gang reservation, failure and completion.

The first pod of an application creates it with its task groups. The application ends after its last pod, when the core
reports completion. Called by the event handlers in `pods` and `cluster_events` and by `core_responses`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from heapq import heappush
from typing import Final

from muster_operator.controller import (
    absent_members,
    gang_start,
    mismatches,
    placeholders,
    rejections,
    reporting,
    runs,
    state,
    tasks,
    trust,
)
from muster_operator.controller.isolation import isolate
from muster_operator.controller.state import Application, Deadline, Ledger, Phase, Task, TimerKind, set_timer
from muster_operator.controller.tasks import application_spec, can_announce, given_up_spec, renewal_spec
from muster_operator.model import messages, problems
from muster_operator.model.cluster_events import Namespace
from muster_operator.model.commands import MarkResumed, Outcome, SetCondition
from muster_operator.model.core_messages import ApplicationSubmitted, AskReleased, TerminationType
from muster_operator.model.event_texts import Note
from muster_operator.model.ids import AppId, PodUid
from muster_operator.model.pods import Condition, GangDefinition, GangProblem, Placement, Pod
from muster_operator.model.states import APPLICATION, AppEvent, AppState, TaskEvent, TaskState, after
from muster_si import keys

#: The core has accepted the application, and the application may have requests and allocations.
ANSWERED = frozenset({AppState.ACCEPTED, AppState.RESERVING, AppState.RESUMING, AppState.RUNNING})

#: Entries of ended members in the heap of ages, beyond the number of members, before the heap is rebuilt.
_GONE: Final = 64
_KNOWN_TO_THE_CORE = ANSWERED | {AppState.SUBMITTED}


def step(app: Application, event: AppEvent) -> None:
    """Applies the event to the application's state table (model/states.py)."""
    app.state = after(APPLICATION, app.state, event)


def create(
    ledger: Ledger, out: Outcome, pod: Pod, *, is_again: bool = False, run: runs.Run | None = None
) -> Application:
    """Creates the application from its first pod. As in YuniKorn, gang definitions of later pods are ignored.

    ``is_again``: the pods were in an earlier application with this ID, and their requests wait for the acceptance.
    ``run``: all its pods, if they are known. A gang whose run is over reserves nothing more.
    """
    member = pod.membership
    common = member.app
    is_own = common in ledger.runs or bool(member.pod_group)
    key = run.key if run is not None else runs.key_of(common, pod.controller) if is_own else common
    found = None if run is not None and run.is_over else runs.defined_gang(ledger, out, pod)
    gang = found if isinstance(found, GangDefinition) else None
    succeeded: Mapping[str, int] = {}
    if gang is not None:  # most pods have none
        pods = (pod,) if run is None else run.members
        succeeded = runs.succeeded(ledger, gang, key, pods)
        gang = runs.without(gang, succeeded, pods)
    if member.user_problem and pod.node is None:
        reporting.post(out, pod.ref, messages.ignored(member.user_problem))
    app = Application(
        state.identity(ledger, common) if run is None else run.id,
        common,
        pod,
        member.queue,
        member.gang,
        gang,
        pod.created_s,
        key,
        user=member.user,
        namespace=pod.ref.namespace,
        namespace_uid=state.namespace_uid(ledger, pod.ref.namespace),
        asks_early=not (is_again or pod.node or (gang and gang.size)),
        gang_problem=found.message if isinstance(found, GangProblem) else "",
        succeeded=succeeded,
    )
    ledger.add_application(app, is_over=run is not None and run.is_over)
    may_have_pods = gang is not None and gang.uses_virtual_placeholders and common not in ledger.devices.apps
    if gang is not None and may_have_pods and not can_announce(ledger, app, gang):
        _use_placeholder_pods(out, app, gang)
    return app


def _use_placeholder_pods(out: Outcome, app: Application, gang: GangDefinition) -> None:
    """Uses placeholder pods, because the definition of the members is too large for a tag of the application."""
    app.gang = replace(gang, placement=Placement.RESERVE)
    if app.originator.node is None:
        reporting.post(out, app.originator.ref, messages.task_groups_too_large(gang.placement))


def start(ledger: Ledger, out: Outcome, app: Application, now: float) -> None:
    """Submits the application. If its namespace has not been seen yet, sets a timer and waits for it."""
    if state.is_namespace_ready(ledger, app.namespace):
        submit(ledger, out, app, now)
    else:
        set_timer(ledger, Deadline(now + state.WAIT_S, TimerKind.NAMESPACE, app.id))


def namespace_seen(ledger: Ledger, out: Outcome, before: Namespace | None, found: Namespace, now: float) -> None:
    """Handles a namespace that was recorded: submits applications that waited for it, sends changed quotas to the core.

    If an annotation is invalid, the previous quota of running applications stays in effect.
    """
    if before is None and ledger.settings.sharing_groups:
        _submit_pods_of_namespace(ledger, out, found.name, now)
    if found.terminating or found == before:
        return
    is_changed = before is None or before.tags != found.tags
    if found.problems and (before is None or before.problems != found.problems):
        reporting.post_namespace(out, found.name, messages.namespace_problem("; ".join(found.problems)))
    if found.misspelt and (before is None or before.misspelt != found.misspelt):
        reporting.post_namespace(out, found.name, messages.namespace_names("; ".join(found.misspelt)))
    own = [app for app in ledger.applications.values() if app.namespace == found.name and not app.is_closed]
    if is_changed and not found.problems:
        # Applications of one user with the same queue are in one leaf, so that one renewal per leaf is enough.
        one_per_queue = {(app.queue, app.user): app for app in own if app.state in _KNOWN_TO_THE_CORE}
        out.requests += [ApplicationSubmitted(renewal_spec(ledger, app)) for app in one_per_queue.values()]
    for app in own:
        if app.state is AppState.NEW:
            isolate(submit, ledger, out, app, now)


def _submit_pods_of_namespace(ledger: Ledger, out: Outcome, namespace: str, now: float) -> None:
    """Submits pods in this namespace whose application belongs to another namespace and runs already."""
    for app in ledger.applications.values():
        if may_ask(app) and app.namespace != namespace:
            for task in app.members.values():
                if task.state is TaskState.PENDING and task.pod.ref.namespace == namespace:
                    _submit_member(ledger, out, app, task, now)


def namespace_timed_out(ledger: Ledger, out: Outcome, app_id: AppId, now: float) -> None:
    """Timer: the namespace of a new application, or of one of its pods, was not seen in time. Continues without it."""
    app = ledger.applications.get(app_id)
    if app is not None and app.state is AppState.NEW:
        submit(ledger, out, app, now)
    elif app is not None and may_ask(app):
        for task in app.members.values():
            if task.state is TaskState.PENDING:
                _submit_member(ledger, out, app, task, now)


def may_ask(app: Application) -> bool:
    """Whether the members can be requested. See docs/internals/semantics.md, 19."""
    match app.state:
        case AppState.RUNNING:
            return True
        case AppState.RESERVING:
            return app.gang is not None and app.gang.uses_virtual_placeholders
        case _:
            return False


def submit(ledger: Ledger, out: Outcome, app: Application, now: float) -> None:
    """Submits the application, and its only member if that may be early. Posts problems of its namespace as events."""
    step(app, AppEvent.SUBMIT)
    app.submission = ledger.submissions = ledger.submissions + 1
    namespace = ledger.namespaces.get(app.namespace)
    if namespace is not None and namespace.problems:
        note = messages.namespace_of_application_ignored(namespace.name, "; ".join(namespace.problems))
        mismatches.report_in_namespace(ledger, out, app, note, now)
    out.requests.append(ApplicationSubmitted(application_spec(ledger, app)))
    if app.asks_early and ledger.phase is Phase.LIVE and len(app.members) == 1:
        submit_waiting(ledger, out, app, now)


def attach(ledger: Ledger, app: Application, pod: Pod) -> Task:
    """Creates the task of a pod and adds it to the application. Sends nothing."""
    task = Task(pod, app.id, counts=app.member_counts)
    ledger.tasks[task.uid] = task
    if pod.claims and not app.has_devices:
        app.has_devices = True
        app.has_started = gang_start.has_started(app)
    if pod.membership.placeholder:
        app.placeholders[task.uid] = task
        app.placeholder_names.add(pod.ref.name)
    else:
        app.members[task.uid] = task
        app.controllers[pod.controller] += 1
        app.arrivals += 1
        if app.gang is not None:
            runs.index_living(app, task)
        if not tasks.is_unverified(pod):
            app.groups_seen.add(pod.membership.task_group)
            heappush(app.ages, (pod.created_s, app.arrivals, task.uid))
        if len(app.ages) > 2 * len(app.members) + _GONE:  # long-lived applications can have many short-lived pods
            app.ages = sorted(age for age in app.ages if age[2] in app.members)
    tasks.step(task, TaskEvent.WAIT)
    if pod.node is not None:
        ledger.tasks_by_node.add(task.uid, pod.node)
        task.node = pod.node
        tasks.step(task, TaskEvent.BIND)
        tasks.count_node(ledger, task, 1)
    return task


def remove_member(app: Application, uid: PodUid) -> None:
    """Removes a member that has ended or is forgotten."""
    task = app.members.pop(uid, None)
    if task is not None:
        if app.gang is not None:
            runs.index_living(app, task)
        app.controllers[task.pod.controller] -= 1
        if app.controllers[task.pod.controller] <= 0:
            del app.controllers[task.pod.controller]


def join(ledger: Ledger, out: Outcome, pod: Pod, now: float, *, is_again: bool = False) -> None:
    """Handles a new pod that is not a placeholder: adds it to its application, or creates the application.

    A pod that may belong to another workload than the members of its task group waits for more pods of its controller.
    """
    app = _running(ledger, out, pod, now)
    if app is not None and _has_first_devices(app, pod):
        kill(ledger, out, app, now)
        app = _running(ledger, out, pod, now)
    if app is None:
        _add(ledger, out, create(ledger, out, pod, is_again=is_again), pod, now, is_new=True)
    elif not app.source.is_written or not runs.is_newcomer(ledger, app, pod):
        _add(ledger, out, app, pod, now, is_new=False)
    elif runs.defer(ledger, app, pod, now):
        admit(ledger, out, runs.key_of(pod.membership.app, pod.controller), now)


def _has_first_devices(app: Application, pod: Pod) -> bool:
    """Whether the gang has not started, and has to begin again as a Direct one, because of the pod's devices.

    A placeholder cannot hold a device for another pod.
    """
    is_direct = app.gang is None or app.gang.placement is Placement.DIRECT
    return bool(pod.claims) and not is_direct and app.state in _NEVER_RUN - {AppState.RESUMING}


def admit(ledger: Ledger, out: Outcome, key: AppId, now: float) -> None:
    """The pods of a controller were held back: they are a run of their own, join their application, or wait longer."""
    pods = runs.held_back(ledger, key)
    app = _running(ledger, out, pods[0], now) if pods else None
    run = runs.own_run(ledger, pods) if app is not None else None
    if app is not None and run is None and runs.keep_back(ledger, key, app, now):
        return
    del ledger.newcomers[key]
    if app is not None:
        mismatches.report_controllers(out, app, pods, is_own_run=run is not None)
    for pod in pods:
        known = ledger.applications.get(run.id) if run is not None else _running(ledger, out, pod, now)
        _add(ledger, out, known or create(ledger, out, pod, run=run), pod, now, is_new=known is None)


def _add(ledger: Ledger, out: Outcome, app: Application, pod: Pod, now: float, *, is_new: bool) -> None:
    """Adds a pod to its application, or to a new one that was created for it."""
    task = attach(ledger, app, pod)
    if app.refusals:
        rejections.inherit(ledger, app, task, now)
    if app.gang is not None:
        _member_joined(ledger, out, app, app.gang, pod, now)
    if pod.membership.may_mismatch if is_new else app.examined != (pod.membership, pod.ref.namespace):
        mismatches.report_mismatches(ledger, out, app, task)
    if is_new:
        start(ledger, out, app, now)
        tasks.count_on_node(ledger, out, task)
    elif app.failure is not None:
        join_failed(ledger, out, task, app.failure)
    elif task.node is not None and app.state not in ANSWERED:
        tasks.count_on_node(ledger, out, task)
    elif ledger.phase is Phase.LIVE:
        if task.node is not None:
            tasks.report_bound(ledger, out, task)
        if may_ask(app) and task.state is TaskState.PENDING:
            _ask(ledger, out, app, task, now)
            if app.gang is not None:
                reporting.joined(ledger, out, app, task, now)


def _running(ledger: Ledger, out: Outcome, pod: Pod, now: float) -> Application | None:
    """The application that the pod joins. None = there is none, or the pod begins its next run."""
    member, app = pod.membership, ledger.runs.get(pod.membership.app)
    if member.may_mismatch or (app is not None and app.source.is_written):
        app = runs.of(ledger, pod)
    may_be_over = app is not None and (app.is_closed or app.source.is_written or member.gang.is_written)
    if app is not None and may_be_over and runs.is_over(ledger, app, pod):
        del ledger.runs[app.run_key]
        _end_earlier_run(ledger, out, app, now)
        return None
    return app


def _member_joined(ledger: Ledger, out: Outcome, app: Application, gang: GangDefinition, pod: Pod, now: float) -> None:
    """A pod joined a gang: compares members and slots, and the placeholders of its task group with the pod."""
    absent_members.changed(ledger, app, now)
    if gang.placement is Placement.RESERVE:
        placeholders.member_seen(ledger, out, app, gang, pod, now)


def join_failed(ledger: Ledger, out: Outcome, task: Task, failure: Note) -> None:
    """Fails a member of a failed application. A bound member counts on its node instead."""
    tasks.fail(ledger, out, task, failure.kind.pod_reason, failure.text)
    if task.state is TaskState.BOUND and not task.held:
        tasks.track_foreign(ledger, out, task.pod)


def accept(ledger: Ledger, out: Outcome, app: Application, now: float) -> None:
    """Handles acceptance by the core. During recovery the pods wait until ``proceed`` is called."""
    step(app, AppEvent.ACCEPT)
    if ledger.phase is Phase.LIVE:
        begin(ledger, out, app, now)


def begin(ledger: Ledger, out: Outcome, app: Application, now: float) -> None:
    """Continues an accepted application in a live session.

    Its bound pods counted on their nodes only until now. They are reported as allocations of the application first.
    """
    for task in (*app.members.values(), *app.placeholders.values()):
        if task.node is not None:
            tasks.untracked_gone(ledger, out, task.uid)
        tasks.report_bound(ledger, out, task)
    proceed(ledger, out, app, now)


def has_untracked(ledger: Ledger, app: Application) -> bool:
    """Whether a bound pod counts on its node only, because it was reported before the application was accepted."""
    return any(uid in ledger.untracked_pods for pods in (app.members, app.placeholders) for uid in pods)


def proceed(ledger: Ledger, out: Outcome, app: Application, now: float) -> None:
    """Continues an accepted application: reserves for a gang without bound members, else runs it.

    See docs/internals/semantics.md, 17. A member whose node is gone does not count, because the core has removed it;
    it waits for the reservation of the gang. A placeholder without a valid signature does not count either.
    """
    app.has_started = gang_start.has_started(app)
    if app.gang is None or not app.gang.size or app.has_started:
        run(ledger, out, app, now)
        if app.gang is not None:
            absent_members.begin(ledger, out, app, now)
        return
    step(app, AppEvent.RESERVE)
    absent_members.changed(ledger, app, now)
    reporting.watch_progress(ledger, app, now)
    if app.gang.uses_virtual_placeholders:
        submit_waiting(ledger, out, app, now)
        absent_members.begin(ledger, out, app, now)
    else:
        placeholders.reserve(ledger, out, app, app.gang, now)
    if app.core_is_running:
        core_runs(ledger, out, app, now)


def check_reserved(ledger: Ledger, out: Outcome, app: Application, now: float) -> None:
    """Runs the application if all placeholders are bound and the core reports the gang as reserved.

    If the core does not wait for placeholder pods, its report is enough, and the members' requests have been sent
    already. See docs/internals/semantics.md, 9.
    """
    if app.state is not AppState.RESERVING or not app.core_is_running:
        return
    if not app.open_slots or absent_members.gang_of(ledger, app) is not None:
        reporting.progress(out, app, reporting.reservation_note(app))
        reporting.reservation_over(app)
        run(ledger, out, app, now)


def core_runs(ledger: Ledger, out: Outcome, app: Application, now: float) -> None:
    """The core has all reservations: stops waiting for placeholders that have not been seen yet."""
    if absent_members.gang_of(ledger, app) is None:
        placeholders.forget_unseen(ledger, out, app)
    check_reserved(ledger, out, app, now)


def run(ledger: Ledger, out: Outcome, app: Application, now: float) -> None:
    """Runs the application: deletes placeholders without a node and submits the members.

    In an Auto gang, placeholders without a node get the nodes of reserved slots.
    """
    step(app, AppEvent.RUN)
    if absent_members.gang_of(ledger, app) is None:
        placeholders.forget_all(ledger, out, app)
        for task in list(app.placeholders.values()):
            if task.state in {TaskState.PENDING, TaskState.SCHEDULING}:
                tasks.kill(ledger, out, task, now, problems.application_runs())
    submit_waiting(ledger, out, app, now)


def submit_waiting(ledger: Ledger, out: Outcome, app: Application, now: float) -> None:
    """Submits every waiting member, oldest first."""
    for task in app.members.values():
        if task.state is TaskState.PENDING:
            _ask(ledger, out, app, task, now)
        elif task.is_outdated and task.state is TaskState.SCHEDULING:
            tasks.resend(ledger, out, task)


def _ask(ledger: Ledger, out: Outcome, app: Application, task: Task, now: float) -> None:
    """Submits a member. If its namespace is not known yet and is not the application's, waits for the namespace."""
    namespace = task.pod.ref.namespace
    if namespace == app.namespace or state.is_namespace_known(ledger, namespace):
        _submit_member(ledger, out, app, task, now)
    else:
        set_timer(ledger, Deadline(now + state.WAIT_S, TimerKind.NAMESPACE, app.id))


def _submit_member(ledger: Ledger, out: Outcome, app: Application, task: Task, now: float) -> None:
    """Sends the request of a member.

    An early request without an answer is sent again before the first of other members. They would overtake it if the
    core has rejected it.
    """
    first = next(iter(app.members.values()))
    if app.asks_early and task is not first:
        app.asks_early = False
        if first.is_early:
            tasks.resend(ledger, out, first)
    tasks.submit(ledger, out, task, now)


def request_declined(ledger: Ledger, out: Outcome, task: Task, now: float) -> None:
    """The core rejected or cancelled a request. An early one is sent again once, after the acceptance."""
    tasks.step(task, TaskEvent.ROLL_BACK)
    was_early, task.is_early = task.is_early, False
    app = ledger.applications.get(task.app)
    if was_early and app is not None and may_ask(app):
        tasks.submit(ledger, out, task, now)


def placeholder_bound(ledger: Ledger, out: Outcome, task: Task, now: float) -> None:
    """Handles a placeholder that has been bound."""
    app = ledger.applications.get(task.app)
    if app is not None:
        app.open_slots.discard(task.pod.ref.name)
        app.pod_failures = 0
        check_reserved(ledger, out, app, now)


#: States without a running pod. If the last pod ends in one of them, the application is removed from the core.
_NEVER_RUN = frozenset({AppState.NEW, AppState.SUBMITTED, AppState.ACCEPTED, AppState.RESERVING, AppState.RESUMING})

_REMOVABLE: Final = _NEVER_RUN | {AppState.RUNNING}

#: A placeholder that ended with one of these releases is created again while the gang reserves.
_REPLACEABLE = frozenset({None, TerminationType.PREEMPTED_BY_SCHEDULER})


def mark_resumed(ledger: Ledger, out: Outcome, app: Application) -> None:
    """Marks the originator of a gang that was given up, so that this survives a restart (commands.MarkResumed)."""
    pod = app.originator
    if pod.ref.uid not in ledger.resumed:
        ledger.resumed.add(pod.ref.uid)
        out.commands.append(MarkResumed(pod.ref, trust.sign_outcome(ledger, pod.ref)))


def resume(ledger: Ledger, out: Outcome, app: Application, now: float, why: str) -> None:
    """The core gave up the reservation of a Soft gang: deletes the placeholders, then schedules the members singly."""
    reporting.reservation_over(app)
    step(app, AppEvent.RESUME)
    note = messages.gang_resumed(why)
    reporting.post(out, app.originator.ref, note)
    reporting.post(out, app.originator.ref, messages.gang_incomplete(note.text))
    mark_resumed(ledger, out, app)
    gang_start.check(ledger, app.id)
    placeholders.kill_all(ledger, out, app, now, problems.reservation_ended())
    settle(ledger, out, app, now)


def fail(ledger: Ledger, out: Outcome, app: Application, now: float, failure: Note) -> None:
    """Handles failure: deletes placeholders and fails members that are not bound with this reason and message."""
    app.failure = failure
    step(app, AppEvent.FAIL)
    reporting.post(out, app.originator.ref, failure)
    if app.gang is not None and failure.kind.reason != messages.APPLICATION_REJECTED:
        reporting.post(out, app.originator.ref, messages.gang_failed(failure.text))
    placeholders.kill_all(ledger, out, app, now, problems.application_failed())
    for task in list(app.members.values()):
        join_failed(ledger, out, task, failure)
    settle(ledger, out, app, now)


def reject(ledger: Ledger, out: Outcome, app: Application, now: float, reason: str) -> None:
    """The core rejected the application. If it has bound pods, nothing fails and the application is submitted again."""
    step(app, AppEvent.REJECT)
    app.is_over = True
    note = messages.application_rejected(app.name, reason)
    if any(task.node is not None for task in app.members.values()):
        _submit_later(ledger, out, app, now, note)
    else:
        fail(ledger, out, app, now, note)


#: Seconds until a rejected application with bound pods is submitted again.
SUBMIT_AGAIN_S: Final = 60.0


def _submit_later(ledger: Ledger, out: Outcome, app: Application, now: float, note: Note) -> None:
    """Counts bound pods on their nodes, and sets a condition on the others with the reason of the rejection."""
    placeholders.kill_all(ledger, out, app, now, problems.application_rejected())
    condition = Condition(note.kind.reason, note.text)
    for task in app.members.values():
        if task.node is not None:
            tasks.track_foreign(ledger, out, task.pod)
        elif task.pod.condition != condition:
            out.commands.append(SetCondition(task.pod.ref, condition.reason, condition.message))
            reporting.post(out, task.pod.ref, note)
    set_timer(ledger, Deadline(now + SUBMIT_AGAIN_S, TimerKind.REJECTED, app.id))


def submit_again(ledger: Ledger, out: Outcome, app_id: AppId, now: float) -> None:
    """Timer: submits a rejected application again, after its placeholders are gone."""
    app = ledger.applications.get(app_id)
    if app is None or app.state is not AppState.REJECTED:
        return
    if app.placeholders:
        set_timer(ledger, Deadline(now + SUBMIT_AGAIN_S, TimerKind.REJECTED, app.id))
    else:
        _forget(ledger, out, app, now)


def give_up_gang(ledger: Ledger, out: Outcome, app: Application, now: float, problem: str) -> None:
    """The placeholders cannot be created: ends the reservation by its style, as a timeout does.

    See docs/internals/semantics.md, 8.
    """
    if absent_members.gang_of(ledger, app) is not None:
        absent_members.stop_pods(ledger, out, app, problem, now)
        return
    if app.gang is None or app.state is not AppState.RESERVING:
        return
    reporting.post(out, app.originator.ref, messages.placeholders_impossible(problem))
    app.is_our_end = True
    if app.gang.style == keys.STYLE_HARD:
        out.requests.append(ApplicationSubmitted(given_up_spec(ledger, app, problem)))
        fail(ledger, out, app, now, messages.application_failed(problem))
        return
    mark_resumed(ledger, out, app)
    kill(ledger, out, app, now)


def kill(ledger: Ledger, out: Outcome, app: Application, now: float) -> None:
    """Removes the application: first its placeholders, then the application. Remaining members create it again."""
    was = app.state
    step(app, AppEvent.KILL)
    app.is_our_end = was is not AppState.NEW  # the core has not received a new application
    for task in app.placeholders.values():
        if task.asked and not task.held:
            task.asked = False
            out.requests.append(AskReleased(task.app, task.uid))
    placeholders.kill_all(ledger, out, app, now, problems.application_ended())
    settle(ledger, out, app, now)


def complete(ledger: Ledger, out: Outcome, app: Application, now: float) -> None:
    """The core completed the application. Its ID can be used again, also by members that arrived in the meantime."""
    step(app, AppEvent.COMPLETE)
    app.is_over = True
    placeholders.kill_all(ledger, out, app, now, problems.application_completed())
    _forget(ledger, out, app, now)


def settle(ledger: Ledger, out: Outcome, app: Application, now: float) -> None:
    """Continues an application in a final or transitional state after its placeholders or members are gone."""
    if app.is_over:
        rejections.rejection_over(ledger, app)
    if app.placeholders:
        return
    match app.state:
        case AppState.RESUMING:
            run(ledger, out, app, now)
        case AppState.KILLING:
            step(app, AppEvent.KILLED)
            _forget(ledger, out, app, now)
        case AppState.FAILING if app.is_over or app.is_our_end:
            step(app, AppEvent.FAILED)
            if app.is_our_end and not app.is_over:
                _count_bound_on_nodes(ledger, out, app)
                out.requests.append(ledger.removal_of(app.id))
            app.is_over, app.is_our_end = True, False
            settle(ledger, out, app, now)
        case AppState.FAILED | AppState.REJECTED if not app.members:
            _forget(ledger, out, app, now)
        case _:
            return


def _count_bound_on_nodes(ledger: Ledger, out: Outcome, app: Application) -> None:
    """Counts bound members on their nodes only, before the operator removes their failed application from the core."""
    for task in app.members.values():
        if task.state is TaskState.BOUND and task.held:
            tasks.release_from_core(out, task, TerminationType.STOPPED_BY_RM)
            tasks.track_foreign(ledger, out, task.pod)


def _forget(ledger: Ledger, out: Outcome, app: Application, now: float) -> None:
    """Removes the application. Remaining members create a new application, those of an earlier run only use nodes."""
    if app.is_our_end:
        out.requests.append(ledger.removal_of(app.id))
    rejections.rejection_over(ledger, app)
    is_current = ledger.is_current(app)
    ledger.drop_application(app)
    if any(task.asked for task in app.members.values()):  # the answers arrive on another stream than the completion
        ledger.retired[app.id] = ledger.submissions
    remaining = sorted(app.members.values(), key=lambda task: task.pod.terminating)
    tasks.abandon_claims(ledger, out, *(task for task in remaining if task.claim_wait is not None))
    for task in remaining:
        ledger.tasks.pop(task.uid, None)
        ledger.tasks_by_node.remove(task.uid, task.node, task.pod.node)
    for task in remaining:
        if is_current:
            join(ledger, out, task.pod, now, is_again=True)
        elif task.node is not None:
            tasks.track_foreign(ledger, out, task.pod)


def task_ended(ledger: Ledger, out: Outcome, task: Task, now: float) -> None:
    """Handles a pod that is gone or has ended: releases it in the core and continues its application."""
    tasks.end(ledger, out, task)
    app = ledger.applications.get(task.app)
    if app is None:
        return
    if task.pod.membership.placeholder:
        _placeholder_ended(ledger, out, app, task, now)
    else:
        _member_ended(ledger, out, app, task.uid, now)


def _placeholder_ended(ledger: Ledger, out: Outcome, app: Application, task: Task, now: float) -> None:
    slot = placeholders.ended(app, task)
    if absent_members.gang_of(ledger, app) is not None:
        absent_members.placeholder_ended(ledger, app, task, now, had_slot=slot is not None)
    elif app.state is AppState.RESERVING and slot is not None:
        is_missed = task.release in _REPLACEABLE and not app.core_is_running
        if is_missed and not state.is_namespace_terminating(ledger, app.namespace):
            placeholders.replace(ledger, out, app, slot, task, now)
        else:
            check_reserved(ledger, out, app, now)
    settle(ledger, out, app, now)


def _member_ended(ledger: Ledger, out: Outcome, app: Application, uid: PodUid, now: float) -> None:
    remove_member(app, uid)
    placeholders.member_gone(ledger, app, uid, now)
    if app.originator.ref.uid == uid:
        absent_members.originator_ended(ledger, out, app)
    absent_members.changed(ledger, app, now)
    if not ledger.is_current(app):
        _end_earlier_run(ledger, out, app, now)
    elif _is_idle(app) and runs.oldest(app) is None:
        kill(ledger, out, app, now)
    elif app.members and app.originator.ref.uid == uid:
        _change_originator(ledger, out, app, uid, now)
    else:
        settle(ledger, out, app, now)


def _end_earlier_run(ledger: Ledger, out: Outcome, app: Application, now: float) -> None:
    """Removes the application after its last pod, because a later run has begun. Until then it keeps their nodes."""
    if app.state not in _REMOVABLE:
        settle(ledger, out, app, now)
    elif not app.members:
        kill(ledger, out, app, now)
    else:
        placeholders.kill_all(ledger, out, app, now, problems.application_ended())
        rejections.release_slots(ledger, out, app)


def _is_idle(app: Application) -> bool:
    """Whether the core cannot complete the application itself, because it has never held resources."""
    return app.state in _NEVER_RUN or (app.state is AppState.RUNNING and not app.core_has_begun)


def _change_originator(ledger: Ledger, out: Outcome, app: Application, old: PodUid, now: float) -> None:
    """Makes the oldest remaining member the originator.

    Placeholders of the previous originator are deleted with it and created again for the new one.
    """
    next_originator = runs.oldest(app)
    if next_originator is None:  # the application runs and ends with its remaining pods
        settle(ledger, out, app, now)
        return
    was_resumed = old in ledger.resumed or app.originator.membership.resumed
    app.originator = next_originator
    if was_resumed:
        mark_resumed(ledger, out, app)
    if app.state is AppState.RESERVING:
        for task in list(app.placeholders.values()):
            if task.state is not TaskState.KILLING:
                tasks.kill(ledger, out, task, now, problems.originator_deleted())
