"""The reservation of a member that its kubelet rejected is reported as a placeholder and kept for the next member.

The resource manager reports it before the release of the member, so that no other request can use it.
"""

from dataclasses import replace

import pytest

from muster_core.model.config import QueuePolicies, Timing
from muster_core.model.constraints import NAMESPACE, InterPodConstraints
from muster_core.model.events import (
    AllocationReleased,
    AllocationReported,
    ApplicationAdded,
    AskAdded,
    NodeAction,
    NodeAdded,
)
from muster_core.model.ids import AllocationKey, ApplicationId, NodeId, QueuePath, Termination
from muster_core.model.records import Detail
from muster_core.model.specs import ApplicationSpec, AskSpec, GangPlacement, GangStyle, PodProperties
from muster_core.preemption.planning import NO_RIGHT, TOO_MANY_PODS
from muster_core.state.applications import Ask
from tests.unit.builders import (
    PARTITION,
    SECOND,
    a_configuration,
    a_node,
    a_queue,
    an_allocation,
    an_application,
    an_ask,
    resources,
)
from tests.unit.core.placement.affinity_clusters import HOST, term
from tests.unit.core.scheduling.direct import member
from tests.unit.core.scheduling.preemption_scenario import pods, run, with_preemption
from tests.unit.core.scheduling.scenario import Scenario, notices, placed, refused_asks, released_asks, releases, states

REPLACED = Termination.PLACEHOLDER_REPLACED
PLACE = "r0/place"


def refused(nodes: int = 2, members: int = 2) -> Scenario:
    """A queue that a gang of 2-core members fills; other pods wait for quota and resources; n0 rejected `r0`."""
    queue = a_queue("a", vcore=2000 * members)
    scenario = Scenario(a_configuration(queue, timing=Timing(completing_timeout_ns=10**9)), nodes=nodes, vcore=2000)
    each = resources(vcore=2000, pods=1)
    scenario.gang(an_application(gang=members, each=each), members)
    for number in range(members):
        scenario.ask(an_ask(f"r{number}", vcore=2000, group="workers"))
        scenario.release(f"app-p{number}", why=REPLACED)
    scenario.submit(an_application("rival"), an_ask("greedy"))
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


# -- A gang that its resource manager gives up fails like one that timed out. Its event records report
# cancellations.


def test_event_records_of_a_gang_that_is_given_up_report_no_timeout() -> None:
    scenario = Scenario(a_configuration(a_queue("a")), nodes=1)
    scenario.add_full_node()
    spec = replace(an_application(gang=5), style=GangStyle.HARD)
    scenario.gang(spec, 5)
    app = scenario.app()
    assert (len(app.allocations), len(app.asks)) == (4, 1)
    effects = scenario.submit(replace(spec, is_renewal=True, given_up="a webhook rejects them"))
    assert states(effects) == ["Failing"]
    for key, termination in releases(effects).items():
        scenario.release(key, why=termination)
    assert [count.timed_out for count in app.gang.groups.values()] == [4], "none was replaced"
    details = {record.detail for record in scenario.records}
    assert {Detail.REQUEST_CANCEL, Detail.ALLOC_CANCEL} <= details
    assert not {Detail.REQUEST_TIMEOUT, Detail.ALLOC_TIMEOUT} & details


# -- The work for a gang is bounded by its allocations, not by the number of members that its user requests.

SOON = QueuePolicies(preemption_delay_ns=SECOND)


def full(guaranteed: int = 2000) -> Scenario:
    """Two nodes full of pods of leaf b, and leaf a that may have a guarantee."""
    scenario = Scenario(with_preemption(a_queue("a", guaranteed=guaranteed, policies=SOON), a_queue("b")), nodes=2)
    run(scenario, "root.b", *pods("v", 8))
    return scenario


def first_slot(scenario: Scenario) -> Ask:
    return next(ask for ask in scenario.app().asks.values() if ask.spec.is_virtual)


def attempts(scenario: Scenario) -> list[str]:
    return list(first_slot(scenario).attempts or {})


def submit(scenario: Scenario, members: int, vcore: int = 1) -> None:
    """Submit a gang with its first member."""
    each = resources(vcore=vcore, pods=1)
    spec = an_application(queue="root.a", gang=members, each=each, placement=GangPlacement.DIRECT)
    scenario.send(ApplicationAdded(spec), AskAdded(member("first", vcore=vcore)))


def requested(scenario: Scenario) -> list[int]:
    """Return the number of virtual placeholders of each request."""
    return [ask.left for ask in scenario.app().asks.values() if ask.spec.is_virtual]


@pytest.mark.parametrize("members", [4_001, 10_000, 2**31 - 1])
def test_a_direct_gang_too_large_for_preemption_is_not_split_into_members(members: int) -> None:
    scenario = full()
    submit(scenario, members)
    scenario.wait(120)
    assert requested(scenario) == [members]
    assert attempts(scenario) == [TOO_MANY_PODS]
    assert scenario.app().refusals[first_slot(scenario).kind].text().endswith(TOO_MANY_PODS)


def test_a_direct_gang_that_may_not_preempt_is_not_split_into_members() -> None:
    scenario = full(guaranteed=2)
    submit(scenario, 3)
    scenario.wait(120)
    assert requested(scenario) == [3]
    assert attempts(scenario) == [NO_RIGHT]


def test_a_direct_gang_that_may_preempt_is_split_into_members() -> None:
    scenario = full()
    submit(scenario, 2, vcore=1000)
    scenario.wait(120)
    assert len(scenario.partition.preemptions.running) == 1
    assert requested(scenario) == [1, 1]


def test_a_failed_preemption_of_a_large_gang_is_recorded_on_a_limited_number_of_requests() -> None:
    scenario = full()
    spec = an_application(queue="root.a", gang=500, placement=GangPlacement.RESERVE)
    scenario.gang(spec, 500)
    scenario.wait(120)
    tried = [ask for ask in scenario.app().asks.values() if ask.attempts]
    assert len(tried) == 64


# -- Placeholders of an application without a placeholderAsk: no gang waits for them, and real pods replace them.


@pytest.fixture
def scenario() -> Scenario:
    timing = Timing(placeholder_timeout_ns=60 * SECOND, completing_timeout_ns=30 * SECOND)
    return Scenario(a_configuration(a_queue("a"), timing=timing), an_application(), nodes=1)


def test_a_placeholder_is_accepted_and_runs_the_application(scenario: Scenario) -> None:
    effects = scenario.ask(an_ask("p0", group="workers", placeholder=True))
    assert refused_asks(effects) == {}
    assert placed(effects) == {"p0": "n0"}
    assert states(effects) == ["Accepted", "Running"]


def test_a_real_pod_of_the_task_group_replaces_the_placeholder(scenario: Scenario) -> None:
    scenario.ask(an_ask("p0", group="workers", placeholder=True))
    assert releases(scenario.ask(an_ask("r0", group="workers"))) == {"p0": REPLACED}
    assert placed(scenario.release("p0", why=REPLACED)) == {"r0": "n0"}
    [count] = scenario.app().gang.groups.values()
    assert (count.count, count.replaced, count.timed_out) == (1, 1, 0)


def test_real_pods_do_not_wait_for_the_placeholder(scenario: Scenario) -> None:
    effects = scenario.ask(
        replace(an_ask("p0", group="workers", placeholder=True), resources=an_ask("x", vcore=5000).resources),
        an_ask("r0", group="workers"),
    )
    assert placed(effects) == {"r0": "n0"}


def test_every_unused_placeholder_is_released_after_the_timeout(scenario: Scenario) -> None:
    for key in ("p0", "p1"):
        scenario.ask(an_ask(key, group="workers", placeholder=True))
        assert releases(scenario.wait(59)) == {}
        assert releases(scenario.wait(2)) == {key: Termination.TIMEOUT}
        assert states(scenario.release(key, why=Termination.TIMEOUT)) == ["Completing"]
    assert states(scenario.wait(31)) == ["Completed"]


def test_a_recovered_placeholder_is_released_after_the_timeout(scenario: Scenario) -> None:
    scenario.report(an_allocation("p0", "n0", group="workers", placeholder=True))
    assert releases(scenario.wait(61)) == {"p0": Termination.TIMEOUT}


def test_a_placeholder_that_starts_while_a_larger_pod_waits_is_released_at_once() -> None:
    scenario = Scenario(a_configuration(a_queue("a", vcore=1000)), nodes=1)
    scenario.submit(an_application(), an_ask("r", vcore=1500, group="workers"))
    assert releases(scenario.ask(an_ask("p", group="workers", placeholder=True))).keys() == {"p"}


# -- A gang whose anti-affinity cannot be satisfied on the existing nodes is reported.

WEB = {NAMESPACE: "red", "kubernetes.io/label/app": "web"}
ALONE = PodProperties(InterPodConstraints(anti_affinity=(term("web", HOST),)))


def a_gang(members: int) -> ApplicationSpec:
    """Each member wants a host without another one."""
    spec = an_application(gang=members)
    [member] = spec.members
    return replace(spec, members=(replace(member, facts=ALONE, tags=tuple(WEB.items())),))


def placeholders(count: int) -> list[AskSpec]:
    asks = (an_ask(f"p{index}", group="workers", tags=WEB, placeholder=True) for index in range(count))
    return [replace(ask, facts=ALONE) for ask in asks]


def a_scenario(nodes: int) -> Scenario:
    scenario = Scenario(a_configuration(a_queue("a")))
    scenario.send(*(NodeAdded(a_node(f"n{index}", labels={HOST: f"n{index}"})) for index in range(nodes)))
    return scenario


def test_members_with_host_anti_affinity_never_fit_on_fewer_hosts() -> None:
    scenario = a_scenario(2)
    scenario.submit(a_gang(3))
    [effects] = notices(scenario.ask(*placeholders(3)))
    assert effects == (
        "the gang would not fit even in an empty cluster: 1 of 3 members of task group workers would not fit: "
        "0/2 nodes are available: 2 node(s) didn't match pod anti-affinity rules. It waits for nodes to be added"
    )


def test_a_host_excluded_by_another_pod_is_not_reported_as_impossible() -> None:
    scenario = a_scenario(3)
    scenario.report(replace(an_allocation("b", "n0", foreign=True), tags=WEB, facts=ALONE))
    scenario.submit(a_gang(3))
    answer = scenario.ask(*placeholders(3))
    assert notices(answer) == []
    assert len(placed(answer)) < 3
