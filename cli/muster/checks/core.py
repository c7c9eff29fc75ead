"""Whether a core is there, schedules, and is well."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from muster.checks.finding import Finding, fine, problem, warning

Json = dict[str, Any]

CHECK: Final = "core"


def unreachable(why: str) -> Finding:
    """The core does not answer."""
    return problem(CHECK, why, "check that its pod runs (kubectl get pods -l app=muster -A), or set --server")


def judged(status: Json) -> Iterator[Finding]:
    """Of what `muster status` reads."""
    if not status["partitions"]:
        yield problem(CHECK, "no operator has registered", "the operator's log has the reason")
        return
    if not status["ready"]["ready"]:
        yield problem(
            CHECK, f"the core does not schedule: {status['ready']['message']}", "see the logs of core and operator"
        )
    else:
        yield fine(CHECK, f"{status['core']} schedules {status['partitions'][0]['totalNodes']} nodes")
    broken = [check for check in (status["health"] or {}).get("HealthChecks", []) if not check["Succeeded"]]
    for check in broken:
        yield warning("health", f"{check['Name']}: {check['DiagnosisMessage']}", "see the core's log, and report it")
    if not broken:
        yield fine("health", "all checks passed" if status["health"] else "not checked yet")
