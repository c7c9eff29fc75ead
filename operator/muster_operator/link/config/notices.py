"""What the author of a ConfigMap is told, as Kubernetes events on it: `kubectl describe configmap` shows them."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Final

import structlog
from msgspec.structs import replace

from muster_operator.link.api import requests
from muster_operator.link.api.event_series import Series
from muster_operator.link.api.session import KubeSession
from muster_operator.link.config.configmaps import Source, read_config_maps, source
from muster_operator.link.errors import ApiRefused, ConfigurationRefused, Unreachable
from muster_operator.model.commands import EventType, Importance, PostEvent, Subject

log = structlog.get_logger("muster.config")

REFUSED: Final = "ConfigurationRefused"
DOUBTED: Final = "ConfigurationDoubted"


def refusal(namespace: str, where: Source, reason: str) -> PostEvent:
    """The ConfigMap changed and cannot be put in force."""
    return _event(namespace, where, REFUSED, f"refused, the old configuration stays in force: {reason}")


def doubt(namespace: str, where: Source, findings: Iterable[str]) -> PostEvent:
    """The ConfigMap is in force, but not all of it does what its author may expect."""
    return _event(namespace, where, DOUBTED, "; ".join(findings))


async def tell_end(session: KubeSession, namespace: str, error: ConfigurationRefused) -> None:
    """The operator ends for a configuration that it cannot begin with; says so where there is a ConfigMap and a way."""
    try:
        where = source(await read_config_maps(session, namespace), error.key)
        if where is not None:
            event = _event(namespace, where, REFUSED, f"Muster cannot start: {error}")
            series, now = Series(), datetime.now(tz=UTC)
            request = requests.event(event, series.start(event, now), series.instance, now)
            # Whoever finds it says it: who cannot start never leads.
            await session.send(replace(request, is_fenced=False))
    except (ApiRefused, Unreachable) as untold:
        log.warning("the refusal could not be told on the ConfigMap", reason=str(untold))


def _event(namespace: str, where: Source, reason: str, note: str) -> PostEvent:
    return PostEvent(
        subject=Subject.CONFIG_MAP,
        namespace=namespace,
        name=where.name,
        uid=where.uid,
        type=EventType.WARNING,
        reason=reason,
        action=reason,
        note=note,
        importance=Importance.PROBLEM,
    )
