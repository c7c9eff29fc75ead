"""Members that had their place of a gang and have ended: nobody waits for them once more after a restart.

A session begins with what Kubernetes shows, and of such a member that is its pod, as long as nobody deletes it
(semantics 16, 17). It counts as one that is bound: neither a placeholder nor a place without a pod is for it.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace

from muster_operator.agent.ledger import Application, Ledger, Served
from muster_operator.model.groups import GangDefinition
from muster_operator.model.ids import AppId
from muster_operator.model.pods import Pod
from muster_operator.translate.task_groups import placeholder_ask


def remember(ledger: Ledger, pod: Pod) -> None:
    """A pod of ours has ended; one that its kubelet refused never had a place of which anything came."""
    member = pod.membership
    if member.task_group and pod.node is not None and pod.scheduled_at_ms is not None and not pod.kubelet_refusal:
        ledger.served[pod.ref.uid] = Served(member.app, member.task_group, pod.scheduled_at_ms)


def by_application(ledger: Ledger) -> Mapping[AppId, list[Served]]:
    """All who are remembered."""
    found: dict[AppId, list[Served]] = defaultdict(list)
    for one in ledger.served.values():
        found[one.app].append(one)
    return found


def leave_out(app: Application, ended: Iterable[Served]) -> None:
    """Let the gang be of those who have not had their place.

    An id may have been used before: only who got its node when the oldest of those who live was there is surely of the
    same application. ``created_s`` of the application is to be known.
    """
    if app.gang is None:
        return
    counts = Counter(one.group for one in ended if one.since_ms >= app.created_s * 1000)
    if counts:
        app.gang = _without(app.gang, counts)


def _without(gang: GangDefinition, counts: Mapping[str, int]) -> GangDefinition:
    left = ((group, max(0, group.min_member - counts.get(group.name, 0))) for group in gang.groups)
    groups = tuple(replace(group, min_member=count) for group, count in left)
    return replace(gang, groups=groups, placeholder_ask=placeholder_ask(groups))
