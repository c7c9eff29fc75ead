"""All turns of the chosen names, on one cluster. A turn that fails is told, and the others go on.

Where they cannot, for the cluster itself failed, what was measured until then counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AsyncExitStack

import aiohttp

from benchmarks.cluster.benches import BENCHES, Turn, turns
from benchmarks.cluster.results import Results
from benchmarks.cluster.stage import Stage, open_stage
from benchmarks.figures import Figure, Options
from benchmarks.session import Session
from devcluster import signals
from devcluster.errors import DevclusterError

START = "cluster start"


def steps(names: Sequence[str], options: Options) -> list[str]:
    """What is going to be done, for who wants to know how long it takes."""
    return [START, *(turn.step for turn in _turns(names, options))]


def measure(names: Sequence[str], options: Options) -> list[Figure]:
    """The works of these names, by turns."""
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
        for turn in _turns(names, options):
            with options.session.step(turn.step, f"run {turn.number + 1} of {options.runs}"):
                await _take(stage, turn, results, options.session)


async def _take(stage: Stage, turn: Turn, results: Results, session: Session) -> None:
    try:
        found = await stage.run(turn)
    except (DevclusterError, aiohttp.ClientError) as error:
        session.fail(f"{turn.step}, run {turn.number + 1}: {error}")
        await stage.cleared()
        return
    results.add(turn.work, turn.who, found)
    cpu = ", ".join(f"{name} {seconds:g}" for name, seconds in found["cpu_s"].items())
    session.say(
        f"{turn.step}: {found['bound_s']:.2f} s, first {found['first_bound_s']:.2f}; CPU s: {cpu}; {found['laps_s']}"
    )


def _turns(names: Sequence[str], options: Options) -> list[Turn]:
    return list(turns([BENCHES[name] for name in names], options.runs, peers=options.peers))
