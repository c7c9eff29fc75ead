"""Whether a YuniKorn scheduler runs that would fight for the same pods."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from muster.checks.finding import Finding, fine, problem, warning

Json = dict[str, Any]

CHECK: Final = "YuniKorn"
NAME: Final = "yunikorn"
DEPLOYMENT: Final = "yunikorn-scheduler"
POD_SELECTOR: Final = "app=yunikorn,component=yunikorn-scheduler"
_ENDED: Final = ("Succeeded", "Failed")


def judged(deployments: Iterable[Json], pods: Iterable[Json], names: frozenset[str]) -> Iterator[Finding]:
    """`deployments`: those of its name; `pods`: those of its labels; `names`: what Muster serves."""
    running = [f"deployment {_place(item)}" for item in deployments if _wants_pods(item)]
    running += [f"pod {_place(pod)}" for pod in pods if (pod.get("status") or {}).get("phase") not in _ENDED]
    if not running:
        yield fine(CHECK, "not running")
    elif NAME in names:
        yield problem(
            CHECK,
            f"{running[0]} runs, and Muster serves the scheduler name {NAME} too",
            "scale it to 0, or set service.schedulerNames: muster",
        )
    else:
        yield warning(
            CHECK,
            f"{running[0]} runs, so Muster does not serve the scheduler name {NAME}",
            "scale it to 0 to migrate its pods",
        )


def _wants_pods(deployment: Json) -> bool:
    """An absent number of replicas means one."""
    wanted = (deployment.get("spec") or {}).get("replicas", 1)
    return bool(wanted) or bool((deployment.get("status") or {}).get("replicas"))


def _place(item: Json) -> str:
    return f"{item['metadata']['namespace']}/{item['metadata']['name']}"
