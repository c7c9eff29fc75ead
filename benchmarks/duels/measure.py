"""Measures duels: the schedulers alternate on the control plane of each. After a failed run, the others continue."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import aiohttp

from benchmarks.cluster.benches import Contender, Run
from benchmarks.cluster.results import Results
from benchmarks.duels.run import DuelStage, open_duel
from benchmarks.duels.workloads import DUELS, bench
from benchmarks.figures import Figure, Options
from devcluster import signals
from devcluster.errors import DevclusterError


def steps(names: Sequence[str], options: Options) -> list[str]:
    """Return the steps of measuring these names, for the progress display."""
    return [step for name in names for step in (_start(name), *(run.step for run in _runs(name, options)))]


def measure(names: Sequence[str], options: Options) -> list[Figure]:
    """Measure these duels with alternating schedulers."""
    results = Results()
    for name in names:
        try:
            signals.run(_take_all(name, options, results))
        except (DevclusterError, aiohttp.ClientError) as error:
            options.session.fail(f"{name}: {error}")
    return [figure for name in names for figure in _figures(name, results)]


async def _take_all(name: str, options: Options, results: Results) -> None:
    opening = open_duel(name, quick=options.quick)
    with options.session.step(_start(name)):
        duel = await opening.__aenter__()
    try:
        for run in _runs(name, options):
            with options.session.step(run.step, f"run {run.number + 1} of {options.runs}"):
                await _take(duel, run, results, options)
    finally:
        await opening.__aexit__(None, None, None)


async def _take(duel: DuelStage, run: Run, results: Results, options: Options) -> None:
    try:
        found = await duel.run(run.contender)
    except (DevclusterError, aiohttp.ClientError) as error:
        options.session.fail(f"{run.step}, run {run.number + 1}: {error}")
        await duel.cleared()
        return
    results.add(run, found)
    cpu = ", ".join(f"{name} {seconds:g}" for name, seconds in found["cpu_s"].items())
    options.session.print_line(f"{run.step}: {found['bound_s']:.2f} s; CPU s: {cpu}; {found['phases_s']}")


def _runs(name: str, options: Options) -> Iterator[Run]:
    """Yield the runs of a duel. Every second round is in the reverse order."""
    contenders = [Contender.AUTO]
    if options.peers:
        contenders.append(Contender.KUBE)
    if DUELS[name].floor is not None:
        contenders.append(Contender.FLOOR)
    for number in range(options.runs):
        for contender in contenders if number % 2 == 0 else reversed(contenders):
            yield Run(name, contender, number)


def _figures(name: str, results: Results) -> list[Figure]:
    """Return the seconds, and how many times the floor they are."""
    found = results.figures(name, bench(name))
    floor = results.seconds(name, Contender.FLOOR)
    if found and len(floor) == len(found[0].values):
        ratios = [ours / least for ours, least in zip(found[0].values, floor, strict=True)]
        found.append(Figure(f"{name} floor", "x", ratios, DUELS[name].floor, less_is_better=True))
    return found


def _start(name: str) -> str:
    return f"{name} start"
