"""Figures of docs/reference/simulation.md: speed, agreement with references, packing, and calibration of estimates.

Called by `make simulate-bench`. Each figure needs a trace in the columns of `muster simulate`; a missing trace is
reported and left out. Philly runs twice in processes of their own, whose results have to be identical.
"""

from __future__ import annotations

import argparse
import asyncio
import csv
import gc
import gzip
import hashlib
import json
import os
import resource
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from statistics import median
from typing import Final

import aiohttp
import uvloop

from benchmarks import live_and_simulated
from benchmarks.rest_answers import longest_pause
from muster_core.config.load import load
from muster_core.foresight import measures
from muster_core.foresight.forecast import Forecast, Forecasts, RunTime, RunTimeBasis, RunTimeHistory
from muster_core.foresight.outside import JobState, Outside
from muster_core.foresight.simulation import simulate
from muster_core.foresight.unblocking import forked, scheduled
from muster_core.foresight.virtual_core import VirtualCore
from muster_core.foresight.workload import (
    GPU_SHARE,
    PARTITION,
    RM,
    SECOND,
    START_NS,
    Job,
    TraceOptions,
    read_nodes,
    read_trace,
)
from muster_core.main import configure_logs
from muster_core.model.config import Configuration
from muster_core.model.events import (
    AllocationReleased,
    ApplicationAdded,
    AskAdded,
    AskReleased,
    Event,
    ManagerRegistered,
    NodeAdded,
)
from muster_core.model.ids import AllocationKey, ApplicationId, Termination
from muster_core.model.specs import AskSpec, NodeSpec
from muster_core.rest.server import RestServer, RestSettings
from muster_core.runtime.log_level import LogLevel
from muster_core.runtime.loop import QueuedMessage
from muster_core.runtime.service import Scheduler
from muster_core.state.applications import Application
from muster_si.log_lines import LogFormat

#: Where the traces are expected: next to a clone.
TRACES: Final = Path(__file__).resolve().parents[2] / "shared" / "data" / "traces"

_QUEUES: Final = "partitions: [{queues: [{name: root, submitacl: '*', queues: [%s]}]%s}]"
_PHILLY_NODES: Final = ("name,cpu_milli,memory_mib,gpu,count", "eight,64000,524288,8,231", "two,64000,524288,2,321")

#: Lines of Philly, and fewer nodes for them, because hardly a job waits on all nodes.
_EXCERPT: Final = 10_001
_FEWER_NODES: Final = ("name,cpu_milli,memory_mib,gpu,count", "eight,64000,524288,8,40")
_HPC2N_NODES: Final = ("name,cpu_milli,memory_mib,count", "node,2000,4096,120")

#: Longer than the trace, so that no gang reserves because of its age, as in the references.
_NEVER: Final = {"gang.starvationAge": "10000h"}

#: Estimates for shorter waits are not compared.
_SHORTEST_S: Final = 60


@dataclass(frozen=True, slots=True)
class Traces:
    """The folder with the traces."""

    folder: Path

    def lines(self, name: str) -> list[str] | None:
        """The lines of a trace. None = it is missing, which is reported."""
        path = self.folder / f"{name}.csv.gz"
        if not path.is_file():
            print(f"{name}: {path} is missing; docs/reference/simulation.md names its source (TRACES=folder)")
            return None
        return gzip.decompress(path.read_bytes()).decode().splitlines()


def main() -> None:
    """Measure the selected figures, all by default."""
    figures: dict[str, Callable[[Traces], None]] = {
        "philly": philly,
        "hpc2n": hpc2n,
        "openb": openb,
        "calibration": calibration,
        "latency": lambda _: latency(),
        "live": live,
    }
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("figures", nargs="*", help=f"any of {', '.join(figures)} (default: all but live)")
    parser.add_argument("--traces", type=Path, default=Path(os.environ.get("TRACES") or TRACES))
    parser.add_argument("--one-philly", action="store_true", help=argparse.SUPPRESS)
    found = parser.parse_args()
    traces = Traces(found.traces)
    if found.one_philly:
        print(json.dumps(_one_philly(traces)))
        return
    if unknown := [name for name in found.figures if name not in figures]:
        parser.error(f"unknown figure {unknown[0]}; choose from {', '.join(figures)}")
    for name in found.figures or [name for name in figures if name != "live"]:
        figures[name](traces)


def live(traces: Traces) -> None:
    """An excerpt of Philly live and simulated."""
    if (lines := traces.lines("philly")) is not None:
        live_and_simulated.measure(lines)


def configuration(*queues: str, extra: str = "", settings: dict[str, str] | None = None) -> Configuration:
    """One partition with these leaf queues."""
    return load(_QUEUES % (", ".join(queues), extra), settings or {}).configuration


# --- speed -----------------------------------------------------------------------------------------------------------


def philly(traces: Traces) -> None:
    """The complete trace, twice."""
    if traces.lines("philly") is None:
        return
    command = [sys.executable, "-m", "benchmarks.simulation", "--one-philly", "--traces", str(traces.folder)]
    runs = [json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout) for _ in range(2)]
    for run in runs:
        print(
            f"philly: {run['jobs']} jobs, {run['cpu_s']:.0f} CPU seconds, {run['mib']} MiB,"
            f" mean wait {run['wait_s']:.0f} s",
            flush=True,
        )
    same = "identical" if runs[0]["digest"] == runs[1]["digest"] else "DIFFERENT"
    print(f"philly: starts and ends of all jobs are {same} in both runs")


def philly_jobs(lines: Sequence[str]) -> tuple[list[NodeSpec], list[Job], Configuration]:
    """Nodes, jobs, and a queue for each virtual cluster."""
    jobs = read_trace(lines)
    names = sorted({job.application.queue.rpartition(".")[2] for job in jobs})
    return read_nodes(_PHILLY_NODES), jobs, configuration(*(f"{{name: '{name}'}}" for name in names))


def _one_philly(traces: Traces) -> dict[str, object]:
    run = simulate(*philly_jobs(traces.lines("philly") or []))
    used = resource.getrusage(resource.RUSAGE_SELF)
    times = [(one.job.id, one.state.value, one.started_ns, one.ended_ns) for one in run.records]
    return {
        "jobs": len(run.records),
        "cpu_s": used.ru_utime + used.ru_stime,
        "mib": used.ru_maxrss // 1024,
        "wait_s": measures.summary(run).wait_s.mean,
        "digest": hashlib.sha256(repr(times).encode()).hexdigest(),
    }


# --- agreement -------------------------------------------------------------------------------------------------------


def hpc2n(traces: Traces) -> None:
    """Every wait, against the independent schedulers of the tests."""
    from tests.unit.core.foresight.reference import Policy, Rigid, waits  # noqa: PLC0415  # other figures need no tests

    lines = traces.lines("hpc2n")
    if lines is None:
        return
    jobs = read_trace(lines, options=TraceOptions(gang_from=1))
    rigid = [Rigid((job.submit_ns - START_NS) // SECOND, (job.run_ns or 0) // SECOND, job.pods, 0) for job in jobs]
    for policy, leaf in (
        (Policy.FIFO, "{name: default, resources: {max: {vcore: '240'}}}"),
        (Policy.GREEDY, "{name: default}"),
    ):
        run = simulate(read_nodes(_HPC2N_NODES), jobs, configuration(leaf, settings=_NEVER))
        expected = waits(rigid, 240, policy)
        equal = sum(measures.wait_s(one) == wait for one, wait in zip(run.records, expected, strict=True))
        mean = sum(expected) / len(expected)
        print(f"hpc2n {policy.name.lower()}: {equal} of {len(jobs)} waits are equal, mean {mean:.0f} s", flush=True)


def openb(traces: Traces) -> None:
    """Allocated GPUs after pods in random order have requested as many as there are."""
    lines, node_lines = traces.lines("openb-default"), traces.lines("openb-nodes")
    if lines is None or node_lines is None:
        return
    nodes, jobs = read_nodes(node_lines), read_trace(lines)
    total = sum(node.capacity[GPU_SHARE] for node in nodes)
    for name, weights in (("binpacking", ""), ("with a weight for GPUs", f", resourceweights: {{{GPU_SHARE}: 10}}")):
        policy = configuration("{name: ls}", extra=f", nodesortpolicy: {{type: binpacking{weights}}}")
        shares = [_allocated(nodes, jobs, policy, total, seed) for seed in range(3)]
        print(
            f"openb {name}: {', '.join(f'{100 * share:.1f} %' for share in shares)} of the GPUs allocated", flush=True
        )


def _allocated(nodes: Sequence[NodeSpec], jobs: Sequence[Job], policy: Configuration, total: int, seed: int) -> float:
    random, wanted, chosen = Random(seed), 0, list[Job]()
    while wanted < total:
        job = random.choice(jobs)
        wanted += job.resources[GPU_SHARE]
        at_ns = START_NS + len(chosen) * SECOND
        spec = replace(job.application, id=ApplicationId(f"pod-{len(chosen)}"), queue="root.ls", created_ns=at_ns)
        chosen.append(replace(job, application=spec, submit_ns=at_ns, run_ns=None))
    run = simulate(nodes, chosen, policy)
    return sum(one.job.resources[GPU_SHARE] for one in run.records if one.started_ns) / total


# --- calibration of estimates ----------------------------------------------------------------------------------------


@dataclass(slots=True)
class Estimates:
    """Forecasts for every n-th job that waits when it is submitted, from what is known then.

    `declared`: run times in nanoseconds by job; without them, the history of the user counts.
    """

    jobs: Sequence[Job]
    declared: dict[str, int]
    every: int
    made: dict[ApplicationId, Forecast] = field(default_factory=dict)
    seconds: list[float] = field(default_factory=list)
    _submitted: dict[int, list[Job]] = field(default_factory=lambda: defaultdict(list))
    _waiting: int = 0
    _ended: set[str] = field(default_factory=set)
    _history: RunTimeHistory = field(default_factory=RunTimeHistory)

    def __post_init__(self) -> None:
        """Indexes the jobs by the time of their submission."""
        for job in self.jobs:
            self._submitted[job.submit_ns].append(job)

    def observe(self, core: VirtualCore, outside: Outside) -> None:
        """Called after each instant of the simulation."""
        for job in self._submitted.pop(core.now_ns, ()):
            if outside.records[job.id].state is JobState.WAITING:
                self._waiting += 1
                if self._waiting % self.every == 0:
                    self._estimate(core, outside, job)

    def _estimate(self, core: VirtualCore, outside: Outside, job: Job) -> None:
        ended = [
            one for one in outside.records.values() if one.state is JobState.COMPLETED and one.job.id not in self._ended
        ]
        for one in sorted(ended, key=lambda record: record.ended_ns):
            self._ended.add(one.job.id)
            user = _user(one.job.application.user, one.queue)
            self._history.add("", user, one.queue, one.ended_ns - one.started_ns)
        began = time.perf_counter()
        self.made[job.id] = Forecasts(core, PARTITION, self._run_time).of(job.id, forked(core))
        self.seconds.append(time.perf_counter() - began)

    def _run_time(self, app: Application) -> RunTime:
        if (declared_ns := self.declared.get(app.id)) is not None:
            return RunTime(RunTimeBasis.DECLARED, declared_ns, declared_ns, declared_ns)
        return self._history.expected("", _user(app.spec.user, app.queue.path), app.queue.path)


def _user(user: str, queue: str) -> str:
    """The Philly trace has no users: a virtual cluster counts as one."""
    return queue if user == "nobody" else user


def calibration(traces: Traces) -> None:
    """Estimated starts of jobs that wait when they are submitted, against their starts in the same simulation."""
    if (lines := traces.lines("hpc2n")) is not None:
        jobs = read_trace(lines, options=TraceOptions(gang_from=1))
        declared = {row["id"]: int(row["estimate_s"] or row["run_s"]) * SECOND for row in csv.DictReader(lines)}
        nodes, policy = read_nodes(_HPC2N_NODES), configuration("{name: default}")
        calibrate("hpc2n, declared run times", nodes, jobs, policy, declared, 5)
        calibrate("hpc2n, history of the user", nodes, jobs, policy, {}, 5)
    if (lines := traces.lines("philly")) is not None:
        _, jobs, policy = philly_jobs(lines[:_EXCERPT])
        calibrate("philly, history of the virtual cluster", read_nodes(_FEWER_NODES), jobs, policy, {}, 20)


def calibrate(  # a figure is its inputs
    name: str,
    nodes: Sequence[NodeSpec],
    jobs: Sequence[Job],
    policy: Configuration,
    declared: dict[str, int],
    every: int,
) -> None:
    """Print how good the estimates are."""
    estimates = Estimates(jobs, declared, every)
    run = simulate(nodes, jobs, policy, observe=estimates.observe)
    waits = {one.job.id: measures.wait_s(one) for one in run.records if one.started_ns}
    pairs = [(found, waits[job]) for job, found in estimates.made.items() if waits.get(job, 0) >= _SHORTEST_S]
    ratios = [found.usual_ns / SECOND / wait for found, wait in pairs if found.usual_ns is not None]
    close = sum(0.5 <= ratio <= 2 for ratio in ratios) / max(len(pairs), 1)
    inside = sum(_in_range(found, wait) for found, wait in pairs) / max(len(pairs), 1)
    middle, spent_ms = median(ratios or [0]), 1000 * median(estimates.seconds or [0])
    print(
        f"{name}: {len(pairs)} estimates for waits of a minute or more: {close:.0%} within a factor of two,"
        f" {inside:.0%} inside the range, median of estimate / wait {middle:.2f}; median {spent_ms:.0f} ms each",
        flush=True,
    )


def _in_range(found: Forecast, wait_s: float) -> bool:
    early_s = 0 if found.early_ns is None else found.early_ns / SECOND
    return early_s <= wait_s and (found.late_ns is None or wait_s <= found.late_ns / SECOND)


# --- latency ---------------------------------------------------------------------------------------------------------

_WAITING: Final = 10_000


def crowded() -> list[Event]:
    """A full cluster of 500 nodes, and 10,000 waiting applications."""
    nodes = read_nodes(("name,cpu_milli,memory_mib,count", "node,64000,262144,500"))
    lines = (f"job-{number},{number},1,64000" for number in range(500 + _WAITING))
    found: list[Event] = [ManagerRegistered(RM, replace(configuration("{name: default}"), tracking=False))]
    found += (NodeAdded(node) for node in nodes)
    for job in read_trace(("id,submit_s,pods,cpu_milli", *lines)):
        found += (ApplicationAdded(job.application), AskAdded(_ask(job)))
    return found


def _ask(job: Job) -> AskSpec:
    [pods] = job.pod_sets
    return replace(pods.request, application=job.id, key=AllocationKey(f"{job.id}.0"), created_ns=job.submit_ns)


_PATH: Final = "/ws/v1/partition/default"
_NEW: Final = (
    "{kind: Pod, metadata: {name: new, labels: {applicationId: new, queue: root.default}}, spec: {schedulerName:"
    " muster, containers: [{name: main, resources: {requests: {cpu: 1}}}]}}"
)
#: All nodes are in use, which are 32,000 cores.
_PLANS: Final = {
    name: _QUEUES % (f"{{name: default, resources: {{max: {{vcore: '{cores}'}}}}}}", "")
    for name, cores in {
        "plan of a maximum above the usage": 40_000,
        "plan of a maximum below the usage": 30_000,
    }.items()
}

#: Questions of each kind, and hours that the applications have run, of which three have ended.
_QUESTIONS: Final = 11
_RUN_NS: Final = 3_600 * SECOND


def latency() -> None:
    """Answers of REST with 10,000 waiting applications, each kind by a new process."""
    uvloop.run(_latency())


async def _latency() -> None:
    configure_logs(LogLevel.ERROR, LogFormat.JSON)
    core = Scheduler()
    core.loop.scheduler_state = _after_an_hour().scheduler_state
    gc.collect()
    gc.freeze()
    task = asyncio.create_task(core.run())
    for is_busy in (False, True):
        work = [asyncio.create_task(_come_and_go(core))] if is_busy else []
        for kind in ("dry-run", "estimate", "changes", *_PLANS):
            server = RestServer(core, RestSettings(port=0))
            async with aiohttp.ClientSession(f"http://127.0.0.1:{await server.start()}") as http:
                found = [await _answered(http, kind, number) for number in range(_QUESTIONS)]
            await server.stop()
            (first_ms, _), *following = found
            times, pauses = sorted(one for one, _ in following), [pause for _, pause in found]
            print(
                f"latency: {kind}, core {'busy' if is_busy else 'idle'}: first {first_ms:.0f} ms, then median"
                f" {median(times):.0f} ms and longest {times[-1]:.0f} ms of {len(times)};"
                f" longest pause of the core {max(pauses):.0f} ms",
                flush=True,
            )
        for one in work:
            one.cancel()
    core.close()
    await task


def _after_an_hour() -> VirtualCore:
    """The crowded cluster, where three applications have ended, so that run times are known."""
    now_ns = time.time_ns()
    core = scheduled(crowded(), now_ns - _RUN_NS)
    core.now_ns = now_ns - 100 * SECOND
    apps = core.scheduler_state.partitions[PARTITION].applications
    for name in [*apps][:3]:
        [one] = apps[name].allocations.values()
        core.send([AllocationReleased(PARTITION, name, one.spec.key, one.id, Termination.STOPPED_BY_RM)])
    core.now_ns = now_ns
    core.send(())
    return core


async def _answered(http: aiohttp.ClientSession, kind: str, number: int) -> tuple[float, float]:
    """Milliseconds until the answer, and of the longest pause of the core. Waiting applications take turns."""
    name = f"job-{503 + number * (_WAITING - 3) // _QUESTIONS}"
    body = {"dry-run": _NEW, **_PLANS}.get(kind)
    path = f"{_PATH}/{kind.partition(' ')[0]}" if body else f"{_PATH}/application/{name}/{kind}"
    watch = asyncio.create_task(longest_pause())
    began = time.perf_counter()
    async with http.request("POST" if body else "GET", path, data=body) as answer:
        answer.raise_for_status()
        await answer.read()
    taken_ms = 1000 * (time.perf_counter() - began)
    watch.cancel()
    return taken_ms, 1000 * await watch


async def _come_and_go(core: Scheduler) -> None:
    """Two hundred changes each second: a pod that waits is added and removed."""
    app, key = ApplicationId("job-5000"), AllocationKey("comes-and-goes")
    pod = replace(next(event.spec for event in crowded() if isinstance(event, AskAdded)), application=app, key=key)
    while True:
        for event in (AskAdded(pod), AskReleased(PARTITION, app, key, Termination.STOPPED_BY_RM)):
            core.loop.event_queue.post(QueuedMessage([event]))
            await asyncio.sleep(0.005)


if __name__ == "__main__":
    main()
