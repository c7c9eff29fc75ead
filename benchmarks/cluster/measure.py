"""Runs the selected cluster benchmarks on one cluster. After a failed run, the others continue.

If the cluster fails, the results until then are used.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AsyncExitStack

import aiohttp

from benchmarks.cluster.benches import BENCHES, WORKS, Run, ordered_runs
from benchmarks.cluster.results import Results
from benchmarks.cluster.stage import Stage, open_stage
from benchmarks.figures import Figure, Options
from benchmarks.session import Session
from devcluster import signals
from devcluster.errors import DevclusterError

START = "cluster start"
WARM_UP = "cluster warm-up"


def steps(names: Sequence[str], options: Options) -> list[str]:
    """Return the steps of measuring these names, for the progress display."""
    return [START, *([] if options.quick else [WARM_UP]), *(run.step for run in _runs_of(names, options))]


def measure(names: Sequence[str], options: Options) -> list[Figure]:
    """Measure the workloads of these names with alternating schedulers."""
    results = Results()
    try:
        signals.run(_take_all(names, options, results))
    except (DevclusterError, aiohttp.ClientError) as error:
        options.session.fail(f"cluster: {error}")
    return [figure for name in names for figure in results.figures(name, BENCHES[name])]


async def _take_all(names: Sequence[str], options: Options, results: Results) -> None:
    async with AsyncExitStack() as stack:
        with options.session.step(START):
            stage = await stack.enter_async_context(open_stage(quick=options.quick))
        if not options.quick:
            await _warm_up(stage, options.session)
        for run in _runs_of(names, options):
            with options.session.step(run.step, f"{_count(run)} of {options.runs}"):
                await _take(stage, run, results, options.session)


async def _warm_up(stage: Stage, session: Session) -> None:
    try:
        with session.step(WARM_UP):
            await stage.warm_up_cluster()
    except (DevclusterError, aiohttp.ClientError) as error:
        session.fail(f"{WARM_UP}: {error}")
        await stage.cleared()


async def _take(stage: Stage, run: Run, results: Results, session: Session) -> None:
    try:
        found = await stage.run(run)
    except (DevclusterError, aiohttp.ClientError) as error:
        session.fail(f"{run.step}, {_count(run)}: {error}")
        await stage.cleared()
        return
    results.add(run, found)
    cpu = ", ".join(f"{name} {seconds:g}" for name, seconds in found["cpu_s"].items())
    session.print_line(
        f"{run.step}: {found['bound_s']:.2f} s, first {found['first_bound_s']:.2f}; CPU s: {cpu}; {found['phases_s']}"
    )


def _count(run: Run) -> str:
    load = f"load {run.repeat + 1}, " if WORKS[run.work].repeats > 1 else ""
    return f"{load}run {run.number + 1}"


def _runs_of(names: Sequence[str], options: Options) -> list[Run]:
    return list(ordered_runs([BENCHES[name] for name in names], options.runs, peers=options.peers))
