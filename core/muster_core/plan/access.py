"""Who may submit to a queue: whom an access list of it, or of any queue above it, names.

Source: contract 2.8. What the administrator's list allows includes submitting.
"""

from __future__ import annotations

from collections.abc import Sequence

from muster_core.world.queues import Queue


def may_submit(queue: Queue, user: str, groups: Sequence[str] | None) -> bool | None:
    """Whether any list from this queue up to the root allows the user; None = that depends on groups not known."""
    lists = [found for above in queue.path_up() for found in (above.submit_acl, above.admin_acl)]
    if any(found.allows(user, groups or ()) for found in lists):
        return True
    return None if groups is None and any(found.groups for found in lists) else False
