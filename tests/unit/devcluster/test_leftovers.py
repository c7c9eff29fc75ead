"""A core is empty only if every part of its dump is empty."""

from devcluster.api import Json
from devcluster.leftovers import leftovers


def a_dump(applications: list[Json] | None = None, invariants: list[str] | None = None, **ledgers: object) -> Json:
    return {"ledgers": ledgers, "applications": applications or [], "invariants": invariants}


def test_zeros_foreign_pods_and_odd_messages_are_nothing_left_over() -> None:
    assert leftovers(a_dump(asks=0, queues={}, users={"u": {"root": {"vcore": 0}}}, foreign=3, ignored={"x": 1})) == []


def test_each_amount_is_named_by_its_path() -> None:
    dump = a_dump(asks=2, queues={"root.a": {"allocated": {"vcore": 100}, "pending": {}}})
    assert leftovers(dump) == ["asks = 2", "queues/root.a/allocated/vcore = 100"]


def test_a_living_application_and_a_broken_invariant_are_left_over() -> None:
    dump = a_dump([{"applicationID": "app", "applicationState": "Running"}], ["sums differ"])
    assert leftovers(dump) == ["app is Running", "invariant: sums differ"]
