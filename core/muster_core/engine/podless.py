"""The places of a Direct gang: asked for by the core itself, held with no pods in them (semantics 16, ADR 0020).

One ask for each task group, for as many places as it has members. The resource
manager is told of neither ask nor place. A member that has its node already
stands for one of them, so one less is held.
"""

from __future__ import annotations

from dataclasses import replace

from muster_core.engine import affinity, ledger, lifecycle
from muster_core.model.effects import SchedulingState, SchedulingStateChanged
from muster_core.model.ids import ApplicationId, NodeId, TaskGroup, podless_key, podless_place_key
from muster_core.model.notes import Detail
from muster_core.model.release import Termination
from muster_core.model.resources import NOTHING
from muster_core.model.specs import AllocationSpec, ApplicationSpec, AskSpec, Member
from muster_core.model.states import ApplicationState
from muster_core.world.applications import Allocation, Application, Ask, lacking
from muster_core.world.classes import class_of
from muster_core.world.world import Partition

#: Why an application is refused that leaves the core to guess what it is to hold.
UNKNOWN_MEMBERS = "gangPlacement is Direct, but the task groups were not told: the core cannot hold places for them"


def summed(spec: ApplicationSpec) -> ApplicationSpec:
    """With a placeholderAsk that is what its members ask for in all, for that is what will be held."""
    if not spec.is_podless or not spec.members:
        return spec
    total = sum((member.resources.times(member.count) for member in spec.members), NOTHING)
    return replace(spec, placeholder_ask=total)


def refusal(spec: ApplicationSpec) -> str:
    """Why places cannot be held for its members; empty = they can."""
    if not spec.is_podless:
        return ""
    return "" if spec.members else UNKNOWN_MEMBERS


def ask(partition: Partition, app: Application, now_ns: int) -> None:
    """Ask for the places of all its members."""
    tags = partition.nodes.occupants.tags
    for member in app.spec.members:
        spec = _ask_for(app.spec, member)
        affinity.read(partition, spec)
        kind = class_of(spec, as_usual=True, tags=tags.project(spec.tags))
        asked_ns = min(app.submitted_ns, now_ns)
        ledger.add_ask(partition, app, Ask(spec, kind, spec.max_allocations, asked_ns=asked_ns))
    lifecycle.accept(partition, app, now_ns)


def _ask_for(spec: ApplicationSpec, member: Member) -> AskSpec:
    return AskSpec(
        spec.partition,
        spec.id,
        podless_key(spec.id, member.group),
        member.resources,
        constraints=member.constraints,
        group=member.group,
        placeholder=True,
        podless=True,
        priority=member.priority,
        max_allocations=member.count,
        namespace=spec.namespace,
        tags=dict(member.tags),
        facts=member.facts,
        allow_preempt_self=member.allow_preempt_self,
        allow_preempt_other=member.allow_preempt_other,
        created_ns=spec.created_ns,
    )


def give_way(partition: Partition, app: Application, told: AllocationSpec, now_ns: int) -> None:
    """Somebody of a task group has a node already, who asked for none: one place less is asked for, or held.

    A placeholder's pod stands for one that is asked for; one that is held is for the members.
    """
    if not app.spec.is_podless or not told.group:
        return
    asked = _asked(app, told.group)
    if asked is not None:
        app.gang.groups[told.group].replaced += not told.placeholder
        app.gang.groups[told.group].count -= told.placeholder  # the one with the pod is counted
        _want_less(partition, app, asked)
        return
    held = None if told.placeholder else _held(app, told.group, told.node)
    if held is not None:
        app.gang.groups[told.group].replaced += 1
        app.mark_releasing(held, Termination.PLACEHOLDER_REPLACED, now_ns)
        ledger.drop(partition, app, held, now_ns)


def returning(partition: Partition) -> list[ApplicationId]:
    """Gangs of whom some members are bound and others have their places no more, for the core began anew."""
    apps = [app for app in partition.applications.values() if app.spec.is_podless and app.is_reserving]
    found = [app for app in apps if app.state is ApplicationState.RUNNING]
    return [app.id for app in sorted(found, key=lambda app: (app.submitted_ns, app.sequence))]


def split(partition: Partition, app: Application) -> None:
    """Ask for each place alone: preemption holds room for one place of an ask."""
    for asked in [ask for ask in app.asks.values() if ask.spec.podless and ask.left > 1]:
        spec = asked.spec
        for ordinal in range(asked.left):
            one = replace(spec, key=podless_place_key(spec.key, ordinal), max_allocations=1)
            ledger.add_ask(partition, app, replace(asked, spec=one, left=1, made=0, attempts=None))
        app.gang.groups[spec.group].count -= asked.left
        ledger.remove_ask(partition, app, asked, Detail.APP_REQUEST)


def _asked(app: Application, group: TaskGroup) -> Ask | None:
    """The last ask for places of the group; None = all are held, or wanted no longer."""
    for kind, keys in app.waiting.items():
        if kind.placeholder and kind.group == group:
            found = app.asks[next(reversed(keys))]
            return found if found.spec.podless else None
    return None


def _want_less(partition: Partition, app: Application, asked: Ask) -> None:
    if asked.left == 1:
        ledger.remove_ask(partition, app, asked, Detail.REQUEST_ALLOC)
        # Where each place is asked for alone, others of the group may still be waited for.
        if _asked(app, asked.spec.group) is None:
            say_withdrawn(partition, app, asked)
    else:
        asked.left -= 1
        ledger.count_pending(partition, app, asked.spec.resources, -1)
        partition.stir_one(app)
    if app.gang.pledge:
        left = lacking(app)
        ledger.set_pledge(partition, app, left, backed=app.gang.backed and bool(left))


def _held(app: Application, group: TaskGroup, node: NodeId) -> Allocation | None:
    """The place that somebody on this node most likely has: one there, else the newest."""
    places = [app.allocations[identity] for identity in app.gang.live.get(group, ())]
    podless = [place for place in places if place.spec.podless]
    return next((place for place in podless if place.node == node), podless[-1] if podless else None)


def say_withdrawn(partition: Partition, app: Application, asked: Ask) -> None:
    """If it was told why the gang waits, it is told that nothing is waited for any more."""
    if asked.said is not None:
        text = "places are held for it no longer, nor waited for"
        said = SchedulingStateChanged(partition.rm, app.id, asked.spec.voice, SchedulingState.SCHEDULED, text)
        partition.outbox.state(said)
