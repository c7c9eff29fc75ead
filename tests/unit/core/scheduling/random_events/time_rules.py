"""Rules: pods end, with or without a requested release; time passes; the budget of cycles changes."""

from typing import Final

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from muster_core.model.events import AllocationReleased
from muster_core.model.ids import AllocationKey, Termination
from muster_core.model.limits import RETRY_MOST_OFTEN_NS
from muster_core.state.applications import Application
from tests.unit.builders import PARTITION, SECOND
from tests.unit.core.scheduling.random_events import invariants
from tests.unit.core.scheduling.random_events.base import Ground
from tests.unit.core.scheduling.random_events.budgets import Counted, MadeUp
from tests.unit.core.scheduling.random_events.manager_state import UnconfirmedRelease

#: Time after which each application in back-off was tried. Few applications wait, so attempts are not limited for long.
_LONGEST_S: Final = RETRY_MOST_OFTEN_NS // SECOND + 10


class Time(Ground):
    """Rules of time."""

    @precondition(lambda self: self.manager_state.unconfirmed)
    @rule(data=st.data(), twice=st.booleans(), by_itself=st.booleans())
    def confirm(self, data: st.DataObject, *, twice: bool, by_itself: bool) -> None:
        index = data.draw(st.integers(0, len(self.manager_state.unconfirmed) - 1))
        self._confirm(self.manager_state.unconfirmed.pop(index), 1 + twice, by_itself=by_itself)

    @precondition(lambda self: self.manager_state.unconfirmed)
    @rule()
    def confirm_all(self) -> None:
        while self.manager_state.unconfirmed:
            self._confirm(self.manager_state.unconfirmed.pop(0), 1, by_itself=False)

    def _confirm(self, unconfirmed: UnconfirmedRelease, times: int, *, by_itself: bool) -> None:
        why = Termination.STOPPED_BY_RM if by_itself else unconfirmed.termination
        self.manager_state.held.pop(
            (unconfirmed.application, unconfirmed.id), None
        )  # reported again since, and ends all the same
        self.send(
            *[AllocationReleased(PARTITION, unconfirmed.application, unconfirmed.key, unconfirmed.id, why)] * times
        )

    @precondition(lambda self: self.manager_state.held)
    @rule(data=st.data())
    def lose(self, data: st.DataObject) -> None:
        app, identity = data.draw(st.sampled_from(sorted(self.manager_state.held)))
        key = AllocationKey(identity.rpartition("-")[0])
        self.send(AllocationReleased(PARTITION, app, key, identity, Termination.STOPPED_BY_RM))

    @precondition(lambda self: self.apps() and self.stage.timers)
    @rule(seconds=st.sampled_from([1, 1, 1, 3, 15, 45, 300]))
    def pass_time(self, seconds: int) -> None:
        self.wait(seconds)

    @precondition(lambda self: self.apps())
    @rule(times=st.sampled_from([None, 0, 1, 2, -1, -1]), seed=st.integers(0, 3))
    def shorten_timeouts(self, times: int | None, seed: int) -> None:
        """Change the budget of further cycles. With a small one, work continues in the next cycle."""
        self.set_budget(MadeUp(seed) if times is not None and times < 0 else Counted(times))

    @precondition(lambda self: self.waits_for_back_off())
    @rule()
    def end_back_off(self) -> None:
        """Advance the time until every application that is in back-off now was tried. The invariants follow."""
        left = {app.id: app.attempts_in_vain for app in self.apps() if self._is_in_back_off(app)}
        until_ns = self.stage.now_ns + _LONGEST_S * SECOND + len(left) * SECOND // 10
        while left and self.waits_for_back_off():
            assert self.stage.now_ns < until_ns, f"{left} were not tried after their back-off"
            self.wait(0.1)
            waiting = {app.id: app.attempts_in_vain for app in self.apps() if self._is_in_back_off(app)}
            left = dict(left.items() & waiting.items())

    def _is_in_back_off(self, app: Application) -> bool:
        return invariants.is_in_back_off(self.partition, app)

    def waits_for_back_off(self) -> bool:
        """Whether an application of the site was woken and is tried later."""
        state = self.stage.scheduler_state
        partition = state.partitions.get(self.site.id)
        if self.stage.is_crashed or partition is None or not invariants.is_open(state, partition, self.stage.now_ns):
            return False
        return bool(partition.scheduling.next_ns())
