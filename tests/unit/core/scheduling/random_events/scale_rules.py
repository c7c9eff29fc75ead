"""Rules of large sizes: gangs of up to thousands of members, large nodes, and applications in many queues."""

from dataclasses import replace

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from muster_core.model.constraints import Constraints, Toleration
from muster_core.model.events import ApplicationAdded, AskAdded, NodeAction, NodeActionReported, NodeAdded, NodeUpdated
from muster_core.model.ids import NodeId
from muster_core.model.specs import GangPlacement, GangStyle
from tests.unit.builders import PARTITION, a_node, an_application, an_ask, resources
from tests.unit.core.scheduling.random_events.base import Ground

#: Constraints that tolerate the taint of a cordoned node.
TOLERANT = Constraints(tolerations=(Toleration("node.kubernetes.io/unschedulable", "Exists", "", "NoSchedule"),))
_QUEUES = ("root.p.a", "root.p.b", "root.c", "root.turned", "root.made.new")
#: Maximal number of members with separate asks.
_ASKED = 1_000


class Scale(Ground):
    """Rules of large sizes, and of preemption on cordoned nodes."""

    @precondition(lambda self: self.nodes() and len(self.apps()) < 20)
    @rule(
        data=st.data(),
        gangs=st.integers(1, 3),
        placement=st.sampled_from(GangPlacement),
        style=st.sampled_from(GangStyle),
        tolerant=st.booleans(),
        vcore=st.sampled_from([0, 0, 700, 1500]),
    )
    def compete(  # long: each is drawn
        self,
        data: st.DataObject,
        gangs: int,
        placement: GangPlacement,
        style: GangStyle,
        vcore: int,
        *,
        tolerant: bool,
    ) -> None:
        """Submit gangs of skewed sizes together, with mixed placement modes. Members of large gangs request little."""
        placements = list(GangPlacement)
        first = placements.index(placement)
        for index in range(gangs):
            members = data.draw(st.sampled_from(self.profile.members)) or 1
            each = vcore or max(1, 4_000 // members)
            name = self.new_name("gang")
            kind = placements[(first + index) % len(placements)]
            spec = an_application(
                name,
                queue=data.draw(st.sampled_from(_QUEUES)),
                gang=members,
                each=resources(vcore=each, pods=1),
                style=style,
                placement=kind,
                user=f"user{index % 2}",
                groups=("dev",),
                wait_s=60 * (index % 2),
                timeout_s=30 * (members % 2),
            )
            constraints = TOLERANT if tolerant else Constraints()
            spec = replace(spec, members=tuple(replace(one, constraints=constraints) for one in spec.members))
            asks = (
                an_ask(
                    f"{name}p{number}", app=name, vcore=each, group="workers", placeholder=True, constraints=constraints
                )
                for number in range(min(members, _ASKED) if kind is not GangPlacement.DIRECT else 0)
            )
            self.send(ApplicationAdded(spec), *(AskAdded(ask) for ask in asks))

    @precondition(lambda self: self.apps() and len(self.nodes()) < 8)
    @rule(pods=st.sampled_from([300, 20_000]))
    def add_large_node(self, pods: int) -> None:
        """Add a node with capacity for thousands of members."""
        name = self.new_name("large")
        self.send(NodeAdded(a_node(name, 8_000, pods=pods, labels={"host": name})))

    @precondition(lambda self: self.apps() and self.nodes())
    @rule(
        data=st.data(), count=st.integers(1, 3), priority=st.sampled_from([0, 5]), vcore=st.sampled_from([1000, 2500])
    )
    def preempt_on_cordoned_nodes(self, data: st.DataObject, count: int, priority: int, vcore: int) -> None:
        """Cordon a node, and submit an application that tolerates the cordon and needs resources of others."""
        node = NodeId(data.draw(st.sampled_from(self.nodes())))
        spec = self.partition.nodes.record(node).spec
        app = self.one_of(data, self.apps())
        asks = (
            an_ask(self.new_name("t"), app=app.id, vcore=vcore, priority=priority, constraints=TOLERANT)
            for _ in range(count)
        )
        self.send(
            NodeActionReported(PARTITION, node, NodeAction.DRAIN),
            NodeUpdated(replace(spec, cordoned=True)),
            *(AskAdded(ask) for ask in asks),
        )
        self.wait(2)

    @precondition(lambda self: self.profile.queues and self.nodes())
    @rule(data=st.data(), count=st.sampled_from([20, 200, 1_000]), first=st.integers(0, 10_000), pods=st.integers(1, 2))
    def flood_queues(self, data: st.DataObject, count: int, first: int, pods: int) -> None:
        """Submit one small application to each of many queues."""
        events: list[ApplicationAdded | AskAdded] = []
        for number in range(min(count, self.profile.queues)):
            name, leaf = self.new_name("many"), (first + 7 * number) % self.profile.queues
            events.append(ApplicationAdded(an_application(name, queue=f"root.many.q{leaf}", user=f"user{number % 2}")))
            events += [AskAdded(an_ask(f"{name}-{index}", app=name, vcore=20)) for index in range(pods)]
        self.send(*events)
