"""The complete machine: all rules. After each rule it checks all invariants on the current site."""

import sys
from typing import Final

from hypothesis.stateful import invariant

from tests.unit.core.scheduling.random_events import invariants
from tests.unit.core.scheduling.random_events.application_rules import Applications
from tests.unit.core.scheduling.random_events.ask_rules import Asks
from tests.unit.core.scheduling.random_events.contention_rules import Contention
from tests.unit.core.scheduling.random_events.device_rules import Equipped
from tests.unit.core.scheduling.random_events.failure_rules import Failures
from tests.unit.core.scheduling.random_events.manager_rules import Managers
from tests.unit.core.scheduling.random_events.node_rules import Nodes
from tests.unit.core.scheduling.random_events.scale_rules import Scale
from tests.unit.core.scheduling.random_events.storage_rules import Stored
from tests.unit.core.scheduling.random_events.time_rules import Time

_SELDOM: Final = 8


class RandomEvents(Applications, Asks, Contention, Equipped, Failures, Managers, Nodes, Scale, Stored, Time):
    """Combines the rules. `Stage` checks the state after each event and each cycle."""

    unplanned = 0

    @invariant()
    def invariants_hold(self) -> None:
        if self.stage.is_crashed:
            self.recover()
        self.forget_closed()
        partition = self.stage.scheduler_state.partitions.get(self.site.id)
        if partition is None or not invariants.is_open(self.stage.scheduler_state, partition, self.stage.now_ns):
            return
        self.manager_state.agree_with(partition)
        if not self.is_due():
            return
        invariants.every_no_is_a_no(partition)
        invariants.a_plan_without_memory_decides_nothing_more(partition, self.stage.now_ns)
        invariants.nothing_new_is_over_the_maximum(partition)
        if not self.stage.scheduler_state.failed_timers:  # one whose handler raised fires later
            invariants.no_request_waits_too_long(partition, self.stage.now_ns)

    def is_due(self) -> bool:
        """Whether to plan everything again. This is rare in a large state, because it is as expensive as scheduling."""
        self.unplanned += 1
        if not self.stage.is_small and self.unplanned < _SELDOM:
            return False
        self.unplanned = 0
        return True

    def teardown(self) -> None:
        """After the back-off, nothing that fits waits. Then replay all events."""
        for site in [] if sys.exc_info()[1] is not None else self.sites:
            self.site = site
            if self.waits_for_back_off():
                self.end_back_off()
                self.invariants_hold()
        super().teardown()
