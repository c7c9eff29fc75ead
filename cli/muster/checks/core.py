"""Whether a core is there, schedules, and is well."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from muster.checks.finding import Finding, fine, problem, warning

Json = dict[str, Any]

CHECK: Final = "core"


def unreachable(why: str) -> Finding:
    """The core does not answer."""
    return problem(CHECK, why, "see whether its pod runs (kubectl get pods -l app=muster -A), or name it with --server")


def judged(status: Json) -> Iterator[Finding]:
    """Of what `muster status` reads."""
    if not status["partitions"]:
        yield problem(CHECK, "no operator has registered with it", "read the operator's log: it says what it waits for")
        return
    if not status["ready"]["ready"]:
        yield problem(
            CHECK, f"it does not schedule: {status['ready']['message']}", "read the logs of core and operator"
        )
    else:
        yield fine(CHECK, f"{status['core']} schedules {status['partitions'][0]['totalNodes']} nodes")
    broken = [check for check in (status["health"] or {}).get("HealthChecks", []) if not check["Succeeded"]]
    for check in broken:
        yield warning("health", f"{check['Name']}: {check['DiagnosisMessage']}", "read the core's log, and report it")
    if not broken:
        yield fine("health", "its checks found nothing" if status["health"] else "not checked yet")
