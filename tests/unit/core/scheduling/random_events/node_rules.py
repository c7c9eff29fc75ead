"""Rules: nodes are added, changed, drained and removed, run foreign pods, and report their utilization."""

from dataclasses import replace

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from muster_core.model.events import (
    AllocationReleased,
    AllocationReported,
    ClusterObjectsReported,
    NodeAction,
    NodeActionReported,
    NodeAdded,
    NodeUpdated,
    UtilizationReported,
)
from muster_core.model.ids import AllocationId, AllocationKey, ApplicationId, NodeId, Termination
from muster_core.model.storage import NamespaceLabels
from tests.unit.builders import PARTITION, a_node, an_allocation, resources
from tests.unit.core.scheduling.random_events.ask_rules import COMPANIES, ROLES
from tests.unit.core.scheduling.random_events.base import Ground

_MOST_NODES = 6


def _labels(name: str, *, ssd: bool) -> dict[str, str]:
    return {"host": name, "disk": "ssd"} if ssd else {"host": name}


class Nodes(Ground):
    """Rules of nodes."""

    @precondition(lambda self: self.apps())
    @rule(team=st.sampled_from(["", "one", "two"]))
    def label_namespace(self, team: str) -> None:
        """Label or remove the namespace of all pods."""
        self.send(ClusterObjectsReported(PARTITION, (NamespaceLabels("red", {"team": team} if team else None),)))

    @precondition(lambda self: self.apps() and len(self.nodes()) < _MOST_NODES)
    @rule(
        vcore=st.sampled_from([1000, 2000, 4000, 8000]),
        ssd=st.booleans(),
        draining=st.sampled_from([False] * 4 + [True]),
    )
    def add_node(self, vcore: int, *, ssd: bool, draining: bool) -> None:
        name = self.new_name("n")
        self.send(NodeAdded(a_node(name, vcore, labels=_labels(name, ssd=ssd)), draining=draining))

    @precondition(lambda self: self.apps() and len(self.nodes()) > 2)
    @rule(data=st.data(), action=st.sampled_from(NodeAction))
    def tell_node(self, data: st.DataObject, action: NodeAction) -> None:
        self.send(NodeActionReported(PARTITION, NodeId(data.draw(st.sampled_from(self.nodes()))), action))

    @precondition(lambda self: self.apps() and self.nodes())
    @rule(data=st.data(), vcore=st.sampled_from([500, 3000, 9000]), ssd=st.booleans())
    def resize_node(self, data: st.DataObject, vcore: int, *, ssd: bool) -> None:
        name = data.draw(st.sampled_from(self.nodes()))
        # Sometimes with the hostname label of another node, as if both were one.
        self.send(NodeUpdated(a_node(name, vcore, labels=_labels("first" if vcore == 500 else name, ssd=ssd))))

    @precondition(lambda self: self.apps() and self.nodes())
    @rule(data=st.data(), arrives=st.booleans())
    def change_foreign(self, data: st.DataObject, *, arrives: bool) -> None:
        foreign = list(self.partition.foreign.values())
        if arrives:
            node = data.draw(st.sampled_from(self.nodes()))
            spec = an_allocation(self.new_name("f"), node, app="", vcore=700, foreign=True)
            tags, facts = data.draw(st.sampled_from(ROLES)), data.draw(st.sampled_from(COMPANIES))
            self.send(AllocationReported(replace(spec, tags=tags, facts=facts)))
        elif foreign:
            key = data.draw(st.sampled_from([spec.key for spec in foreign]))
            why = Termination.STOPPED_BY_RM
            self.send(AllocationReleased(PARTITION, ApplicationId(""), AllocationKey(key), None, why))

    @precondition(lambda self: self.apps() and self.nodes())
    @rule(data=st.data(), vcore=st.sampled_from([0, 500, 5000]), of_node=st.booleans())
    def report_use(self, data: st.DataObject, vcore: int, *, of_node: bool) -> None:
        used = resources(vcore=vcore)
        if of_node or not self.manager_state.held:
            node, place = NodeId(data.draw(st.sampled_from(self.nodes()))), (ApplicationId(""), AllocationId(""))
        else:
            node, place = None, data.draw(st.sampled_from(sorted(self.manager_state.held)))
        self.send(UtilizationReported(PARTITION, used, node or None, *place))
