"""Simulations of small workloads: what starts when, what preemption costs, and which measures follow."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Final

import pytest

from muster_core.config.load import DEFAULT_TEXT, load
from muster_core.foresight import measures
from muster_core.foresight.outside import JobState, Latencies
from muster_core.foresight.simulation import Run, simulate
from muster_core.foresight.workload import SECOND, START_NS, TraceOptions, read_nodes, read_trace
from muster_core.model.specs import GangPlacement

HEAD: Final = "id,submit_s,run_s,pods,cpu_milli,gpu_milli,user,queue"
TWO_NODES: Final = ("name,cpu_milli,count", "node,4000,2")


def run(
    *lines: str,
    queues: str = DEFAULT_TEXT,
    nodes: tuple[str, ...] = TWO_NODES,
    placement: GangPlacement = GangPlacement.AUTO,
    latencies: Latencies | None = None,
) -> Run:
    """Simulate the lines of a trace on two nodes of 4 CPUs."""
    jobs = read_trace((HEAD, *lines), options=TraceOptions(placement=placement))
    return simulate(read_nodes(nodes), jobs, load(queues, {}).configuration, latencies)


def starts(found: Run) -> dict[str, float]:
    return {str(one.job.id): (one.started_ns - START_NS) / SECOND for one in found.records if one.started_ns}


def ends(found: Run) -> dict[str, float]:
    return {str(one.job.id): (one.ended_ns - START_NS) / SECOND for one in found.records if one.ended_ns}


def test_a_gang_starts_when_all_its_pods_have_room_and_small_jobs_start_meanwhile() -> None:
    found = run("first,0,100,1,4000,,u,", "gang,10,50,2,4000,,u,", "small,20,30,1,1000,,u,")
    assert starts(found) == {"first": 0, "small": 20, "gang": 100}
    assert ends(found) == {"first": 100, "small": 50, "gang": 150}
    summary = measures.summary(found)
    assert summary.jobs["completed"] == 3
    assert summary.makespan_s == 150
    assert summary.wait_s.max == 90
    assert summary.utilization["vcore"] == pytest.approx((400 + 400 + 30) / (8 * 150))


def test_pods_without_a_gang_start_and_end_one_by_one() -> None:
    jobs = read_trace((HEAD, "pods,0,100,3,4000,,u,"), options=TraceOptions(gang_from=9))
    found = simulate(read_nodes(TWO_NODES), jobs, load(DEFAULT_TEXT, {}).configuration)
    assert (starts(found), ends(found)) == ({"pods": 100}, {"pods": 200})


def test_the_quota_of_a_queue_delays_its_jobs() -> None:
    queues = (
        "partitions: [{queues: [{name: root, submitacl: '*', queues: [{name: a, resources: {max: {vcore: '1'}}}]}]}]"
    )
    found = run("one,0,100,1,1000,,u,a", "two,0,100,1,1000,,u,a", queues=queues)
    assert starts(found) == {"one": 0, "two": 100}
    assert [one.name for one in measures.summary(found).queues] == ["root.a"]


def test_a_job_that_no_queue_accepts_is_rejected_and_one_that_fits_on_no_node_waits() -> None:
    queues = "partitions: [{queues: [{name: root, submitacl: '*', queues: [{name: a}]}]}]"
    found = run("lost,0,1,1,1000,,u,missing", "huge,0,1,1,9000,,u,a", "good,0,1,1,1000,,u,a", queues=queues)
    states = {str(one.job.id): one.state for one in found.records}
    assert states == {"lost": JobState.REJECTED, "huge": JobState.WAITING, "good": JobState.COMPLETED}
    assert "missing" in found.records[0].reason


PREEMPTING: Final = """
partitions:
  - queues:
      - name: root
        submitacl: '*'
        queues:
          - name: guaranteed
            resources: {guaranteed: {vcore: '8'}}
            properties: {preemption.delay: 10s}
          - name: other
"""


def test_preempted_work_is_lost_and_the_job_starts_again() -> None:
    found = run(
        "victim,0,1000,1,4000,,u,other",
        "neighbour,0,1000,1,4000,,u,other",
        "urgent,100,50,1,4000,,u,guaranteed",
        queues=PREEMPTING,
    )
    summary = measures.summary(found)
    start = starts(found)["urgent"]
    assert 110 <= start < 200
    assert summary.preemptions == 1
    assert summary.lost["vcore"] == 4000 * start
    assert sorted(ends(found).values()) == [start + 50, 1000, start + 50 + 1000]


def test_a_gang_that_loses_a_member_starts_again_when_the_member_is_back() -> None:
    found = run("gang,0,1000,2,4000,,u,other", "urgent,100,50,1,4000,,u,guaranteed", queues=PREEMPTING)
    start = starts(found)["urgent"]
    assert ends(found) == {"urgent": start + 50, "gang": start + 50 + 1000}
    summary = measures.summary(found)
    assert summary.lost["vcore"] == 8000 * start
    assert summary.idle["vcore"] * 8000 * (start + 50 + 1000) == pytest.approx(4000 * 50)


def test_reserved_placeholders_are_allocated_but_do_not_run() -> None:
    lines = ("first,0,100,1,4000,,u,", "gang,10,50,2,4000,,u,")
    reserve, auto = run(*lines, placement=GangPlacement.RESERVE), run(*lines)
    assert starts(reserve) == starts(auto) == {"first": 0, "gang": 100}
    assert measures.summary(auto).idle["vcore"] == 0
    assert measures.summary(reserve).idle["vcore"] == pytest.approx(4000 * 90 / (8000 * 150))


def test_latencies_delay_starts_and_the_end_of_preempted_pods() -> None:
    latencies = Latencies(start_ns=5 * SECOND, stop_ns=30 * SECOND)
    found = run("gang,0,100,2,4000,,u,", "next,1,10,1,1000,,u,", latencies=latencies)
    assert (starts(found), ends(found)) == ({"gang": 5, "next": 110}, {"gang": 105, "next": 120})


def test_jobs_without_a_run_time_run_until_the_end() -> None:
    found = run("service,0,,1,1000,,u,", "job,10,20,1,1000,,u,")
    assert {str(one.job.id): one.state for one in found.records} == {
        "service": JobState.RUNNING,
        "job": JobState.COMPLETED,
    }


def test_the_simulation_ends_although_waiting_jobs_set_timers_again_and_again() -> None:
    found = run("service,0,,2,4000,,u,", "gang,10,50,2,4000,,u,")
    assert measures.summary(found).jobs["waiting"] == 1


def test_unused_resources_count_only_while_a_waiting_job_would_fit_by_amount() -> None:
    nodes = ("name,cpu_milli,gpu,count", "node,8000,2,2")
    found = run(
        "a,0,100,1,,1000,u,", "b,0,100,1,,1000,u,", "both,0,100,1,,2000,u,", "all,0,100,2,,2000,u,", nodes=nodes
    )
    summary = measures.summary(found)
    assert summary.main == "nvidia.com/gpu"
    assert set(summary.unused) == {"nvidia.com/gpu", "pods"}


SCRIPT: Final = """
import random, sys
from muster_core.config.load import DEFAULT_TEXT, load
from muster_core.foresight import measures, workload
from muster_core.foresight.simulation import simulate
seeded = random.Random(1)
lines = ["id,submit_s,run_s,pods,cpu_milli,user,queue"]
for number in range(60):
    pods, user = seeded.choice((1, 1, 1, 2, 4, 8)), seeded.choice("abcde")
    lines.append(f"j{number},{number * 40},{seeded.randint(1, 900)},{pods},1000,{user},{seeded.choice('xyz')}")
nodes = workload.read_nodes(["name,cpu_milli,count", "n,8000,4"])
run = simulate(nodes, workload.read_trace(lines), load(DEFAULT_TEXT, {}).configuration)
print([(one.job.id, one.started_ns, one.ended_ns, one.queue) for one in run.records], measures.summary(run))
"""


def test_two_runs_are_identical_whatever_the_order_of_hashes() -> None:
    outputs = {
        subprocess.run(
            [sys.executable, "-c", SCRIPT],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(outputs) == 1
    assert "completed': 60" in outputs.pop()
