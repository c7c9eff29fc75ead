"""Estimated starts: exact where nothing is unknown, and from the run times of similar applications otherwise."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random  # noqa: TID251 # the seed is an argument
from typing import TypeVar

import pytest

from muster_core.config.load import load
from muster_core.foresight import measures
from muster_core.foresight.forecast import Forecasts, RunTime, RunTimeBasis, RunTimeHistory
from muster_core.foresight.outside import JobState, Outside
from muster_core.foresight.simulation import simulate
from muster_core.foresight.unblocking import forked, has_started, scheduled
from muster_core.foresight.virtual_core import VirtualCore
from muster_core.foresight.workload import PARTITION, RM, SECOND, TraceOptions, read_nodes, read_trace
from muster_core.model.events import ApplicationAdded, AskAdded, Event, ManagerRegistered, NodeAdded
from muster_core.model.ids import AllocationKey
from tests.amounts import amount
from tests.unit.core.foresight.test_reference import LINES, NEVER, NODES, STRICT

_Found = TypeVar("_Found")


@pytest.mark.thorough
def test_with_known_run_times_and_strict_order_the_estimate_is_the_start() -> None:
    """Nothing that is submitted later comes first, so that the only model is that of the simulation itself."""
    jobs = read_trace(LINES, options=TraceOptions(gang_from=1))
    run_ns = {job.id: job.run_ns or 0 for job in jobs}
    unseen = {job.submit_ns: job.id for job in jobs}
    every, waiting = amount(8, 1), 0
    estimates = {}

    def observe(core: VirtualCore, outside: Outside) -> None:
        nonlocal waiting
        name = unseen.pop(core.now_ns, None)
        if name is None or outside.records[name].state is not JobState.WAITING:
            return
        waiting += 1
        if waiting % every == 0:
            known = Forecasts(core, PARTITION, lambda app: RunTime(RunTimeBasis.DECLARED, *(run_ns[app.id],) * 3))
            found = known.of(name, forked(core))
            assert found.early_ns == found.usual_ns == found.late_ns
            estimates[name] = found.usual_ns

    run = simulate(read_nodes(NODES), jobs, load(STRICT, NEVER).configuration, observe=observe)
    waits = {one.job.id: measures.wait_s(one) * SECOND for one in run.records}
    assert len(estimates) > 5
    assert max(waits[name] for name in estimates) > 3600 * SECOND
    assert estimates == {name: waits[name] for name in estimates}


def test_a_copy_that_ran_forward_answers_for_all_applications_that_started() -> None:
    """In any order, as a copy for each application would, and with few copies."""
    random = Random(1)
    lines = (
        "id,submit_s,pods,cpu_milli",
        *(f"job-{number},{number},1,{random.choice((500, 1000))}" for number in range(60)),
    )
    jobs = read_trace(lines)
    events: list[Event] = [
        ManagerRegistered(RM, load(STRICT, NEVER).configuration),
        *map(NodeAdded, read_nodes(NODES)[:4]),
    ]
    for job in jobs:
        request = replace(job.pod_sets[0].request, application=job.id, key=AllocationKey(job.id))
        events += (ApplicationAdded(job.application), AskAdded(request))
    core = scheduled(events, jobs[-1].submit_ns)
    run_times = {job.id: RunTime(RunTimeBasis.DECLARED, *(random.randrange(1, 9) * SECOND,) * 3) for job in jobs}
    apps = core.scheduler_state.partitions[PARTITION].applications
    waiting = [name for name, app in apps.items() if not has_started(app)]
    random.shuffle(waiting)
    copied = 0

    def on_copy(function: Callable[[VirtualCore], _Found], /) -> _Found:
        nonlocal copied
        copied += 1
        return forked(core)(function)

    shared = Forecasts(core, PARTITION, lambda app: run_times[app.id])
    found = {name: shared.of(name, on_copy) for name in waiting}
    assert copied <= 6 < len(waiting)
    for name in waiting:
        alone = Forecasts(core, PARTITION, lambda app: run_times[app.id])
        assert alone.of(name, forked(core)) == found[name]
    assert all(one.usual_ns for one in found.values())


def test_similar_applications_give_the_run_time() -> None:
    history = RunTimeHistory()
    for seconds in (10, 20, 30, 40):
        history.add(f"train-2026-11-0{seconds // 10}", "kim", "root.a", seconds)
    history.add("notebook", "kim", "root.a", 500)
    history.add("notebook", "lee", "root.a", 1000)
    assert history.expected("train-2026-12-01", "kim", "root.a") == RunTime(RunTimeBasis.NAME, 20, 30, 40)
    assert history.expected("other", "kim", "root.a") == RunTime(RunTimeBasis.USER, 20, 30, 40)
    assert history.expected("train-1", "lee", "root.a") == RunTime(RunTimeBasis.QUEUE, 20, 40, 500)
    assert history.expected("train-1", "lee", "root.b").basis is RunTimeBasis.UNKNOWN


def test_a_history_is_bounded_and_prefers_the_newest() -> None:
    history = RunTimeHistory()
    for number in range(1000):
        history.add("train", "kim", "root.a", number)
    assert history.expected("train", "kim", "root.a") == RunTime(RunTimeBasis.NAME, 850, 900, 950)


def test_a_name_of_any_length_is_read_in_linear_time() -> None:
    history = RunTimeHistory()
    for name in ("a" * 100_000, "1" * 100_000, "-1" * 100_000, "-" * 100_000):
        history.add(name, "kim", "root.a", 1)
    assert history.expected("x", "kim", "root.a").basis is RunTimeBasis.USER
