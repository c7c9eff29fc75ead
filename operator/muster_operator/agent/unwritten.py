"""Writes that were not done for a reason that passes, and that nothing else would ever order again.

The link tries each for a quarter of a minute; an API server can be away for longer. A pod that failed would stay
Pending for ever, and nobody would read why a pod waits (contract 6.2). What is refused for good (403, 404, 422) is not
sent again: no later try would change that.
"""

from __future__ import annotations

from typing import Final

from muster_operator.agent.deadlines import remember
from muster_operator.agent.ledger import Deadline, Ledger, Look
from muster_operator.model.commands import FailPod, MarkResumed, SetCondition
from muster_operator.model.ids import PodUid
from muster_operator.model.outcome import Outcome
from muster_operator.model.results import CommandFailed, CommandSucceeded, Result

#: Seconds until such a write is ordered again.
AGAIN_S: Final = 15.0


def answered(ledger: Ledger, result: Result, command: FailPod | MarkResumed | SetCondition, now: float) -> None:
    """One of these writes ended; if it may be done later, come back to it."""
    if isinstance(result, CommandSucceeded):
        return
    uid = command.originator.uid if isinstance(command, MarkResumed) else command.pod.uid
    if isinstance(command, SetCondition):
        if (task := ledger.tasks.get(uid)) is not None:
            task.told = None  # it is not there, so it may be written again
            if _may_pass(result):
                remember(ledger, Deadline(now + AGAIN_S, Look.WAITING, uid))
    elif _may_pass(result):
        ledger.unwritten.setdefault(uid, []).append(command)
        remember(ledger, Deadline(now + AGAIN_S, Look.WRITE, uid))


def order_again(ledger: Ledger, out: Outcome, uid: PodUid) -> None:
    """Order what waits for this pod, if the pod is still there to be written to; one with a node does not fail."""
    commands, pod = ledger.unwritten.pop(uid, ()), ledger.pods.get(uid)
    if pod is not None and not pod.has_ended:
        out.commands += [each for each in commands if isinstance(each, MarkResumed) or pod.node is None]


def _may_pass(result: Result) -> bool:
    return not isinstance(result, CommandFailed) or result.may_pass
