"""How an application starts: from its first pod to its running members (contract 6.4, 10.7).

How it ends is in ``endings``.
"""

from __future__ import annotations

from dataclasses import replace
from heapq import heappop, heappush
from typing import Final

from muster_operator.agent import gangs, mismatches, namespaces, occupants, refusals, reserving, tasks, telling
from muster_operator.agent.asks import application_spec, can_announce, renewal_spec
from muster_operator.agent.deadlines import remember
from muster_operator.agent.ledger import Application, Deadline, Ledger, Look, Phase, Task
from muster_operator.model import vocabulary as words
from muster_operator.model.groups import GangDefinition, GangProblem, Placement
from muster_operator.model.ids import AppId
from muster_operator.model.namespaces import Namespace
from muster_operator.model.news import ApplicationSubmitted
from muster_operator.model.outcome import Outcome
from muster_operator.model.pods import Pod
from muster_operator.model.states import APPLICATION, AppEvent, AppState, TaskEvent, TaskState, after
from muster_operator.translate.task_groups import read_gang

#: The core has answered, and the application may have asks and allocations.
ANSWERED = frozenset({AppState.ACCEPTED, AppState.RESERVING, AppState.RESUMING, AppState.RUNNING})
#: Members that are gone and still in the heap of ages, beyond as many as there are.
_GONE: Final = 64
_KNOWN_TO_THE_CORE = ANSWERED | {AppState.SUBMITTED}


def step(app: Application, event: AppEvent) -> None:
    """Follow the table."""
    app.state = after(APPLICATION, app.state, event)


def _gang(ledger: Ledger, out: Outcome, pod: Pod) -> GangDefinition | None:
    """The gang that the originator defines; what is wrong with it is said on the pod, never passed over."""
    if ledger.settings.disable_gang or pod.membership.resumed or pod.ref.uid in ledger.resumed:
        return None
    found = read_gang(pod.membership.gang, ledger.settings.gang_placement)
    if isinstance(found, GangProblem):
        if pod.node is None:
            note = f"{found.message}. The application runs without a gang."
            telling.warn_gang(out, pod.ref, words.ACTION_TASK_GROUPS_ERROR, note)
        return None
    if found is not None and pod.node is None:
        for warning in found.warnings:
            telling.warn_gang(out, pod.ref, words.ACTION_TASK_GROUPS_ERROR, warning)
    return found


def create(ledger: Ledger, out: Outcome, pod: Pod) -> Application:
    """The first pod makes the application; later definitions are not read (contract 1.2)."""
    member = pod.membership
    gang = _gang(ledger, out, pod)
    if member.user_problem and pod.node is None:
        telling.warn(out, pod.ref, words.REASON_SCHEDULING, member.user_problem)
    app = Application(
        member.app,
        pod,
        member.queue,
        member.gang,
        gang,
        pod.created_s,
        user=member.user,
        namespace=pod.ref.namespace,
    )
    ledger.applications[app.id] = app
    if gang is not None and gang.is_direct and not can_announce(ledger, app, gang):
        _hold_by_pods(out, app, gang)
    return app


def _hold_by_pods(out: Outcome, app: Application, gang: GangDefinition) -> None:
    """The core cannot hold places of members that it cannot be told of: each gets a placeholder pod."""
    app.gang = replace(gang, placement=Placement.RESERVE)
    if app.originator.node is None:
        note = "gangPlacement: Direct is not possible with task groups of this size; Reserve is used, define fewer or "
        note += "smaller groups"
        telling.warn_gang(out, app.originator.ref, words.ACTION_TASK_GROUPS_ERROR, note)


def start(ledger: Ledger, out: Outcome, app: Application, now: float) -> None:
    """Submit it; one whose namespace was not seen yet waits for that."""
    if namespaces.is_ready(ledger, app.namespace):
        submit(ledger, out, app)
    else:
        remember(ledger, Deadline(now + namespaces.WAIT_S, Look.NAMESPACE, app.id))


def namespace_seen(ledger: Ledger, out: Outcome, before: Namespace | None, found: Namespace, now: float) -> None:
    """A namespace looks like this; it is recorded already. What waited for it is submitted, the rest hears what is new.

    An annotation that cannot be read takes nothing away from those who run: the quota that they have stays.
    """
    if before is None:
        _submit_of(ledger, out, found.name, now)
    if found.terminating or found == before:
        return
    is_changed = before is None or before.tags != found.tags
    if found.problems and (before is None or before.problems != found.problems):
        telling.warn_namespace(out, found.name, "; ".join(found.problems))
    own = [app for app in ledger.applications.values() if app.namespace == found.name]
    if is_changed and not found.problems:
        # Applications of one user that name one queue are in one leaf: one speaks for all.
        speakers = {(app.queue, app.user): app for app in own if app.state in _KNOWN_TO_THE_CORE}
        out.news += [ApplicationSubmitted(renewal_spec(ledger, app)) for app in speakers.values()]
    for app in own:
        if app.state is AppState.NEW:
            submit(ledger, out, app)


def _submit_of(ledger: Ledger, out: Outcome, namespace: str, now: float) -> None:
    """Ask for the pods of other namespaces' applications that waited for this one to be seen."""
    for app in ledger.applications.values():
        if may_ask(app) and app.namespace != namespace:
            for task in app.members.values():
                if task.state is TaskState.PENDING and task.pod.ref.namespace == namespace:
                    tasks.submit(ledger, out, task, now)


def wait_no_longer(ledger: Ledger, out: Outcome, app_id: AppId, now: float) -> None:
    """The namespace of a new application, or of one of its pods, did not come in time."""
    app = ledger.applications.get(app_id)
    if app is not None and app.state is AppState.NEW:
        submit(ledger, out, app)
    elif app is not None and may_ask(app):
        for task in app.members.values():
            if task.state is TaskState.PENDING:
                tasks.submit(ledger, out, task, now)


def may_ask(app: Application) -> bool:
    """Whether its members may: once it runs, or while the core holds places for them without placeholder pods."""
    is_direct = app.gang is not None and app.gang.is_direct
    return app.state is AppState.RUNNING or (is_direct and app.state is AppState.RESERVING)


def submit(ledger: Ledger, out: Outcome, app: Application) -> None:
    """Tell the core of the application, and its first pod what is wrong with the annotations of its namespace."""
    step(app, AppEvent.SUBMIT)
    namespace = ledger.namespaces.get(app.namespace)
    if namespace is not None and app.originator.node is None:
        for problem in namespace.problems:
            telling.warn(out, app.originator.ref, words.REASON_SCHEDULING, f"namespace {namespace.name}: {problem}")
    out.news.append(ApplicationSubmitted(application_spec(ledger, app)))


def attach(ledger: Ledger, app: Application, pod: Pod) -> Task:
    """Make the pod a task of its application, without any consequence yet."""
    task = Task(pod, app.id, counts=app.standing)
    ledger.tasks_by_node.add(task.uid, pod.node)
    ledger.tasks[task.uid] = task
    if pod.membership.placeholder:
        app.placeholders[task.uid] = task
        app.placeholder_names.add(pod.ref.name)
    else:
        app.members[task.uid] = task
        app.arrivals += 1
        heappush(app.ages, (pod.created_s, app.arrivals, task.uid))
        if len(app.ages) > 2 * len(app.members) + _GONE:  # an application may live for long, and its pods briefly
            app.ages = sorted(age for age in app.ages if age[2] in app.members)
    tasks.step(task, TaskEvent.WAIT)
    if pod.node is not None:
        task.node = pod.node
        tasks.step(task, TaskEvent.BIND)
    return task


def oldest(app: Application) -> Pod:
    """The oldest member, if possible one that is not being deleted. Members that it passes over are forgotten here."""
    while app.ages:
        task = app.members.get(app.ages[0][2])
        if task is not None and not task.pod.terminating:
            return task.pod
        heappop(app.ages)
    return next(iter(app.members.values())).pod


def join(ledger: Ledger, out: Outcome, pod: Pod, now: float) -> None:
    """A real pod of ours appeared."""
    app = ledger.applications.get(pod.membership.app)
    is_new = app is None
    if app is None:
        app = create(ledger, out, pod)
    task = attach(ledger, app, pod)
    refusals.inherit(ledger, app, task, now)
    mismatches.tell(ledger, out, app, task)
    if is_new:
        start(ledger, out, app, now)
    elif app.failure is not None:
        join_failed(ledger, out, task, app.failure)
    elif ledger.phase is Phase.LIVE and app.state in ANSWERED:
        tasks.report_bound(ledger, out, task)
        if may_ask(app) and task.state is TaskState.PENDING:
            _ask(ledger, out, app, task, now)
            reserving.joined(ledger, out, app, task, now)


def join_failed(ledger: Ledger, out: Outcome, task: Task, failure: tuple[str, str]) -> None:
    """A member of an application that failed fails too; one that has its node all the same takes its room."""
    tasks.fail(ledger, out, task, *failure)
    if task.state is TaskState.BOUND and not task.held:
        occupants.make_stray(ledger, out, task.pod)


def accept(ledger: Ledger, out: Outcome, app: Application, now: float) -> None:
    """The core accepted the application; while a session is being filled its pods wait for ``proceed``."""
    step(app, AppEvent.ACCEPT)
    if ledger.phase is Phase.LIVE:
        for task in (*app.members.values(), *app.placeholders.values()):
            if task.node is not None:
                occupants.stray_gone(ledger, out, task.uid)  # refused by the core's application before this one
            tasks.report_bound(ledger, out, task)
        proceed(ledger, out, app, now)


def proceed(ledger: Ledger, out: Outcome, app: Application, now: float) -> None:
    """Accepted: reserve for a gang that has no real member bound yet, else run (semantics 17).

    One whose node is gone does not count: the core was not told of it, and waits for the gang's places.
    """
    has_started = any(task.state is TaskState.BOUND and task.held for task in app.members.values())
    if app.gang is None or not app.gang.size or has_started:
        run(ledger, out, app, now)
        return
    step(app, AppEvent.RESERVE)
    reserving.watch(ledger, app, now)
    if app.gang.is_direct:
        submit_waiting(ledger, out, app, now)
    else:
        _reserve_by_pods(ledger, out, app, app.gang, now)
    if app.core_is_running:
        core_runs(ledger, out, app, now)


def _reserve_by_pods(ledger: Ledger, out: Outcome, app: Application, gang: GangDefinition, now: float) -> None:
    """Create the placeholders that are missing, and ask for those that are there."""
    for task in gangs.adopt(app, gang):
        tasks.kill(ledger, out, task, now, "more placeholders than members")
    app.reached = reserving.how_far(app)  # who was before us told of that
    ordered = gangs.order_missing(ledger, out, app, gang, now)
    if ordered:
        telling.progress(
            out, app, words.ACTION_CREATING_PLACEHOLDERS, f"Creating {ordered} placeholders for {gang.size} members"
        )
    for task in app.placeholders.values():
        if task.state is TaskState.PENDING:
            tasks.submit(ledger, out, task, now)


def check_reserved(ledger: Ledger, out: Outcome, app: Application, now: float) -> None:
    """All placeholders bound in our eyes and reserved in the core's: the members may ask (semantics 9).

    Where there are none the core's word that it holds all places is enough, and the members have asked already.
    """
    if app.state is not AppState.RESERVING or not app.core_is_running:
        return
    if not app.open_slots:
        telling.progress(out, app, words.ACTION_RESERVATION_COMPLETE, reserving.all_there(app))
        reserving.over(app)
        run(ledger, out, app, now)


def core_runs(ledger: Ledger, out: Outcome, app: Application, now: float) -> None:
    """The core has all reservations: stop waiting for placeholders that were not seen yet."""
    gangs.forget_unseen(ledger, out, app)
    check_reserved(ledger, out, app, now)


def run(ledger: Ledger, out: Outcome, app: Application, now: float) -> None:
    """The members may ask; a placeholder that never got a node is of no use any more."""
    step(app, AppEvent.RUN)
    gangs.forget_all(ledger, out, app)
    for task in list(app.placeholders.values()):
        if task.state in {TaskState.PENDING, TaskState.SCHEDULING}:
            tasks.kill(ledger, out, task, now, "the application runs")
    submit_waiting(ledger, out, app, now)


def submit_waiting(ledger: Ledger, out: Outcome, app: Application, now: float) -> None:
    """Ask for every member that waits, the oldest first."""
    for task in app.members.values():
        if task.state is TaskState.PENDING:
            _ask(ledger, out, app, task, now)


def _ask(ledger: Ledger, out: Outcome, app: Application, task: Task, now: float) -> None:
    """Ask for a member, unless it is of a namespace of its own that was not seen yet."""
    namespace = task.pod.ref.namespace
    if namespace == app.namespace or namespaces.is_known(ledger, namespace):
        tasks.submit(ledger, out, task, now)
    else:
        remember(ledger, Deadline(now + namespaces.WAIT_S, Look.NAMESPACE, app.id))


def placeholder_bound(ledger: Ledger, out: Outcome, task: Task, now: float) -> None:
    """A placeholder has its node."""
    app = ledger.applications.get(task.app)
    if app is not None:
        app.open_slots.discard(task.pod.ref.name)
        check_reserved(ledger, out, app, now)
