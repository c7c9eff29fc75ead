"""The state that the core writes for another process."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from dataclasses import replace
from io import BytesIO

import pytest

from muster_core.foresight.outlook import Fate
from muster_core.foresight.present import PresentState, dumped, read, written
from muster_core.foresight.submission import submitted
from muster_core.foresight.unblocking import scheduled
from muster_core.foresight.virtual_core import VirtualCore
from muster_core.model.config import PlacementRule
from muster_core.model.events import (
    AllocationReleased,
    ApplicationAdded,
    AskAdded,
    AskReleased,
    Event,
    ManagerRegistered,
    NodeAction,
    NodeActionReported,
    NodeAdded,
)
from muster_core.model.ids import NodeId, Termination
from muster_core.model.limits import REPAIR_NS
from muster_core.model.resources import NOTHING, Limit
from muster_core.model.specs import NO_PROPERTIES, GangPlacement, HostPort, NamespaceQuota, PodProperties
from muster_core.scheduling import invariants
from muster_core.state.applications import Application
from tests.amounts import amount
from tests.unit.builders import PARTITION, RM, SECOND, a_configuration, a_node, a_queue, an_application, an_ask
from tests.unit.core.foresight.small_clusters import NOW_NS, Cluster, Live
from tests.unit.core.foresight.test_submission import a_cluster
from tests.unit.core.scheduling.scenario import Scenario, placed
from tests.unit.core.scheduling.test_gang_repair import a_running_gang, member, rival

#: Clusters per case of the first test: 300, or 10,000 in `make soak`.
_PART = amount(150, 250)


def sent(core: VirtualCore) -> PresentState:
    """The state as another process reads it."""
    partition = core.scheduler_state.partitions[PARTITION]
    configuration = core.scheduler_state.managers[RM].configuration
    present = PresentState(PARTITION, configuration, {"a": "b"}, core.now_ns)
    return read(BytesIO(b"".join(written(present, partition))))


def copy_of(core: VirtualCore) -> tuple[VirtualCore, list[Event]]:
    """A core with the state that was sent."""
    present = sent(core)
    events: list[Event] = [ManagerRegistered(RM, present.configuration), *present.events]
    return scheduled(events, present.now_ns), events


@pytest.mark.thorough
@pytest.mark.timeout(amount(300, 3600))
@pytest.mark.parametrize("part", range(amount(2, 40)))
def test_a_copy_predicts_what_then_happens(part: int) -> None:
    """What the live core preempts next for other applications, the copy has preempted when it is made."""
    found: Counter[bool] = Counter()
    for seed in range(part * _PART, (part + 1) * _PART):
        cluster, events, spec, asks = a_cluster(seed)
        copy, _ = copy_of(scheduled(events, NOW_NS))
        predicted = submitted(copy, PARTITION, [ApplicationAdded(spec), *map(AskAdded, asks)])
        assert predicted is not None
        live = Live(cluster, events)
        live.submit(spec, asks)
        expected = predicted.applications[spec.id]
        assert (expected.fate is Fate.STARTED) == live.has_started, f"seed {seed}: {expected}"
        assert {victim.key for victim in predicted.victims} <= live.preempted, f"seed {seed}"
        if live.has_started:
            assert dict(expected.nodes) == Counter(live.placed[ask.key] for ask in asks), f"seed {seed}: {expected}"
        found[live.has_started] += 1
    assert len(found) == 2


@pytest.mark.parametrize("seed", range(amount(50, 1000)))
def test_a_copy_uses_what_the_core_uses(seed: int) -> None:
    core = scheduled(Cluster(seed).events(), NOW_NS)
    copy, _ = copy_of(core)
    for one, other in zip(*(each.scheduler_state.partitions.values() for each in (core, copy)), strict=True):
        assert list(one.nodes) == list(other.nodes)
        assert {node: one.nodes.allocated(node) for node in one.nodes} == {
            node: other.nodes.allocated(node) for node in other.nodes
        }
        assert {path: queue.allocated for path, queue in one.queues.by_path.items()} == {
            path: queue.allocated for path, queue in other.queues.by_path.items()
        }
        present = {app.id: app.pending for app in one.applications.values() if app.asks or app.allocations}
        assert present == {app.id: app.pending for app in other.applications.values()}


def app_of(core: VirtualCore) -> Application:
    [app] = core.scheduler_state.partitions[PARTITION].applications.values()
    return app


@pytest.mark.parametrize("placement", [GangPlacement.AUTO, GangPlacement.DIRECT])
def test_a_copy_holds_the_slots_of_a_gang_where_they_are_and_no_others(placement: GangPlacement) -> None:
    """A member that has ended has no slot. A new slot would be on the empty node."""
    gang = an_application("gang", gang=4, placement=placement)
    members = [an_ask(f"member-{number}", app="gang", group="workers") for number in range(2)]
    cluster: list[Event] = [ManagerRegistered(RM, a_configuration(a_queue("a"))), NodeAdded(a_node("n"))]
    core = scheduled([*cluster, ApplicationAdded(gang), *map(AskAdded, members)], NOW_NS)
    core.send([AllocationReleased(PARTITION, gang.id, members[0].key, None, Termination.STOPPED_BY_RM)])
    core.send([NodeAdded(a_node("empty")), NodeActionReported(PARTITION, NodeId("n"), NodeAction.DRAIN)])
    copy, _ = copy_of(core)
    app = app_of(copy)
    assert [(one.node, one.spec.is_virtual) for one in app.allocations.values()] == [("n", False), *[("n", True)] * 2]
    assert not app.asks
    assert invariants.check(copy.scheduler_state) == []


@pytest.mark.parametrize("placement", list(GangPlacement))
@pytest.mark.parametrize("late_s", [0, REPAIR_NS // SECOND + 1])
def test_a_copy_replaces_lost_members_of_a_gang_when_the_core_does(placement: GangPlacement, late_s: int) -> None:
    """Replacements that came in time precede the older pods of another application."""
    scenario = a_running_gang(placement)
    rival(scenario, "rival")
    node = next(one.node for one in scenario.app("train").allocations.values() if one.spec.key == "m1")
    scenario.node(node, NodeAction.DRAIN)
    scenario.release("m1", "train")
    scenario.wait(late_s)
    scenario.ask(member("again"))
    core = VirtualCore(scenario.now_ns, scenario.scheduler_state)
    copy, _ = copy_of(core)
    effects = [each.send([NodeAdded(a_node("new", 1000))]) for each in (copy, core)]
    assert placed(effects[0]) == placed(effects[1]) == {"rival" if late_s else "again": "new"}


def test_a_copy_has_applications_in_their_queues_under_the_present_quotas() -> None:
    """The rules would place it elsewhere now, and would reject a gang that its queue can never hold."""
    scenario = Scenario(a_configuration(a_queue("a")))
    gang = an_application("gang", queue="", gang=2)
    scenario.submit(gang, an_ask("pod", group="workers"))
    small = NamespaceQuota(max=Limit({"vcore": 1000}), max_applications=3)
    scenario.send(ApplicationAdded(replace(gang, is_renewal=True, quota=small)))
    configuration = a_configuration(a_queue("a"))
    rules = (PlacementRule("fixed", value="root.a"),)
    scenario.reload(replace(configuration, partitions=(replace(configuration.partitions[0], rules=rules),)))
    core = VirtualCore(scenario.now_ns, scenario.scheduler_state)
    queues = [app_of(each).queue for each in (core, copy_of(core)[0])]
    assert [(queue.path, queue.max, queue.max_applications) for queue in queues] == [("root.ns", small.max, 3)] * 2


def test_the_state_of_a_large_application_may_change_while_it_is_written() -> None:
    asks = [an_ask(f"pod-{number}") for number in range(300)]
    cluster: list[Event] = [ManagerRegistered(RM, a_configuration(a_queue("a"))), ApplicationAdded(an_application())]
    core = scheduled([*cluster, *map(AskAdded, asks)], NOW_NS)
    configuration = core.scheduler_state.managers[RM].configuration
    parts = []
    for part in written(PresentState(PARTITION, configuration, {}, NOW_NS), core.scheduler_state.partitions[PARTITION]):
        parts.append(part)
        ask = asks.pop()
        core.send([AskReleased(PARTITION, ask.application, ask.key, Termination.STOPPED_BY_RM)])
    events = read(BytesIO(b"".join(parts))).events
    assert len(asks) < sum(isinstance(event, AskAdded) for event in events) <= 300


#: Finds the value among its equals, which needs its hash, and compares constants by identity.
_READER = """
import pickle, sys
from muster_core.model.constraints import NO_INTER_POD_CONSTRAINTS
from muster_core.model.resources import NOTHING
from muster_core.model.specs import NO_PROPERTIES, HostPort, PodProperties
[own, none, nothing] = pickle.load(sys.stdin.buffer)
assert own in {PodProperties(ports=(HostPort("a", "TCP", 1),))}
assert own.inter_pod is NO_INTER_POD_CONSTRAINTS and none is NO_PROPERTIES and nothing is NOTHING
"""


def test_values_have_the_hashes_and_constants_of_the_process_that_reads_them() -> None:
    values = [PodProperties(ports=(HostPort("a", "TCP", 1),)), NO_PROPERTIES, NOTHING]
    subprocess.run([sys.executable, "-c", _READER], input=dumped(values), env={"PYTHONHASHSEED": "7"}, check=True)


def test_ended_applications_that_ran_are_sent_with_their_run_times() -> None:
    scenario = Scenario(a_configuration(a_queue("a")), nodes=1)
    scenario.send(ApplicationAdded(an_application("app", queue="root.a", user="kim")))
    scenario.ask(an_ask("pod", app="app"))
    scenario.wait(90)
    scenario.release("pod")
    scenario.wait(3600)
    [run] = sent(VirtualCore(scenario.now_ns, scenario.scheduler_state)).runs
    assert run[:3] == ("app", "kim", "root.a")
    assert run.run_ns >= 90 * SECOND
