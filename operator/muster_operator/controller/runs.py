"""Runs of an application: which pods belong together, and which members of a gang have succeeded.

Pods with one application ID are one application, as in YuniKorn. Differs: when all pods of a gang have ended, or their
namespace was deleted, the next pod begins a new run. A run is an application of its own in the core, with an ID that
users do not see, so that it is queued, checked and reserved again, and late messages of an earlier run cannot affect
it. Pods that still terminate stay in the run that they belong to. See docs/internals/semantics.md, 13.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from heapq import heappop

from muster_operator.controller import state, tasks
from muster_operator.controller.state import Application, EndedMember, Ledger
from muster_operator.model.cluster_events import Namespace
from muster_operator.model.ids import AppId, PodUid
from muster_operator.model.pods import GangDefinition, Pod, PodPhase
from muster_operator.translate.gangs import placeholder_ask


def oldest_living(app: Application) -> Pod | None:
    """The oldest member that is not being deleted. Removes the others from the heap."""
    while app.ages:
        task = app.members.get(app.ages[0][2])
        if task is not None and not task.pod.terminating:
            return task.pod
        heappop(app.ages)
    return None


def oldest(app: Application) -> Pod | None:
    """The oldest member, preferably one that is not being deleted.

    Returns None if all pods have the mark of placeholders without a signature of Muster.
    """
    living = oldest_living(app)
    if living is not None:
        return living
    return next((task.pod for task in app.members.values() if not tasks.is_unverified(task.pod)), None)


def is_over(ledger: Ledger, app: Application, pod: Pod) -> bool:
    """Whether a new pod begins a new run instead of joining this application.

    Without task groups, pods join as in YuniKorn, unless the namespace was deleted.
    """
    if app.is_closed:
        return True
    if ledger.settings.disable_gang or not (app.source.is_written or pod.membership.gang.is_written):
        return False
    if app.failure is not None and app.core_has_begun:
        return True  # the core releases all its members
    return oldest_living(app) is None


def namespace_changed(ledger: Ledger, name: str, found: Namespace | None) -> None:
    """Closes the applications of a namespace that is terminating or gone (``found`` is None).

    Pods cannot be created in a terminating namespace, so applications that begin then belong to the next namespace of
    that name. Applications of several namespaces stay open.
    """
    uid = found.uid if found is not None and not found.terminating else ""
    for app in ledger.applications.values():
        if app.namespace != name or app.common_id.startswith("@"):
            continue
        app.is_closed = app.is_closed or app.namespace_uid not in {"", uid}
        app.namespace_uid = app.namespace_uid or uid


@dataclass(frozen=True, slots=True)
class Run:
    """The pods of one run at the start of a session, originator first.

    ``id``: its ID in the core. ``is_over``: new pods are another run.
    """

    id: AppId
    members: list[Pod]
    placeholders: list[Pod]
    is_over: bool = False


def split(ledger: Ledger, app_id: AppId, members: list[Pod], placeholders: list[Pod]) -> list[Run]:
    """Separates the pods of one application ID into those of an earlier run that still terminate, and the others.

    A terminating pod is of an earlier run if its deletion was requested before the first living pod was created.
    ``app_id``: ID of the present run in the core.
    """
    began_s = min((pod.created_s for pod in members if not pod.terminating), default=None)
    before = [pod for pod in members if pod.terminating and (began_s is None or 0 < pod.deleted_s <= began_s)]
    if not before or not any(pod.membership.gang.is_written for pod in members):
        return [Run(app_id, members, placeholders)]
    ended = {pod.ref.uid for pod in before}
    own = [[pod for pod in placeholders if (pod.membership.owner in ended) is is_over] for is_over in (True, False)]
    runs = [
        Run(state.numbered(ledger, before[0].membership.app), before, own[0], is_over=True),
        Run(app_id, [pod for pod in members if pod.ref.uid not in ended], own[1]),
    ]
    return [run for run in runs if run.members or run.placeholders]


def remember_ended(ledger: Ledger, pod: Pod) -> None:
    """Records a member that was bound and has ended. A pod that its kubelet rejected is not a member."""
    member, uid = pod.membership, pod.ref.uid
    if pod.terminating:
        forget_ended(ledger, uid)
    elif member.task_group and pod.node is not None and pod.scheduled_at_ms is not None and not pod.kubelet_refusal:
        has_succeeded = pod.phase is PodPhase.SUCCEEDED
        ledger.ended[uid] = EndedMember(
            member.app, member.task_group, pod.controller, pod.created_s, pod.scheduled_at_ms, has_succeeded
        )
        ledger.ended_of.setdefault(member.app, set()).add(uid)


def forget_ended(ledger: Ledger, uid: PodUid) -> None:
    """Removes the record of an ended member, because its pod is gone or being deleted."""
    member = ledger.ended.pop(uid, None)
    if member is not None:
        of_app = ledger.ended_of[member.app]
        of_app.discard(uid)
        if not of_app:
            del ledger.ended_of[member.app]


def succeeded(ledger: Ledger, app: AppId, living: Collection[Pod]) -> Mapping[str, int]:
    """The number of succeeded members of a run by task group, from its living pods.

    A controller that creates a pod again after others have succeeded continues its run, for example a Job that retries
    one index. The run is as old as its oldest living pod, or the oldest ended pod of the same controllers. Members that
    were bound before that belong to an earlier run: an application ID may be used again.
    """
    members = [ledger.ended[uid] for uid in ledger.ended_of.get(app, ())]
    controllers = {pod.controller for pod in living} - {""}
    ages = [pod.created_s for pod in living] + [one.created_s for one in members if one.controller in controllers]
    if not members or not ages:
        return {}
    since_ms = min(ages) * 1000
    return Counter(one.group for one in members if one.has_succeeded and one.bound_ms >= since_ms)


def without(gang: GangDefinition, counts: Mapping[str, int]) -> GangDefinition:
    """The gang with so many members fewer by task group."""
    if not counts:
        return gang
    remaining = ((group, max(0, group.min_member - counts.get(group.name, 0))) for group in gang.groups)
    groups = tuple(replace(group, min_member=count) for group, count in remaining)
    return replace(gang, groups=groups, placeholder_ask=placeholder_ask(groups))
