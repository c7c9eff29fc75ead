"""What a dry run predicts is what happens when the application is submitted."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from random import Random  # noqa: TID251 # the seed is an argument

import pytest

from muster_core.foresight.outlook import Fate
from muster_core.foresight.submission import submitted
from muster_core.foresight.unblocking import scheduled
from muster_core.model.events import ApplicationAdded, AskAdded, Event
from muster_core.model.ids import AllocationKey
from muster_core.model.specs import ApplicationSpec, AskSpec, GangPlacement
from tests.amounts import amount
from tests.unit.builders import PARTITION
from tests.unit.core.foresight.small_clusters import NOW_NS, TARGET, Cluster, Live

#: Clusters per case of the first test: 200, or 10,000 in `make soak`.
_PART = amount(100, 250)


def a_cluster(seed: int) -> tuple[Cluster, list[Event], ApplicationSpec, list[AskSpec]]:
    """A cluster, its events without the target, and the target: in some worlds with a
    priority, a guaranteed share of its queue, or with Reserve. Some pods of other gangs are not created yet.
    """
    random, cluster = Random(seed), Cluster(seed)
    cluster.guaranteed = {cluster.specs[TARGET].queue: random.choice((0, 3000, 6000))}
    priority = random.choice((0, 0, 100))
    spec = replace(cluster.specs[TARGET], created_ns=NOW_NS)
    if random.random() < 0.3:
        spec = replace(spec, gang_placement=GangPlacement.RESERVE)
    tags = tuple(cluster.asks[TARGET][0].tags.items())
    members = tuple(replace(member, priority=priority, tags=tags) for member in spec.members)
    asks = [replace(ask, priority=priority, created_ns=NOW_NS) for ask in cluster.asks[TARGET]]
    absent = {ask.key for pods in cluster.asks.values() for ask in pods[1:] if ask.group and random.random() < 0.3}
    events = [
        event
        for event in cluster.events()
        if not (isinstance(event, ApplicationAdded) and event.spec.id == TARGET)
        and not (isinstance(event, AskAdded) and (event.spec.application == TARGET or event.spec.key in absent))
    ]
    return cluster, events, replace(spec, members=members), asks


@pytest.mark.thorough
@pytest.mark.timeout(amount(300, 3600))
@pytest.mark.parametrize("part", range(amount(2, 40)))
def test_the_prediction_is_what_then_happens(part: int) -> None:
    found: Counter[object] = Counter()
    for seed in range(part * _PART, (part + 1) * _PART):
        cluster, events, spec, asks = a_cluster(seed)
        core = scheduled(events, NOW_NS)
        predicted = submitted(core, PARTITION, [ApplicationAdded(spec), *map(AskAdded, asks)])
        assert predicted is not None
        live = Live(cluster, events)
        live.submit(spec, asks)
        expected = predicted.applications[TARGET]
        assert (expected.fate is Fate.STARTED) == live.has_started, f"seed {seed}: {expected}"
        assert {victim.key for victim in predicted.victims} == live.preempted, f"seed {seed}"
        if live.has_started:
            assert dict(expected.nodes) == Counter(live.placed[ask.key] for ask in asks), f"seed {seed}: {expected}"
        found.update([expected.fate, spec.gang_placement])
        found["preemption"] += bool(live.preempted)
        found["limits"] += bool(predicted.limits.get(TARGET))
    assert {Fate.STARTED, Fate.WAITING, GangPlacement.RESERVE, GangPlacement.AUTO, GangPlacement.DIRECT} <= found.keys()
    assert found["preemption"]
    assert found["limits"]


def test_pods_of_an_application_that_exists_join_it() -> None:
    cluster, _, spec, asks = next(a_cluster(seed) for seed in range(50) if Live(Cluster(seed)).is_waiting)
    core = scheduled(cluster.events(), NOW_NS)
    app = core.scheduler_state.partitions[PARTITION].applications[TARGET]
    more = replace(asks[0], key=AllocationKey("more"))
    found = submitted(core, PARTITION, [ApplicationAdded(spec), AskAdded(more)])
    assert found is not None
    assert core.scheduler_state.partitions[PARTITION].applications[TARGET] is app
    assert more.key in app.asks or more.key in app.ids
