"""Placeholders are created in windows that namespaces and gangs share, and unneeded ones are not created."""

from typing import Any

import pytest

from muster_operator.controller import placeholders
from muster_operator.controller.state import Ledger
from muster_operator.model import limits
from muster_operator.model.commands import CancelCreations, CreatePlaceholder, Outcome
from muster_operator.model.core_messages import AllocationResponse, AskRejected
from muster_operator.model.ids import AppId, PodUid
from muster_si import keys
from tests.unit.operator.controller.driver import APP, Driver, done, live, refused
from tests.unit.operator.controller.gang import a_member, creates, pod_of, uid
from tests.unit.operator.controller.kubernetes import namespace_seen
from tests.unit.operator.controller.objects import Raw, a_group, a_namespace, a_pod, gang_annotations

WINDOW = limits.GANG_OPEN_CREATIONS


def cancelled(out: Outcome) -> list[AppId]:
    return [order.app for order in out.commands if isinstance(order, CancelCreations)]


def a_gang(app: str, members: int, namespace: str = "dev", **of_group: Any) -> Raw:
    raw = a_pod(f"{app}-0", app=app, annotations=gang_annotations(a_group("g", members, **of_group), member_of="g"))
    raw["metadata"]["namespace"] = namespace
    return raw


def begun(driver: Driver, raw: Raw) -> list[CreatePlaceholder]:
    driver.see(raw)
    metadata = raw["metadata"]
    name = metadata["labels"]["yunikorn.apache.org/app-id"]
    return creates(driver.accepted(AppId(f"{metadata['namespace']}/{name}")))


def open_creations(ledger: Ledger) -> int:
    return sum(of_namespace.open for of_namespace in ledger.creations.values())


def test_a_gang_has_a_window_of_open_creations_and_each_answer_sends_the_next() -> None:
    driver = live()
    first = begun(driver, a_gang("job", 3 * WINDOW))
    assert len(first) == WINDOW
    ordered = [*first]
    while first:
        more = creates(driver.result(done(first.pop())))
        first += more
        ordered += more
    assert len(ordered) == 3 * WINDOW
    assert len({command.spec.name for command in ordered}) == 3 * WINDOW
    assert not driver.ledger.creations


def test_an_application_counts_the_placeholders_it_waits_for_before_they_are_created() -> None:
    driver = live()
    begun(driver, a_gang("job", 3 * WINDOW))
    assert driver.ledger.applications[APP].wanted == 3 * WINDOW


@pytest.mark.parametrize("style", ["Soft", "Hard"])
def test_a_gang_whose_creation_is_forbidden_creates_nothing_more(style: str) -> None:
    """A ResourceQuota answers 403 to each of them."""
    driver = live()
    driver.see(a_member(count=3 * WINDOW, parameters=f"gangSchedulingStyle={style}"))
    first, *others = creates(driver.accepted())
    out = driver.result(refused(first, 403, "exceeded quota"))
    assert cancelled(out) == [APP]
    assert creates(out) == []
    for command in others[:40]:  # which were under way
        assert not creates(driver.result(refused(command, 403, "exceeded quota")))
    assert not driver.ledger.creations


def test_a_creation_that_a_webhook_rejects_with_404_is_repeated_and_then_ends_the_reservation() -> None:
    """An admission webhook chooses the status of its rejection. 404 is also that of a missing namespace."""
    driver = live()
    driver.see(a_member(count=1))
    [command] = creates(driver.accepted())
    driver.result(refused(command, 404, "denied by a webhook"))
    attempts = 1
    for _ in range(20):
        for command in creates(driver.wait(driver.ledger.settings.create_retry_s)):
            driver.result(refused(command, 404, "denied by a webhook"))
            attempts += 1
    assert attempts == placeholders.MAX_CREATES
    assert not any(app.slots for app in driver.ledger.applications.values()), "the reservation has ended"


def test_a_gang_whose_pods_are_deleted_creates_nothing_more() -> None:
    driver = live()
    begun(driver, a_gang("job", 3 * WINDOW))
    out = driver.gone("job-0")
    assert cancelled(out) == [APP]
    assert not driver.ledger.creations


def test_a_gang_that_fails_creates_nothing_more() -> None:
    driver = live()
    begun(driver, a_gang("job", 3 * WINDOW))
    assert cancelled(driver.updated(keys.APP_FAILING)) == [APP]


def test_a_gang_whose_placeholder_the_core_rejects_creates_nothing_more() -> None:
    driver = live()
    first, *_ = begun(driver, a_gang("job", 3 * WINDOW))
    raw = pod_of(first)
    driver.see(raw)
    rejected = AskRejected(APP, PodUid(uid(raw)), "no")
    assert cancelled(driver.receive(AllocationResponse(rejected_asks=(rejected,)))) == [APP]


def test_a_gang_that_runs_creates_nothing_more() -> None:
    driver = live()
    begun(driver, a_gang("job", 3 * WINDOW))
    assert cancelled(driver.updated(keys.APP_RUNNING)) == [APP]


def test_gangs_of_a_namespace_share_a_window_and_take_turns() -> None:
    driver = live()
    ordered = [command for number in range(10) for command in begun(driver, a_gang(f"job-{number}", 3 * WINDOW))]
    assert len(ordered) == open_creations(driver.ledger) == limits.NAMESPACE_OPEN_CREATIONS
    apps = {command.spec.app for command in ordered}
    for command in ordered:
        apps |= {more.spec.app for more in creates(driver.result(done(command)))}
    assert len(apps) == 10
    assert open_creations(driver.ledger) == limits.NAMESPACE_OPEN_CREATIONS


def test_a_cancelled_gang_frees_creations_for_another_gang_of_its_namespace() -> None:
    driver = live()
    for number in range(3):
        begun(driver, a_gang(f"job-{number}", 3 * WINDOW))
    out = driver.gone("job-0-0")
    assert {command.spec.app for command in creates(out)} == {"dev/job-2"}
    assert open_creations(driver.ledger) == limits.NAMESPACE_OPEN_CREATIONS


def test_gangs_of_another_namespace_have_a_separate_creation_window() -> None:
    driver = live()
    driver.fact(namespace_seen(a_namespace("other")))
    for number in range(3):
        begun(driver, a_gang(f"job-{number}", 3 * WINDOW))
    assert len(begun(driver, a_gang("theirs", 10, "other"))) == 10


def test_placeholders_that_were_never_seen_are_created_again_within_the_window() -> None:
    driver = live()
    waiting = begun(driver, a_gang("job", 2 * WINDOW))
    while waiting:
        waiting += creates(driver.result(done(waiting.pop())))
    assert not creates(driver.wait(10))
    again = creates(driver.wait(10))
    assert len(again) == WINDOW
    for command in again:
        waiting += creates(driver.result(done(command)))
    assert len(waiting) == WINDOW
    assert len({command.spec.name for command in (*again, *waiting)}) == 2 * WINDOW


def test_a_large_gang_keeps_no_more_than_its_window_in_memory() -> None:
    driver = live()
    begun(driver, a_gang("job", limits.GANG_MEMBERS))
    assert len(driver.ledger.applications[APP].slots) == WINDOW
