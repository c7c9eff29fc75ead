"""Gangs of a load: Soft and Hard, in one group or two, as pods or as a Job; incomplete, too large, deleted. Pure."""

import random
from collections.abc import Sequence

from devcluster.api import Json
from tests.e2e.faults.items import SIZES, CreateItem, Deletion, Item, Outcome, ending, marked
from tests.e2e.manifests import PREFIX, Group, a_gang

LONG_S = 900
"""A timeout that no satisfiable gang reaches."""
SHORT_S = 5
"""The timeout of gangs that cannot be satisfied."""

PLACEMENTS = ("Reserve", "Direct", "Auto")

PARAMETERS = f"{PREFIX}schedulingPolicyParameters"

SHAPES: Sequence[tuple[int, ...]] = [(2,), (3,), (4,), (6,), (8,), (1, 3), (2, 4)]
"""Members of each group."""


class Gangs:
    """A shuffled deck of all kinds of gangs, for a cluster of ``nodes`` with ``node_cpu`` each."""

    def __init__(self, chance: random.Random, nodes: int, node_cpu: int) -> None:
        self._chance, self._nodes, self._node_cpu = chance, nodes, node_cpu
        self._deck: list[CreateItem] = []

    def next(self, name: str) -> Item:
        """The next gang."""
        if not self._deck:
            satisfiable: list[CreateItem] = [self._soft, self._hard, self._job] * 2
            special = [self._incomplete, self._too_large, self._too_large_and_hard, self._giant, *[self._deleted] * 2]
            self._deck = [*satisfiable, *special]
            self._chance.shuffle(self._deck)
        return self._deck.pop()(name)

    def _soft(self, name: str) -> Item:
        pods = self._pods(name, self._groups(), "Soft")
        return Item(name, "Soft gang", pods, Outcome.BOUND, gang=len(pods))

    def _hard(self, name: str) -> Item:
        pods = self._pods(name, self._groups(), "Hard")
        return Item(name, "Hard gang", pods, Outcome.BOUND, gang=len(pods))

    def _job(self, name: str) -> Item:
        """A Job whose pods are a gang."""
        members = self._chance.randint(2, 5)
        pod = self._pods(name, [Group("g0", members, cpu=self._chance.choice(SIZES))], "Soft")[0]
        template = {"metadata": {key: pod["metadata"][key] for key in ("labels", "annotations")}, "spec": pod["spec"]}
        job = {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": name},
            "spec": {"parallelism": members, "completions": members, "template": template},
        }
        return Item(name, "Job that is a gang", [job], Outcome.JOB_DONE, gang=members)

    def _incomplete(self, name: str) -> Item:
        """Most of its real pods are never created; the timeout releases their reservations."""
        group = Group("g0", self._chance.randint(4, 8), cpu="250m", real=self._chance.randint(1, 2))
        pods = self._pods(name, [group], "Soft", SHORT_S)
        return Item(name, "incomplete gang", pods, Outcome.BOUND, gang=len(pods))

    def _too_large(self, name: str) -> Item:
        """After its timeout its pods are scheduled one by one."""
        pods = self._pods(name, [self._larger_than_cluster()], "Soft", SHORT_S)
        return Item(name, "Soft gang larger than the cluster", pods, Outcome.BOUND, gang=len(pods))

    def _too_large_and_hard(self, name: str) -> Item:
        pods = self._pods(name, [self._larger_than_cluster()], "Hard", SHORT_S)
        return Item(name, "Hard gang larger than the cluster", pods, Outcome.FAILED, gang=len(pods))

    def _giant(self, name: str) -> Item:
        """A member does not fit on an empty node."""
        pods = self._pods(name, [Group("g0", 2, cpu=f"{self._node_cpu + 1}")], "Hard", SHORT_S)
        return Item(name, "gang with a member larger than a node", pods, Outcome.REJECTED, gang=len(pods))

    def _deleted(self, name: str) -> Item:
        pods = self._pods(name, self._groups(), self._chance.choice(["Soft", "Hard"]))
        when = self._chance.choice([Deletion.AT_ONCE, Deletion.LATER])
        return Item(name, "deleted gang", pods, Outcome.DELETED, gang=len(pods), deletion=when)

    def _groups(self) -> list[Group]:
        shape = self._chance.choice(SHAPES)
        return [Group(f"g{number}", size, cpu=self._chance.choice(SIZES)) for number, size in enumerate(shape)]

    def _larger_than_cluster(self) -> Group:
        """Half a node per member, because long-running single pods leave no node empty."""
        return Group("g0", 2 * self._nodes + 2, cpu=f"{self._node_cpu * 500}m", real=2, real_cpu="500m")

    def _pods(self, name: str, groups: list[Group], style: str, timeout_s: int = LONG_S) -> list[Json]:
        """Return members with a random placement. An unsatisfiable gang also has a short wait timeout."""
        placement = self._chance.choice(PLACEMENTS)
        pods = a_gang(name, groups, style=style, timeout_s=timeout_s, placement=placement)
        if timeout_s == SHORT_S:
            for pod in pods:
                pod["metadata"]["annotations"][PARAMETERS] += f" gangWaitTimeoutInSeconds={SHORT_S}"
        return ending(self._chance, marked(name, pods))
