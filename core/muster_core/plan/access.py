"""Who may submit to a queue: whom an access list of it, or of any queue above it, names.

Source: contract 2.8. What the administrator's list allows includes submitting.
"""

from __future__ import annotations

from collections.abc import Sequence

from muster_core.world.queues import Queue


def may_submit(queue: Queue, user: str, groups: Sequence[str]) -> bool:
    """Whether any list from this queue up to the root allows the user."""
    return any(
        above.submit_acl.allows(user, groups) or above.admin_acl.allows(user, groups) for above in queue.path_up()
    )
