"""A generated load depends only on its random number, has the requested size, and contains every kind of item."""

import json

from tests.e2e.faults.gangs import PLACEMENTS
from tests.e2e.faults.items import Deletion, Item, Outcome
from tests.e2e.faults.load import Load


def items(seed: int = 1, portions: int = 40) -> list[Item]:
    load = Load(seed, nodes=10, node_cpu=4)
    return [item for _ in range(portions) for item in load.portion(gang=5, single=5)]


def test_the_same_seed_gives_the_same_load() -> None:
    assert items(3) == items(3)
    assert items(3) != items(4)


def test_portions_have_the_requested_size() -> None:
    found = items(portions=100)
    assert sum(item.gang for item in found) >= 500
    assert sum(item.single for item in found) == 500
    assert len({item.name for item in found}) == len(found)


def test_every_kind_of_gang_occurs_in_every_placement() -> None:
    found = {(item.kind, placement) for item in items(portions=400) if item.gang for placement in placements(item)}
    kinds = {kind for kind, _ in found}
    assert found == {(kind, placement) for kind in kinds for placement in PLACEMENTS}


def placements(item: Item) -> set[str]:
    text = json.dumps(item.manifests)
    return {placement for placement in PLACEMENTS if f"gangPlacement={placement}" in text}


def test_the_load_has_every_outcome_and_every_deletion() -> None:
    found = items()
    assert {item.outcome for item in found} == set(Outcome)
    assert {item.deletion for item in found} == set(Deletion)
    assert all((item.deletion is Deletion.NEVER) is (item.outcome is not Outcome.DELETED) for item in found)
    assert len({item.kind for item in found}) == 13
