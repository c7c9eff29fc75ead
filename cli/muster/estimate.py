"""The estimated start of an application (`muster explain --estimate`), and what `--changes` and `--estimate` share.

A copy of the cluster (`muster.cluster_copy`) runs forward until the application starts. Pods run for their
`activeDeadlineSeconds`, else as long as ended applications of the same user and name, of the user, or of the queue,
which REST lists.
"""

from __future__ import annotations

import time
from typing import Any, Final

from muster.clients.kubernetes import Cluster
from muster.clients.rest import Rest
from muster.cluster_copy import ClusterCopy, read_copy
from muster.unblocking import changes, find_target
from muster_core.foresight.forecast import Forecasts, RunTime, RunTimeBasis, RunTimeHistory
from muster_core.foresight.unblocking import has_started
from muster_core.foresight.workload import PARTITION
from muster_core.state.applications import Application

Json = dict[str, Any]

#: The time of the search for changes, and of the simulation.
_SEARCH_S: Final = 30.0
_ESTIMATE_S: Final = 30.0
_SECOND: Final = 1_000_000_000
_MILLISECOND: Final = 1_000_000


def predictions(rest: Rest, cluster: Cluster, app: Json, *, with_changes: bool, with_estimate: bool) -> Json:
    """The parts `changes` and `estimate` of an explanation, from one copy of the cluster. Raises CommandError."""
    copied = read_copy(rest, cluster, "--changes" if with_changes else "--estimate")
    found = {"changes": changes(copied, app, "--changes", _SEARCH_S)} if with_changes else {}
    if with_estimate:
        found["estimate"] = estimate(copied, read_history(rest), app, "--estimate", _ESTIMATE_S)
    return found


def read_history(rest: Rest) -> RunTimeHistory:
    """The run times of ended applications that ran."""
    history = RunTimeHistory()
    ended = (one for one in rest.applications("completed") if one.get("startTime") and one.get("finishedTime"))
    for one in sorted(ended, key=lambda app: int(app["finishedTime"])):
        run_ns = int(one["finishedTime"]) - int(one["startTime"]) * _MILLISECOND
        if run_ns > 0 and one["applicationState"] == "Completed":
            history.add(one["applicationID"], one["user"], one["queueName"], run_ns)
    return history


def estimate(copied: ClusterCopy, history: RunTimeHistory, app: Json, option: str, real_s: float) -> Json:
    """Seconds until the start, `null` = not within 30 days, and by basis the number of other applications.

    `complete`: the simulation was not ended by its time limit. Raises BadUsage if the application cannot be examined.
    """
    core, on_copy = copied.scheduled()
    target = find_target(core, app, option)
    if has_started(target):
        return {"earliestSeconds": 0, "usualSeconds": 0, "latestSeconds": 0, "runTimes": {}, "complete": True}

    def run_time(one: Application) -> RunTime:
        pods = (*one.asks, *one.ids)
        if declared := max((copied.deadlines.get(key, 0) for key in pods), default=0):
            return RunTime(RunTimeBasis.DECLARED, *(declared * _SECOND,) * 3)
        return history.expected(one.name, one.spec.user, one.queue.path)

    deadline = time.monotonic() + real_s
    forecasts = copied.once("forecasts", history, lambda: Forecasts(core, PARTITION, run_time))
    found = forecasts.of(target.id, on_copy, lambda: time.monotonic() < deadline)
    return {
        "earliestSeconds": _seconds(found.early_ns),
        "usualSeconds": _seconds(found.usual_ns),
        "latestSeconds": _seconds(found.late_ns),
        "runTimes": {basis.value: number for basis, number in found.basis.items()},
        "complete": time.monotonic() < deadline,
    }


def _seconds(span_ns: int | None) -> int | None:
    return None if span_ns is None else round(span_ns / _SECOND)
