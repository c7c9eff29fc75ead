"""Every change has one event record, with its object and detail."""

from dataclasses import replace

import pytest

from muster_core.model.config import Configuration, PlacementRule, QueueConfig, QuotaLimit, Timing
from muster_core.model.effects import ApplicationUpdated
from muster_core.model.events import (
    AllocationReported,
    ApplicationAdded,
    ApplicationRemoved,
    ConfigurationReplaced,
    Event,
    ManagerRegistered,
    NodeAction,
    NodeUpdated,
)
from muster_core.model.ids import ApplicationId, Termination
from muster_core.model.records import Change, Detail, Notice
from muster_core.model.resources import Limit
from muster_core.model.states import ApplicationState
from tests.unit.builders import (
    PARTITION,
    RM,
    a_configuration,
    a_node,
    a_queue,
    an_allocation,
    an_application,
    an_ask,
    resources,
)
from tests.unit.core.scheduling.scenario import Scenario, notices

ADD, SET, REMOVE = Change.ADD, Change.SET, Change.REMOVE
APP, NODE, QUEUE, USER = Notice.APPLICATION, Notice.NODE, Notice.QUEUE, Notice.USER_GROUP

Line = tuple[Notice, str, Change, Detail, str]


def a_scenario(*queues: QueueConfig, nodes: int = 1, timing: Timing | None = None) -> Scenario:
    scenario = Scenario(a_configuration(*(queues or (a_queue("a"),)), timing=timing), nodes=nodes)
    scenario.records.clear()
    return scenario


def lines(scenario: Scenario) -> list[Line]:
    """The records since the last call."""
    found = [(n.about, n.subject, n.change, n.detail, n.reference) for n in scenario.records]
    scenario.records.clear()
    return found


def recorded(scenario: Scenario, *events: Event) -> list[Line]:
    scenario.records.clear()
    scenario.send(*events)
    return lines(scenario)


def running(scenario: Scenario) -> Scenario:
    scenario.submit(an_application(), an_ask("r0"))
    scenario.records.clear()
    return scenario


def release_records(why: Detail, key: str = "r0") -> list[Line]:
    """The records of a released allocation of user kim in root.a on n0."""
    return [
        (APP, "app", REMOVE, why, key),
        (NODE, "n0", REMOVE, Detail.NODE_ALLOC, key),
        (QUEUE, "root.a", REMOVE, Detail.QUEUE_ALLOC, key),
        (USER, "kim", REMOVE, Detail.UG_USER_RESOURCE, "root.a"),
    ]


def test_a_group_is_linked_with_the_first_allocation_and_charged_like_the_user() -> None:
    limits = (QuotaLimit(groups=("staff",), max=Limit({"vcore": 9000})),)
    scenario = a_scenario(replace(a_queue("a"), limits=limits))
    scenario.submit(replace(an_application(), groups=("staff",)))
    scenario.records.clear()
    scenario.ask(an_ask("r0"), an_ask("r1"))
    of_group = [line for line in lines(scenario) if line[1] == "staff"]
    assert of_group[0] == (USER, "staff", SET, Detail.UG_APP_LINK, "app")
    assert of_group[1:] == [(USER, "staff", ADD, Detail.UG_GROUP_RESOURCE, "root.a")] * 2
    of_group = [
        line for line in recorded(scenario, ApplicationRemoved(PARTITION, ApplicationId("app"))) if line[1] == "staff"
    ]
    assert of_group == [
        *[(USER, "staff", REMOVE, Detail.UG_GROUP_RESOURCE, "root.a")] * 2,
    ]
    scenario.records.clear()
    scenario.wait(31)
    assert (USER, "staff", REMOVE, Detail.UG_APP_LINK, "app") in lines(scenario)


def test_a_change_of_runnable_state_is_recorded_once() -> None:
    scenario = a_scenario(replace(a_queue("a"), max_applications=1))
    scenario.send(ApplicationAdded(an_application()), ApplicationAdded(an_application("second")))
    scenario.ask(an_ask("r0"))
    scenario.records.clear()
    scenario.ask(an_ask("s0", app="second"))
    scenario.ask(an_ask("s1", app="second"))
    held = [line for line in lines(scenario) if line[3] is Detail.APP_CANNOTRUN_QUEUE]
    assert held == [(APP, "second", Change.NONE, Detail.APP_CANNOTRUN_QUEUE, "")]
    scenario.release("r0")
    assert (APP, "second", Change.NONE, Detail.APP_RUNNABLE_QUEUE, "") in lines(scenario)


def test_an_application_limit_of_a_user_has_a_separate_detail() -> None:
    limits = (QuotaLimit(users=("kim",), max_applications=1),)
    scenario = a_scenario(replace(a_queue("a"), limits=limits))
    scenario.send(ApplicationAdded(an_application()), ApplicationAdded(an_application("second")))
    scenario.ask(an_ask("r0"))
    scenario.ask(an_ask("s0", app="second"))
    scenario.release("r0")
    details = [line[3] for line in lines(scenario) if line[:3] == (APP, "second", Change.NONE)]
    assert details == [Detail.APP_CANNOTRUN_QUOTA, Detail.APP_RUNNABLE_QUOTA]


def test_a_new_application_is_recorded_on_itself_and_on_its_queue() -> None:
    assert recorded(a_scenario(), ApplicationAdded(an_application())) == [
        (APP, "app", ADD, Detail.APP_NEW, ""),
        (QUEUE, "root.a", ADD, Detail.QUEUE_APP, "app"),
    ]


def test_a_rejected_application_is_recorded_with_the_reason() -> None:
    scenario = a_scenario()
    scenario.send(ApplicationAdded(an_application()), ApplicationAdded(an_application()))
    rejected = [n for n in scenario.records if n.detail is Detail.APP_REJECT]
    assert [(n.subject, n.change) for n in rejected] == [("app", SET)]
    assert "already exists" in rejected[0].message


@pytest.mark.parametrize(
    "requested, why",
    [
        ("root.other", "it does not exist; "),
        ("root.team.bleu", "it does not exist, did you mean root.team.blue?; "),
        ("root.team", "it is a parent queue, and pods need a leaf; "),
        ("team.blue", "did you mean root.team.blue?; "),
        ("root.team.blue", ""),
    ],
)
def test_a_queue_that_a_placement_rule_replaced_is_reported_once_with_the_state(requested: str, why: str) -> None:
    scenario = a_scenario(a_queue("a"), a_queue("team", a_queue("blue")))
    [partition] = scenario.scheduler_state.partitions.values()
    partition.config = replace(partition.config, rules=(PlacementRule("fixed", value="root.a"),))
    sent = scenario.submit(an_application(queue=requested), an_ask("r0")) + scenario.ask(an_ask("r1"))
    text = f"queue {requested} is ignored: {why}a placement rule of queues.yaml selected root.a"
    assert [(one.state, one.message) for one in sent if isinstance(one, ApplicationUpdated)] == [
        (ApplicationState.ACCEPTED, text),
        (ApplicationState.RUNNING, ""),
    ]
    assert [one.message for one in scenario.records if one.detail is Detail.APP_ACCEPTED] == [text]


def test_an_ask_and_its_allocation_are_recorded_in_order() -> None:
    scenario = a_scenario()
    scenario.submit(an_application())
    scenario.records.clear()
    scenario.ask(an_ask("r0", vcore=1000))
    assert {n.resource for n in scenario.records if n.reference == "r0"} == {resources(vcore=1000, pods=1)}
    assert lines(scenario) == [
        (APP, "app", SET, Detail.APP_ACCEPTED, ""),
        (APP, "app", ADD, Detail.APP_REQUEST, "r0"),
        (APP, "app", REMOVE, Detail.REQUEST_ALLOC, "r0"),
        (APP, "app", ADD, Detail.APP_ALLOC, "r0"),
        (NODE, "n0", ADD, Detail.NODE_ALLOC, "r0"),
        (QUEUE, "root.a", ADD, Detail.QUEUE_ALLOC, "r0"),
        (USER, "kim", ADD, Detail.UG_USER_RESOURCE, "root.a"),
        (APP, "app", SET, Detail.APP_RUNNING, ""),
    ]


def test_an_existing_allocation_has_no_request_record() -> None:
    scenario = a_scenario()
    scenario.submit(an_application())
    noted = recorded(scenario, AllocationReported(an_allocation("r0", "n0")))
    assert (APP, "app", ADD, Detail.APP_ALLOC, "r0") in noted
    assert Detail.REQUEST_ALLOC not in {line[3] for line in noted}


def test_a_pending_ask_that_is_reported_as_allocated_is_recorded_as_allocated() -> None:
    scenario = a_scenario(nodes=0)
    scenario.submit(an_application(), an_ask("r0"))
    scenario.records.clear()
    scenario.add_node("n0", an_allocation("r0", "n0"), draining=True)
    assert [line[3] for line in lines(scenario)][3:5] == [Detail.REQUEST_ALLOC, Detail.APP_ALLOC]


def test_cancelled_and_replaced_asks_are_recorded() -> None:
    scenario = a_scenario(nodes=0)
    scenario.submit(an_application(), an_ask("r0"))
    scenario.records.clear()
    scenario.ask(an_ask("r0", vcore=2000))
    assert lines(scenario)[:2] == [
        (APP, "app", REMOVE, Detail.APP_REQUEST, "r0"),
        (APP, "app", ADD, Detail.APP_REQUEST, "r0"),
    ]
    scenario.release_ask("r0")
    assert lines(scenario)[0] == (APP, "app", REMOVE, Detail.REQUEST_CANCEL, "r0")


def test_an_allocation_stopped_by_the_resource_manager_is_recorded_as_cancelled() -> None:
    scenario = running(a_scenario())
    scenario.release("r0")
    assert lines(scenario) == [*release_records(Detail.ALLOC_CANCEL), (APP, "app", SET, Detail.APP_COMPLETING, "")]


def test_an_allocation_over_its_run_time_is_recorded_as_timed_out() -> None:
    scenario = a_scenario()
    scenario.submit(an_application(), an_ask("r0", timeout_s=10))
    scenario.wait(11)
    scenario.records.clear()
    scenario.release("r0", why=Termination.TIMEOUT)
    assert lines(scenario)[:4] == release_records(Detail.ALLOC_TIMEOUT)


def test_allocations_are_removed_with_their_node_which_is_recorded_last() -> None:
    scenario = running(a_scenario())
    scenario.node("n0", NodeAction.DECOMMISSION)
    noted = lines(scenario)
    assert noted[:4] == release_records(Detail.ALLOC_NODEREMOVED)
    assert noted[-1] == (NODE, "n0", REMOVE, Detail.NODE_DECOMISSION, "")


def test_a_placeholder_replacement_is_recorded() -> None:
    scenario = a_scenario()
    scenario.gang(an_application(gang=1), 1)
    scenario.ask(an_ask("r0", group="workers"))
    scenario.records.clear()
    scenario.release("app-p0", why=Termination.PLACEHOLDER_REPLACED)
    noted = lines(scenario)
    assert noted[0] == (APP, "app", REMOVE, Detail.REQUEST_ALLOC, "r0")
    assert noted[1] == (APP, "app", ADD, Detail.APP_ALLOC, "r0")
    assert noted[5:9] == release_records(Detail.ALLOC_REPLACED, "app-p0")


def test_a_gang_that_times_out_drops_its_asks_and_resumes() -> None:
    scenario = a_scenario(nodes=1)
    scenario.add_full_node()
    scenario.gang(an_application(gang=6, timeout_s=60), 6)
    scenario.records.clear()
    scenario.wait(61)
    noted = lines(scenario)
    assert [line[2:4] for line in noted if line[3] is Detail.REQUEST_TIMEOUT] == [(REMOVE, Detail.REQUEST_TIMEOUT)] * 2
    assert (APP, "app", SET, Detail.APP_RESUMING, "") in noted


def test_an_application_completes_leaves_its_queue_and_expires() -> None:
    scenario = running(a_scenario(timing=Timing(completing_timeout_ns=1, expiry_ns=5_000_000_000)))
    scenario.release("r0")
    scenario.records.clear()
    scenario.wait(1)
    assert lines(scenario) == [
        (APP, "app", SET, Detail.APP_COMPLETED, ""),
        (APP, "app", REMOVE, Detail.NONE, ""),
        (QUEUE, "root.a", REMOVE, Detail.QUEUE_APP, "app"),
    ]
    scenario.wait(6)
    assert lines(scenario) == [(APP, "app", SET, Detail.APP_EXPIRED, "")]


def test_an_application_that_runs_too_long_fails() -> None:
    scenario = a_scenario()
    scenario.submit(an_application(timeout_s=10), an_ask("r0"))
    scenario.wait(11)
    scenario.release("r0", why=Termination.TIMEOUT)
    states = [line[3] for line in lines(scenario) if line[:3] == (APP, "app", SET)]
    assert states[-2:] == [Detail.APP_FAILING, Detail.APP_FAILED]


def test_the_allocations_of_a_removed_application_are_recorded_as_cancelled() -> None:
    scenario = running(a_scenario())
    noted = recorded(scenario, ApplicationRemoved(PARTITION, ApplicationId("app")))
    assert noted[:4] == release_records(Detail.ALLOC_CANCEL)
    assert noted[4:] == [(APP, "app", SET, Detail.APP_COMPLETING, "")]
    scenario.records.clear()
    scenario.wait(31)
    assert lines(scenario)[:2] == [(APP, "app", SET, Detail.APP_COMPLETED, ""), (APP, "app", REMOVE, Detail.NONE, "")]


def test_node_changes_are_recorded() -> None:
    scenario = a_scenario(nodes=0)
    scenario.add_node("n0")
    node = replace(a_node("n0"), capacity=resources(vcore=8000), occupied=resources(vcore=1))
    scenario.send(NodeUpdated(node), NodeUpdated(node))
    scenario.node("n0", NodeAction.DRAIN)
    scenario.node("n0", NodeAction.OPEN)
    scenario.node("n0", NodeAction.DECOMMISSION)
    messages = [n.message for n in scenario.records if n.about is NODE]
    assert lines(scenario) == [
        (NODE, "n0", SET, Detail.NODE_SCHEDULABLE, ""),
        (QUEUE, "root", SET, Detail.QUEUE_MAX, ""),
        (NODE, "n0", ADD, Detail.NONE, ""),
        (NODE, "n0", SET, Detail.NODE_CAPACITY, ""),
        (NODE, "n0", SET, Detail.NODE_OCCUPIED, ""),
        (QUEUE, "root", SET, Detail.QUEUE_MAX, ""),
        (NODE, "n0", SET, Detail.NODE_SCHEDULABLE, ""),
        (NODE, "n0", SET, Detail.NODE_SCHEDULABLE, ""),
        (QUEUE, "root", SET, Detail.QUEUE_MAX, ""),
        (NODE, "n0", REMOVE, Detail.NODE_DECOMISSION, ""),
    ]
    assert messages == [
        *("schedulable: true", "Node added to the scheduler", "", ""),
        *("schedulable: false", "schedulable: true", "Node removed from the scheduler"),
    ]


def test_the_maximum_of_root_is_the_total_of_the_nodes() -> None:
    scenario = a_scenario(nodes=0)
    scenario.add_node("n0")
    scenario.add_node("n1", draining=True)
    scenario.node("n0", NodeAction.DECOMMISSION)
    totals = [n.resource["vcore"] for n in scenario.records if n.detail is Detail.QUEUE_MAX]
    assert totals == [4000, 8000, 4000]
    assert [n.message for n in scenario.records if (n.subject, n.detail) == ("n1", Detail.NODE_SCHEDULABLE)] == [
        "schedulable: false"
    ]


def test_the_queues_of_a_registration_are_recorded_with_their_limits() -> None:
    limits = (QuotaLimit(users=("ann",), groups=("staff",), max=Limit({"vcore": 5})),)
    noted = recorded(a_scenario(), ManagerRegistered(RM, a_configuration(replace(a_queue("a"), limits=limits))))
    assert noted == [
        (QUEUE, "root", ADD, Detail.NONE, ""),
        (QUEUE, "root.a", ADD, Detail.NONE, ""),
        (USER, "ann", SET, Detail.UG_USER_LIMIT, "root.a"),
        (USER, "staff", SET, Detail.UG_GROUP_LIMIT, "root.a"),
    ]


def test_a_dynamic_queue_is_added_and_removed_with_its_application() -> None:
    scenario = a_scenario()
    coming = recorded(scenario, ApplicationAdded(an_application(queue="")))
    assert coming[0] == (QUEUE, "root.ns", ADD, Detail.QUEUE_DYNAMIC, "")
    scenario.remove("app")
    scenario.wait(31)
    assert lines(scenario)[-1] == (QUEUE, "root.ns", REMOVE, Detail.QUEUE_DYNAMIC, "")


def changed(before: QueueConfig, after: QueueConfig) -> list[Line]:
    return recorded(a_scenario(before), reload_of(after))


def reload_of(*queues: QueueConfig) -> ConfigurationReplaced:
    return ConfigurationReplaced(RM, a_configuration(*queues))


def test_each_queue_change_has_its_detail() -> None:
    before = a_queue("a")
    assert changed(before, a_queue("a", vcore=5)) == [(QUEUE, "root.a", SET, Detail.QUEUE_MAX, "")]
    assert changed(before, a_queue("a", guaranteed=5)) == [(QUEUE, "root.a", SET, Detail.QUEUE_GUARANTEED, "")]
    assert changed(before, a_queue("a", fair=True)) == [(QUEUE, "root.a", SET, Detail.QUEUE_CONFIG, "")]
    assert changed(before, replace(before, parent=True)) == [(QUEUE, "root.a", SET, Detail.QUEUE_TYPE, "")]
    assert changed(before, before) == []


def test_only_removed_or_changed_limits_are_recorded() -> None:
    ann, bob = QuotaLimit(users=("ann",), max_applications=1), QuotaLimit(users=("bob",), max_applications=1)
    before = replace(a_queue("a"), limits=(ann, bob))
    after = replace(a_queue("a"), limits=(replace(ann, max_applications=2),))
    assert changed(before, after) == [
        (USER, "bob", REMOVE, Detail.UG_USER_LIMIT, "root.a"),
        (USER, "ann", SET, Detail.UG_USER_LIMIT, "root.a"),
    ]


def test_equal_unschedulable_requests_are_reported_once_with_their_count() -> None:
    scenario = a_scenario(a_queue("a", vcore=1000))
    [word] = notices(scenario.submit(an_application(), *(an_ask(f"r{i}") for i in range(4))))
    assert word.endswith("(and 2 more requests like it)")
    effects = [n for n in scenario.records if n.about is Notice.REQUEST]
    assert [(n.subject, n.reference, n.is_for_people) for n in effects] == [("r1", "app", True)]
    assert notices(scenario.send()) == []


def test_a_sufficient_quota_is_reported_with_the_remaining_reason() -> None:
    scenario = a_scenario(a_queue("a", vcore=1000))
    scenario.submit(an_application(), an_ask("r0", vcore=5000))
    [word] = notices(scenario.send(reload_of(a_queue("a", vcore=9000))))
    assert word.startswith("the request fits the quota again; ")


def test_without_tracking_only_user_facing_events_are_recorded() -> None:
    configuration: Configuration = replace(a_configuration(a_queue("a", vcore=1000)), tracking=False)
    scenario = Scenario(configuration, nodes=1)
    scenario.submit(an_application(), an_ask("r0"), an_ask("r1"))
    assert [(n.about, n.subject) for n in scenario.records] == [(Notice.REQUEST, "r1")]


def test_a_reload_enables_or_disables_tracking() -> None:
    scenario = a_scenario()
    scenario.reload(replace(a_configuration(a_queue("a")), tracking=False))
    assert recorded(scenario, ApplicationAdded(an_application())) == []
    scenario.send(reload_of(a_queue("a")))
    assert recorded(scenario, ApplicationAdded(an_application("second"))) != []


def test_every_record_of_an_application_has_its_plain_id() -> None:
    scenario = a_scenario(replace(a_queue("a"), limits=(QuotaLimit(groups=("staff",), max=Limit({"vcore": 9000})),)))
    spec = replace(an_application("ns/job", gang=2), groups=("staff",), shown_as="job")
    scenario.gang(spec, 2)
    scenario.ask(an_ask("real", app="ns/job", group="workers"), an_ask("big", app="ns/job", vcore=99_000))
    scenario.submit(replace(spec, id=ApplicationId("ns/lost"), queue="root.nowhere", tags={}))
    scenario.send(ApplicationRemoved(PARTITION, spec.id))
    scenario.wait(4 * 24 * 3600)
    named = [note for note in scenario.records if {note.subject, note.reference} & {"ns/job", "ns/lost"}]
    assert {note.detail for note in named} >= {
        Detail.APP_NEW,
        Detail.APP_REJECT,
        Detail.APP_REQUEST,
        Detail.APP_ALLOC,
        Detail.QUEUE_APP,
        Detail.UG_APP_LINK,
        Detail.APP_EXPIRED,
    }
    assert {note.app_name for note in named} == {"job"}
    assert not any("ns/job" in note.message for note in scenario.records)
