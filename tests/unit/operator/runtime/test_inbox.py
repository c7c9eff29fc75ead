"""Random changes of the inbox, compared with a simple model of it."""

import asyncio
import time
from dataclasses import dataclass, field
from random import Random  # noqa: TID251 - with a fixed seed
from typing import Any

import pytest

from muster_operator.model.cluster_events import NodeGone, NodeSeen
from muster_operator.model.commands import CommandSucceeded
from muster_operator.runtime.inputs import CommandEnded, EventReceived, Input, Listed
from muster_operator.runtime.loop import READ, Inbox, Versions
from muster_operator.runtime.metrics import Metrics
from tests.amounts import amount
from tests.unit.operator.kube.commands import a_bind

STEPS = 400


def a_node(name: str, version: int) -> dict[str, Any]:
    return {"metadata": {"name": name, "uid": f"uid-{name}", "resourceVersion": str(version)}}


@dataclass
class Model:
    """All inputs in one list, in the order of their arrival. An object has one entry with its unread states."""

    entries: list[tuple[str, list[str]]] = field(default_factory=list)
    is_held: bool = False

    def put(self, name: str) -> None:
        self.entries.append(("input", [name]))

    def mark(self, plural: str) -> None:
        self.entries.append(("mark", [plural]))

    def change(self, node: str, state: str) -> None:
        states = next((states for key, states in self.entries if key == node), None)
        if states is None:
            self.entries.append((node, [state]))
        elif state == "gone" and "gone" in states:
            del states[states.index("gone") + 1 :]
        elif states[-1] == "gone":
            states.append(state)
        else:
            states[-1] = state

    def next(self) -> tuple[str, list[str]] | None:
        return next((entry for entry in self.entries if entry[0] == "input" or not self.is_held), None)

    def take(self) -> str | None:
        entry = self.next()
        if entry is None:
            return None
        key, states = entry
        state = states.pop(0)
        if not states:
            self.entries = [each for each in self.entries if each is not entry]
        return state if key in {"input", "mark"} else f"{key} {state}"


def shown(item: Input | None) -> str | None:
    match item:
        case None:
            return None
        case CommandEnded(result=result):
            return result.command.pod.name if hasattr(result.command, "pod") else ""
        case Listed(plural=plural):
            return plural
        case EventReceived(fact=NodeGone(name=name)):
            return f"{name} gone"
        case EventReceived(fact=NodeSeen(node=node)):
            return f"{node.name} {node.uid}"
        case _:
            raise AssertionError(item)


@pytest.mark.parametrize("seed", range(amount(20, 500)))
async def test_inputs_are_taken_in_order_and_always_wake_the_reader(seed: int) -> None:
    chosen, inbox, model = Random(seed), Inbox(Metrics()), Model()
    known = set[str]()
    reader = asyncio.create_task(inbox.something(None))
    for number in range(1, STEPS):
        name, is_read = f"n{chosen.randrange(4)}", False
        match chosen.choice(["input", "mark", "seen", "seen", "gone", "hold", "take", "take", "take"]):
            case "input":
                inbox.result(CommandSucceeded(a_bind(f"p{number}")))
                model.put(f"p{number}")
            case "mark":
                inbox._put_listed(f"kind-{number}")
                model.mark(f"kind-{number}")
            case "seen":
                raw = a_node(name, number)
                raw["metadata"]["uid"] = f"{number}"
                inbox.changed("nodes", "MODIFIED", raw)
                model.change(name, f"{number}")
                known.add(name)
            case "gone" if name in known:
                inbox.changed("nodes", "DELETED", a_node(name, number))
                model.change(name, "gone")
                known.discard(name)
            case "hold":
                model.is_held = not model.is_held
                inbox._hold_objects(held=model.is_held)
            case "take":
                assert shown(inbox.take()) == model.take()
                is_read = True
            case _:
                pass  # there is no such node
        assert len(inbox) == len(model.entries)
        for _ in range(chosen.choice([0, 4])):  # several changes can happen before the reader continues
            await asyncio.sleep(0)
            is_read = True
        if is_read and reader.done():
            reader = asyncio.create_task(inbox.something(None))
        for _ in range(4):
            await asyncio.sleep(0)
        assert reader.done() or model.next() is None, "an input that can be taken does not wake the reader"
    reader.cancel()


# -- A list next to a watch: the newer state wins from either one, and the end of a list reports missed deletions.

PODS, NODES = "pods", "nodes"


def listed(*keys: str, plural: str = PODS) -> Versions:
    """Versions after a first list with these objects, all at version 5."""
    versions = Versions()
    versions.begin_list(plural)
    for key in keys:
        assert versions.is_newer(plural, key, None, "5")
    assert list(versions.end_list(plural, "5")) == []
    return versions


def test_a_listed_object_does_not_replace_a_newer_watched_one() -> None:
    versions = listed("a")
    versions.begin_list(PODS)
    assert versions.is_newer(PODS, "a", "MODIFIED", "9")
    assert not versions.is_newer(PODS, "a", None, "5")
    assert list(versions.end_list(PODS, "8")) == []
    assert versions.is_newer(PODS, "a", "MODIFIED", "10")


def test_a_watch_event_older_than_the_list_is_ignored() -> None:
    versions = listed("a")
    versions.begin_list(PODS)
    assert versions.is_newer(PODS, "a", None, "9")
    assert not versions.is_newer(PODS, "a", "MODIFIED", "8")


def test_a_pod_deleted_during_a_list_is_not_restored_by_a_list_page() -> None:
    versions = listed("a")
    versions.begin_list(PODS)
    assert versions.is_newer(PODS, "a", "DELETED", "7")
    assert not versions.is_newer(PODS, "a", None, "5")
    assert list(versions.end_list(PODS, "6")) == []


def test_only_objects_missing_from_the_list_count_as_missed_deletions() -> None:
    versions = listed("a", "b", "c")
    versions.begin_list(PODS)
    assert not versions.is_newer(PODS, "a", None, "5")
    assert versions.is_newer(PODS, "b", "MODIFIED", "7")
    assert list(versions.end_list(PODS, "6")) == ["c"]


def test_an_object_that_is_newer_than_the_list_is_not_deleted_by_it() -> None:
    versions = listed()
    assert versions.is_newer(PODS, "new", READ, "20")
    versions.begin_list(PODS)
    assert list(versions.end_list(PODS, "15")) == []
    assert not versions.is_newer(PODS, "new", READ, "20")


@pytest.mark.parametrize("keys", [("a",), ()], ids=["known before", "unknown before"])
def test_a_pod_read_during_a_list_and_missing_from_it_is_deleted(keys: tuple[str, ...]) -> None:
    versions = listed(*keys)
    versions.begin_list(PODS)
    assert versions.is_newer(PODS, "a", READ, "7")
    assert list(versions.end_list(PODS, "8")) == ["a"]
    assert not versions.is_newer(PODS, "a", READ, "7")


def test_a_read_pod_older_than_a_list_that_omits_it_is_ignored() -> None:
    versions = listed()
    versions.begin_list(PODS)
    assert list(versions.end_list(PODS, "8")) == []
    assert not versions.is_newer(PODS, "a", READ, "7")
    assert versions.is_newer(PODS, "b", READ, "9")


def test_a_late_event_from_before_a_missed_deletion_is_ignored() -> None:
    versions = listed("n1", plural=NODES)
    versions.begin_list(NODES)
    assert list(versions.end_list(NODES, "20")) == ["n1"]
    assert not versions.is_newer(NODES, "n1", "MODIFIED", "19")
    assert versions.is_newer(NODES, "n1", "ADDED", "21")


def test_a_late_deletion_of_an_older_object_keeps_the_new_object_of_that_name() -> None:
    versions = listed("n1", plural=NODES)
    versions.begin_list(NODES)
    assert versions.is_newer(NODES, "n1", None, "30")
    assert not versions.is_newer(NODES, "n1", "DELETED", "20")
    assert list(versions.end_list(NODES, "30")) == []


def test_an_abandoned_list_deletes_nothing_and_the_next_list_compares_all_objects() -> None:
    versions = listed("a", "b", "c")
    versions.begin_list(PODS)
    assert not versions.is_newer(PODS, "a", None, "5")
    versions.begin_list(PODS)
    assert not versions.is_newer(PODS, "b", None, "5")
    assert sorted(versions.end_list(PODS, "9")) == ["a", "c"]


def test_older_resource_versions_are_accepted_after_the_store_was_reset() -> None:
    versions = listed("a", "b")
    assert versions.is_newer(PODS, "a", "MODIFIED", "50")
    assert versions.is_newer(PODS, "c", "DELETED", "60")
    versions.begin_list(PODS, is_reset=True)
    assert versions.is_newer(PODS, "a", None, "3")
    assert versions.is_newer(PODS, "c", None, "2")
    assert list(versions.end_list(PODS, "4")) == ["b"]
    assert versions.is_newer(PODS, "a", "MODIFIED", "5")


def test_a_non_numeric_resource_version_is_never_older() -> None:
    versions = listed("a")
    assert versions.is_newer(PODS, "a", "MODIFIED", "x")
    assert versions.is_newer(PODS, "a", "MODIFIED", "y")


def test_objects_that_a_list_shows_as_deleted_are_forgotten() -> None:
    """A key per deleted object would fill the memory with every expired watch."""
    versions = listed(*map(str, range(1000)))
    versions.begin_list(PODS)
    assert len(list(versions.end_list(PODS, "9"))) == 1000
    assert len(versions) == 0


@pytest.mark.parametrize("plural", [PODS, NODES])
def test_starting_and_ending_a_list_do_not_iterate_over_all_objects(plural: str) -> None:
    versions = listed(*map(str, range(200_000)), plural=plural)

    def compare() -> float:
        before = time.thread_time()
        versions.begin_list(plural)
        took = time.thread_time() - before
        for key in range(200_000):
            versions.is_newer(plural, str(key), None, "5")
        before = time.thread_time()
        assert list(versions.end_list(plural, "6")) == []
        return took + time.thread_time() - before

    assert min(compare() for _ in range(2)) < 0.005
