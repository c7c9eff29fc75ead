"""The comparison of the state of controller and core (ADR 0015) in the pure simulation."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from muster_operator.controller import reconciliation
from muster_operator.model.core_messages import (
    ApplicationInCore,
    CoreRequest,
    CoreResponse,
    HeldInCore,
    Inventory,
    InventoryPart,
    NodeInCore,
)
from muster_operator.model.ids import AllocationId
from tests.unit.operator.controller.core import App, Core


def inventory_of(core: Core, part: InventoryPart) -> Inventory:
    """Return a complete part of the core's inventory."""
    if part is InventoryPart.APPLICATIONS:
        return Inventory(part, applications=tuple(_application(app) for app in core.apps.values()))
    foreign = {name: frozenset(key for key, node in core.foreign.items() if node == name) for name in core.nodes}
    return Inventory(
        part, nodes=tuple(NodeInCore(name, is_open, foreign[name]) for name, is_open in core.nodes.items())
    )


def _application(app: App) -> ApplicationInCore:
    parked = {held.parked.key for held in app.held.values() if held.parked is not None}
    return ApplicationInCore(
        app.spec.app,
        frozenset({*app.asks, *parked}),
        tuple(HeldInCore(key, held.node, AllocationId(f"{key}-0"), held.releasing) for key, held in app.held.items()),
    )


@dataclass
class Asking:
    """A comparison in progress. ``ahead``: items that the core handles before it answers, per stream. ``unheard``:
    responses sent before the answer and not received yet.
    """

    part: InventoryPart
    ahead: list[int]
    recent_names: set[str] = field(default_factory=set)
    inventory: Inventory | None = None
    undelivered: int = 0

    def kind(self, core: Core) -> None:
        """Take the inventory as soon as the core has handled all messages sent before the request."""
        if self.inventory is None and not any(count > 0 for count in self.ahead):
            self.inventory, self.undelivered = inventory_of(core, self.part), len(core.allocations)

    def taken(self, stream: int, core: Core) -> None:
        """Count an item that the core handled."""
        self.ahead[stream] -= 1
        self.kind(core)

    def record_sent(self, requests: Iterable[CoreRequest]) -> None:
        """Record the objects of sent requests."""
        for item in requests:
            self.recent_names.update(reconciliation.names_of_request(item))

    def record_received(self, response: CoreResponse, *, of_allocations: bool) -> None:
        """Of whom the core spoke."""
        self.recent_names.update(reconciliation.names_of_response(response))
        self.undelivered -= of_allocations and self.inventory is not None

    @property
    def is_ready(self) -> bool:
        """Whether both sides can be compared."""
        return self.inventory is not None and self.undelivered <= 0
