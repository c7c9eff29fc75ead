"""Compares the states of core and operator with the pods on the nodes. Pure."""

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
    actual = {pod.uid: pod for pod in pods if pod.node}
    return [*_of_core(dump, actual), *_of_queues(dump, actual), *_of_operator(dump, actual)]


def _of_core(dump: Json, actual: Mapping[str, PodHistory]) -> Iterator[str]:
    """Allocations by node, each node's sum, and the core's own invariants."""
    for node in (node for partition in dump["nodes"] for node in partition["nodesInfo"]):
        on_node = {uid: pod for uid, pod in actual.items() if pod.node == node["nodeID"]}
        yield from _uneven(f"core, node {node['nodeID']}", set(node["allocations"]), on_node, actual)
        if _plain(node["allocated"]) != (summed := _sum(on_node.values())):
            yield f"core: node {node['nodeID']} has {_plain(node['allocated'])} allocated, its pods take {summed}"
    for key in ("releasing", "replacements", "placeholders"):
        if dump["ledgers"][key]:
            yield f"core: {dump['ledgers'][key]} {key} where nothing is under way"
    yield from (f"core: invariant: {invariant}" for invariant in dump["invariants"] or [])


def _of_queues(dump: Json, actual: Mapping[str, PodHistory]) -> Iterator[str]:
    """What each queue has allocated is what the pods of its applications take, up to the root."""
    queue_of = {item["allocationKey"]: app["queueName"] for app in dump["applications"] for item in app["allocations"]}
    expected: dict[str, Counter[str]] = {}
    for uid, pod in actual.items():
        path = queue_of.get(uid, "root")
        while path:
            expected.setdefault(path, Counter()).update(_sum([pod]))
            path = path.rpartition(".")[0]
    for queue in (queue for root in dump["queues"] for queue in _tree(root)):
        allocated, used = _plain(queue["allocatedResource"]), _plain(expected.get(queue["queuename"], {}))
        if allocated != used:
            yield f"core: queue {queue['queuename']} has {allocated} allocated, its pods take {used}"


def _of_operator(dump: Json, actual: Mapping[str, PodHistory]) -> Iterator[str]:
    """Its tasks on nodes, and nothing that it still waits for."""
    for state in dump["rmDiagnostics"].values():
        if "error" in state:
            yield f"operator: {state['error']}"
            continue
        tasks = [
            task
            for app in state["applications"].values()
            for task in [*app["members"].values(), *app["placeholders"].values()]
            if task["node"]
        ]
        yield from _uneven("operator", {task["pod"]["ref"]["uid"] for task in tasks}, actual, actual)
        for task in tasks:
            pod = actual.get(task["pod"]["ref"]["uid"])
            if pod is not None and task["node"] != pod.node:
                yield f"operator: {pod.name} is on {pod.node}, not on {task['node']}"
        yield from (
            f"operator: {state[key]} in {key}"
            for key in ("deletions", "untrackedPods", "podsAwaitingNode")
            if state[key]
        )
        if state["phase"] != "LIVE":
            yield f"operator: its session is {state['phase']}"


def _uneven(
    component: str, believed: set[str], on_node: Mapping[str, PodHistory], actual: Mapping[str, PodHistory]
) -> Iterator[str]:
    for uid in sorted(believed - on_node.keys()):
        where = f"is on {actual[uid].node}" if uid in actual else "is on no node"
        yield f"{component}: {uid} is accounted here, and {where}"
    for uid in sorted(on_node.keys() - believed):
        yield f"{component}: {on_node[uid].name} ({uid}) is on {on_node[uid].node} and is not accounted"


def _tree(queue: Json) -> Iterator[Json]:
    yield queue
    for child in queue["children"]:
        yield from _tree(child)


def _sum(pods: Iterable[PodHistory]) -> dict[str, int]:
    total: Counter[str] = Counter()
    for pod in pods:
        taken = requests(pod.raw)
        total.update({name: int(taken.get(of, Decimal(0)) * scale) for name, (of, scale) in SCALES.items()})
    return _plain(total)


def _plain(amounts: Amounts) -> dict[str, int]:
    """Without what is zero."""
    return {name: int(value) for name, value in sorted(amounts.items()) if value}
