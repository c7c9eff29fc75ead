"""An ordered set names its first and its second as a sorted list does, however its keys move."""

from __future__ import annotations

from random import Random  # noqa: TID251 # seeded

import pytest

from muster_core.state.ordering import Key
from muster_core.state.scheduling_queue import ApplicationHeap


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
