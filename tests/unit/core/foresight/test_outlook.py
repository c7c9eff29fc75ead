"""The outlook of a copy is what then happens in the original."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from muster_core.foresight.outlook import Fate, outlook
from muster_core.foresight.unblocking import forked, scheduled
from muster_core.model.events import ConfigurationReplaced
from muster_core.model.ids import ApplicationId
from tests.amounts import amount
from tests.unit.builders import PARTITION, RM
from tests.unit.core.foresight.small_clusters import NOW_NS, TARGET, Cluster, Live

#: Clusters per case of the first test: 80, or 10,000 in `make soak`. One of 70 starts because of the change.
_PART = amount(80, 2500)


@pytest.mark.thorough
@pytest.mark.timeout(amount(300, 3600))
@pytest.mark.parametrize("part", range(amount(1, 4)))
def test_after_a_changed_configuration_the_same_applications_start(part: int) -> None:
    found: Counter[tuple[Fate, bool]] = Counter()
    for seed in range(part * _PART, (part + 1) * _PART):
        before, edited = Cluster(seed), Cluster(seed)
        edited.maximum |= {
            "root.a": edited.random.choice((None, 1000, 9000)),
            "root.b": edited.random.choice((0, 5000)),
        }
        edited.applications |= {"root.a": edited.random.choice((0, 1, 5))}
        change = ConfigurationReplaced(RM, edited.configuration())
        predicted = outlook(scheduled(before.events(), NOW_NS), PARTITION, [change])
        assert predicted is not None
        live = Live(before)
        was_started = live.has_started
        live.replace_configuration(edited.configuration())
        is_started = live.has_started
        fate = predicted.applications[TARGET].fate
        assert (fate is Fate.STARTED) == is_started, f"seed {seed}: {predicted.applications[TARGET]}"
        found[fate, was_started] += 1
    assert found[Fate.STARTED, False]
    assert found[Fate.WAITING, False]


def test_usage_above_a_maximum_is_that_before_preemption() -> None:
    seed = next(seed for seed in range(50) if Cluster(seed).allocations)
    cluster, edited = Cluster(seed), Cluster(seed)
    edited.maximum |= {"root": 1}
    live = Live(cluster)
    change = ConfigurationReplaced(RM, replace(edited.configuration(), tracking=False))
    found = forked(live.core)(lambda copy: outlook(copy, PARTITION, [change]))
    assert found is not None
    [excess] = [one for one in found.excesses if one.queue == "root" and not one.user]
    assert excess.max == {"vcore": 1}
    assert excess.used == {"vcore": live.core.scheduler_state.partitions[PARTITION].queues.root.allocated["vcore"]}
    assert ApplicationId("running-0") in found.applications


def test_an_outlook_ends_when_its_time_is_over() -> None:
    assert outlook(Live(Cluster(0)).core, PARTITION, [], may_go_on=lambda: False) is None
