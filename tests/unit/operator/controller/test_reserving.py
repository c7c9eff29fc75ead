"""While a gang reserves, its pods report progress and reason, and none triggers a scale-up."""

import pytest

from muster_core.model.decisions import ReasonKind
from muster_operator.controller import recovery
from muster_operator.controller.state import next_due
from muster_operator.model.commands import CreatePlaceholder, Outcome, PostEvent, SetCondition
from muster_operator.model.core_messages import (
    CoreEvent,
    CoreEvents,
    EventKind,
    SchedulingState,
    SchedulingStateChanged,
    SchedulingStates,
)
from muster_operator.model.ids import PodUid
from muster_operator.translate.placeholders import placeholder_body
from muster_si import keys
from tests.unit.operator.controller.driver import APP, Driver, done, events, live, notes, orders, whole
from tests.unit.operator.controller.kubernetes import SETTINGS, namespace_seen, node_seen
from tests.unit.operator.controller.objects import CREATED, a_group, a_namespace, a_node, a_pod, gang_annotations

MEMBERS = 3
FULL = "0/1 nodes are available: 1 Insufficient cpu."
QUOTA = "Not enough queue quota: root.a, requested cpu 1, available 0 of 1"
FAILED, SKIPPED = SchedulingState.FAILED, SchedulingState.SKIPPED


def reserving() -> Driver:
    """A gang of three whose placeholders exist and are requested."""
    driver = live()
    for index in range(MEMBERS):
        driver.see(a_pod(f"w{index}", app=APP, annotations=gang_annotations(a_group(), member_of="workers")))
    for number, order in enumerate(orders(driver.accepted())):
        assert isinstance(order, CreatePlaceholder)
        raw = placeholder_body(order.spec, SETTINGS)
        raw["metadata"] |= {
            "uid": f"uid-ph{number}",
            "creationTimestamp": CREATED,
            "managedFields": [{"manager": "muster-placeholder", "operation": "Update"}],
        }
        raw["status"] = {"phase": "Pending"}
        driver.see(raw)
        driver.result(done(order))
    return driver


def states(driver: Driver, state: SchedulingState, reason: str, kind: str = "") -> Outcome:
    """The core reports this about every placeholder."""
    kind = kind or (keys.REASON_QUOTA if state is SKIPPED else "")
    uids = (PodUid(f"uid-ph{number}") for number in range(MEMBERS))
    return driver.receive(
        SchedulingStates(tuple(SchedulingStateChanged(APP, uid, state, reason, kind) for uid in uids))
    )


def bind(driver: Driver, number: int) -> None:
    """A placeholder gets its node."""
    [order] = orders(driver.allocated(f"uid-ph{number}"))
    driver.result(done(order))


def conditions(out: Outcome) -> dict[str, tuple[str, str]]:
    """Reason and message by pod name; by UID for placeholders."""
    found = [command for command in out.commands if isinstance(command, SetCondition)]
    names = {command: command.pod.name for command in found}
    return {
        names[command] if names[command].startswith("w") else command.pod.uid: (command.reason, command.message)
        for command in found
    }


def progress(out: Outcome) -> list[tuple[str, str, str]]:
    """Action, note and pod of the gang's series."""
    return [(c.action, c.note, c.name) for c in out.commands if isinstance(c, PostEvent) and c.series == "gang/dev/job"]


def test_a_gang_that_makes_progress_reports_it_and_writes_no_condition() -> None:
    driver = reserving()
    bind(driver, 0)
    out = driver.wait(5)
    assert progress(out) == [("PlaceholderAllocated", "1 of 3 placeholders are bound", "w0")]
    assert conditions(out) == {}
    bind(driver, 1)
    assert progress(driver.wait(10)) == [("PlaceholderAllocated", "2 of 3 placeholders are bound", "w0")]


def test_a_gang_that_completes_quickly_sends_no_progress_events() -> None:
    driver = reserving()
    for number in range(MEMBERS):
        bind(driver, number)
    driver.updated("Running")
    assert not driver.wait(600)


def test_w8_a_gang_that_waits_for_quota_writes_one_condition_and_event_per_member_an_hour() -> None:
    driver = reserving()
    driver.wait(2.5)
    assert conditions(states(driver, SKIPPED, QUOTA)) == {}
    driver.wait(2.5)
    out = driver.wait(10)
    found = conditions(out)
    mine = f"gang job is waiting for its reservation: 0 of 3 placeholders are bound; {QUOTA}"
    other = "gang job is waiting for its reservation (not enough queue quota); see pod w0"
    assert found == {
        "w0": ("SchedulingSkipped", mine),
        "w1": ("SchedulingSkipped", other),
        "w2": ("SchedulingSkipped", other),
    }
    assert notes(out) == {"w0": mine, "w1": other, "w2": other}
    assert sum(len(driver.wait(60).commands) for _ in range(60)) == 0


@pytest.mark.parametrize("bound", [0, 2])
def test_only_the_originator_of_a_waiting_gang_gets_a_warning_within_five_seconds(bound: int) -> None:
    driver = reserving()
    for number in range(bound):
        bind(driver, number)
    reported = [*events(states(driver, SKIPPED, QUOTA)), *events(driver.wait(5))]
    assert [event for event in reported if event[1] == "FailedScheduling"] == [
        ("w0", "FailedScheduling", "FailedScheduling")
    ]


def test_a_gang_that_makes_progress_after_a_shortage_reports_no_failure() -> None:
    driver = reserving()
    driver.wait(2.5)
    states(driver, SKIPPED, QUOTA)
    for number in range(2):
        bind(driver, number)
    states(driver, SchedulingState.SCHEDULED, "")
    out = driver.wait(5)
    assert progress(out) == [("PlaceholderAllocated", "2 of 3 placeholders are bound", "w0")]
    assert conditions(out) == {}
    assert [event for event in events(out) if event[1] == "FailedScheduling"] == []


def test_an_alternating_reason_is_written_to_a_member_once_per_kind() -> None:
    driver = reserving()
    driver.wait(2.5)
    kinds = ((FAILED, FULL), (SKIPPED, QUOTA))
    written = 0
    for minute in range(60):
        states(driver, *kinds[minute // 5 % 2])
        written += len([name for _ in range(60) for name in conditions(driver.wait(1)) if name in ("w1", "w2")])
    assert written == 2 * len(kinds), "each kind once"


def test_a_lasting_change_of_the_reason_is_written_to_the_members() -> None:
    driver = reserving()
    driver.wait(2.5)
    states(driver, SKIPPED, QUOTA)
    assert "not enough queue quota" in reported_within(driver, 60)["w1"][1]
    changed = conditions(states(driver, SKIPPED, QUOTA.replace("available 0", "available 500m")))
    assert {*changed, *reported_within(driver, 300)} == {"w0"}, "other amounts are on the originator only"
    states(driver, FAILED, FULL)
    assert "not enough suitable nodes" in reported_within(driver, 180)["w1"][1]


@pytest.mark.parametrize(
    "kind, shown",
    [
        (ReasonKind.QUOTA, " (not enough queue quota)"),
        (ReasonKind.USER_QUOTA, " (not enough user quota)"),
        (ReasonKind.APPLICATIONS, " (maximum number of applications reached)"),
        (ReasonKind.QUEUE_ORDER, " (waiting for another gang)"),
        ("a kind of a later version", ""),
    ],
)
def test_a_member_condition_names_the_reason_kind_sent_by_the_core_regardless_of_its_text(
    kind: str, shown: str
) -> None:
    driver = reserving()
    driver.wait(2.5)
    states(driver, SKIPPED, "Not enough queue quota, or another text", kind)
    assert reported_within(driver, 20)["w1"] == (
        "SchedulingSkipped",
        f"gang job is waiting for its reservation{shown}; see pod w0",
    )


def test_only_the_placeholders_of_a_gang_without_free_resources_are_unschedulable() -> None:
    driver = reserving()
    driver.wait(2.5)
    found = conditions(states(driver, FAILED, FULL))
    assert found == {f"uid-ph{number}": ("Unschedulable", FULL) for number in range(MEMBERS)}
    driver.wait(2.5)
    members = conditions(driver.wait(10))
    assert {reason for reason, _ in members.values()} == {"SchedulingSkipped"}
    assert members["w0"][1].endswith(FULL)


def test_unschedulable_placeholders_become_skipped_when_a_quota_blocks_the_gang() -> None:
    driver = reserving()
    driver.wait(2.5)
    states(driver, FAILED, FULL)
    found = conditions(states(driver, SKIPPED, QUOTA))
    assert found == {f"uid-ph{number}": ("SchedulingSkipped", QUOTA) for number in range(MEMBERS)}


def test_a_gang_too_large_for_an_empty_cluster_reports_it_until_a_quota_blocks_it() -> None:
    driver = reserving()
    note = "the gang would not fit even in an empty cluster: 3 of 3 members of task group workers would not fit"
    driver.receive(CoreEvents((CoreEvent(EventKind.APP, "dev/job", "workers", note),)))
    driver.wait(5)
    states(driver, FAILED, FULL)
    assert set(conditions(driver.wait(10))) == {"w1", "w2"}, "w0 says it already"
    found = conditions(states(driver, SKIPPED, QUOTA)) | conditions(driver.wait(60))
    assert found["w0"][0] == "SchedulingSkipped"
    assert found["w0"][1].endswith(QUOTA)


def test_a_gang_too_large_for_an_empty_cluster_stops_reporting_it_when_a_node_is_added() -> None:
    driver = reserving()
    note = "the gang would not fit even in an empty cluster: 3 of 3 members of task group workers would not fit"
    event = CoreEvents((CoreEvent(EventKind.APP, "dev/job", "workers", note),))
    assert conditions(driver.receive(event))["w0"] == ("SchedulingSkipped", note), "an autoscaler sees placeholders"
    driver.fact(node_seen(a_node("another")))
    driver.wait(5)
    found = conditions(driver.wait(70))
    assert found["w0"][0] == "SchedulingSkipped"
    assert "empty cluster" not in found["w0"][1]
    driver.receive(event)
    assert conditions(driver.wait(300))["w0"] == ("SchedulingSkipped", note), "another node was not enough"


def test_the_timers_of_a_recovered_gang_start_when_nodes_open() -> None:
    driver = Driver()
    driver.fact(namespace_seen(a_namespace()))
    driver.see(a_pod("w0", app=APP, annotations=gang_annotations(a_group())))
    whole(recovery.begin(driver.ledger, 0.0))
    driver.accepted()
    whole(recovery.report_nodes(driver.ledger, 0.0))
    whole(recovery.submit_asks(driver.ledger, 0.0))
    assert next_due(driver.ledger) is None
    assert not driver.wait(60)
    recovery.open_nodes(driver.ledger, driver.now)
    assert next_due(driver.ledger) is not None
    assert set(reported_within(driver, 180)) == {"w0"}


def test_a_gang_without_its_placeholders_reports_it_only_after_a_long_wait() -> None:
    driver = live()
    for index in range(MEMBERS):
        driver.see(a_pod(f"w{index}", app=APP, annotations=gang_annotations(a_group(), member_of="workers")))
    driver.accepted()
    assert reported_within(driver, 60) == {}
    assert set(reported_within(driver, 60)) == {"w0"}, "the others would only write what others' writes wait for"
    assert set(reported_within(driver, 120)) == {"w1", "w2"}


def test_a_gang_with_a_shortage_reports_it_while_a_bind_is_in_flight() -> None:
    driver = reserving()
    driver.wait(2.5)
    driver.allocated("uid-ph0")
    states(driver, SKIPPED, QUOTA)
    assert set(reported_within(driver, 10)) == {"w0", "w1", "w2"}


def test_a_gang_whose_binds_are_in_flight_writes_no_condition() -> None:
    driver = reserving()
    driver.wait(2.5)
    driver.allocated("uid-ph0")
    assert reported_within(driver, 10) == {}


def reported_within(driver: Driver, seconds: int) -> dict[str, tuple[str, str]]:
    """The conditions that follow, second by second."""
    found: dict[str, tuple[str, str]] = {}
    for _ in range(seconds):
        found |= conditions(driver.wait(1))
    return found


def test_members_of_a_running_gang_no_longer_report_its_shortage() -> None:
    driver = reserving()
    driver.wait(2.5)
    assert set(conditions(driver.wait(10))) == {"w0", "w1", "w2"}
    for number in range(MEMBERS):
        bind(driver, number)
    driver.updated("Running")
    assert {task.shortage for task in driver.ledger.tasks.values() if task.uid.startswith("uid-w")} == {None}
