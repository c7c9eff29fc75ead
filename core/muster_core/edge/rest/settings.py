"""How REST is served."""

from __future__ import annotations

from dataclasses import dataclass

from muster_core.edge.log_level import LevelControl
from muster_core.edge.rest.access.guard import OPEN_READS, AccessSettings
from muster_core.edge.rest.access.tls import ServerTls


@dataclass(frozen=True, slots=True)
class RestSettings:
    """address, port: where to listen; port 0 = any free one.
    tls: None = plain HTTP. access: who is let in.
    levels: steers the process's log; None = it is not ours to steer.
    """

    address: str = "127.0.0.1"
    port: int = 9080
    tls: ServerTls | None = None
    access: AccessSettings = OPEN_READS
    levels: LevelControl | None = None
