"""Rules: asks are added, replaced and cancelled, for gang members, placeholders, single pods and DaemonSet pods."""

from dataclasses import replace

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from muster_core.model.constraints import (
    ANYWHERE,
    NAMESPACE,
    TERMINATING,
    Constraints,
    InterPodConstraints,
    PlacementConstraint,
    PodTerm,
    Target,
    TargetOperator,
    TopologySpreadConstraint,
    WeightedPodTerm,
)
from muster_core.model.events import AllocationReported, AskAdded, AskReleased
from muster_core.model.ids import NodeId, Termination
from muster_core.model.specs import NO_PROPERTIES, AskSpec, HostPort, PodProperties
from tests.unit.builders import PARTITION, SECOND, an_affinity, an_allocation, an_ask, made_for
from tests.unit.core.scheduling.random_events.base import Ground
from tests.unit.core.scheduling.random_events.device_rules import USERS
from tests.unit.core.scheduling.random_events.storage_rules import MOUNTS

SSD = Constraints(node_selector=(("disk", "ssd"),))
ROLES: tuple[dict[str, str], ...] = (
    {},
    {"role": "x", NAMESPACE: "red"},
    {"role": "y", NAMESPACE: "red"},
    {"role": "x", NAMESPACE: "red", TERMINATING: "true"},
)
_PLACEMENTS: tuple[PlacementConstraint | None, ...] = (
    None,
    None,
    an_affinity("role", "x", scope="hostname", most=1),
    an_affinity("role", "y", scope="hostname", least=1),
    an_affinity("role", "x", scope="disk", least=2, most=3),
    an_affinity("role", "x", "y", scope="hostname", most=1, required=False),
    PlacementConstraint((Target("disk", TargetOperator.NOT_EXIST),)),
)
_X, _Y = (Target("role", values=("x",)),), (Target("role", values=("y",)),)
_TEAM = (Target("team", values=("one",)),)
#: Pods with inter-pod terms, spread constraints or a host port.
COMPANIES: tuple[PodProperties, ...] = (
    NO_PROPERTIES,
    NO_PROPERTIES,
    NO_PROPERTIES,
    PodProperties(InterPodConstraints(anti_affinity=(PodTerm("host", _X, (), ()),))),
    PodProperties(InterPodConstraints(anti_affinity=(PodTerm("disk", _Y, (), _TEAM),))),
    PodProperties(InterPodConstraints(affinity=(PodTerm("host", _X, (), ()),))),
    PodProperties(InterPodConstraints(affinity=(PodTerm("disk", _X, ("red",)), PodTerm("host", _X, (), _TEAM)))),
    PodProperties(InterPodConstraints(preferred=(WeightedPodTerm(-10, PodTerm("host", _X, (), ())),))),
    PodProperties(InterPodConstraints(spread=(TopologySpreadConstraint("host", 1, _X, "red"),))),
    PodProperties(
        InterPodConstraints(
            spread=(
                TopologySpreadConstraint("disk", 2, _X, "red", min_domains=2),
                TopologySpreadConstraint("host", 1, _Y, "red", required=False),
            )
        )
    ),
    PodProperties(ports=(HostPort("10.0.0.1", "TCP", 80),)),
    *MOUNTS,
    *USERS,
)
#: (may be preempted, may preempt, first pod of its application)
_RIGHTS = ((True, True, False), (True, True, False), (False, True, False), (True, False, False), (True, True, True))


@st.composite
def _dressed(draw: st.DrawFn, ask: AskSpec) -> AskSpec:
    """Return the ask with random properties other than its size."""
    itself, others, first = draw(st.sampled_from(_RIGHTS))
    return replace(
        ask,
        placement=draw(st.sampled_from(_PLACEMENTS)),
        tags=draw(st.sampled_from(ROLES)),
        facts=draw(st.sampled_from(COMPANIES)),
        priority=draw(st.sampled_from([0, 0, 1, 3])),
        allow_preempt_self=itself,
        allow_preempt_other=others,
        originator=first,
        created_ns=draw(st.sampled_from([0, 0, 1000, 900, 500])) * SECOND,
    )


class Asks(Ground):
    """Rules of asks."""

    @precondition(lambda self: any(app.gang.live for app in self.apps()))
    @rule(
        data=st.data(), vcore=st.sampled_from([300, 1000, 1000, 1000, 1500]), ssd=st.sampled_from([False] * 2 + [True])
    )
    def send_member(self, data: st.DataObject, vcore: int, *, ssd: bool) -> None:
        """Send the ask of a real member of a gang with placeholders."""
        app = self.one_of(data, [app for app in self.apps() if app.gang.live])
        constraints = SSD if ssd else ANYWHERE
        ask = an_ask(self.new_name("m"), app=app.id, vcore=vcore, group="workers", constraints=constraints)
        self.send(AskAdded(data.draw(_dressed(ask))))

    @precondition(lambda self: self.apps())
    @rule(
        data=st.data(),
        vcore=st.sampled_from([300, 1000, 1500]),
        group=st.sampled_from(["workers", "", "other"]),
        count=st.integers(1, 3),
        ssd=st.booleans(),
        timeout_s=st.sampled_from([0, 0, 20]),
    )
    def ask_for_real(
        self, data: st.DataObject, vcore: int, group: str, count: int, timeout_s: int, *, ssd: bool
    ) -> None:
        """Send an ask with one of few keys, so that some are pending, parked, allocated, or of another application."""
        app = self.one_of(data, self.apps())
        self.new_name("r")
        constraints = SSD if ssd else ANYWHERE
        key = f"r{self.site.number % 5}"
        ask = an_ask(key, app=app.id, vcore=vcore, group=group, count=count, constraints=constraints)
        self.send(AskAdded(data.draw(_dressed(replace(ask, timeout_ns=timeout_s * SECOND)))))

    @precondition(lambda self: self.apps())
    @rule(data=st.data(), vcore=st.sampled_from([1000, 1000, 2000]), count=st.integers(2, 6))
    def ask_for_many(self, data: st.DataObject, vcore: int, count: int) -> None:
        """Send asks of single pods, with which queues compete."""
        app = self.one_of(data, self.apps())
        asks = [an_ask(self.new_name("s"), app=app.id, vcore=vcore) for _ in range(count)]
        created = data.draw(st.lists(st.sampled_from([0, 999, 990, 1000]), min_size=count, max_size=count))
        aged = (replace(ask, created_ns=at * SECOND) for ask, at in zip(asks, created, strict=True))
        self.send(*(AskAdded(ask) for ask in aged))

    @precondition(lambda self: self.apps() and self.nodes())
    @rule(data=st.data(), vcore=st.sampled_from([1000, 2000]), priority=st.sampled_from([0, 5]), tolerant=st.booleans())
    def ask_for_daemon(self, data: st.DataObject, vcore: int, priority: int, *, tolerant: bool) -> None:
        """Send the ask of a DaemonSet pod for one node, which may no longer exist."""
        app, node = self.one_of(data, self.apps()), data.draw(st.sampled_from([*self.nodes(), "gone"]))
        ask = an_ask(self.new_name("d"), app=app.id, vcore=vcore, priority=priority)
        constraints = made_for(node) if tolerant else ANYWHERE
        self.send(AskAdded(replace(ask, required_node=NodeId(node), constraints=constraints)))

    @precondition(lambda self: any(app.is_reserving or not app.spec.is_gang for app in self.apps()))
    @rule(data=st.data(), count=st.integers(1, 5))
    def ask_for_placeholders(self, data: st.DataObject, count: int) -> None:
        """Send asks of placeholders for a gang, or for an application without a placeholderAsk."""
        app = self.one_of(data, [app for app in self.apps() if app.is_reserving or not app.spec.is_gang])
        asks = []
        for _ in range(count):
            key = self.new_name("p")
            placement = _PLACEMENTS[self.site.number % len(_PLACEMENTS)]
            ask = an_ask(key, app=app.id, group="workers", placeholder=True, tags=ROLES[count % 3])
            facts = COMPANIES[self.site.number % len(COMPANIES)]
            asks.append(AskAdded(replace(ask, placement=placement, facts=facts)))
        self.send(*asks)

    @precondition(lambda self: self.nodes() and any(app.spec.is_gang for app in self.apps()))
    @rule(data=st.data(), vcore=st.sampled_from([300, 1000, 1500]), seconds=st.sampled_from([0, 0, 50, 500]))
    def bind_member(self, data: st.DataObject, vcore: int, seconds: int) -> None:
        """Report a bound gang member that was never requested."""
        app = self.one_of(data, [app for app in self.apps() if app.spec.is_gang])
        node, key = data.draw(st.sampled_from(self.nodes())), self.new_name("b")
        spec = an_allocation(key, node, app=app.id, vcore=vcore, group=data.draw(st.sampled_from(["workers", "other"])))
        self.send(AllocationReported(replace(spec, allocated_ns=self.stage.now_ns - seconds * SECOND)))
        self.manager_state.find(self.partition, app.id, spec.id)

    @precondition(lambda self: any(app.asks for app in self.apps()))
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        app = self.one_of(data, [app for app in self.apps() if app.asks])
        key = data.draw(st.sampled_from(sorted(app.asks)))
        self.send(AskReleased(PARTITION, app.id, key, Termination.STOPPED_BY_RM))

    @precondition(lambda self: any(app.allocations for app in self.apps()))
    @rule(data=st.data(), vcore=st.sampled_from([0, 300, 1000, 2500, 7000]), role=st.sampled_from(ROLES))
    def revise(self, data: st.DataObject, vcore: int, role: dict[str, str]) -> None:
        """Resize or label a bound pod, also while it is released. Sometimes report another node (must be rejected)."""
        app = self.one_of(data, [app for app in self.apps() if app.allocations])
        known = app.allocations[data.draw(st.sampled_from(sorted(app.allocations)))]
        node = data.draw(st.sampled_from([known.node] * 9 + list(self.nodes())))
        spec = an_allocation(known.spec.key, node, app=app.id, vcore=vcore, identity=known.id)
        facts = data.draw(st.sampled_from((known.spec.facts, known.spec.facts, *COMPANIES)))
        self.send(AllocationReported(replace(spec, tags=role, facts=facts)))
        self.manager_state.revise(app.id, known)
