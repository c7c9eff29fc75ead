"""Applications are submitted and removed; what they have is taken back whole."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from muster_core.model.events import AllocationReleased, ApplicationAdded, ApplicationRemoved, AskAdded, AskReleased
from muster_core.model.release import Termination
from muster_core.model.resources import Limit
from muster_core.model.specs import GangStyle, NamespaceQuota
from tests.unit.builders import PARTITION, an_application, an_ask
from tests.unit.core.engine.randomly.configurations import QUEUES
from tests.unit.core.engine.randomly.ground import Ground

_CLOCKS = ((0, 0), (30, 0), (0, 60))
_STOPPED = Termination.STOPPED_BY_RM


class Applications(Ground):
    """Rules of applications."""

    @precondition(lambda self: self.nodes())
    @rule(
        queue=st.sampled_from(QUEUES),
        members=st.sampled_from([0, 0, 0, 1, 2, 3, 5]),
        asked=st.sampled_from([5, 5, 5, 1, 0]),
        style=st.sampled_from(GangStyle),
        clocks=st.sampled_from(_CLOCKS),
    )
    def submit(self, queue: str, members: int, asked: int, style: GangStyle, clocks: tuple[int, int]) -> None:
        """A gang with some or all of its placeholder asks at once, or some plain pods."""
        name = self.new_name("app")
        number, (timeout_s, wait_s) = self.site.number, clocks
        spec = an_application(
            name,
            queue=queue,
            gang=members,
            style=style,
            timeout_s=timeout_s,
            wait_s=wait_s,
            user=f"user{number % 2}",
            groups=("dev",) if number % 3 else (),
        )
        asks = [
            AskAdded(an_ask(f"{name}p{index}", app=name, group="workers", placeholder=True, priority=number % 3))
            for index in range(min(members, asked))
        ]
        if not members:
            asks = [AskAdded(an_ask(f"{name}q{index}", app=name, priority=number % 3)) for index in range(asked)]
        self.tell(ApplicationAdded(spec), *asks)

    @precondition(lambda self: self.apps())
    @rule(data=st.data(), vcore=st.sampled_from([None, 0, 2_000, 9_000]), count=st.sampled_from([None, 0, 1]))
    def renew(self, data: st.DataObject, vcore: int | None, count: int | None) -> None:
        """The namespace of an application says something else."""
        quota = NamespaceQuota(None if vcore is None else Limit({"vcore": vcore}), None, count)
        spec = self.one_of(data, self.apps()).spec
        self.tell(ApplicationAdded(replace(spec, quota=quota, is_renewal=True)))

    @precondition(lambda self: self.apps())
    @rule(data=st.data(), asks=st.booleans())
    def release_all(self, data: st.DataObject, *, asks: bool) -> None:
        """Without key: all of the application."""
        app = self.one_of(data, self.apps())
        if asks:
            self.tell(AskReleased(PARTITION, app.id, None, _STOPPED))
        else:
            self.tell(AllocationReleased(PARTITION, app.id, None, None, _STOPPED))

    @precondition(lambda self: len(self.apps()) > 4)
    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        self.tell(ApplicationRemoved(PARTITION, self.one_of(data, self.apps()).id))

    @precondition(lambda self: len(self.sites) > 1)
    @rule(data=st.data())
    def turn_to(self, data: st.DataObject) -> None:
        """From now on another site is told things."""
        self.site = self.sites[data.draw(st.integers(0, len(self.sites) - 1))]
