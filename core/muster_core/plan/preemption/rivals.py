"""Whether two leaves preempt from each other in a circle: the livelock of contract 10.1, "preemption storm".

Where only a queue higher up has a guarantee, each of its leaves is below it as
soon as it loses, and may take back what it lost: without an end, and with
nothing done in between. Taking back once may be right. When the first one is
to take again, within the window, the pair is coming round: it is stopped for a
pause that doubles each time, and told to people, who can give the leaves
guarantees of their own.

Differs: queues that preempt from each other in turns are paused; YuniKorn lets them go on.
"""

from __future__ import annotations

from typing import Final

from muster_core.model.ids import QueuePath
from muster_core.world.preemptions import Rivalry, pair
from muster_core.world.world import Partition

_SECOND: Final = 1_000_000_000
#: A pair that left each other alone for so long starts anew.
WINDOW_NS: Final = 600 * _SECOND
#: The first pause, and the longest.
_PAUSE_NS: Final = 60 * _SECOND
_LONGEST_NS: Final = 24 * 3600 * _SECOND


def spared(partition: Partition, leaf: QueuePath, now_ns: int) -> list[QueuePath]:
    """The leaves that nothing is taken from for this one until a pause is over."""
    return [
        both[0] if both[1] == leaf else both[1]
        for both, rivalry in partition.preemptions.rivalries.items()
        if leaf in both and now_ns < rivalry.paused_until_ns
    ]


def paused_until(partition: Partition, leaf: QueuePath, now_ns: int) -> int:
    """When the first pause of the leaf is over; 0 = it has none."""
    pauses = (one.paused_until_ns for both, one in partition.preemptions.rivalries.items() if leaf in both)
    return min((until_ns for until_ns in pauses if until_ns > now_ns), default=0)


def comes_round(partition: Partition, leaf: QueuePath, victim: QueuePath, now_ns: int) -> Rivalry | None:
    """The rivalry that would go round once more if the leaf took from the other; None = it would not."""
    rivalry = partition.preemptions.rivalries.get(pair(leaf, victim))
    if rivalry is None or is_over(rivalry, now_ns) or rivalry.taker == leaf or not rivalry.turns:
        return None
    # After a pause one is let through: the world may be another by then.
    return rivalry if rivalry.since_ns >= rivalry.paused_until_ns else None


def is_over(rivalry: Rivalry, now_ns: int) -> bool:
    """Whether they left each other alone for long enough to forget it."""
    quiet_since = max(rivalry.since_ns, rivalry.paused_until_ns)
    return now_ns - quiet_since > max(WINDOW_NS, 2 * pause_ns(rivalry.pauses))


def pause_ns(pauses: int) -> int:
    """How long the next pause is after so many."""
    return min(_PAUSE_NS << min(pauses, 20), _LONGEST_NS)
