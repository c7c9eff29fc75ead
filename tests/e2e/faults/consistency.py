"""Compares the states of core and operator with the pods on the nodes. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal

from devcluster.api import Json
from tests.e2e.faults.pod_versions import PodHistory, requests

SCALES = {"vcore": ("cpu", 1000), "memory": ("memory", 1), "pods": ("pods", 1)}
"""The core's resources: which of Kubernetes' each one is, and in which parts of its unit it counts."""

Amounts = Mapping[str, int]


def differences(dump: Json, pods: Iterable[PodHistory]) -> list[str]:
    """Where the ledgers are not the cluster; ``dump`` is the core's full state with the operator's in it."""
    really = {seen.uid: seen for seen in pods if seen.node}
    return [*_of_core(dump, really), *_of_queues(dump, really), *_of_operator(dump, really)]


def _of_core(dump: Json, really: Mapping[str, PodHistory]) -> Iterator[str]:
    """Allocations by node, each node's sum, and the core's own invariants."""
    for node in (node for partition in dump["nodes"] for node in partition["nodesInfo"]):
        here = {uid: seen for uid, seen in really.items() if seen.node == node["nodeID"]}
        yield from _uneven(f"core, node {node['nodeID']}", set(node["allocations"]), here, really)
        if _plain(node["allocated"]) != (summed := _sum(here.values())):
            yield f"core: node {node['nodeID']} has {_plain(node['allocated'])} allocated, its pods take {summed}"
    for key in ("releasing", "replacements", "placeholders"):
        if dump["ledgers"][key]:
            yield f"core: {dump['ledgers'][key]} {key} where nothing is under way"
    yield from (f"core: invariant: {words}" for words in dump["invariants"] or [])


def _of_queues(dump: Json, really: Mapping[str, PodHistory]) -> Iterator[str]:
    """What each queue has allocated is what the pods of its applications take, up to the root."""
    queue_of = {item["allocationKey"]: app["queueName"] for app in dump["applications"] for item in app["allocations"]}
    expected: dict[str, Counter[str]] = {}
    for uid, seen in really.items():
        path = queue_of.get(uid, "root")
        while path:
            expected.setdefault(path, Counter()).update(_sum([seen]))
            path = path.rpartition(".")[0]
    for queue in (queue for root in dump["queues"] for queue in _tree(root)):
        held, takes = _plain(queue["allocatedResource"]), _plain(expected.get(queue["queuename"], {}))
        if held != takes:
            yield f"core: queue {queue['queuename']} has {held} allocated, its pods take {takes}"


def _of_operator(dump: Json, really: Mapping[str, PodHistory]) -> Iterator[str]:
    """Its tasks on nodes, and nothing that it still waits for."""
    for told in dump["rmDiagnostics"].values():
        if "error" in told:
            yield f"operator: {told['error']}"
            continue
        tasks = [
            task
            for app in told["applications"].values()
            for task in [*app["members"].values(), *app["placeholders"].values()]
            if task["node"]
        ]
        yield from _uneven("operator", {task["pod"]["ref"]["uid"] for task in tasks}, really, really)
        for task in tasks:
            seen = really.get(task["pod"]["ref"]["uid"])
            if seen is not None and task["node"] != seen.node:
                yield f"operator: {seen.name} is on {seen.node}, not on {task['node']}"
        yield from (
            f"operator: {told[key]} in {key}" for key in ("deletions", "untrackedPods", "podsAwaitingNode") if told[key]
        )
        if told["phase"] != "LIVE":
            yield f"operator: its session is {told['phase']}"


def _uneven(
    who: str, believed: set[str], here: Mapping[str, PodHistory], really: Mapping[str, PodHistory]
) -> Iterator[str]:
    for uid in sorted(believed - here.keys()):
        where = f"is on {really[uid].node}" if uid in really else "is on no node"
        yield f"{who}: {uid} is accounted here, and {where}"
    for uid in sorted(here.keys() - believed):
        yield f"{who}: {here[uid].name} ({uid}) is on {here[uid].node} and is not accounted"


def _tree(queue: Json) -> Iterator[Json]:
    yield queue
    for child in queue["children"]:
        yield from _tree(child)


def _sum(pods: Iterable[PodHistory]) -> dict[str, int]:
    total: Counter[str] = Counter()
    for seen in pods:
        taken = requests(seen.raw)
        total.update({name: int(taken.get(of, Decimal(0)) * scale) for name, (of, scale) in SCALES.items()})
    return _plain(total)


def _plain(amounts: Amounts) -> dict[str, int]:
    """Without what is zero."""
    return {name: int(value) for name, value in sorted(amounts.items()) if value}
