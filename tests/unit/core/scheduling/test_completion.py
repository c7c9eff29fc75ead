"""Timeouts, completion and failure of applications."""

from dataclasses import replace

import pytest

from muster_core.model.config import Timing
from muster_core.model.effects import AllocationResponse
from muster_core.model.events import ApplicationAdded, ApplicationRemoved, AskAdded
from muster_core.model.ids import ApplicationId, Termination
from muster_core.model.specs import GangPlacement, GangStyle
from muster_core.model.states import ApplicationState
from tests.unit.builders import PARTITION, SECOND, a_configuration, a_queue, an_allocation, an_application, an_ask
from tests.unit.core.scheduling.scenario import (
    Scenario,
    placed,
    refused_asks,
    rejection,
    released_asks,
    releases,
    states,
)

TIMEOUT = Termination.TIMEOUT
REPLACED = Termination.PLACEHOLDER_REPLACED


def partial(style: GangStyle, timeout_s: int = 60, wait_s: int = 0) -> Scenario:
    """A gang of 4 with 2 reservations."""
    scenario = Scenario(a_configuration(a_queue("a")), nodes=1, vcore=2000)
    scenario.add_full_node()
    scenario.gang(an_application(gang=4, style=style, timeout_s=timeout_s, wait_s=wait_s), 4)
    return scenario


def complete(scenario: Scenario, real: int = 2) -> None:
    """Swap `real` members in."""
    for index in range(real):
        effects = scenario.ask(an_ask(f"r{index}", group="workers"))
        [placeholder] = releases(effects)
        scenario.release(placeholder, why=REPLACED)


def test_a_soft_gang_that_times_out_releases_everything_and_resumes() -> None:
    scenario = partial(GangStyle.SOFT)
    effects = scenario.wait(61)
    assert releases(effects) == {"app-p0": TIMEOUT, "app-p1": TIMEOUT}
    assert released_asks(effects) == {"app-p2": TIMEOUT, "app-p3": TIMEOUT}
    assert states(effects) == ["Resuming"]
    assert states(scenario.release("app-p0", why=TIMEOUT)) == []
    assert states(scenario.release("app-p1", why=TIMEOUT)) == ["Accepted"]
    real = scenario.ask(an_ask("r0", group="workers"))
    assert placed(real) == {"r0": "n0"}
    assert states(real) == ["Running"]


def test_a_hard_gang_that_times_out_fails_with_the_last_confirmed_release() -> None:
    scenario = partial(GangStyle.HARD)
    effects = scenario.wait(61)
    assert states(effects) == ["Failing"]
    assert len(releases(effects)) == 2
    assert len(released_asks(effects)) == 2
    assert states(scenario.release("app-p0", why=TIMEOUT)) == []
    assert states(scenario.release("app-p1", why=TIMEOUT)) == ["Failed"]
    assert rejection(scenario.submit(an_application())) == "", "the id is free again"


def test_the_timer_starts_with_the_first_placeholder_not_with_the_submission() -> None:
    scenario = Scenario(a_configuration(a_queue("a")))
    scenario.gang(an_application(gang=4, timeout_s=60), 4)
    assert scenario.wait(1000) == []
    scenario.add_full_node()
    scenario.add_node("n0", vcore=2000)
    assert states(scenario.wait(59)) == []
    assert states(scenario.wait(2)) == ["Resuming"]


def test_a_gang_without_a_timeout_uses_the_default_of_fifteen_minutes() -> None:
    scenario = partial(GangStyle.SOFT, timeout_s=0)
    assert states(scenario.wait(899)) == []
    assert states(scenario.wait(2)) == ["Resuming"]


def test_a_timeout_while_running_releases_only_unused_placeholders() -> None:
    scenario = Scenario(a_configuration(a_queue("a")), nodes=1)
    scenario.gang(an_application(gang=3, timeout_s=60, style=GangStyle.HARD), 3)
    complete(scenario, 1)
    effects = scenario.wait(61)
    assert set(releases(effects)) == {"app-p1", "app-p2"}
    assert states(effects) == []
    assert scenario.app().state == "Running"


def test_a_reserved_gang_without_pods_completes_after_its_timeout() -> None:
    scenario = Scenario(a_configuration(a_queue("a")), nodes=1)
    scenario.gang(an_application(gang=2, timeout_s=60), 2)
    assert set(releases(scenario.wait(61))) == {"app-p0", "app-p1"}
    scenario.release("app-p0", why=TIMEOUT)
    assert states(scenario.release("app-p1", why=TIMEOUT)) == ["Completing"]
    assert states(scenario.wait(31)) == ["Completed"]


def test_the_timeout_does_not_affect_a_replacement_in_progress() -> None:
    scenario = Scenario(a_configuration(a_queue("a")), nodes=1)
    scenario.gang(an_application(gang=2, timeout_s=60), 2)
    scenario.ask(an_ask("r0", group="workers"))
    assert set(releases(scenario.wait(61))) == {"app-p1"}
    assert placed(scenario.release("app-p0", why=REPLACED)) == {"r0": "n0"}


@pytest.mark.parametrize(
    "style, end", [(GangStyle.SOFT, ["Resuming", "Accepted"]), (GangStyle.HARD, ["Failing", "Failed"])]
)
def test_the_wait_timeout_ends_a_gang_without_placeholders(style: GangStyle, end: list[str]) -> None:
    scenario = Scenario(a_configuration(a_queue("a")))
    scenario.gang(an_application(gang=2, style=style, wait_s=100), 2)
    assert scenario.wait(99) == []
    assert states(scenario.wait(2)) == end


def test_the_wait_timeout_does_not_end_a_gang_with_placeholders() -> None:
    scenario = partial(GangStyle.HARD, timeout_s=500, wait_s=100)
    assert states(scenario.wait(101)) == []


def test_losing_every_placeholder_does_not_prolong_the_timer() -> None:
    scenario = partial(GangStyle.SOFT, timeout_s=60)
    scenario.wait(50)
    scenario.release("app-p0")
    effects = scenario.release("app-p1")
    assert set(placed(effects)) <= {"app-p2", "app-p3"}
    assert scenario.app().gang.reserved["vcore"] == 2000
    assert states(scenario.wait(11)) == ["Resuming"]


def test_an_application_completes_some_time_after_its_last_allocation() -> None:
    scenario = Scenario(a_configuration(a_queue("a"), timing=Timing(completing_timeout_ns=5 * SECOND)), nodes=1)
    assert states(scenario.submit(an_application(), an_ask("r0"))) == ["Accepted", "Running"]
    assert states(scenario.release("r0")) == ["Completing"]
    assert scenario.wait(4) == []
    assert states(scenario.wait(2)) == ["Completed"]
    assert scenario.partition.applications == {}


@pytest.mark.parametrize("placement", GangPlacement)
def test_unused_reservations_of_a_gang_are_released_when_its_last_member_has_ended(placement: GangPlacement) -> None:
    """Members that appear later are a new run."""
    scenario = Scenario(a_configuration(a_queue("a"), a_queue("b")), nodes=1, vcore=3000)
    scenario.gang(an_application(gang=3, placement=placement), 3)
    if placement is GangPlacement.RESERVE:
        complete(scenario, 1)
    assert placed(scenario.submit(an_application("other", queue="root.b"), an_ask("large", vcore=3000))) == {}
    [member] = [one.spec.key for one in scenario.app().allocations.values() if not one.spec.placeholder]
    ended = scenario.release(member)
    assert states(ended) == ["Completing"]
    pods = [key for key, why in releases(ended).items() if why is TIMEOUT]
    assert len(pods) == (0 if placement is GangPlacement.DIRECT else 2)
    effects = [*ended, *(effect for key in pods for effect in scenario.release(key, why=TIMEOUT))]
    assert placed(effects) == {"large": "n0"}
    assert states(scenario.wait(29)) == []
    assert states(scenario.wait(2)) == ["Completed"]


def test_a_member_that_is_requested_while_its_gang_completes_runs() -> None:
    scenario = Scenario(a_configuration(a_queue("a")), nodes=1)
    scenario.gang(an_application(gang=3, placement=GangPlacement.DIRECT), 3)
    scenario.release("app-r0")
    effects = scenario.ask(an_ask("late", group="workers"))
    assert (states(effects), placed(effects)) == (["Running"], {"late": "n0"})


def test_placeholders_of_a_gang_that_declares_no_members_are_released_before_it_completes() -> None:
    """As in YuniKorn. Its resource manager may add members to the same application."""
    scenario = Scenario(a_configuration(a_queue("a")), nodes=1)
    plain = replace(an_application(gang=2), members=())
    scenario.send(
        ApplicationAdded(plain), *(AskAdded(an_ask(f"app-p{i}", group="workers", placeholder=True)) for i in range(2))
    )
    complete(scenario, 1)
    assert states(scenario.release("r0")) == ["Completing"]
    ending = scenario.wait(31)
    assert releases(ending) == {"app-p1": TIMEOUT}
    assert states(ending) == []
    assert states(scenario.release("app-p1", why=TIMEOUT)) == ["Completed"]


def test_a_new_ask_returns_a_completing_application_to_running() -> None:
    scenario = Scenario(a_configuration(a_queue("a")), nodes=1)
    scenario.submit(an_application(), an_ask("r0"))
    scenario.release("r0")
    back = scenario.ask(an_ask("r1"))
    assert states(back) == ["Running"]
    assert placed(back) == {"r1": "n0"}
    assert states(scenario.wait(100)) == [], "the old completing clock is stale"


def test_an_application_without_real_asks_yet_does_not_complete() -> None:
    scenario = Scenario(a_configuration(a_queue("a")), nodes=1)
    scenario.gang(an_application(gang=2), 2)
    assert scenario.wait(800) == []
    assert scenario.app().state == "Running"


def test_a_completed_id_can_be_reused_and_old_timers_do_not_affect_it() -> None:
    scenario = Scenario(a_configuration(a_queue("a")), nodes=1)
    for _ in range(3):
        assert rejection(scenario.submit(an_application())) == ""
        scenario.ask(an_ask("r0"))
        scenario.release("r0")
        assert states(scenario.wait(31)) == ["Completed"]


def test_a_live_id_is_refused_with_its_state() -> None:
    scenario = Scenario(a_configuration(a_queue("a")), an_application(), nodes=1)
    assert "New" in rejection(scenario.submit(an_application()))


def test_removing_an_application_releases_and_reports_everything() -> None:
    scenario = Scenario(a_configuration(a_queue("a")), nodes=1)
    scenario.gang(an_application(gang=2), 2)
    scenario.ask(an_ask("r0", group="workers"))
    effects = scenario.remove("app")
    assert set(releases(effects)) == {"app-p0", "app-p1"}
    assert set(released_asks(effects)) == {"r0"}
    assert scenario.partition.queues.root.allocated == scenario.partition.queues.root.pending
    scenario.wait(31)
    assert scenario.partition.applications == {}


@pytest.mark.parametrize("placement", GangPlacement)
def test_a_removed_application_is_completing_in_its_queue_until_it_has_completed(placement: GangPlacement) -> None:
    """Its dynamic queue exists as long. The resource manager gets no update of it."""
    scenario = Scenario(a_configuration(a_queue("a")), nodes=1)
    spec = an_application(queue="", gang=3, placement=placement)
    scenario.submit(spec)
    if placement is not GangPlacement.DIRECT:
        scenario.ask(an_ask("p0", group="workers", placeholder=True))
    app, path = scenario.app(), scenario.app().queue.path
    effects = scenario.send(ApplicationRemoved(PARTITION, spec.id))
    scenario.wait(29)
    assert (app.state, app.allocations, app.asks) == (ApplicationState.COMPLETING, {}, {})
    assert list(scenario.partition.queues.by_path[path].applications) == [spec.id]
    effects += scenario.wait(2)
    assert states(effects) == []
    assert scenario.partition.applications == {}
    assert scenario.partition.history[-1] is app
    assert app.state is ApplicationState.COMPLETED
    assert path not in scenario.partition.queues.by_path


def test_a_removed_application_is_unknown_to_its_resource_manager() -> None:
    scenario = Scenario(a_configuration(a_queue("a")), nodes=1)
    scenario.send(ApplicationAdded(an_application()), ApplicationRemoved(PARTITION, ApplicationId("app")))
    assert released_asks(scenario.ask(an_ask("r0"))) == {"r0": TIMEOUT}
    existing = an_allocation("r1", "n0")
    [refused] = scenario.report(existing)
    assert isinstance(refused, AllocationResponse)
    assert [one.reason for one in refused.rejected_allocations] == ["application app is not known"]
    ignored = scenario.scheduler_state.ignored.copy()
    scenario.remove("app")
    assert scenario.scheduler_state.ignored != ignored


def test_a_new_application_with_the_id_of_a_removed_one_is_accepted_at_once() -> None:
    scenario = Scenario(a_configuration(a_queue("a")), nodes=1)
    scenario.submit(an_application(), an_ask("r0"))
    removed = scenario.app()
    scenario.send(ApplicationRemoved(PARTITION, ApplicationId("app")), ApplicationAdded(an_application()))
    assert placed(scenario.ask(an_ask("r0")))
    assert list(scenario.partition.history) == [removed]
    scenario.wait(31)
    assert scenario.app().state is ApplicationState.RUNNING


def test_a_placeholder_ask_after_the_reservation_is_released_and_not_rejected() -> None:
    """It may cross the Running state, which is on another stream."""
    scenario = Scenario(a_configuration(a_queue("a")), nodes=1)
    scenario.gang(an_application(gang=2), 2)
    effects = scenario.ask(an_ask("late", group="workers", placeholder=True))
    assert released_asks(effects) == {"late": Termination.TIMEOUT}
    assert refused_asks(effects) == {}


def test_an_execution_timeout_limits_the_run_time_of_an_application_without_a_gang() -> None:
    scenario = Scenario(a_configuration(a_queue("a")), nodes=1)
    scenario.submit(an_application(timeout_s=60), an_ask("r0"))
    effects = scenario.wait(61)
    assert states(effects) == ["Failing"]
    assert releases(effects) == {"r0": TIMEOUT}
    assert states(scenario.release("r0", why=TIMEOUT)) == ["Failed"]


def test_an_execution_timeout_of_an_ask_limits_the_run_time_of_its_allocation() -> None:
    scenario = Scenario(a_configuration(a_queue("a")), nodes=1)
    scenario.submit(an_application(), an_ask("r0", timeout_s=10), an_ask("r1"))
    assert releases(scenario.wait(11)) == {"r0": TIMEOUT}


def test_the_run_time_of_an_allocation_restarts_when_its_key_is_requested_again() -> None:
    scenario = Scenario(a_configuration(a_queue("a")), nodes=1)
    scenario.submit(an_application(), an_ask("r0", timeout_s=10))
    scenario.wait(5)
    scenario.release("r0")
    scenario.ask(an_ask("r0", timeout_s=10))
    assert scenario.wait(6) == [], "the clock of the first one"
    assert releases(scenario.wait(5)) == {"r0": TIMEOUT}


def test_an_execution_timeout_does_not_count_the_waiting_time() -> None:
    scenario = Scenario(a_configuration(a_queue("a")))
    scenario.submit(an_application(timeout_s=60), an_ask("r0"))
    scenario.wait(100)
    assert states(scenario.add_node("n0")) == ["Running"]
    assert scenario.wait(59) == []
    assert states(scenario.wait(2)) == ["Failing"]


def test_an_execution_timeout_continues_while_completing() -> None:
    scenario = Scenario(a_configuration(a_queue("a")), nodes=1)
    scenario.submit(an_application(timeout_s=60), an_ask("r0"))
    scenario.wait(40)
    scenario.release("r0")
    scenario.ask(an_ask("r1"))
    assert states(scenario.wait(21)) == ["Failing"]


def test_a_real_pod_placed_while_resuming_makes_the_application_run() -> None:
    scenario = partial(GangStyle.SOFT)
    scenario.ask(an_ask("r0", group="workers", vcore=500))
    scenario.add_node("n1", vcore=500)
    timed_out = scenario.wait(61)
    assert placed(timed_out) == {"r0": "n1"}
    scenario.release("app-p0", why=TIMEOUT)
    assert states(scenario.release("app-p1", why=TIMEOUT)) == ["Accepted", "Running"]


def test_an_application_whose_last_ask_is_deleted_while_resuming_completes() -> None:
    scenario = partial(GangStyle.SOFT)
    scenario.ask(an_ask("r0", group="workers", vcore=9000))
    scenario.wait(61)
    assert states(scenario.release_ask("r0")) == []
    scenario.release("app-p0", why=TIMEOUT)
    assert states(scenario.release("app-p1", why=TIMEOUT)) == ["Accepted", "Completing"]


def resumed() -> Scenario:
    """A gang that was given up, and accepted again before its pods were reported."""
    scenario = partial(GangStyle.SOFT)
    scenario.wait(61)
    scenario.release("app-p0", why=TIMEOUT)
    assert states(scenario.release("app-p1", why=TIMEOUT)) == ["Accepted"]
    return scenario


def test_an_application_that_resumes_before_its_pods_have_come_waits_for_them_as_long_as_for_its_gang() -> None:
    scenario = resumed()
    assert states(scenario.wait(59)) == []
    assert states(scenario.wait(2)) == ["Completing"]
    assert states(scenario.wait(31)) == ["Completed"]


def test_an_application_whose_pods_come_after_it_resumed_is_not_ended_by_the_wait_for_them() -> None:
    scenario = resumed()
    scenario.ask(an_ask("large", vcore=9000))
    assert states(scenario.wait(1000)) == []
    assert states(scenario.release_ask("large")) == ["Completing"]


def emptied(style: GangStyle, *, is_placed: bool) -> Scenario:
    """A gang of 2 whose only request was allocated and has finished, or was cancelled before."""
    scenario = Scenario(a_configuration(a_queue("a")), nodes=is_placed)
    scenario.submit(an_application(gang=2, style=style, timeout_s=60), an_ask("p0", group="workers", placeholder=True))
    (scenario.release if is_placed else scenario.release_ask)("p0")
    assert scenario.app().state == "Accepted"
    return scenario


@pytest.mark.parametrize("is_placed", [True, False])
@pytest.mark.parametrize(
    "style, ends",
    [
        (GangStyle.SOFT, [["Resuming", "Accepted"], ["Completing"], ["Completed"]]),
        (GangStyle.HARD, [["Failing", "Failed"]]),
    ],
)
def test_a_gang_that_neither_holds_nor_requests_anything_ends(
    style: GangStyle, ends: list[list[str]], *, is_placed: bool
) -> None:
    scenario = emptied(style, is_placed=is_placed)
    assert [states(scenario.wait(seconds)) for seconds in (61, 61, 31)[: len(ends)]] == ends
    assert scenario.partition.applications == {}


@pytest.mark.parametrize("is_placed", [True, False])
def test_a_gang_that_requests_its_members_again_is_reserved(*, is_placed: bool) -> None:
    scenario = emptied(GangStyle.HARD, is_placed=is_placed)
    scenario.wait(50)
    scenario.add_node("again")
    effects = scenario.ask(*(an_ask(f"again{index}", group="workers", placeholder=True) for index in range(2)))
    assert states(effects) == ["Running"]


def test_a_gang_that_requests_some_members_again_waits_for_room_without_a_timer() -> None:
    scenario = emptied(GangStyle.HARD, is_placed=False)
    scenario.ask(an_ask("again", group="workers", placeholder=True))
    assert states(scenario.wait(1000)) == []


def test_a_gang_whose_only_real_request_was_cancelled_ends() -> None:
    scenario = Scenario(a_configuration(a_queue("a")))
    scenario.submit(an_application(gang=2, timeout_s=60), an_ask("r0", group="workers"))
    scenario.release_ask("r0")
    assert states(scenario.wait(61)) == ["Resuming", "Accepted", "Completing"]


def test_the_timer_ends_a_reserved_gang_whose_placeholders_were_deleted() -> None:
    scenario = Scenario(a_configuration(a_queue("a")), nodes=1)
    scenario.gang(an_application(gang=2, timeout_s=60), 2)
    scenario.release("app-p0")
    assert states(scenario.release("app-p1")) == []
    assert states(scenario.wait(61)) == ["Completing"]


def test_the_state_log_of_an_application_is_bounded() -> None:
    scenario = Scenario(a_configuration(a_queue("a")), an_application(), nodes=1)
    for _ in range(100):
        scenario.ask(an_ask("r0"))
        scenario.release("r0")
    assert len(scenario.app().state_log) <= 100
    assert scenario.app().state_log[-1][1] == "Completing"
