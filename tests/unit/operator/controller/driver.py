"""Drives one ledger: a scenario is a list of events and responses with the expected requests and commands."""

import copy
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from muster_operator.controller import recovery
from muster_operator.controller.cluster_events import handle_event
from muster_operator.controller.core_responses import handle_command_result, handle_core_response
from muster_operator.controller.state import Ledger, next_due
from muster_operator.controller.timers import on_timers
from muster_operator.model.cluster_events import ClusterEvent, PodGone
from muster_operator.model.commands import (
    CancelCreations,
    Command,
    CommandFailed,
    CommandSucceeded,
    Outcome,
    PostEvent,
    Repeat,
    Result,
)
from muster_operator.model.core_messages import (
    Allocated,
    AllocationResponse,
    ApplicationAccepted,
    ApplicationResponse,
    ApplicationSubmitted,
    ApplicationUpdated,
    AskCancelled,
    AskSubmitted,
    CoreResponse,
    Released,
    TerminationType,
)
from muster_operator.model.devices import ChosenDevices
from muster_operator.model.ids import AllocationId, AppId, NodeName, PodUid
from muster_operator.model.settings import Settings
from muster_si import keys
from tests.unit.operator.controller.kubernetes import SETTINGS, namespace_seen, node_seen, seen
from tests.unit.operator.controller.objects import Raw, a_namespace, a_node, a_pod
from tests.unit.operator.model.signing import KEYS

APP = AppId("dev/job")
#: Two namespaces that share their application IDs, and the application `job` of both.
SHARING = Settings(gang_placement=SETTINGS.gang_placement, sharing_groups={"dev": "team", "other": "team"})
SHARED = AppId("@team/job")


def sound(out: Outcome) -> Outcome:
    """Return the outcome, or raise the exception that was isolated."""
    for failure in out.failures:
        raise failure.error
    return out


def answered(ledger: Ledger, result: Result, now: float) -> Outcome:
    """Handle the result of a command."""
    out = Outcome()
    handle_command_result(ledger, out, result, now)
    return out


@dataclass
class Driver:
    """A ledger with a fake clock. The test advances ``now``."""

    ledger: Ledger = field(default_factory=lambda: Ledger(SETTINGS, keys=KEYS))
    now: float = 0.0

    def see(self, raw: Raw, **status: object) -> Outcome:
        """Receive the event of a pod with this status."""
        raw = copy.deepcopy(raw)
        raw["status"].update(status)
        return self.fact(seen(raw, self.ledger.settings))

    def fact(self, fact: ClusterEvent) -> Outcome:
        """Receive an event of the cluster."""
        return sound(handle_event(self.ledger, fact, self.now))

    def gone(self, name: str) -> Outcome:
        """Receive the deletion of a pod of ``a_pod``."""
        return self.gone_uid(PodUid(f"uid-{name}"))

    def gone_uid(self, uid: PodUid) -> Outcome:
        """Receive the deletion of a pod by its UID."""
        return self.fact(PodGone(uid))

    def receive(self, response: CoreResponse) -> Outcome:
        """Receive a response of the core."""
        return sound(handle_core_response(self.ledger, response, self.now))

    def result(self, result: Result) -> Outcome:
        """Receive the result of a command."""
        return sound(answered(self.ledger, result, self.now))

    def wait(self, seconds: float) -> Outcome:
        """Advance the time."""
        self.now += seconds
        out = Outcome()
        while (due := next_due(self.ledger)) is not None and due <= self.now:
            one = sound(on_timers(self.ledger, self.now))
            out = Outcome(out.requests + one.requests, out.commands + one.commands)
        return out

    def accepted(self, app: AppId = APP) -> Outcome:
        """The core accepts the application and reports the state Accepted."""
        out = self.receive(ApplicationResponse(accepted=(ApplicationAccepted(app),)))
        begun = self.updated(keys.APP_ACCEPTED, app=app)
        return Outcome(out.requests + begun.requests, out.commands + begun.commands)

    def updated(self, state: str, message: str = "", app: AppId = APP) -> Outcome:
        """The core reports a state of the application."""
        return self.receive(ApplicationResponse(updated=(ApplicationUpdated(app, state, message),)))

    def allocated(
        self,
        uid: str,
        node: str = "n1",
        app: AppId = APP,
        volumes: Mapping[str, str] | None = None,
        devices: tuple[ChosenDevices, ...] = (),
    ) -> Outcome:
        """The core allocates a node, volumes for unbound claims, and devices."""
        found = Allocated(app, PodUid(uid), NodeName(node), AllocationId(f"{uid}-0"), volumes or {}, devices)
        return self.receive(AllocationResponse(allocated=(found,)))

    def released(self, uid: str, termination: TerminationType, app: AppId = APP) -> Outcome:
        """The core releases an allocation, or confirms a release."""
        order = Released(app, PodUid(uid), termination, AllocationId(f"{uid}-0"))
        return self.receive(AllocationResponse(released=(order,)))

    def cancelled(self, uid: str, termination: TerminationType = TerminationType.TIMEOUT) -> Outcome:
        """The core releases an ask."""
        return self.receive(AllocationResponse(cancelled_asks=(AskCancelled(APP, PodUid(uid), termination),)))


def whole(rounds: Iterable[Outcome]) -> Outcome:
    """Combine the outcomes of all parts of a recovery step."""
    total = Outcome()
    for turn in rounds:
        total.add(turn)
    return total


def live(*nodes: str, settings: Settings = SETTINGS) -> Driver:
    """Return a live session with these nodes; n1 if none is given."""
    driver = Driver(Ledger(settings, keys=KEYS))
    driver.fact(namespace_seen(a_namespace()))
    for name in nodes or ("n1",):
        driver.fact(node_seen(a_node(name)))
    whole(recovery.begin(driver.ledger, 0.0))
    whole(recovery.report_nodes(driver.ledger, 0.0))
    whole(recovery.submit_asks(driver.ledger, 0.0))
    recovery.open_nodes(driver.ledger, 0.0)
    return driver


def waiting(driver: Driver, name: str = "w0", app: AppId = APP) -> Raw:
    """Create a pod of the application whose ask was sent to the core."""
    raw = a_pod(name, app=app)
    driver.see(raw)
    driver.accepted(app)
    return raw


def live_with_pod(*nodes: str, settings: Settings = SETTINGS) -> Driver:
    """Return a live session with the pod w0, whose ask was sent to the core."""
    driver = live(*nodes, settings=settings)
    waiting(driver)
    return driver


def submitted(outcome: Outcome) -> list[str]:
    """Return the IDs of the submitted applications."""
    return [item.spec.app for item in outcome.requests if isinstance(item, ApplicationSubmitted)]


def requested_keys(outcome: Outcome) -> list[str]:
    """Return the UIDs of the sent asks."""
    return [item.ask.key for item in outcome.requests if isinstance(item, AskSubmitted)]


def events(outcome: Outcome) -> list[tuple[str, str, str]]:
    """Return (pod or node, reason, action) of the events."""
    return [(c.name, c.reason, c.action) for c in outcome.commands if isinstance(c, PostEvent)]


def notes(outcome: Outcome) -> dict[str, str]:
    """Return the events why pods wait, by pod."""
    return {c.name: c.note for c in outcome.commands if isinstance(c, PostEvent) and c.reason == "FailedScheduling"}


def orders(outcome: Outcome) -> list[Command]:
    """Return the commands that write and are not events."""
    return [command for command in outcome.commands if not isinstance(command, PostEvent | CancelCreations | Repeat)]


def done(command: Command) -> CommandSucceeded:
    """Return the success of a command."""
    return CommandSucceeded(command)


def refused(command: Command, status: int = 403, message: str = "no") -> CommandFailed:
    """Return the permanent failure of a command."""
    return CommandFailed(command, status, "Refused", message)
