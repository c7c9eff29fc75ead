"""Comparison of the operator's state with an inventory of the core.

Differences are counted, and repaired by sending the current state again (docs/internals/adr, number 0015).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterator
from dataclasses import dataclass, field
from typing import Final

from muster_operator.controller import rejections, tasks
from muster_operator.controller.core_responses import handle_core_response
from muster_operator.controller.state import ForeignAllocation, Ledger, Task
from muster_operator.controller.tasks import allocation_of, ask_of
from muster_operator.model.commands import Outcome
from muster_operator.model.core_messages import (
    AllocationReleased,
    AllocationReported,
    AllocationResponse,
    ApplicationInCore,
    ApplicationRemoved,
    ApplicationResponse,
    ApplicationSubmitted,
    AskReleased,
    AskSubmitted,
    ClusterObjectReported,
    CoreRequest,
    CoreResponse,
    HeldInCore,
    Inventory,
    InventoryPart,
    NodeCreated,
    NodeDecommissioned,
    NodeDrained,
    NodeInCore,
    NodeOpened,
    NodeResponse,
    NodeUpdated,
    Released,
    TerminationType,
)
from muster_operator.model.ids import AppId, NodeName, PodUid


def names_of_request(item: CoreRequest) -> Iterator[str]:
    """Keys, applications and nodes that a request to the core mentions."""
    match item:
        case ApplicationSubmitted(spec):
            yield spec.app
        case ApplicationRemoved(app):
            yield app
        case AskSubmitted(ask):
            yield ask.key
        case AllocationReported(allocation):
            yield allocation.ask.key
        case AllocationReleased(key=key) | AskReleased(key=key):
            yield key
        case NodeCreated(node, _, existing):
            yield node.name
            yield from (allocation.ask.key for allocation in existing)
        case NodeUpdated(node):
            yield node.name
        case ClusterObjectReported():
            return  # inventories do not contain these objects
        case NodeDrained(name) | NodeOpened(name) | NodeDecommissioned(name):
            yield name


def names_of_response(response: CoreResponse) -> Iterator[str]:
    """Keys, applications and nodes that a message of the core mentions. An empty key means the complete application."""
    match response:
        case AllocationResponse():
            yield from (each.key or each.app for each in response.cancelled_asks)
            yield from (each.key or each.app for each in response.released)
            yield from (each.key for each in response.allocated)
            yield from (each.key for each in response.rejected_asks)
            yield from (each.key for each in response.rejected_allocations)
        case ApplicationResponse():
            yield from (found.app for found in response.accepted)
            yield from (found.app for found in response.rejected)
            yield from (found.app for found in response.updated)
        case NodeResponse():
            yield from response.accepted
            yield from response.rejected or ()
        case _:
            return


#: Node of a pod that was being deleted when the core allocated it. The allocation is released on any node.
_ANYWHERE: Final = NodeName("")


@dataclass(frozen=True, slots=True)
class Difference:
    """The kind of difference (a metric label) and the key, application or node."""

    what: str
    subject: str


@dataclass(slots=True)
class Comparison:
    """Differences and the requests that repair them.

    ``recent_names``: names in recent messages, which are not compared. ``inconsistency``: why a new session is
    needed, or empty.
    """

    ledger: Ledger
    recent_names: Container[str]
    now: float
    #: Differences that were repaired in this session and returned. They are counted and not repaired again.
    before: Container[Difference] = frozenset()
    out: Outcome = field(default_factory=Outcome)
    found: list[Difference] = field(default_factory=list)
    inconsistency: str = ""

    def note(self, what: str, subject: str) -> bool:
        """Records a difference. Returns whether it is to be repaired."""
        found = Difference(what, subject)
        self.found.append(found)
        return found not in self.before

    def add(self, more: Outcome) -> None:
        """Adds requests and commands to the outcome."""
        self.out.requests += more.requests
        self.out.commands += more.commands


def compare(
    ledger: Ledger,
    inventory: Inventory,
    recent_names: Container[str],
    now: float,
    before: Container[Difference] = frozenset(),
) -> Comparison:
    """Compares one part of the core's inventory: applications or nodes."""
    comparison = Comparison(ledger, recent_names, now, before)
    if inventory.part is InventoryPart.APPLICATIONS:
        _applications(comparison, inventory)
    else:
        _nodes(comparison, inventory)
    return comparison


# -- applications: asks and allocations ---------------------------------------


def _applications(comparison: Comparison, inventory: Inventory) -> None:
    ours = comparison.ledger.applications
    asked, held = _expected(comparison.ledger, inventory)
    for found in inventory.applications:
        if found.app in comparison.recent_names:
            continue
        if found.app in ours:
            _application(comparison, found, asked[found.app], held[found.app])
        elif comparison.note("application left over", found.app):
            comparison.out.requests.append(comparison.ledger.removal_of(found.app))
    there = {found.app for found in inventory.applications}
    for app in sorted((asked.keys() | held.keys()) - there):
        keys = [key for key in (*asked[app], *held[app]) if _is_settled(comparison, key, held[app].get(key))]
        if keys and app not in comparison.recent_names and comparison.note("application missing", app):
            comparison.inconsistency = f"the core has no application {app}"


def _expected(
    ledger: Ledger, inventory: Inventory
) -> tuple[dict[AppId, set[PodUid]], dict[AppId, dict[PodUid, NodeName]]]:
    """Requests and allocations that the core should have of the applications in this part.

    A request that the core cancelled stays with the task until the pod is gone, but not in the core.
    """
    asked: dict[AppId, set[PodUid]] = defaultdict(set)
    held: dict[AppId, dict[PodUid, NodeName]] = defaultdict(dict)
    for app in ledger.applications.values():
        if not inventory.covers(app.id):
            continue
        for task in (*app.members.values(), *app.placeholders.values()):
            if task.asked and task.release is None:
                asked[app.id].add(task.uid)
            if task.held:
                held[app.id][task.uid] = task.node or _ANYWHERE
    for key, place in ledger.places.items():
        if inventory.covers(place.app):
            held[place.app][key] = place.node
    return asked, held


def _application(
    comparison: Comparison, found: ApplicationInCore, asked: set[PodUid], held: dict[PodUid, NodeName]
) -> None:
    in_core = {each.key: each for each in found.held}
    for key, each in in_core.items():
        if _is_settled(comparison, key, each.node, held.get(key)):
            _held_in_core(comparison, found.app, each, held.get(key))
    for key in sorted(found.asks - asked):
        if key not in held and _is_settled(comparison, key) and comparison.note("ask left over", key):
            comparison.out.requests.append(AskReleased(found.app, key))
    for key in sorted(asked - found.asks):
        if _is_settled(comparison, key, *_nodes_of(in_core, key)) and comparison.note("ask missing", key):
            comparison.out.requests.append(AskSubmitted(ask_of(comparison.ledger, comparison.ledger.tasks[key])))
    for key in sorted(held.keys() - in_core.keys()):
        if _is_settled(comparison, key, held[key]) and comparison.note("allocation missing", key):
            _resend(comparison, key)


def _nodes_of(in_core: dict[PodUid, HeldInCore], key: PodUid) -> list[NodeName]:
    return [in_core[key].node] if key in in_core else []


def _is_settled(comparison: Comparison, *names: str | None) -> bool:
    """Whether no recent message mentions one of the names: a key and its nodes."""
    return not any(name in comparison.recent_names for name in names if name is not None)


def _held_in_core(comparison: Comparison, app: AppId, each: HeldInCore, node: NodeName | None) -> None:
    """Checks an allocation of the core: whether its pod is on the expected node and is not being released."""
    task = comparison.ledger.tasks.get(each.key)
    if node in {each.node, _ANYWHERE}:
        if (
            each.releasing is not None
            and _is_release_missed(task)
            and comparison.note("release order missed", each.key)
        ):
            order = Released(app, each.key, each.releasing, each.allocation_id)
            comparison.add(
                handle_core_response(comparison.ledger, AllocationResponse(released=(order,)), comparison.now)
            )
        return
    what = "allocation left over" if node is None else "allocation elsewhere"
    if comparison.note(what, each.key):
        termination = each.releasing or TerminationType.STOPPED_BY_RM
        comparison.out.requests.append(AllocationReleased(app, each.key, termination, each.allocation_id))
        if node is not None:
            _resend(comparison, each.key)


def _is_release_missed(task: Task | None) -> bool:
    """Whether the core's release of the pod was not received. Kept slots without a pod are released by the core."""
    return task is not None and task.release is None


def _resend(comparison: Comparison, key: PodUid) -> None:
    task = comparison.ledger.tasks.get(key)
    if task is not None:
        if task.node is not None:
            comparison.out.requests.append(AllocationReported(allocation_of(comparison.ledger, task, task.node)))
    else:
        rejections.slot_taken(comparison.ledger, key)  # a slot without a pod: its replacement is scheduled normally


# -- nodes: that they are there, open or not, and what others run on them -----


def _nodes(comparison: Comparison, inventory: Inventory) -> None:
    ledger = comparison.ledger
    foreign = _foreign_by_node(ledger, inventory)
    for found in inventory.nodes:
        if found.name in comparison.recent_names:
            continue
        node = ledger.nodes.get(found.name)
        if node is None:
            if comparison.note("node left over", found.name):
                comparison.out.requests.append(NodeDecommissioned(found.name))
            continue
        if node.schedulable is not found.schedulable and comparison.note("node closed or open", found.name):
            comparison.out.requests.append(NodeOpened(node.name) if node.schedulable else NodeDrained(node.name))
        _foreign(comparison, found, foreign[found.name])
    there = {found.name for found in inventory.nodes}
    for name in sorted(name for name in ledger.nodes if inventory.covers(name) and name not in there):
        if name not in comparison.recent_names and comparison.note("node missing", name):
            comparison.inconsistency = f"the core has no node {name}"


def _foreign_by_node(ledger: Ledger, inventory: Inventory) -> dict[NodeName, dict[PodUid, ForeignAllocation]]:
    found: dict[NodeName, dict[PodUid, ForeignAllocation]] = defaultdict(dict)
    for entries in (ledger.foreign, ledger.untracked_pods):
        for uid, pod_on_node in entries.items():
            node = pod_on_node.pod.node
            if pod_on_node.reported and node is not None and inventory.covers(node):
                found[node][uid] = pod_on_node
    return found


def _foreign(comparison: Comparison, found: NodeInCore, ours: dict[PodUid, ForeignAllocation]) -> None:
    for key in sorted(found.foreign - ours.keys()):
        if _is_settled(comparison, key) and comparison.note("foreign left over", key):
            comparison.out.requests.append(AllocationReleased(None, key))
    for key in sorted(ours.keys() - found.foreign):
        if _is_settled(comparison, key) and comparison.note("foreign missing", key):
            comparison.out.requests.append(AllocationReported(tasks.as_reported(ours[key], found.name)))
