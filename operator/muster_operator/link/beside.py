"""Refuses to serve the scheduler name `yunikorn` beside a running YuniKorn (semantics 30): two would fight for pods."""

from __future__ import annotations

from typing import Any, Final

import structlog

from muster_operator.link.api.session import KubeSession
from muster_operator.link.config.settings import SCHEDULER_NAMES
from muster_operator.link.errors import ApiRefused, StartupRefused

log = structlog.get_logger("muster.beside")

YUNIKORN: Final = "yunikorn"
DEPLOYMENT: Final = "yunikorn-scheduler"


async def refuse_beside_yunikorn(session: KubeSession, scheduler_names: frozenset[str]) -> None:
    """Look for a running YuniKorn scheduler in any namespace, if its name is among those served.

    Raises:
        StartupRefused: there is one.
        Unreachable: the API server did not answer.
    """
    if YUNIKORN not in scheduler_names:
        return
    selector = f"fieldSelector=metadata.name%3D{DEPLOYMENT}"
    try:
        found = await session.get(f"/apis/apps/v1/deployments?{selector}")
    except ApiRefused as error:
        log.warning("cannot look for a running YuniKorn", status=error.status, reason=error.reason)
        return
    for deployment in found.get("items") or []:
        if _is_running(deployment):
            namespace = deployment["metadata"]["namespace"]
            raise StartupRefused(
                f"deployment {namespace}/{DEPLOYMENT} is running and serves the scheduler name {YUNIKORN}: "
                f"scale it to 0, or set {SCHEDULER_NAMES}: muster"
            )


def _is_running(deployment: dict[str, Any]) -> bool:
    """Whether it has pods or wants some; an absent number of replicas means one."""
    wanted = (deployment.get("spec") or {}).get("replicas", 1)
    return bool(wanted) or bool((deployment.get("status") or {}).get("replicas"))
