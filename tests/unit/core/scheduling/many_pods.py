"""Builders of an application with many pods, for events that are applied in parts."""

from dataclasses import replace

from muster_core.model.constraints import InterPodConstraints, PodTerm, Target, TargetOperator
from muster_core.model.events import ApplicationAdded, ApplicationRemoved, AskAdded, Event, ManagerRegistered, NodeAdded
from muster_core.model.ids import ApplicationId
from muster_core.model.limits import PODS_PER_PART
from muster_core.model.specs import PodProperties
from tests.unit.builders import PARTITION, RM, a_configuration, a_node, a_queue, an_application, an_ask
from tests.unit.core.scheduling.scenario import UncheckedScenario

PODS = 2 * PODS_PER_PART + PODS_PER_PART // 2
APP = ApplicationId("app")
REMOVED = ApplicationRemoved(PARTITION, APP)
_TERM = PodTerm("kubernetes.io/hostname", (Target("kubernetes.io/label/app", TargetOperator.IN, ("web",)),), ("ns",))
_FACTS = PodProperties(inter_pod=InterPodConstraints(anti_affinity=(_TERM,)))

#: A request with the first selector of the partition; the sums do not hold between its parts.
FIRST_SELECTOR = AskAdded(replace(an_ask("first", tags={"namespace": "ns"}), facts=_FACTS, namespace="ns"))


def from_nothing(event: Event) -> list[Event]:
    """The event on a partition with as many requests, and everything before it since the start."""
    before = ManagerRegistered(RM, a_configuration(a_queue("a"))), ApplicationAdded(an_application())
    return [*before, *(AskAdded(an_ask(f"r{number}")) for number in range(PODS)), event]


def large(pods: int = PODS) -> UncheckedScenario:
    """An application with this many allocations and as many requests that fit on no node."""
    scenario = UncheckedScenario(a_configuration(a_queue("a")))
    scenario.send(*(NodeAdded(a_node(f"n{number}", vcore=pods * 1000, pods=pods)) for number in range(10)))
    scenario.submit(an_application())
    scenario.ask(*(an_ask(f"r{i}", tags={"namespace": "ns", "kubernetes.io/label/app": "web"}) for i in range(pods)))
    scenario.ask(*(an_ask(f"p{i}", vcore=pods * 10_000) for i in range(pods)))
    return scenario
