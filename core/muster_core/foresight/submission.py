"""What becomes of applications if their pods are created now (`muster apply --dry-run=server`).

The requests reach a copy of the core as the operator would send them; `outlook` lets the core decide.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from muster_core.foresight.outlook import Outlook, outlook
from muster_core.foresight.unblocking import HORIZON_NS
from muster_core.foresight.virtual_core import VirtualCore
from muster_core.model.events import ApplicationAdded, AskAdded, Event
from muster_core.model.ids import AllocationKey, PartitionId
from muster_core.model.specs import ApplicationSpec, AskSpec, GangPlacement


def submitted(
    core: VirtualCore,
    partition: PartitionId,
    events: Sequence[ApplicationAdded | AskAdded],
    may_go_on: Callable[[], bool] = lambda: True,
) -> Outlook | None:
    """Submits applications and requests to a core that has planned, and lets a minute pass, or less if all start.

    None = it may not go on. `limits` of the result are those of these applications. Requests of an application that
    exists join it.
    """
    present = core.scheduler_state.partitions[partition].applications
    requests: list[Event] = []
    for event in events:
        spec = event.spec
        if isinstance(spec, ApplicationSpec):
            if spec.id not in present:
                created = replace(spec, created_ns=core.now_ns, forced=False)
                requests += [ApplicationAdded(created), *_placeholders(created)]
        else:
            requests.append(AskAdded(replace(spec, created_ns=core.now_ns)))
    names = {event.spec.application if isinstance(event.spec, AskSpec) else event.spec.id for event in events}
    return outlook(core, partition, requests, HORIZON_NS, may_go_on, sorted(names))


def _placeholders(app: ApplicationSpec) -> Iterator[Event]:
    """The placeholders that the operator creates for a gang with the placement Reserve."""
    if app.gang_placement is not GangPlacement.RESERVE:
        return
    for member in app.members if app.is_gang else ():
        for number in range(member.count):
            yield AskAdded(
                AskSpec(
                    app.partition,
                    app.id,
                    AllocationKey(f"{app.id}.{member.group}.{number}"),
                    member.resources,
                    member.constraints,
                    member.group,
                    placeholder=True,
                    priority=member.priority,
                    namespace=app.namespace,
                    tags=dict(member.tags),
                    facts=member.facts,
                    allow_preempt_self=member.allow_preempt_self,
                    allow_preempt_other=member.allow_preempt_other,
                    created_ns=app.created_ns,
                )
            )
