"""The line that the log gets when an application is over (contract 6.5): what it used over time, as JSON."""

from __future__ import annotations

import orjson

from muster_core.model.effects import ApplicationSummed

_MS = 1_000_000


def line(summed: ApplicationSummed) -> str:
    """`YK_APP_SUMMARY: {…}`, with the names that YuniKorn's documents show. Times in ms, 0 = it never ran."""
    submitted_ns, started_ns, ended_ns = summed.times_ns
    found = {
        "appId": summed.application,
        "submissionTime": submitted_ns // _MS,
        "startTime": started_ns // _MS,
        "finishTime": ended_ns // _MS,
        "user": summed.user,
        "queue": summed.queue,
        "state": summed.state.value,
        "rmID": summed.rm,
        "resourceUsage": summed.used,
        "preemptedResource": summed.preempted,
        "placeholderResource": summed.placeholders,
    }
    return f"YK_APP_SUMMARY: {orjson.dumps(found).decode()}"
