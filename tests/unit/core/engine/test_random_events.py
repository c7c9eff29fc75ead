"""Whatever is told in whatever order, the ledgers agree and nothing placeable is left waiting.

A resource manager that behaves, but whose cluster does not: pods die, nodes
go, confirmations come late, twice or in any order, time passes. Scene checks
the invariants after every step; here every "no" of the core is planned anew
without its memo and must be the same "no" (semantics 22), and a world told anew
by what the resource manager knows is the same world (semantics 17, 19).
"""

from __future__ import annotations

from dataclasses import replace

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from muster_core.model.config import Configuration, QuotaLimit, Timing
from muster_core.model.constraints import ANYWHERE, Constraints
from muster_core.model.effects import AllocationAnswer, Effect, NewAllocation
from muster_core.model.events import (
    AllocationReleased,
    AllocationReported,
    ApplicationAdded,
    ApplicationRemoved,
    AskAdded,
    AskReleased,
    ConfigurationReplaced,
    FencePassed,
    ManagerRegistered,
    NodeAction,
    NodeAdded,
    NodeUpdated,
)
from muster_core.model.ids import AllocationId, AllocationKey, ApplicationId
from muster_core.model.placement import PlacementConstraint, Target, TargetOperator
from muster_core.model.policies import ApplicationOrder
from muster_core.model.release import Termination
from muster_core.model.resources import Limit
from muster_core.model.specs import AllocationSpec, GangStyle
from muster_core.model.states import ApplicationState, NodeState
from muster_core.plan import fit, gang, headroom, ordering, reserving, starting, swap, usual
from muster_core.plan.draft import Draft
from muster_core.plan.outline import Outline, shape_of
from muster_core.plan.swap import has_placeholder
from muster_core.world.applications import Application
from muster_core.world.misfits import Misfits
from tests.unit.builders import (
    PARTITION,
    RM,
    SECOND,
    a_configuration,
    a_limit,
    a_node,
    a_queue,
    an_affinity,
    an_allocation,
    an_application,
    an_ask,
)
from tests.unit.core.engine.scene import Scene

_QUEUES = ("root.p.a", "root.p.b", "root.c", "root.fair")
_SSD = Constraints(node_selector=(("disk", "ssd"),))
_ROLES = ({}, {"role": "x"}, {"role": "y"})
_PLACEMENTS = (
    None,
    None,
    an_affinity("role", "x", scope="hostname", most=1),
    an_affinity("role", "y", scope="hostname", least=1),
    an_affinity("role", "x", scope="disk", least=2, most=3),
    an_affinity("role", "x", "y", scope="hostname", most=1, required=False),
    PlacementConstraint((Target("disk", TargetOperator.NOT_EXIST),)),
)
_STARTED = (ApplicationState.RUNNING, ApplicationState.COMPLETING)
_TIMING = Timing(
    placeholder_timeout_ns=100 * SECOND,
    starvation_age_ns=200 * SECOND,
    completing_timeout_ns=10 * SECOND,
    release_timeout_ns=40 * SECOND,
)


def _limits(vcore: int) -> tuple[QuotaLimit, ...]:
    """Of a user, of each of the others, and of a group."""
    return (
        a_limit(users=("user0",), vcore=vcore // 2, applications=2),
        a_limit(users=("*",), vcore=vcore),
        a_limit(groups=("dev",), vcore=vcore, applications=2),
    )


def _configuration(parent: int, leaf: int) -> Configuration:
    return a_configuration(
        a_queue("p", a_queue("a", vcore=leaf), a_queue("b", max_applications=2), vcore=parent),
        a_queue("c", limits=_limits(leaf)),
        a_queue("fair", fair=True),
        timing=_TIMING,
    )


def _reported(new: NewAllocation) -> AllocationSpec:
    """What was given, as a restart reports it."""
    ask = new.ask
    return AllocationSpec(
        PARTITION, ask.application, ask.key, new.id, new.node, ask.resources, ask.group, ask.placeholder, tags=ask.tags
    )


class RandomEvents(RuleBasedStateMachine):  # long: one rule for everything that may happen
    """The rules are what may happen; Scene.tell checks after each."""

    def __init__(self) -> None:
        super().__init__()
        self.scene = Scene(_configuration(12_000, 6_000))
        self.number = 0
        self.owed: list[tuple[str, str, AllocationId, Termination]] = []
        self.given: dict[tuple[str, AllocationId], NewAllocation] = {}
        self.sizes = (12_000, 6_000)

    def tell(self, *events: object) -> None:
        self.hear(self.scene.tell(*events))  # type: ignore[arg-type]  # every rule passes events

    def hear(self, said: list[Effect]) -> None:
        """A resource manager's books: what it was given, what it was told to release."""
        for answer in (effect for effect in said if isinstance(effect, AllocationAnswer)):
            for release in answer.released:
                self.given.pop((release.application, release.id), None)
                if release.termination is not Termination.STOPPED_BY_RM:
                    self.owed.append((release.application, release.key, release.id, release.termination))
            for new in answer.new:
                assert (new.ask.application, new.id) not in self.given, "given twice"
                self.given[new.ask.application, new.id] = new

    def apps(self) -> list[Application]:
        return list(self.scene.partition.applications.values())

    @initialize()
    def first_nodes(self) -> None:
        self.tell(NodeAdded(a_node("first", 4000)), NodeAdded(a_node("second", 2000, labels={"disk": "ssd"})))

    @rule(vcore=st.sampled_from([1000, 2000, 4000, 8000]), ssd=st.booleans())
    def add_node(self, vcore: int, *, ssd: bool) -> None:
        if len(self.scene.partition.nodes) < 6:
            self.number += 1
            labels = {"disk": "ssd"} if ssd else {}
            self.tell(NodeAdded(a_node(f"n{self.number}", vcore, labels=labels)))

    @precondition(lambda self: len(self.scene.partition.nodes) > 2)
    @rule(data=st.data(), action=st.sampled_from(NodeAction))
    def tell_node(self, data: st.DataObject, action: NodeAction) -> None:
        if nodes := list(self.scene.partition.nodes):
            self.hear(self.scene.node(data.draw(st.sampled_from(nodes)), action))

    @rule(data=st.data(), vcore=st.sampled_from([500, 3000, 9000]))
    def resize_node(self, data: st.DataObject, vcore: int) -> None:
        if nodes := list(self.scene.partition.nodes):
            self.tell(NodeUpdated(a_node(data.draw(st.sampled_from(nodes)), vcore)))

    @rule(
        queue=st.sampled_from(_QUEUES),
        members=st.integers(0, 5),
        asked=st.sampled_from([0, 1, 5, 5, 5]),
        style=st.sampled_from(GangStyle),
        seconds=st.sampled_from([(0, 0), (30, 0), (0, 60)]),
    )
    def submit(self, queue: str, members: int, asked: int, style: GangStyle, seconds: tuple[int, int]) -> None:
        """A gang (or not), with some or all of its placeholder asks at once."""
        self.number += 1
        name = f"app{self.number}"
        timeout_s, wait_s = seconds
        spec = an_application(
            name,
            queue=queue,
            gang=members,
            style=style,
            timeout_s=timeout_s,
            wait_s=wait_s,
            user=f"user{self.number % 2}",
            groups=("dev",) if self.number % 3 else (),
        )
        asks = [
            AskAdded(an_ask(f"{name}p{index}", app=name, group="workers", placeholder=True))
            for index in range(min(members, asked))
        ]
        self.tell(ApplicationAdded(spec), *asks)

    @precondition(lambda self: any(app.gang.live for app in self.apps()))
    @rule(
        data=st.data(),
        vcore=st.sampled_from([300, 1000, 1000, 1000, 1500]),
        ssd=st.sampled_from([False, False, True]),
        placement=st.sampled_from(_PLACEMENTS),
        tags=st.sampled_from(_ROLES),
    )
    def send_member(  # long: what a member may be
        self, data: st.DataObject, vcore: int, placement: PlacementConstraint | None, tags: dict[str, str], *, ssd: bool
    ) -> None:
        """A real member of a gang that has placeholders."""
        app = data.draw(st.sampled_from([app for app in self.apps() if app.gang.live]))
        self.number += 1
        constraints = _SSD if ssd else ANYWHERE
        ask = an_ask(f"m{self.number}", app=app.id, vcore=vcore, group="workers", constraints=constraints)
        self.tell(AskAdded(replace(ask, placement=placement, tags=tags)))

    @precondition(lambda self: self.apps())
    @rule(
        data=st.data(),
        vcore=st.sampled_from([300, 1000, 1500]),
        group=st.sampled_from(["workers", "", "other"]),
        count=st.integers(1, 3),
        ssd=st.booleans(),
        timeout_s=st.sampled_from([0, 0, 20]),
    )
    def ask_for_real(
        self, data: st.DataObject, vcore: int, group: str, count: int, timeout_s: int, *, ssd: bool
    ) -> None:
        """Keys are few: some replace an ask that waits or is parked, some are allocated already, some are another's."""
        app = data.draw(st.sampled_from(self.apps()))
        self.number += 1
        constraints = _SSD if ssd else ANYWHERE
        key = f"r{self.number % 5}"
        ask = an_ask(
            key, app=app.id, vcore=vcore, group=group, count=count, constraints=constraints, priority=vcore // 700
        )
        placement, tags = data.draw(st.sampled_from(_PLACEMENTS)), data.draw(st.sampled_from(_ROLES))
        self.tell(AskAdded(replace(ask, timeout_ns=timeout_s * SECOND, placement=placement, tags=tags)))

    @rule(data=st.data(), arrives=st.booleans())
    def change_foreign(self, data: st.DataObject, *, arrives: bool) -> None:
        nodes, foreign = list(self.scene.partition.nodes), list(self.scene.partition.foreign.values())
        if arrives and nodes:
            self.number += 1
            node = data.draw(st.sampled_from(nodes))
            spec = an_allocation(f"f{self.number}", node, app="", vcore=700, foreign=True)
            self.tell(AllocationReported(spec))
        elif foreign:
            self.hear(self.scene.release(data.draw(st.sampled_from(foreign)).key, app=""))

    @precondition(lambda self: any(app.is_reserving for app in self.apps()))
    @rule(data=st.data(), count=st.integers(1, 5))
    def ask_for_placeholders(self, data: st.DataObject, count: int) -> None:
        app = data.draw(st.sampled_from([app for app in self.apps() if app.is_reserving]))
        asks = []
        for _ in range(count):
            self.number += 1
            ask = an_ask(f"p{self.number}", app=app.id, group="workers", placeholder=True, tags=_ROLES[count % 3])
            placement = _PLACEMENTS[self.number % len(_PLACEMENTS)]
            asks.append(AskAdded(replace(ask, placement=placement)))
        self.tell(*asks)

    @precondition(lambda self: self.owed)
    @rule(data=st.data(), twice=st.booleans(), by_itself=st.booleans())
    def confirm(self, data: st.DataObject, *, twice: bool, by_itself: bool) -> None:
        index = data.draw(st.integers(0, len(self.owed) - 1))
        app, key, identity, termination = self.owed.pop(index)
        why = Termination.STOPPED_BY_RM if by_itself else termination
        self.given.pop((app, identity), None)  # told anew since, and going all the same
        event = AllocationReleased(PARTITION, ApplicationId(app), AllocationKey(key), identity, why)
        self.tell(*([event, event] if twice else [event]))

    @precondition(lambda self: self.given)
    @rule(data=st.data())
    def lose(self, data: st.DataObject) -> None:
        app, identity = data.draw(st.sampled_from(sorted(self.given)))
        key = AllocationKey(identity.rpartition("-")[0])
        self.tell(AllocationReleased(PARTITION, ApplicationId(app), key, identity, Termination.STOPPED_BY_RM))

    @precondition(lambda self: any(app.asks for app in self.apps()))
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        app = data.draw(st.sampled_from([app for app in self.apps() if app.asks]))
        self.hear(self.scene.release_ask(data.draw(st.sampled_from(sorted(app.asks))), app.id))

    @precondition(lambda self: self.apps())
    @rule(data=st.data(), asks=st.booleans())
    def release_all(self, data: st.DataObject, *, asks: bool) -> None:
        """Without key: all of the application."""
        app = data.draw(st.sampled_from(self.apps()))
        why = Termination.STOPPED_BY_RM
        if asks:
            self.tell(AskReleased(PARTITION, app.id, None, why))
        else:
            self.tell(AllocationReleased(PARTITION, app.id, None, None, why))

    @precondition(lambda self: len(self.apps()) > 4)
    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        self.tell(ApplicationRemoved(PARTITION, data.draw(st.sampled_from(self.apps())).id))

    @rule(seconds=st.sampled_from([1, 1, 1, 15, 45, 300]))
    def pass_time(self, seconds: int) -> None:
        self.hear(self.scene.wait(seconds))

    @rule(parent=st.sampled_from([3_000, 12_000]), leaf=st.sampled_from([2_000, 6_000]))
    def reload(self, parent: int, leaf: int) -> None:
        self.sizes = (parent, leaf)
        self.tell(ConfigurationReplaced(RM, _configuration(parent, leaf)))

    @rule(data=st.data())
    def come_back(self, data: st.DataObject) -> None:
        """The connection broke: everything is told anew, as the resource manager knows it (semantics 19).

        What was told to go is still there; some of it goes later, which is confirmed as if nothing had been.
        """
        old = self.scene.partition
        apps = [app for app in self.apps() if app.state is not ApplicationState.FAILING]
        for name, _, identity, _ in self.owed:
            owner = old.applications.get(ApplicationId(name))
            if owner is not None and (going := owner.allocations.get(identity)) is not None:
                self.given[name, identity] = NewAllocation(going.spec, identity, going.node)
        self.owed = data.draw(st.sampled_from([[], self.owed]))
        known = {app.id: app for app in apps}
        self.given = {where: new for where, new in self.given.items() if where[0] in known}
        self.tell(ManagerRegistered(RM, _configuration(*self.sizes), fenced=True))
        self.tell(*(ApplicationAdded(replace(app.spec, forced=True)) for app in apps))
        for node in list(old.nodes):
            existing = [_reported(new) for new in self.given.values() if new.node == node]
            existing += [spec for spec in old.foreign.values() if spec.node == node]
            self.tell(NodeAdded(old.nodes.record(node).spec, draining=True, existing=tuple(existing)))
        self.same_as(known)
        for app in apps:
            asks = (ask.spec for ask in app.asks.values() if ask.spec.key not in app.ids)
            self.tell(*(AskAdded(replace(ask, max_allocations=app.asks[ask.key].left)) for ask in asks))
        self.tell(FencePassed(RM))
        for node in list(old.nodes):
            if old.nodes.record(node).state is NodeState.SCHEDULABLE:
                self.hear(self.scene.node(node, NodeAction.OPEN))

    def same_as(self, known: dict[ApplicationId, Application]) -> None:
        """The world that was told anew holds what the old one held."""
        for name, before in known.items():
            after = self.scene.partition.applications[name]
            assert (after.allocated, after.gang.allocated) == (before.allocated, before.gang.allocated)
            if after.real_allocations:
                assert after.state is ApplicationState.RUNNING

    @invariant()
    def books_agree(self) -> None:
        held = {
            (app.id, allocation.id)
            for app in self.apps()
            for allocation in app.allocations.values()
            if allocation.releasing is None
        }
        assert held == self.given.keys()

    @invariant()
    def every_no_is_a_no(self) -> None:
        partition = self.scene.partition
        for app in self.apps():
            if app.is_reserving or self.stands_behind_a_gang(app) or starting.hindrance(partition, app):
                continue
            room = headroom.room(partition, app)
            for kind in app.waiting:
                if kind.placeholder or has_placeholder(app, kind) or not room.count(kind.resources, 1):
                    continue
                spots = fit.place(Draft(partition.nodes), shape_of(kind), 1, partition.config.node_sort)
                assert spots == [], f"{app.id} could have been placed on {spots}"

    @invariant()
    def a_plan_without_memory_decides_nothing_more(self) -> None:
        partition = self.scene.partition
        remembered, partition.misfits = partition.misfits, Misfits()
        for leaf in partition.queues.leaves():
            is_blocked = False
            for app in ordering.applications(partition, leaf):
                if starting.hindrance(partition, app):
                    continue
                outlines = self.planned_anew(app)
                has_started = app.state in _STARTED or app.real_allocations or app.gang.reserved or app.gang.pledge
                if not is_blocked or has_started:
                    decided = [decision for outline in outlines for decision in outline.decisions]
                    assert decided == [], f"{app.id} need not have waited"
                    is_blocked = is_blocked or (outlines[0].blocks and leaf.policies.order is ApplicationOrder.FIFO)
        partition.misfits = remembered

    def planned_anew(self, app: Application) -> list[Outline]:
        partition = self.scene.partition
        if app.is_reserving:
            return [gang.plan(partition, app, self.scene.now_ns)]
        return [reserving.plan(partition, app), swap.plan(partition, app, 100), usual.plan(partition, app, 100)]

    def stands_behind_a_gang(self, app: Application) -> bool:
        partition, leaf = self.scene.partition, app.queue
        mine = ordering.application_key(partition, app)
        return leaf.policies.order is ApplicationOrder.FIFO and any(
            other.is_reserving and ordering.application_key(partition, other) < mine
            for other in map(partition.applications.__getitem__, leaf.waiting)
        )

    @invariant()
    def nothing_new_is_over_the_maximum(self) -> None:
        for queue in self.scene.partition.queues.by_path.values():
            assert queue.excused or Limit(dict(queue.max.items())).allows(queue.allocated)


TestRandomEvents = RandomEvents.TestCase
TestRandomEvents.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
