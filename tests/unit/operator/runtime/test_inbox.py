"""Random changes of the inbox, compared with a simple model of it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from random import Random  # noqa: TID251 - with a fixed seed
from typing import Any

import pytest

from muster_operator.model.cluster_events import NodeGone, NodeSeen
from muster_operator.model.commands import CommandSucceeded
from muster_operator.runtime.inputs import CommandEnded, EventReceived, Input, Listed
from muster_operator.runtime.loop import Inbox
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
