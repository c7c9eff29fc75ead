"""A seed determines all faults, every fault occurs, and requests are classified by kind."""

from itertools import takewhile

import pytest

from tests.e2e.faults.schedule import FITS, Fault, Kind, PlannedFault, Schedule, kind_of

PODS = "/api/v1/namespaces/ns/pods"


def planned_faults(seed: int, kind: Kind, count: int) -> list[PlannedFault | None]:
    schedule = Schedule(seed)
    return [schedule.next(kind) for _ in range(count)]


def test_the_same_seed_gives_the_same_faults_independent_of_other_kinds() -> None:
    schedule = Schedule(7)
    mixed = []
    for _ in range(200):
        schedule.next(Kind.EVENT)
        mixed.append(schedule.next(Kind.BIND))
    assert mixed == planned_faults(7, Kind.BIND, 200)
    assert mixed != planned_faults(8, Kind.BIND, 200)


@pytest.mark.parametrize("kind", Kind)
def test_each_matching_fault_occurs_before_any_repeats(kind: Kind) -> None:
    met = [stroke.fault for stroke in planned_faults(1, kind, 2000) if stroke is not None]
    deck = len(FITS[kind])
    assert sorted(met[:deck]) == sorted(FITS[kind])
    assert sorted(met[deck : 2 * deck]) == sorted(FITS[kind])


def test_every_fault_fits_some_kind() -> None:
    assert {fault for faults in FITS.values() for fault in faults} == set(Fault)


def test_most_requests_pass_and_some_faults_come_in_a_row() -> None:
    found = planned_faults(3, Kind.BIND, 2000)
    hits = [number for number, stroke in enumerate(found) if stroke is not None]
    assert 100 < len(hits) < 500
    rows = [len([*takewhile(lambda number: found[number] is not None, range(start, 2000))]) for start in hits]
    assert max(rows) >= 3


@pytest.mark.parametrize(
    "method, path, query, kind",
    [
        ("POST", f"{PODS}/p/binding", {}, Kind.BIND),
        ("POST", PODS, {}, Kind.CREATE),
        ("DELETE", f"{PODS}/p", {}, Kind.DELETE),
        ("PATCH", f"{PODS}/p/status", {}, Kind.PATCH),
        ("POST", "/apis/events.k8s.io/v1/namespaces/ns/events", {}, Kind.EVENT),
        ("PATCH", "/api/v1/namespaces/ns/events/e", {}, Kind.EVENT),
        ("GET", f"{PODS}/p", {}, Kind.READ),
        ("GET", "/api/v1/pods", {"limit": "500"}, Kind.LIST),
        ("GET", "/api/v1/pods", {"limit": "500", "continue": "x"}, Kind.PAGE),
        ("GET", "/api/v1/pods", {"watch": "true"}, Kind.WATCH_PODS),
        ("GET", "/api/v1/nodes", {"watch": "true"}, Kind.WATCH),
        ("PUT", "/apis/coordination.k8s.io/v1/namespaces/muster/leases/muster", {}, Kind.LEASE),
        ("GET", "/apis", {}, Kind.OTHER),
    ],
)
def test_a_request_is_of_its_kind(method: str, path: str, query: dict[str, str], kind: Kind) -> None:
    assert kind_of(method, path, query) is kind
