"""Devices are allocated as kube-scheduler's allocator does it, compared on random slices, classes, claims and nodes.

`MUSTER_CONFORMANCE_SEED` and `MUSTER_CONFORMANCE_DEVICES` change the cases and their number.
"""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from collections.abc import Iterator

import pytest

from muster_core.model.devices import DeviceResult
from muster_core.placement.devices import allocation
from tests.conformance.devices import Case, differs, kind_of, kubernetes_answers, muster_answers
from tests.conformance.kube_scheduler import KubeScheduler
from tests.conformance.objects import Raw

pytestmark = pytest.mark.timeout(600)

SEED = int(os.environ.get("MUSTER_CONFORMANCE_SEED", "1")) * 1_000_000
CASES = int(os.environ.get("MUSTER_CONFORMANCE_DEVICES", "1000"))

#: Cases of which a part of Muster is switched off, and the least number of pairs of each kind among all cases.
FEW = 300
AT_LEAST = 5

#: Muster ends a search after a number of steps; at most one in so many cases.
MOST_ENDED = 500
KINDS = ("found", "refused", "CEL runtime error", "invalid resource pools", "currently being updated", "device class")


@pytest.fixture(scope="module")
def kube_scheduler() -> Iterator[KubeScheduler]:
    with KubeScheduler() as process:
        yield process


def pairs(kube_scheduler: KubeScheduler, cases: int) -> Iterator[tuple[int, Raw, Raw, Raw]]:
    """Yield seed, question, Muster's answer and kube-scheduler's for each node of each case."""
    for seed in range(SEED, SEED + cases):
        question = Case(seed).question()
        theirs = kubernetes_answers(kube_scheduler.allocations(question))
        for mine, other in zip(muster_answers(question), theirs, strict=True):
            yield seed, question, mine, other


def test_the_same_devices_are_allocated_or_none(kube_scheduler: KubeScheduler) -> None:
    seen: Counter[str] = Counter()
    for seed, question, mine, theirs in pairs(kube_scheduler, CASES):
        seen[kind_of(theirs)] += 1
        if differs(mine, theirs, question):
            assert "too many steps" in mine.get("error", ""), (seed, mine, theirs)
            seen["ended"] += 1
    assert seen["ended"] <= CASES // MOST_ENDED
    assert [kind for kind in KINDS if seen[kind] < AT_LEAST] == []


@pytest.mark.parametrize(
    "name, replaced",
    [
        ("is_repelled", lambda *_: False),
        ("RESULTS_PER_CLAIM", 4),
        ("_Constraint.add", lambda *_: True),
        ("_Search._is_taken", lambda *_: False),
        ("matches_all", lambda *_: True),
        ("_extend", lambda *_: None),
        ("_Constraint._allows", lambda *_: True),
        ("_result", lambda wanted, one: DeviceResult(wanted.name, one.id, wanted.request.admin)),
        ("_Search._has_capacity", lambda *_, **__: True),
        ("_Search._consumes", lambda _, candidate: candidate.device.consumes),
        ("_Search._counters", lambda *_: defaultdict(lambda: 10**30)),
    ],
)
def test_a_part_that_is_switched_off_is_noticed(
    kube_scheduler: KubeScheduler, monkeypatch: pytest.MonkeyPatch, name: str, replaced: object
) -> None:
    owner, _, attribute = name.rpartition(".")
    monkeypatch.setattr(getattr(allocation, owner) if owner else allocation, attribute, replaced)
    assert any(differs(mine, theirs, question) for _, question, mine, theirs in pairs(kube_scheduler, FEW))
