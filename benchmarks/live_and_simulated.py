"""The waits of the same jobs, live and simulated.

`make simulate-bench ARGS=live` runs an excerpt of Philly with compressed times: live with the operator and the core on
a local control plane with KWOK's kubelets, then simulated. It prints how the waits differ, and writes a table of all
jobs. The times of the live run are those at which the API server received the writes, and the simulation submits each
job when its last pod was created live.
"""

from __future__ import annotations

import asyncio
import csv
import json
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from statistics import median
from typing import Final, NamedTuple

import numpy as np
from rich.console import Console
from rich.progress import track

from devcluster import muster as muster_processes
from devcluster.audit import Write
from devcluster.cluster import Cluster, running
from devcluster.errors import ApiError
from devcluster.flavour import Flavour
from devcluster.muster import Muster, Setup
from devcluster.nodes import FakeNode
from devcluster.waiting import until
from muster_core.config.load import load
from muster_core.foresight import measures
from muster_core.foresight.outside import Latencies
from muster_core.foresight.simulation import simulate
from muster_core.foresight.workload import SECOND, START_NS, Job, read_nodes, read_trace

NAMESPACE: Final = "live"
GPU: Final = "nvidia.com/gpu"
NODES, GPUS = 8, 8
QUEUES: Final = "partitions: [{name: default, queues: [{name: root, submitacl: '*', queues: [{name: live}]}]}]"
TABLE: Final = Path("build/live_and_simulated.csv")

#: Jobs of the trace: the first, and how many. They are submitted within SPAN_S, and want a quarter more than all GPUs.
FIRST, JOBS, SPAN_S = 60_000, 1_000, 1_500


def measure(lines: Sequence[str]) -> None:
    """Run the excerpt of these lines of Philly live and simulated, and print the differences. Takes 30 minutes."""
    jobs = excerpt(lines)
    rows = compare(jobs, asyncio.run(live(jobs)))
    report(rows)
    TABLE.parent.mkdir(exist_ok=True)
    with TABLE.open("w", newline="") as file:
        csv.writer(file).writerows((("id", "live_s", "simulated_s"), *rows))


def excerpt(lines: Sequence[str]) -> list[Job]:
    """Submission and run times are divided by the same factor; a run takes a second to a third of the time. A job of
    several GPUs has a pod for each.
    """
    rows = [*csv.DictReader(lines)][FIRST : FIRST + JOBS]
    first, last = (int(rows[at]["submit_s"]) for at in (0, -1))
    factor = max((last - first) / SPAN_S, 1)
    compressed = ["id,submit_s,run_s,pods,cpu_milli,gpu_milli,user,queue"]
    for row in rows:
        pods = max(int(row["gpu_milli"]) // 1000 * int(row["pods"]), 1)
        run_s = min(max(round(int(row["run_s"]) / factor), 1), SPAN_S // 3)
        compressed.append(
            f"{row['id']},{round((int(row['submit_s']) - first) / factor)},{run_s},{pods},100,1000,kim,live"
        )
    return read_trace(compressed)


# --- live ------------------------------------------------------------------------------------------------------------


def pods_of(job: Job) -> list[dict[str, object]]:
    """The manifests of a job. All pods of a gang have its definition."""
    [pod_set] = job.pod_sets
    requests = {"cpu": "100m", GPU: str(pod_set.request.resources[GPU])}
    annotations = {"devcluster.muster/run-for": f"{(job.run_ns or 0) // SECOND}s"}
    if job.application.is_gang:
        group = {"name": "workers", "minMember": job.pods, "minResource": requests}
        annotations |= {
            "yunikorn.apache.org/task-group-name": "workers",
            "yunikorn.apache.org/task-groups": json.dumps([group]),
        }
    container = {"name": "c", "image": "pause", "resources": {"requests": requests, "limits": {GPU: requests[GPU]}}}
    spec = {"schedulerName": "muster", "restartPolicy": "Never", "containers": [container]}
    labels = {"applicationId": job.id, "queue": "root.live"}
    return [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": f"{job.id}-{number}", "labels": labels, "annotations": annotations},
            "spec": spec,
        }
        for number in range(job.pods)
    ]


class Times(NamedTuple):
    """When the last pod of a job was created, bound, and had run; seconds since the epoch."""

    created: float
    bound: float
    ended: float


async def live(jobs: Sequence[Job]) -> dict[str, Times]:
    """The times of each job by its ID."""
    async with running(which=Flavour.LOCAL) as cluster, muster_processes.installed(cluster):
        await cluster.add_nodes(
            FakeNode(f"node-{number}", cpu="64", memory="256Gi", extra={GPU: str(GPUS)}) for number in range(NODES)
        )
        await cluster.admin.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
        account = ("serviceaccounts", "default", NAMESPACE)
        await until("the service account", lambda: cluster.admin.get(*account), 60, tolerate=(ApiError,))
        async with muster_processes.configured(cluster, {"queues.yaml": QUEUES}):
            kubeconfig = await cluster.kubeconfig_for(muster_processes.ACCOUNT, muster_processes.NAMESPACE)
            muster = Muster(Setup(kubeconfig, cluster.folder))
            await muster.start()
            try:
                return await _submitted(cluster, jobs)
            finally:
                await muster.stop()


async def _submitted(cluster: Cluster, jobs: Sequence[Job]) -> dict[str, Times]:
    mark, began = cluster.audit.mark(), time.monotonic()
    for job in track(jobs, "jobs submitted", console=Console(stderr=True)):
        await asyncio.sleep(max(began + (job.submit_ns - START_NS) / SECOND - time.monotonic(), 0))
        await asyncio.gather(*(cluster.admin.create(pod, NAMESPACE) for pod in pods_of(job)))

    async def are_over() -> bool:
        found = await cluster.admin.find("pods", NAMESPACE)
        return bool(found) and all(pod["status"].get("phase") == "Succeeded" for pod in found)

    await until("all pods have run", are_over, 1800, every_s=5)
    return _times(cluster.audit.since(mark), jobs)


def _times(writes: Sequence[Write], jobs: Sequence[Job]) -> dict[str, Times]:
    fields = {"create pods": "created", "create pods/binding": "bound", "patch pods/status": "ended"}
    found: dict[str, dict[str, float]] = defaultdict(dict)
    for write in writes:
        if write.namespace == NAMESPACE and write.succeeded and (field := fields.get(write.what)):
            of_job, at = found[write.name.rpartition("-")[0]], datetime.fromisoformat(write.at).timestamp()
            of_job[field] = max(of_job.get(field, at), at)
    return {job.id: Times(**found[job.id]) for job in jobs}


# --- comparison ------------------------------------------------------------------------------------------------------


def compare(jobs: Sequence[Job], times: dict[str, Times]) -> list[tuple[str, float, float]]:
    """The ID of each job with its waits, live and simulated, in seconds. The start latency is the median of the run."""
    latency_s = median(times[job.id].ended - times[job.id].bound - (job.run_ns or 0) / SECOND for job in jobs)
    first = min(one.created for one in times.values())
    moved = [replace(job, submit_ns=START_NS + int((times[job.id].created - first) * SECOND)) for job in jobs]
    nodes = read_nodes(("name,cpu_milli,memory_mib,gpu,count", f"node,64000,262144,{GPUS},{NODES}"))
    run = simulate(nodes, moved, load(QUEUES, {}).configuration, Latencies(start_ns=int(latency_s * SECOND)))
    print(f"live: start latency {latency_s:.2f} s")
    simulated = {one.job.id: measures.wait_s(one) for one in run.records}
    return [(job.id, times[job.id].bound - times[job.id].created, simulated[job.id]) for job in jobs]


def report(rows: Sequence[tuple[str, float, float]]) -> None:
    """Print the differences."""
    live_s, simulated_s = (np.array([row[at] for row in rows]) for at in (1, 2))
    off = live_s - simulated_s
    parts = ", ".join(f"p{part} {np.percentile(np.abs(off), part):.2f} s" for part in (50, 90, 99, 100))
    print(
        f"live: {len(rows)} jobs, mean wait {live_s.mean():.1f} s live and {simulated_s.mean():.1f} s simulated;"
        f" difference of a wait: mean {off.mean():+.2f} s, without sign {parts}",
        flush=True,
    )
