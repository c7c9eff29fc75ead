"""The reservation of a member that its kubelet rejected is reported as a placeholder and kept for the next member.

The resource manager reports it before the release of the member, so that no other request can use it.
"""

from __future__ import annotations

from dataclasses import replace

from muster_core.model.config import Timing
from muster_core.model.events import AllocationReleased, AllocationReported, ApplicationAdded, NodeAction
from muster_core.model.ids import AllocationKey, ApplicationId, NodeId, QueuePath, Termination
from tests.unit.builders import (
    PARTITION,
    a_configuration,
    a_queue,
    an_allocation,
    an_application,
    an_ask,
    resources,
)
from tests.unit.core.scheduling.scenario import Scenario, placed, released_asks, releases, states

REPLACED = Termination.PLACEHOLDER_REPLACED
PLACE = "r0/place"


def refused(nodes: int = 2, members: int = 2) -> Scenario:
    """A queue that a gang of 2-core members fills; other pods wait for quota and resources; n0 rejected `r0`."""
    queue = a_queue("a", vcore=2000 * members)
    scenario = Scenario(a_configuration(queue, timing=Timing(completing_timeout_ns=10**9)), nodes=nodes, vcore=2000)
    each = resources(vcore=2000, pods=1)
    scenario.gang(ApplicationAdded(an_application(gang=members, each=each)), members)
    for number in range(members):
        scenario.ask(an_ask(f"r{number}", vcore=2000, group="workers"))
        scenario.release(f"app-p{number}", why=REPLACED)
    scenario.send(ApplicationAdded(an_application("rival")))
    scenario.ask(an_ask("greedy", app="rival"))
    place = an_allocation(PLACE, "n0", vcore=2000, group="workers", placeholder=True)
    gone = AllocationReleased(PARTITION, ApplicationId("app"), AllocationKey("r0"), None, Termination.STOPPED_BY_RM)
    assert placed(scenario.send(AllocationReported(place), gone)) == {}
    return scenario


def test_no_other_pod_gets_the_quota_or_resources_of_a_kept_placeholder() -> None:
    scenario = refused()
    assert scenario.partition.queues.by_path[QueuePath("root.a")].allocated["vcore"] == 4000
    assert scenario.partition.nodes.available(NodeId("n0"))["vcore"] == 0
    assert placed(scenario.wait(30)) == {}


def test_the_pod_that_replaces_a_rejected_one_replaces_the_kept_placeholder() -> None:
    scenario = refused()
    assert releases(scenario.ask(an_ask("r9", vcore=2000, group="workers"))) == {PLACE: REPLACED}
    assert placed(scenario.release(PLACE, why=REPLACED)) == {"r9": "n0"}


def test_a_pod_that_avoids_the_node_uses_the_kept_quota_on_another_node() -> None:
    scenario = refused()
    replaced_by = replace(an_ask("r9", vcore=2000, group="workers"), avoid=frozenset({NodeId("n0")}))
    assert releases(scenario.ask(replaced_by)) == {}
    assert releases(scenario.add_node("n9", vcore=2000)) == {PLACE: REPLACED}
    assert placed(scenario.release(PLACE, why=REPLACED)) == {"r9": "n9"}


def test_a_released_kept_placeholder_is_free_for_others() -> None:
    scenario = refused()
    assert set(placed(scenario.release(PLACE))) == {"greedy"}


def test_a_kept_placeholder_is_removed_with_its_node_and_the_application_completes() -> None:
    scenario = refused()
    assert states(scenario.release("r1")) == ["Completing"]
    effects = scenario.node("n0", NodeAction.DECOMMISSION)
    assert set(releases(effects)) == {PLACE}
    assert states(scenario.wait(2)) == ["Completed"]


def test_a_kept_placeholder_is_released_when_its_application_completes() -> None:
    scenario = refused()
    assert releases(scenario.release("r1"))[PLACE] is Termination.TIMEOUT
    assert states(scenario.release(PLACE, why=Termination.TIMEOUT)) == []
    assert states(scenario.wait(2)) == ["Completed"]
    assert released_asks(scenario.wait(1)) == {}
