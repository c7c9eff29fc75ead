"""Checks the counts and indexes of the ledger against its content, and measures work in instructions."""

import sys
from collections import Counter, defaultdict
from collections.abc import Callable
from types import FrameType
from typing import Any

from muster_operator.controller.runs import can_be_member
from muster_operator.controller.state import Ledger, holds_slot


def assert_counted(ledger: Ledger) -> None:
    """Assert that every count and every index of the ledger is correct."""
    for app in ledger.applications.values():
        tasks = (*app.members.values(), *app.placeholders.values())
        assert +Counter(app.member_counts) == Counter(
            task.pod.membership.task_group for task in tasks if holds_slot(task)
        )
        assert app.controllers == Counter(task.pod.controller for task in app.members.values())
        living = {uid for uid, task in app.members.items() if app.gang is not None and can_be_member(task.pod)}
        assert living == {uid for pods in app.living.values() for uid in pods}
        assert all(
            task.pod.membership.task_group == group for group, pods in app.living.items() for task in pods.values()
        )
        assert app.placeholder_names == {task.pod.ref.name for task in app.placeholders.values()}
    for task in ledger.tasks.values():
        for node in {task.node, task.pod.node} - {None}:
            assert node is not None
            assert task.uid in ledger.tasks_by_node.on(node)
    for index, pods_on_nodes in (
        (ledger.foreign_by_node, ledger.foreign),
        (ledger.untracked_by_node, ledger.untracked_pods),
    ):
        for uid, pod_on_node in pods_on_nodes.items():
            assert pod_on_node.pod.node is None or uid in index.on(pod_on_node.pod.node)
    assert ledger.deleting == {(one.pod.namespace, one.pod.name) for one in ledger.deletions.values()}
    places: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for key, place in ledger.places.items():
        places[place.app][place.group].add(key)
    assert places == ledger.places_of
    opened: Counter[str] = Counter()
    for app in ledger.applications.values():
        opened[app.namespace] += len(app.creations.open)
    assert +opened == +Counter({namespace: one.open for namespace, one in ledger.creations.items()})


def work_of(action: Callable[[], object]) -> int:
    """Return the number of Python instructions of an action, which is equal on every machine."""
    count = 0

    def traced(frame: FrameType, event: str, _: Any) -> Callable[..., Any]:
        nonlocal count
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        count += event == "opcode"
        return traced

    sys.settrace(traced)
    try:
        action()
    finally:
        sys.settrace(None)
    return count
