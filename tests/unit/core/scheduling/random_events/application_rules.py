"""Rules: applications are submitted and removed; all of their asks or allocations are released."""

from dataclasses import replace
from itertools import cycle

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from muster_core.model.constraints import ANYWHERE, Constraints
from muster_core.model.events import (
    AllocationReleased,
    ApplicationAdded,
    ApplicationRemoved,
    AskAdded,
    AskReleased,
    GroupsResolved,
)
from muster_core.model.ids import TaskGroup, Termination
from muster_core.model.resources import Limit
from muster_core.model.specs import (
    NO_PROPERTIES,
    ApplicationSpec,
    GangPlacement,
    GangStyle,
    Member,
    NamespaceQuota,
    PodProperties,
)
from tests.unit.builders import PARTITION, an_application, an_ask, resources
from tests.unit.core.scheduling.random_events.ask_rules import COMPANIES, ROLES, SSD
from tests.unit.core.scheduling.random_events.base import Ground
from tests.unit.core.scheduling.random_events.configurations import QUEUES

_CLOCKS = ((0, 0), (30, 0), (0, 60))
_PLACEMENTS = (
    *[GangPlacement.RESERVE] * 2,
    *[GangPlacement.DIRECT] * 2,
    *[GangPlacement.AUTO] * 2,
)
#: Size, constraints and properties of members. The first ones are as their task group declares.
_SHAPES = (
    *[(1000, ANYWHERE, NO_PROPERTIES)] * 3,
    (300, ANYWHERE, NO_PROPERTIES),
    (1500, ANYWHERE, NO_PROPERTIES),
    (1000, SSD, NO_PROPERTIES),
    *((vcore, constraints, facts) for vcore, constraints in ((1000, ANYWHERE), (1500, SSD)) for facts in COMPANIES[3:]),
)
_STOPPED = Termination.STOPPED_BY_RM


def _with_others(spec: ApplicationSpec, number: int) -> ApplicationSpec:
    """Return a gang with two task groups and constraints."""
    [workers] = spec.members
    facts = COMPANIES[number % len(COMPANIES)]
    tags = tuple(ROLES[number % len(ROLES)].items())
    workers = replace(workers, facts=PodProperties(inter_pod=facts.inter_pod), tags=tags, priority=number % 3)
    others = Member(TaskGroup("other"), 1, resources(vcore=1500, pods=1), SSD if number % 2 else ANYWHERE)
    return replace(spec, members=(workers, others) if number % 4 else (workers,))


class Applications(Ground):
    """Rules of applications."""

    @precondition(lambda self: self.nodes())
    @rule(
        queue=st.sampled_from(QUEUES),
        members=st.sampled_from([0, 0, 0, 1, 2, 3, 5]),
        asked=st.sampled_from([5, 5, 5, 1, 0]),
        style=st.sampled_from(GangStyle),
        clocks=st.sampled_from(_CLOCKS),
        placement=st.sampled_from(_PLACEMENTS),
        shapes=st.lists(st.sampled_from(_SHAPES), min_size=1, max_size=2),
    )
    def submit(  # long: each is drawn
        self,
        queue: str,
        members: int,
        asked: int,
        style: GangStyle,
        clocks: tuple[int, int],
        placement: GangPlacement,
        *,
        shapes: list[tuple[int, Constraints, PodProperties]],
    ) -> None:
        """Submit a gang with some or all of its members or placeholder asks, or some single pods."""
        name = self.new_name("app")
        number, (timeout_s, wait_s) = self.site.number, clocks
        spec = an_application(
            name,
            queue=queue,
            gang=members,
            style=style,
            placement=placement,
            timeout_s=timeout_s,
            wait_s=wait_s,
            user=f"user{number % 2}",
            groups=("dev",) if number % 3 else (),
            forced=number % 6 == 5,
        )
        if number % 3 == 2:
            spec = replace(spec, groups=(), groups_unknown="the directory does not answer")
        asks = [
            AskAdded(an_ask(f"{name}p{index}", app=name, group="workers", placeholder=True, priority=number % 3))
            for index in range(members if placement is GangPlacement.AUTO else min(members, asked))
        ]
        if not members:
            asks = [AskAdded(an_ask(f"{name}q{index}", app=name, priority=number % 3)) for index in range(asked)]
        if members and placement in (GangPlacement.DIRECT, GangPlacement.AUTO):
            spec = _with_others(spec, number)
            real = (
                replace(
                    an_ask(f"{name}r{index}", app=name, vcore=vcore, group="workers", constraints=constraints),
                    tags=ROLES[number % len(ROLES)],
                    facts=facts,
                )
                for index, (vcore, constraints, facts) in zip(range(min(members, asked)), cycle(shapes), strict=False)
            )
            pods = asks[asked:] if placement is GangPlacement.AUTO else []
            asks = [*(AskAdded(ask) for ask in real), *pods]
        self.send(ApplicationAdded(spec), *asks)

    @precondition(lambda self: self.unresolved())
    @rule(data=st.data(), groups=st.sampled_from([("dev",), ()]))
    def resolve_groups(self, data: st.DataObject, groups: tuple[str, ...]) -> None:
        """Resolve the groups of a user."""
        user = data.draw(st.sampled_from(self.unresolved()))
        self.send(GroupsResolved(PARTITION, user, groups))

    @precondition(lambda self: self.apps())
    @rule(data=st.data(), vcore=st.sampled_from([None, 0, 2_000, 9_000]), count=st.sampled_from([None, 0, 1]))
    def renew(self, data: st.DataObject, vcore: int | None, count: int | None) -> None:
        """Change the quota annotations of an application's namespace."""
        quota = NamespaceQuota(None if vcore is None else Limit({"vcore": vcore}), None, count)
        spec = self.one_of(data, self.apps()).spec
        self.send(ApplicationAdded(replace(spec, quota=quota, is_renewal=True)))

    @precondition(lambda self: self.apps())
    @rule(data=st.data(), asks=st.booleans())
    def release_all(self, data: st.DataObject, *, asks: bool) -> None:
        """Release without a key: all asks or allocations of the application."""
        app = self.one_of(data, self.apps())
        if asks:
            self.send(AskReleased(PARTITION, app.id, None, _STOPPED))
        else:
            self.send(AllocationReleased(PARTITION, app.id, None, None, _STOPPED))

    @precondition(lambda self: len(self.apps()) > 4)
    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        self.send(ApplicationRemoved(PARTITION, self.one_of(data, self.apps()).id))

    @precondition(lambda self: len(self.sites) > 1)
    @rule(data=st.data())
    def turn_to(self, data: st.DataObject) -> None:
        """Select another site."""
        self.site = self.sites[data.draw(st.integers(0, len(self.sites) - 1))]
