"""An ordered set has the same first and second entries as a sorted list, however its keys change."""

from __future__ import annotations

from random import Random  # noqa: TID251 # seeded

import pytest

from muster_core.model.events import ApplicationAdded
from muster_core.scheduling import invariants
from muster_core.state.ordering import Key
from muster_core.state.scheduling_queue import ApplicationHeap, NoNodeFits
from tests.unit.builders import a_configuration, a_queue, an_application, an_ask
from tests.unit.core.scheduling.scenario import Scenario


@pytest.mark.parametrize("seed", range(20))
def test_the_first_and_the_second_are_those_of_a_sorted_list(seed: int) -> None:
    random = Random(seed)
    keys: dict[str, Key] = {}
    order = ApplicationHeap(0)
    for _ in range(2000):
        name = f"app{random.randrange(30)}"
        if random.random() < 0.3:
            keys.pop(name, None)
            order.discard(name)
        else:
            keys[name] = (random.randrange(10), float(name[3:]))
            order.put(name, keys[name])
        expected = sorted(keys, key=lambda one: (keys[one], one))
        assert len(order) == len(keys)
        if keys:
            assert order.first(keys.__getitem__) == expected[0]
            assert order.second(keys.__getitem__) == (expected[1] if len(keys) > 1 else None)


def test_a_key_that_grew_is_noticed_when_it_comes_first() -> None:
    keys: dict[str, Key] = {"a": (1,), "b": (2,), "c": (3,)}
    order = ApplicationHeap(0)
    for name, key in keys.items():
        order.put(name, key)
    keys["a"] = (9,)
    assert order.first(keys.__getitem__) == "b"
    assert order.second(keys.__getitem__) == "c"


def test_keys_of_an_older_epoch_are_renewed_a_few_at_each_use() -> None:
    keys: dict[str, Key] = {f"app{index:03}": (float(index),) for index in range(200)}
    order = ApplicationHeap(0)
    for name, key in keys.items():
        order.put(name, key)
    keys = {name: (-key[0],) for name, key in keys.items()}
    computed: list[str] = []

    def key_of(name: str) -> Key:
        computed.append(name)
        return keys[name]

    uses = 0
    while uses == 0 or order.is_stale:
        computed.clear()
        order.renew(key_of, epoch=1)
        uses += 1
        assert len(computed) <= 64
    assert uses == 4
    assert order.first(keys.__getitem__) == "app199"


def test_an_application_that_is_first_for_no_open_reason_is_not_active() -> None:
    """It is second in another open line, and is tried when it is first there."""
    scenario = Scenario(a_configuration(a_queue("a"), a_queue("c")), nodes=1, vcore=100)
    asks = {"first": ("root.a", 1000), "second": ("root.a", 2000), "other": ("root.c", 3000)}
    for name, (leaf, vcore) in asks.items():
        scenario.send(ApplicationAdded(an_application(name, queue=leaf)))
        scenario.ask(an_ask(name, app=name, vcore=vcore))
    queue, kinds = scenario.partition.scheduling, {name: next(iter(scenario.app(name).waiting)) for name in asks}
    shared, own = NoNodeFits(kinds["first"], 1), NoNodeFits(kinds["other"], 1)
    queue.mark_unschedulable(scenario.app("first"), [shared])
    queue.mark_unschedulable(scenario.app("second"), [shared, own])
    queue.mark_unschedulable(scenario.app("other"), [own])
    queue.open(queue.blocking_reasons.entry(shared))
    queue.open(queue.blocking_reasons.entry(own))
    assert queue.next_leaf() is not None
    assert queue.active.has(scenario.app("second"))
    queue.dequeue(scenario.app("other"))
    queue.mark_unschedulable(scenario.app("other"), [own])
    assert not queue.active.has(scenario.app("second"))
    assert queue.active.has(scenario.app("first"))
    assert invariants.check(scenario.scheduler_state) == []
