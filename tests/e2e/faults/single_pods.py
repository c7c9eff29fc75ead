"""Single pods of a load: some end, some stay, some fit on no node, some are deleted. Pure."""

from __future__ import annotations

import random

from devcluster.api import Json
from tests.e2e.faults.items import SIZES, Deletion, End, Item, Make, ending, marked
from tests.e2e.manifests import a_pod

SHARED = 4
"""Applications that single pods share."""


class Singles:
    """Each sort as often as the deck says, in an order that ``chance`` decides."""

    def __init__(self, chance: random.Random, node_cpu: int) -> None:
        self._chance, self._node_cpu = chance, node_cpu
        self._deck: list[Make] = []

    def next(self, name: str) -> Item:
        """The next pod."""
        if not self._deck:
            odd = [self._huge, self._homeless, self._stays, *[self._deleted] * 2]
            self._deck = [*[self._ends] * 10, *odd]
            self._chance.shuffle(self._deck)
        return self._deck.pop()(name)

    def _ends(self, name: str) -> Item:
        pod = self._pod(name, self._chance.choice(SIZES))
        return Item(name, "pod", ending(self._chance, [pod]), End.SERVED, single=1)

    def _stays(self, name: str) -> Item:
        return Item(name, "pod that stays", [self._pod(name, "50m")], End.SERVED, single=1)

    def _huge(self, name: str) -> Item:
        return Item(name, "pod larger than a node", [self._pod(name, f"{self._node_cpu + 1}")], End.REFUSED, single=1)

    def _homeless(self, name: str) -> Item:
        pod = self._pod(name, "100m")
        pod["spec"]["nodeSelector"] = {"chaos.muster/nowhere": "true"}
        return Item(name, "pod that no node will do for", [pod], End.REFUSED, single=1)

    def _deleted(self, name: str) -> Item:
        pods = ending(self._chance, [self._pod(name, self._chance.choice(SIZES))])
        when = self._chance.choice([Deletion.AT_ONCE, Deletion.LATER])
        return Item(name, "deleted pod", pods, End.DELETED, single=1, deletion=when)

    def _pod(self, name: str, cpu: str) -> Json:
        """Of an application of its own, of one shared with others, or of none that it names."""
        app = self._chance.choice([name, f"batch-{self._chance.randrange(SHARED)}", ""])
        return marked(name, [a_pod(name, cpu=cpu, labels={"applicationId": app} if app else {})])[0]
