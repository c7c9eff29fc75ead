"""What kopf hands to every handler: the only way from a handler to the rest of the operator."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from muster_operator.link.api.session import KubeSession
from muster_operator.link.inbox import Inbox


@dataclass(frozen=True, slots=True)
class Memo:
    """kopf copies it per object; what it refers to is shared.

    `reconfigure` takes note that a ConfigMap of that name changed.
    """

    inbox: Inbox
    session: KubeSession
    reconfigure: Callable[[str], Awaitable[None]]
