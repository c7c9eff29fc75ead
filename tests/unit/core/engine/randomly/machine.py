"""The whole machine: all rules, and after each of them all laws, on the site whose turn it was."""

from __future__ import annotations

from hypothesis.stateful import invariant

from tests.unit.core.engine.randomly import laws
from tests.unit.core.engine.randomly.rules_of_applications import Applications
from tests.unit.core.engine.randomly.rules_of_asks import Asks
from tests.unit.core.engine.randomly.rules_of_contention import Contention
from tests.unit.core.engine.randomly.rules_of_managers import Managers
from tests.unit.core.engine.randomly.rules_of_nodes import Nodes
from tests.unit.core.engine.randomly.rules_of_storage import Stored
from tests.unit.core.engine.randomly.rules_of_time import Time


class RandomEvents(Applications, Asks, Contention, Nodes, Stored, Time, Managers):
    """The rules are what may happen; `Stage` checks the world after each event and each cycle."""

    @invariant()
    def laws_hold(self) -> None:
        self.forget_closed()
        partition = self.stage.world.partitions.get(self.site.id)
        if partition is None or not laws.is_open(self.stage.world, partition):
            return
        self.books.agree_with(partition)
        laws.every_no_is_a_no(partition)
        laws.a_plan_without_memory_decides_nothing_more(partition, self.stage.now_ns)
        laws.nothing_new_is_over_the_maximum(partition)
        laws.nobody_is_kept_too_long(partition, self.stage.now_ns)
