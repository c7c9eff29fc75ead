"""The load during faults: gangs and single pods from a random seed, in portions. Pure."""

import random

from tests.e2e.faults.gangs import Gangs
from tests.e2e.faults.items import Item
from tests.e2e.faults.single_pods import Singles


class Load:
    """The items of a seed, for a cluster of ``nodes`` with ``node_cpu`` each."""

    def __init__(self, seed: int, nodes: int, node_cpu: int) -> None:
        self._chance = random.Random(f"{seed}/load")
        self._gangs = Gangs(self._chance, nodes, node_cpu)
        self._singles = Singles(self._chance, node_cpu)
        self._number = 0

    def portion(self, gang: int, single: int) -> list[Item]:
        """Return items with at least ``gang`` gang pods and ``single`` single pods, mixed."""
        items: list[Item] = []
        while sum(item.gang for item in items) < gang:
            items.append(self._gangs.next(self._name("gang")))
        while sum(item.single for item in items) < single:
            items.append(self._singles.next(self._name("single")))
        self._chance.shuffle(items)
        return items

    def _name(self, what: str) -> str:
        self._number += 1
        return f"{what}-{self._number}"
