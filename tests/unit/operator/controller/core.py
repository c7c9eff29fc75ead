"""A small core for tests: it accepts, reserves, replaces and completes by the gang design, without quotas and filters.

It is a peer in a pure simulation. It receives requests and sends responses on three streams, which are ordered within
each stream only.
"""

import json
from collections import Counter, deque
from dataclasses import dataclass, field

from muster_operator.model.core_messages import (
    Allocated,
    AllocationRejected,
    AllocationReleased,
    AllocationReported,
    AllocationResponse,
    ApplicationAccepted,
    ApplicationRejected,
    ApplicationRemoved,
    ApplicationResponse,
    ApplicationSpec,
    ApplicationSubmitted,
    ApplicationUpdated,
    AskCancelled,
    AskRejected,
    AskReleased,
    AskSpec,
    AskSubmitted,
    ClusterObjectReported,
    CoreRequest,
    CoreResponse,
    NodeCreated,
    NodeDecommissioned,
    NodeDrained,
    NodeOpened,
    NodeResponse,
    NodeUpdated,
    Released,
    TerminationType,
)
from muster_operator.model.ids import AllocationId, AppId, NodeName, PodUid
from muster_si import keys

STOPPED = TerminationType.STOPPED_BY_RM


def _avoided(ask: AskSpec) -> list[str]:
    """Return the nodes that the ask avoids."""
    return ask.tags.get(keys.TAG_AVOID_NODES, "").split(",")


@dataclass
class Held:
    """An allocation. ``going``: termination type of a requested release. ``parked``: the ask that replaces it."""

    ask: AskSpec
    node: NodeName
    releasing: TerminationType | None = None
    parked: AskSpec | None = None


@dataclass
class App:
    """An application in the core. ``places``: virtual placeholders by task group; None before the first reservation."""

    spec: ApplicationSpec
    state: str = "Accepted"
    places: dict[str, int] | None = None
    asks: dict[PodUid, AskSpec] = field(default_factory=dict)
    held: dict[PodUid, Held] = field(default_factory=dict)

    @property
    def is_direct(self) -> bool:
        """Whether its placement mode is Direct."""
        return self.spec.tags.get(keys.APP_TAG_GANG_PLACEMENT) == keys.PLACEMENT_DIRECT

    def reserve(self) -> None:
        """Reserve for each missing member. Members replace the virtual placeholders when they arrive."""
        members = json.loads(self.spec.tags[keys.APP_TAG_MEMBERS])
        there = Counter(held.ask.task_group for held in self.held.values())
        self.places = {one["name"]: max(0, one["minMember"] - there[one["name"]]) for one in members}

    def take_place(self, group: str) -> bool:
        """Use one virtual placeholder of the group. Returns whether there was one."""
        left = (self.places or {}).get(group, 0)
        if left:
            self.places = {**(self.places or {}), group: left - 1}
        return bool(left)

    def placeholders(self) -> list[Held]:
        """The placeholders that are not being released."""
        return [held for held in self.held.values() if held.ask.placeholder and held.releasing is None]

    def forget(self, key: PodUid) -> None:
        """Remove an ask. A placeholder whose release was requested for it is still released."""
        self.asks.pop(key, None)
        for held in self.held.values():
            held.parked = None if held.parked and held.parked.key == key else held.parked


@dataclass
class Core:  # long: a complete scheduler is easier to review in one class
    """``allocations`` and ``applications`` are the streams to the operator."""

    apps: dict[AppId, App] = field(default_factory=dict)
    nodes: dict[NodeName, bool] = field(default_factory=dict)
    foreign: dict[PodUid, NodeName] = field(default_factory=dict)
    allocations: deque[CoreResponse] = field(default_factory=deque)
    applications: deque[CoreResponse] = field(default_factory=deque)
    completed: set[AppId] = field(default_factory=set)
    refused: list[str] = field(default_factory=list)
    is_stingy: bool = False
    reject: str = ""
    next_index: int = 0

    def reset(self) -> None:
        """Start a new session without state of the old one."""
        for part in (self.apps, self.nodes, self.foreign, self.completed, self.allocations, self.applications):
            part.clear()

    def take(self, requests: CoreRequest) -> None:
        """Handle one request."""
        match requests:
            case ApplicationSubmitted(spec):
                self._submitted(spec)
            case ApplicationRemoved(app):
                self.apps.pop(app, None)
                self.completed.add(app)
            case AskSubmitted(ask):
                self._asked(ask)
            case AskReleased(app, key):
                if app in self.apps:
                    self.apps[app].forget(key)
                    self._settle(app)
            case AllocationReported(allocation):
                self._reported(allocation.ask, allocation.node)
            case AllocationReleased():
                self._released(requests)
            case ClusterObjectReported():
                pass  # it evaluates no constraints
            case _:
                self._node(requests)
        self.schedule()

    def _node(self, requests: CoreRequest) -> None:
        match requests:
            case NodeCreated(node, drained, existing):
                assert node.name not in self.nodes, "a duplicate CREATE"
                self.nodes[node.name] = not drained
                for allocation in existing:
                    self._reported(allocation.ask, allocation.node)
                self.allocations.append(NodeResponse(accepted=(node.name,)))
            case NodeOpened(name):
                assert not self.nodes[name], "opened twice"
                self.nodes[name] = True
            case NodeDrained(name):
                self.nodes[name] = False
            case NodeDecommissioned(name):
                self._decommission(name)
            case NodeUpdated(node):
                assert node.name in self.nodes
            case _:
                raise AssertionError(requests)

    def _decommission(self, name: NodeName) -> None:
        del self.nodes[name]
        for app in self.apps.values():
            for key, held in list(app.held.items()):
                if held.node == name:
                    del app.held[key]
                    if held.parked:
                        app.asks[held.parked.key] = held.parked

    def _submitted(self, spec: ApplicationSpec) -> None:
        if keys.APP_TAG_RENEWAL in spec.tags:
            return
        if spec.app in self.apps:
            self.refused.append(f"{spec.app} is there already")
            return
        if self.reject:
            rejected = ApplicationRejected(spec.app, self.reject)
            self.applications.append(ApplicationResponse(rejected=(rejected,)))
            return
        self.completed.discard(spec.app)
        self.apps[spec.app] = App(spec)
        self.applications.append(ApplicationResponse(accepted=(ApplicationAccepted(spec.app),)))

    def _reported(self, ask: AskSpec, node: NodeName) -> None:
        """Handle a reported allocation. A known one is updated and never moves (ADR 0010). Its node may be removed."""
        if node not in self.nodes or ask.app not in {None, *self.apps}:
            gone = AllocationRejected(ask.app or AppId(""), ask.key, "its node or application is not known")
            self.allocations.append(AllocationResponse(rejected_allocations=(gone,)))
            return
        if ask.app is None:
            assert self.foreign.get(ask.key, node) == node, "moved"
            self.foreign[ask.key] = node
            return
        app = self.apps[ask.app]
        known = app.held.get(ask.key)
        if known is not None:
            assert known.node == node, "moved"
            known.ask = ask
            return
        app.held[ask.key] = Held(ask, node)
        self._settle(ask.app)

    def _asked(self, ask: AskSpec) -> None:
        app = self.apps.get(ask.app or AppId(""))
        if app is None and ask.app in self.completed:
            gone = AskCancelled(ask.app, ask.key, TerminationType.TIMEOUT, "completed before the ask came")
            self.allocations.append(AllocationResponse(cancelled_asks=(gone,)))
            return
        if app is None or ask.key in app.held:
            reason = "unknown application" if app is None else "allocated already"
            rejected = AskRejected(ask.app or AppId(""), ask.key, reason)
            self.refused.append(f"ask {ask.key}: {reason}")
            self.allocations.append(AllocationResponse(rejected_asks=(rejected,)))
            return
        if app.spec.placeholder_ask and app.state == "Accepted" and not ask.placeholder and not app.is_direct:
            self.refused.append(f"real ask {ask.key} before the gang is reserved")
        app.forget(ask.key)
        app.asks[ask.key] = ask

    def _released(self, requests: AllocationReleased) -> None:
        if requests.app is None:
            self.foreign.pop(requests.key)
            return
        app = self.apps.get(requests.app)
        held = app.held.get(requests.key) if app else None
        if app is None or held is None:
            return  # a duplicate
        del app.held[requests.key]
        if requests.termination is STOPPED:
            confirmed = Released(requests.app, requests.key, STOPPED, requests.allocation_id)
            self.allocations.append(AllocationResponse(released=(confirmed,)))
        else:
            assert requests.termination is held.releasing, "confirmed with another type"
        if held.parked:
            is_open = held.node in self.nodes and held.node not in _avoided(held.parked)
            self._place(app, held.parked, held.node if is_open else self._next_node(held.parked))
        self._settle(requests.app)

    def schedule(self) -> None:
        """Allocate or replace everything that is possible now."""
        if not any(self.nodes.values()):
            return
        for app in list(self.apps.values()):
            if app.is_direct and app.places is None and not self.is_stingy:
                app.reserve()
                self._settle(app.spec.app)
            for ask in list(app.asks.values()):
                if ask.placeholder and not self.is_stingy:
                    del app.asks[ask.key]
                    self._place(app, ask, self._next_node(ask))
                elif not ask.placeholder and self._may_run(app):
                    self._replace_or_allocate(app, ask)
            self._settle(app.spec.app)

    def _may_run(self, app: App) -> bool:
        return app.state == "Running" or (app.state == "Accepted" and not self._is_gang(app))

    @staticmethod
    def _is_gang(app: App) -> bool:
        return bool(app.spec.placeholder_ask) and not app.spec.tags.get("resumed")

    def _replace_or_allocate(self, app: App, ask: AskSpec) -> None:
        del app.asks[ask.key]
        if app.take_place(ask.task_group):
            self._place(app, ask, self._next_node(ask))
            return
        target = next((held for held in app.placeholders() if held.ask.task_group == ask.task_group), None)
        if target is None:
            self._place(app, ask, self._next_node(ask))
            return
        target.releasing, target.parked = TerminationType.PLACEHOLDER_REPLACED, ask
        self.allocations.append(AllocationResponse(released=(self._release(app, target),)))

    @staticmethod
    def _release(app: App, held: Held) -> Released:
        assert held.releasing is not None
        return Released(app.spec.app, held.ask.key, held.releasing, AllocationId(f"{held.ask.key}-0"))

    def _next_node(self, ask: AskSpec) -> NodeName | None:
        names = sorted(name for name, is_open in self.nodes.items() if is_open and name not in _avoided(ask))
        self.next_index += 1
        return names[self.next_index % len(names)] if names else None

    def _place(self, app: App, ask: AskSpec, node: NodeName | None) -> None:
        """Allocate the ask on the node, or keep it pending until there is a node that it does not avoid."""
        if node is None:
            app.asks[ask.key] = ask
        else:
            self._allocate(app, ask, node)

    def _allocate(self, app: App, ask: AskSpec, node: NodeName) -> None:
        app.held[ask.key] = Held(ask, node)
        allocated = Allocated(app.spec.app, ask.key, node, AllocationId(f"{ask.key}-0"))
        self.allocations.append(AllocationResponse(allocated=(allocated,)))

    def _settle(self, app_id: AppId) -> None:
        app = self.apps.get(app_id)
        if app is None:
            return
        real = [held for held in app.held.values() if not held.ask.placeholder]
        if app.state == "Accepted":
            members = app.spec.placeholder_ask.get("pods", 0)
            pending = any(ask.placeholder for ask in app.asks.values())
            if (
                real
                or app.places is not None
                or (not pending and len(app.placeholders()) >= members and (members or app.asks))
            ):
                self._move(app, "Running")
        elif app.state == "Resuming" and not any(held.ask.placeholder for held in app.held.values()):
            app.spec = ApplicationSpec(app.spec.app, app.spec.queue, app.spec.user, {"resumed": "true"})
            self._move(app, "Accepted")
        elif app.state == "Failing" and not app.held:
            self._move(app, "Failed")
            del self.apps[app_id]

    def _move(self, app: App, state: str, message: str = "") -> None:
        app.state = state
        self.applications.append(ApplicationResponse(updated=(ApplicationUpdated(app.spec.app, state, message),)))

    def time_out(self, app_id: AppId) -> None:
        """Fire the placeholder timer while the application reserves: act by its style."""
        app = self.apps[app_id]
        soft = app.spec.style == "Soft"
        keys = [key for key, ask in app.asks.items() if ask.placeholder or not soft]
        app.asks = {key: ask for key, ask in app.asks.items() if key not in keys}
        for held in app.held.values():
            held.releasing = TerminationType.TIMEOUT
        response = AllocationResponse(
            cancelled_asks=tuple(AskCancelled(app_id, key, TerminationType.TIMEOUT) for key in keys),
            released=tuple(self._release(app, held) for held in app.held.values()),
        )
        self.allocations.append(response)
        self._move(app, "Resuming" if soft else "Failing", "the placeholder timeout expired")
        self._settle(app_id)

    def complete(self) -> None:
        """Fire the completing timer: release remaining placeholders, and complete applications without allocations."""
        for app_id, app in list(self.apps.items()):
            if app.asks or any(not held.ask.placeholder for held in app.held.values()) or app.state == "Accepted":
                continue
            for held in app.placeholders():
                held.releasing = TerminationType.TIMEOUT
                self.allocations.append(AllocationResponse(released=(self._release(app, held),)))
            if not app.held and app.state == "Running":
                self._move(app, "Completed")
                self.completed.add(app_id)
                del self.apps[app_id]
