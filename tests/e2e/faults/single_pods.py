"""Single pods of a load: some finish, some run on, some fit on no node, some are deleted. Pure."""

import random

from devcluster.api import Json
from tests.e2e.faults.items import SIZES, CreateItem, Deletion, Item, Outcome, ending, marked
from tests.e2e.manifests import a_pod

SHARED = 4
"""Applications that single pods share."""


class Singles:
    """A shuffled deck of all kinds of single pods."""

    def __init__(self, chance: random.Random, node_cpu: int) -> None:
        self._chance, self._node_cpu = chance, node_cpu
        self._deck: list[CreateItem] = []

    def next(self, name: str) -> Item:
        """The next pod."""
        if not self._deck:
            special = [self._huge, self._matching_no_node, self._runs_on, *[self._deleted] * 2]
            self._deck = [*[self._finishes] * 10, *special]
            self._chance.shuffle(self._deck)
        return self._deck.pop()(name)

    def _finishes(self, name: str) -> Item:
        pod = self._pod(name, self._chance.choice(SIZES))
        return Item(name, "pod", ending(self._chance, [pod]), Outcome.BOUND, single=1)

    def _runs_on(self, name: str) -> Item:
        return Item(name, "pod that runs on", [self._pod(name, "50m")], Outcome.BOUND, single=1)

    def _huge(self, name: str) -> Item:
        return Item(
            name, "pod larger than a node", [self._pod(name, f"{self._node_cpu + 1}")], Outcome.REJECTED, single=1
        )

    def _matching_no_node(self, name: str) -> Item:
        pod = self._pod(name, "100m")
        pod["spec"]["nodeSelector"] = {"chaos.muster/nowhere": "true"}
        return Item(name, "pod whose node selector matches no node", [pod], Outcome.REJECTED, single=1)

    def _deleted(self, name: str) -> Item:
        pods = ending(self._chance, [self._pod(name, self._chance.choice(SIZES))])
        when = self._chance.choice([Deletion.AT_ONCE, Deletion.LATER])
        return Item(name, "deleted pod", pods, Outcome.DELETED, single=1, deletion=when)

    def _pod(self, name: str, cpu: str) -> Json:
        """A pod with an application ID of its own, a shared one, or none."""
        app = self._chance.choice([name, f"batch-{self._chance.randrange(SHARED)}", ""])
        return marked(name, [a_pod(name, cpu=cpu, labels={"applicationId": app} if app else {})])[0]
