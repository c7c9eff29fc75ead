"""The present state of a partition for another process: events that rebuild it, and run times of ended applications.

The core writes it in small parts between its cycles, and continues meanwhile, so that the state may change between two
parts; what concerns one application is read at once. The reader is `muster.what_if`.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Iterator
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import partial
from itertools import islice
from operator import attrgetter, itemgetter
from types import MappingProxyType
from typing import Any, BinaryIO, Final, NamedTuple

from muster_core.model.config import Configuration
from muster_core.model.constraints import NO_INTER_POD_CONSTRAINTS
from muster_core.model.events import AllocationReported, ApplicationAdded, AskAdded, Event, NodeAdded
from muster_core.model.ids import AllocationId, PartitionId
from muster_core.model.resources import NOTHING, Limit, Resources
from muster_core.model.specs import NO_PROPERTIES, AllocationSpec, NamespaceQuota
from muster_core.model.states import ApplicationState, NodeState
from muster_core.runtime.journal import CLASSES
from muster_core.state.applications import Allocation, Application
from muster_core.state.scheduler_state import Partition

#: What is written before a state where questions may also come.
NEW_STATE: Final = "state"

#: Status of an answer after which the process ends: it has no memory left.
ENDED: Final = 507

#: Values of one part. A part takes a few milliseconds.
_TOGETHER: Final = 64


class EndedRun(NamedTuple):
    """An application that has ended successfully, and how long it ran."""

    name: str
    user: str
    queue: str
    run_ns: int


@dataclass(frozen=True, slots=True)
class PresentState:
    """A partition with its active configuration and settings. `runs`: the oldest first."""

    partition: PartitionId
    configuration: Configuration
    extra: dict[str, str]
    now_ns: int
    events: tuple[Event, ...] = ()
    runs: tuple[EndedRun, ...] = ()


def written(present: PresentState, partition: Partition) -> Iterator[bytes]:
    """Yields the state in parts, for `read`. The partition may change between two parts."""
    yield dumped(present)
    for values in (events_of(partition), ended_runs(partition)):
        while part := tuple(islice(values, _TOGETHER)):
            yield dumped(part)
        yield dumped(())


def read(file: BinaryIO) -> PresentState:
    """Reads what `written` yields, and orders the events. Only for data of a core: pickled data can run any code."""
    present: PresentState = pickle.load(file)  # noqa: S301  # the core wrote it
    events = sorted(_parts(file), key=itemgetter(0))
    return replace(present, events=tuple(event for _, event in events), runs=tuple(_parts(file)))


def _parts(file: BinaryIO) -> Iterator[Any]:
    while part := pickle.load(file):  # noqa: S301  # the core wrote it
        yield from part


#: An event of a copy with its position: its phase, and for pods their order, because of equal pods the one that started
#: last is preempted first.
Ordered = tuple[int, Event]

#: All resources are known to be used before anything asks for them. A bound member of a gang would take a slot that is
#: reported before, and a request that comes later may be too late to replace a lost member first.
_NODES, _APPLICATIONS, _PODS, _SLOTS, _REQUESTS, _RESERVED = (phase << 56 for phase in range(6))


# --- events ----------------------------------------------------------------------------------------------------------


def events_of(partition: Partition) -> Iterator[Ordered]:
    """Yields nodes, then each application with its allocations and requests, as after a recovery.

    Also the virtual placeholders that gangs hold. What is being released is left out.
    """
    for name in list(partition.nodes):
        if name in partition.nodes:
            node = partition.nodes.record(name)
            foreign = tuple(partition.foreign[identity] for identity in node.foreign_pods)
            yield _NODES, NodeAdded(node.spec, draining=node.state is NodeState.DRAINING, existing=foreign)
    for app in list(partition.applications.values()):
        yield from _application(app)


def _application(app: Application) -> Iterator[Ordered]:
    asks = [ask for ask in app.asks.values() if not ask.spec.is_virtual]
    held = [one for one in app.allocations.values() if one.releasing is None]
    if app.removed or not (app.asks or held):
        return
    queue, missing = app.queue, app.gang.members_missing or app.spec.members_missing
    own = NamespaceQuota(queue.max, queue.guaranteed, queue.max_applications)
    quota = app.spec.quota if queue.managed else own  # which a queue that rules have created gets
    spec = replace(app.spec, forced=True, placed=queue.path, quota=quota, members_missing=missing)
    yield _APPLICATIONS, ApplicationAdded(spec)
    if spec.is_gang and app.gang.over:
        lost = tuple((group, of.count, of.first, of.resources, of.until_ns) for group, of in app.gang.lost.items())
        yield _RESERVED, ApplicationAdded(replace(spec, is_renewal=True, is_reserved=True, lost=lost))
    for one in held:
        yield (_SLOTS if one.spec.is_virtual else _PODS) + one.sequence, AllocationReported(_reported(one))
    for ask in asks:
        left = max(ask.left, 1)
        asked = ask.spec if left == ask.spec.max_allocations else replace(ask.spec, max_allocations=left)
        yield _REQUESTS, AskAdded(asked)


def _reported(one: Allocation) -> AllocationSpec:
    spec = one.spec
    return AllocationSpec(
        spec.partition,
        spec.application,
        spec.key,
        AllocationId(f"{one.id}/present") if spec.is_virtual else one.id,  # the copy may use the ID of a slot again
        one.node,
        spec.resources,
        spec.group,
        placeholder=spec.placeholder,
        originator=spec.originator,
        priority=spec.priority,
        namespace=spec.namespace,
        tags=spec.tags,
        facts=spec.facts,
        required_node=spec.required_node,
        allow_preempt_self=spec.allow_preempt_self,
        allow_preempt_other=spec.allow_preempt_other,
        created_ns=spec.created_ns,
        allocated_ns=one.allocated_ns,
        virtual=spec if spec.is_virtual else None,
    )


def ended_runs(partition: Partition) -> Iterator[EndedRun]:
    """Yields the ended applications that the core still stores and that ran, the oldest first."""
    for app in list(partition.history):
        run_ns = app.ended_ns - app.started_ns
        if app.state is ApplicationState.COMPLETED and app.started_ns and run_ns > 0:
            yield EndedRun(app.name, app.spec.user, app.queue.path, run_ns)


# --- pickle ----------------------------------------------------------------------------------------------------------


def dumped(value: object) -> bytes:
    """Returns a value of the core for `pickle.load` in another process."""
    buffer = io.BytesIO()
    pickler = pickle.Pickler(buffer, pickle.HIGHEST_PROTOCOL)
    pickler.dispatch_table = _REDUCERS
    pickler.dump(value)
    return buffer.getvalue()


def _constructed(kind: type, get: Any, value: object) -> tuple[type, tuple[object, ...]]:
    found = get(value)
    return kind, found if isinstance(found, tuple) else (found,)


def _reducer(kind: type) -> Any:
    """Values are made by their constructors, because their cached hashes are those of one process."""
    names = [one.name for one in fields(kind) if one.init]
    if len(names) < 2:
        return lambda value: (kind, tuple(getattr(value, name) for name in names))
    return partial(_constructed, kind, attrgetter(*names))


def _amounts(value: Resources | Limit) -> object:
    return "NOTHING" if value is NOTHING else (type(value), (dict(value.items()),))


def _read_only(values: dict[Any, Any]) -> MappingProxyType[Any, Any]:
    """`MappingProxyType`, which has no name that pickle finds."""
    return MappingProxyType(values)


#: Constants that the core also compares by identity are named. The others are values.
_NAMED: Final = {
    type(NO_INTER_POD_CONSTRAINTS): (NO_INTER_POD_CONSTRAINTS, "NO_INTER_POD_CONSTRAINTS"),
    type(NO_PROPERTIES): (NO_PROPERTIES, "NO_PROPERTIES"),
}


def _named(value: object) -> object:
    constant, name = _NAMED[type(value)]
    return name if value is constant else _reducer(type(value))(value)


_REDUCERS: Final[dict[type, Any]] = {
    **{kind: _reducer(kind) for kind in (*CLASSES.values(), PresentState) if is_dataclass(kind)},
    **dict.fromkeys(_NAMED, _named),
    **dict.fromkeys((Resources, Limit), _amounts),
    MappingProxyType: lambda value: (_read_only, (dict(value),)),
}
