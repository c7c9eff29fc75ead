"""Kubernetes, the controller and a core, step by step in any order, without time and I/O.

Each queue between the three is ordered. The test chooses which queue moves next. Operator and core can be killed
between any two steps.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from muster_operator.controller import recovery
from muster_operator.controller.cluster_events import handle_event
from muster_operator.controller.core_responses import handle_core_response
from muster_operator.controller.reconciliation import Difference, compare
from muster_operator.controller.state import Ledger, Phase, next_due
from muster_operator.controller.timers import on_timers
from muster_operator.model.commands import CancelCreations, Command, CreatePlaceholder, Outcome, Repeat, Result
from muster_operator.model.core_messages import (
    ApplicationRemoved,
    ApplicationSubmitted,
    CoreRequest,
    CoreResponse,
    InventoryPart,
    NodeCreated,
    NodeDecommissioned,
    NodeDrained,
    NodeOpened,
    NodeUpdated,
)
from muster_operator.model.settings import Settings
from tests.unit.operator.controller.core import Core
from tests.unit.operator.controller.driver import answered, sound, whole
from tests.unit.operator.controller.index_checks import assert_counted
from tests.unit.operator.controller.kubernetes import SETTINGS, Kubernetes
from tests.unit.operator.controller.state_comparison import Asking
from tests.unit.operator.model.signing import KEYS

Choose = Callable[[int], int]
_APPLICATION_NEWS = (ApplicationSubmitted, ApplicationRemoved)
_NODE_NEWS = (NodeCreated, NodeUpdated, NodeDrained, NodeOpened, NodeDecommissioned)


def first(_: int) -> int:
    """Choose the first queue that is not empty."""
    return 0


@dataclass
class Simulation:  # long: every move is a method on the same queues
    """The simulation of ``kubernetes``, ``core`` and the ledger between them."""

    kubernetes: Kubernetes = field(default_factory=Kubernetes)
    core: Core = field(default_factory=Core)
    ledger: Ledger = field(default_factory=lambda: Ledger(SETTINGS, keys=KEYS))
    now: float = 0.0
    streams: tuple[deque[CoreRequest], deque[CoreRequest], deque[CoreRequest]] = field(
        default_factory=lambda: (deque(), deque(), deque())
    )
    commands: deque[Command] = field(default_factory=deque)
    results: deque[Result] = field(default_factory=deque)
    asking: Asking | None = None
    settings: Settings = SETTINGS
    differences: list[Difference] = field(default_factory=list)

    def start(self) -> Simulation:
        """Start the operator: it lists, registers and recovers."""
        self.kubernetes.watch.clear()
        self.ledger = Ledger(self.settings, keys=KEYS)
        for fact in self.kubernetes.list_all():
            handle_event(self.ledger, fact, self.now)
        self._begin()
        return self

    def _begin(self) -> None:
        """Run the recovery (docs/internals/semantics.md, "Order and recovery") like the operator's loop."""
        self.core.reset()
        self.asking = None
        for stream in self.streams:
            stream.clear()
        self._take(whole(recovery.begin(self.ledger, self.now)))
        self._deliver()
        while self.core.applications and self.ledger.phase is Phase.RECOVERING:
            self._take(handle_core_response(self.ledger, self.core.applications.popleft(), self.now))
        assert recovery.is_answered(self.ledger)
        self._take(whole(recovery.report_nodes(self.ledger, self.now)))
        self._take(whole(recovery.submit_asks(self.ledger, self.now)))
        self._deliver()
        self._barrier()
        self._take(recovery.open_nodes(self.ledger, self.now))

    def _barrier(self) -> None:
        """Complete the barrier. The small core always has handled all messages."""

    def kill_operator(self, *, lose_commands: bool) -> None:
        """Kill the operator (-9): its state is lost, and commands in flight are lost or still executed."""
        while self.commands and not lose_commands:
            self.kubernetes.apply(self.commands.popleft())
        self.commands.clear()
        self.results.clear()
        self.start()

    def kill_core(self) -> None:
        """Restart the core. The operator registers again and finishes its writes in between."""
        recovery.pause(self.ledger)
        while self.commands:
            self.results.append(self.kubernetes.apply(self.commands.popleft()))
        while self.results:
            answered(self.ledger, self.results.popleft(), self.now)
        while self.kubernetes.watch:
            handle_event(self.ledger, self.kubernetes.watch.popleft(), self.now)
        self._begin()

    def _take(self, outcome: Outcome) -> None:
        for order in sound(outcome).commands:
            if isinstance(order, CancelCreations):
                self._cancel(order)
            elif not isinstance(order, Repeat):
                self.commands.append(order)
        if self.asking is not None:
            self.asking.record_sent(outcome.requests)
        for item in outcome.requests:
            kind = 0 if isinstance(item, _APPLICATION_NEWS) else 1 if isinstance(item, _NODE_NEWS) else 2
            self.streams[kind].append(item)

    def _cancel(self, order: CancelCreations) -> None:
        """Cancel creations that were not sent, like the connection pool."""
        kept = [
            each for each in self.commands if not (isinstance(each, CreatePlaceholder) and each.spec.app == order.app)
        ]
        self.commands = deque(kept)

    def _deliver(self) -> None:
        for stream in self.streams:
            while stream:
                self.core.take(stream.popleft())

    def moves(self) -> list[Callable[[], None]]:
        """Return the possible next moves."""
        possible: list[tuple[object, Callable[[], None]]] = [
            (self.kubernetes.watch, self._observe),
            (self.commands, self._command),
            (self.results, self._answer),
            (self.core.applications, self._obey_application),
            (self.core.allocations, self._obey_allocation),
            *((stream, lambda index=index: self._tell(index)) for index, stream in enumerate(self.streams)),
            (self.asking is not None and self.asking.is_ready, self._compare),
        ]
        return [move for queue, move in possible if queue]

    def ask(self, part: InventoryPart) -> None:
        """Request a part of the core's inventory, unless a request is in progress."""
        if self.asking is None:
            self.asking = Asking(part, [len(stream) for stream in self.streams])
            self.asking.kind(self.core)

    def _compare(self) -> None:
        assert self.asking is not None
        assert self.asking.inventory is not None
        found = compare(self.ledger, self.asking.inventory, self.asking.recent_names, self.now)
        self.asking = None
        self.differences += found.found
        self._take(found.out)

    def _tell(self, index: int) -> None:
        self.core.take(self.streams[index].popleft())
        if self.asking is not None:
            self.asking.taken(index, self.core)

    def _receive(self, response: CoreResponse, *, of_allocations: bool) -> None:
        self._take(handle_core_response(self.ledger, response, self.now))
        if self.asking is not None:
            self.asking.record_received(response, of_allocations=of_allocations)

    def _observe(self) -> None:
        self._take(handle_event(self.ledger, self.kubernetes.watch.popleft(), self.now))

    def _command(self) -> None:
        self.results.append(self.kubernetes.apply(self.commands.popleft()))

    def _answer(self) -> None:
        self._take(answered(self.ledger, self.results.popleft(), self.now))

    def _obey_application(self) -> None:
        self._receive(self.core.applications.popleft(), of_allocations=False)

    def _obey_allocation(self) -> None:
        self._receive(self.core.allocations.popleft(), of_allocations=True)

    def step(self, choose: Choose = first) -> bool:
        """Do one move. Returns False if no move is possible."""
        moves = self.moves()
        if moves:
            moves[choose(len(moves))]()
            assert_counted(self.ledger)
        return bool(moves)

    def run(self, choose: Choose = first, limit: int = 5_000) -> int:
        """Move until nothing is left. Returns the number of steps."""
        for steps in range(limit):
            if not self.step(choose):
                return steps
        raise AssertionError("it never comes to rest")

    def wait(self, seconds: float) -> None:
        """Advance the time and fire the timers that are due."""
        end = self.now + seconds
        while (due := next_due(self.ledger)) is not None and due <= end:
            self.now = due
            self._take(on_timers(self.ledger, self.now))
            self.run()
        self.now = end
