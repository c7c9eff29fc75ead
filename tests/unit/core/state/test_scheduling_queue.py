"""An ordered set has the same first and second entries as a sorted list, however its keys change."""

from __future__ import annotations

from random import Random  # noqa: TID251 # seeded

import pytest

from muster_core.scheduling import invariants
from muster_core.state.ordered_sets import ApplicationHeap
from muster_core.state.ordering import SortKey
from muster_core.state.scheduling_queue import NoNodeFits
from tests.unit.builders import a_configuration, a_queue, an_allocation, an_application, an_ask
from tests.unit.core.scheduling.scenario import Scenario


@pytest.mark.parametrize("seed", range(20))
def test_the_first_and_the_second_are_those_of_a_sorted_list(seed: int) -> None:
    random = Random(seed)
    keys: dict[str, SortKey] = {}
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
            assert order.first_two(keys.__getitem__) == (expected[0], expected[1] if len(keys) > 1 else None)


@pytest.mark.parametrize("seed", range(20))
def test_an_order_that_is_not_kept_has_the_same_first_and_second_and_computes_each_key_once(seed: int) -> None:
    random = Random(seed)
    keys: dict[str, SortKey] = {f"app{number}": (0, float(number)) for number in range(30)}
    computed: list[str] = []

    def key_of(name: str) -> SortKey:
        computed.append(name)
        return keys[name]

    order = ApplicationHeap(0, is_kept=False)
    for _ in range(500):
        name = f"app{random.randrange(30)}"
        keys[name] = (random.randrange(10), float(name[3:]))
        if random.random() < 0.3:
            order.discard(name)
        else:
            order.add(name)
        computed.clear()
        expected = sorted(order, key=lambda one: (keys[one], one))
        if expected:
            assert order.first_two(key_of) == (expected[0], expected[1] if len(expected) > 1 else None)
            assert order.first(keys.__getitem__) == expected[0]
        assert len(computed) <= len(expected)
    expected = sorted(order, key=lambda one: (keys[one], one))
    order.keep(keys.__getitem__, 1)
    assert order.first_two(keys.__getitem__) == (expected[0], expected[1])


def test_a_key_that_grew_is_noticed_when_it_comes_first() -> None:
    keys: dict[str, SortKey] = {"a": (1,), "b": (2,), "c": (3,)}
    order = ApplicationHeap(0)
    for name, key in keys.items():
        order.put(name, key)
    keys["a"] = (9,)
    assert order.first(keys.__getitem__) == "b"
    assert order.first_two(keys.__getitem__) == ("b", "c")


def test_keys_of_an_older_epoch_are_renewed_a_few_at_each_use() -> None:
    keys: dict[str, SortKey] = {f"app{index:03}": (float(index),) for index in range(200)}
    order = ApplicationHeap(0)
    for name, key in keys.items():
        order.put(name, key)
    keys = {name: (-key[0],) for name, key in keys.items()}
    computed: list[str] = []

    def key_of(name: str) -> SortKey:
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
        scenario.submit(an_application(name, queue=leaf))
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


def test_a_queue_whose_usage_changed_while_it_was_alone_is_compared_with_the_next_queue_by_its_new_usage() -> None:
    leaves = {"first": "root.p1.a", "less": "root.p2.b", "more": "root.p2.c"}
    parents = a_queue("p1", a_queue("a")), a_queue("p2", a_queue("b"), a_queue("c"))
    scenario = Scenario(a_configuration(*parents), nodes=1, vcore=100)
    for name, leaf in leaves.items():
        scenario.submit(an_application(name, queue=leaf))
    used = {"b0": ("less", 30), "b1": ("less", 5), "c0": ("more", 20)}
    scenario.add_node("n", *(an_allocation(key, "n", app=app, vcore=vcore) for key, (app, vcore) in used.items()))
    for name in leaves:
        scenario.ask(an_ask(f"{name}-ask", app=name, vcore=10_000))
    queue, kind = scenario.partition.scheduling, next(iter(scenario.app("first").waiting))
    reason, other = NoNodeFits(kind, 2), NoNodeFits(kind, 3)
    queue.mark_unschedulable(scenario.app("first"), [reason])
    queue.mark_unschedulable(scenario.app("more"), [other])
    entry = queue.blocking_reasons.entry(reason)
    assert queue.first_of(entry) is scenario.app("first")
    queue.mark_unschedulable(scenario.app("less"), [reason])
    assert queue.first_of(entry) is scenario.app("first")
    scenario.release("b0", app="less")
    assert queue.first_of(entry) is scenario.app("first")
    queue.mark_unschedulable(scenario.app("more"), [reason])
    queue.mark_unschedulable(scenario.app("first"), [other])
    assert queue.first_of(entry) is scenario.app("less")
