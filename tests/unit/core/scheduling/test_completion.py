"""Timeouts, completion and failure of applications."""

from __future__ import annotations

import pytest

from muster_core.model.config import Timing
from muster_core.model.events import ApplicationAdded, ApplicationRemoved
from muster_core.model.ids import ApplicationId, Termination
from muster_core.model.specs import GangStyle
from tests.unit.builders import PARTITION, SECOND, a_configuration, a_queue, an_application, an_ask
from tests.unit.core.scheduling.scene import Scene, placed, refused_asks, rejection, released_asks, releases, states

TIMEOUT = Termination.TIMEOUT
REPLACED = Termination.PLACEHOLDER_REPLACED


def partial(style: GangStyle, timeout_s: int = 60, wait_s: int = 0) -> Scene:
    """A gang of 4 of which 2 have a place."""
    scene = Scene(a_configuration(a_queue("a")), nodes=1, vcore=2000)
    scene.add_full_node()
    scene.gang(ApplicationAdded(an_application(gang=4, style=style, timeout_s=timeout_s, wait_s=wait_s)), 4)
    return scene


def complete(scene: Scene, real: int = 2) -> None:
    """Swap `real` members in."""
    for index in range(real):
        said = scene.ask(an_ask(f"r{index}", group="workers"))
        [placeholder] = releases(said)
        scene.release(placeholder, why=REPLACED)


def test_a_soft_gang_that_times_out_gives_everything_back_and_goes_on_as_usual() -> None:
    scene = partial(GangStyle.SOFT)
    said = scene.wait(61)
    assert releases(said) == {"app-p0": TIMEOUT, "app-p1": TIMEOUT}
    assert released_asks(said) == {"app-p2": TIMEOUT, "app-p3": TIMEOUT}
    assert states(said) == ["Resuming"]
    assert states(scene.release("app-p0", why=TIMEOUT)) == []
    assert states(scene.release("app-p1", why=TIMEOUT)) == ["Accepted"]
    real = scene.ask(an_ask("r0", group="workers"))
    assert placed(real) == {"r0": "n0"}
    assert states(real) == ["Running"]


def test_a_hard_gang_that_times_out_fails_with_the_last_confirmed_release() -> None:
    scene = partial(GangStyle.HARD)
    said = scene.wait(61)
    assert states(said) == ["Failing"]
    assert len(releases(said)) == 2
    assert len(released_asks(said)) == 2
    assert states(scene.release("app-p0", why=TIMEOUT)) == []
    assert states(scene.release("app-p1", why=TIMEOUT)) == ["Failed"]
    assert rejection(scene.tell(ApplicationAdded(an_application()))) == "", "the id is free again"


def test_the_clock_starts_with_the_first_placeholder_not_with_the_submission() -> None:
    scene = Scene(a_configuration(a_queue("a")))
    scene.gang(ApplicationAdded(an_application(gang=4, timeout_s=60)), 4)
    assert scene.wait(1000) == []
    scene.add_full_node()
    scene.add_node("n0", vcore=2000)
    assert states(scene.wait(59)) == []
    assert states(scene.wait(2)) == ["Resuming"]


def test_a_gang_without_a_time_out_has_the_default_of_fifteen_minutes() -> None:
    scene = partial(GangStyle.SOFT, timeout_s=0)
    assert states(scene.wait(899)) == []
    assert states(scene.wait(2)) == ["Resuming"]


def test_a_time_out_while_running_releases_left_over_placeholders_and_nothing_else() -> None:
    scene = Scene(a_configuration(a_queue("a")), nodes=1)
    scene.gang(ApplicationAdded(an_application(gang=3, timeout_s=60, style=GangStyle.HARD)), 3)
    complete(scene, 1)
    said = scene.wait(61)
    assert set(releases(said)) == {"app-p1", "app-p2"}
    assert states(said) == []
    assert scene.app().state == "Running"


def test_a_reserved_gang_whose_pods_never_come_is_ended_by_the_clock() -> None:
    scene = Scene(a_configuration(a_queue("a")), nodes=1)
    scene.gang(ApplicationAdded(an_application(gang=2, timeout_s=60)), 2)
    assert set(releases(scene.wait(61))) == {"app-p0", "app-p1"}
    scene.release("app-p0", why=TIMEOUT)
    assert states(scene.release("app-p1", why=TIMEOUT)) == ["Completing"]
    assert states(scene.wait(31)) == ["Completed"]


def test_a_swap_on_its_way_is_left_alone_by_the_time_out() -> None:
    scene = Scene(a_configuration(a_queue("a")), nodes=1)
    scene.gang(ApplicationAdded(an_application(gang=2, timeout_s=60)), 2)
    scene.ask(an_ask("r0", group="workers"))
    assert set(releases(scene.wait(61))) == {"app-p1"}
    assert placed(scene.release("app-p0", why=REPLACED)) == {"r0": "n0"}


@pytest.mark.parametrize(
    "style, end", [(GangStyle.SOFT, ["Resuming", "Accepted"]), (GangStyle.HARD, ["Failing", "Failed"])]
)
def test_the_wait_clock_ends_a_gang_that_holds_nothing(style: GangStyle, end: list[str]) -> None:
    scene = Scene(a_configuration(a_queue("a")))
    scene.gang(ApplicationAdded(an_application(gang=2, style=style, wait_s=100)), 2)
    assert scene.wait(99) == []
    assert states(scene.wait(2)) == end


def test_the_wait_clock_does_not_end_a_gang_that_holds_something() -> None:
    scene = partial(GangStyle.HARD, timeout_s=500, wait_s=100)
    assert states(scene.wait(101)) == []


def test_losing_every_placeholder_does_not_prolong_the_timer() -> None:
    scene = partial(GangStyle.SOFT, timeout_s=60)
    scene.wait(50)
    scene.release("app-p0")
    said = scene.release("app-p1")
    assert set(placed(said)) <= {"app-p2", "app-p3"}
    assert scene.app().gang.reserved["vcore"] == 2000
    assert states(scene.wait(11)) == ["Resuming"]


def test_an_application_completes_some_time_after_its_last_allocation() -> None:
    scene = Scene(a_configuration(a_queue("a"), timing=Timing(completing_timeout_ns=5 * SECOND)), nodes=1)
    scene.tell(ApplicationAdded(an_application()))
    assert states(scene.ask(an_ask("r0"))) == ["Accepted", "Running"]
    assert states(scene.release("r0")) == ["Completing"]
    assert scene.wait(4) == []
    assert states(scene.wait(2)) == ["Completed"]
    assert scene.partition.applications == {}


def test_left_over_placeholders_do_not_keep_an_application_running_and_go_first() -> None:
    scene = Scene(a_configuration(a_queue("a")), nodes=1)
    scene.gang(ApplicationAdded(an_application(gang=2)), 2)
    complete(scene, 1)
    assert states(scene.release("r0")) == ["Completing"]
    ending = scene.wait(31)
    assert releases(ending) == {"app-p1": TIMEOUT}
    assert states(ending) == []
    assert states(scene.release("app-p1", why=TIMEOUT)) == ["Completed"]


def test_a_new_ask_brings_a_completing_application_back() -> None:
    scene = Scene(a_configuration(a_queue("a")), nodes=1)
    scene.tell(ApplicationAdded(an_application()))
    scene.ask(an_ask("r0"))
    scene.release("r0")
    back = scene.ask(an_ask("r1"))
    assert states(back) == ["Running"]
    assert placed(back) == {"r1": "n0"}
    assert states(scene.wait(100)) == [], "the old completing clock is stale"


def test_an_application_does_not_complete_because_its_real_asks_have_not_come_yet() -> None:
    scene = Scene(a_configuration(a_queue("a")), nodes=1)
    scene.gang(ApplicationAdded(an_application(gang=2)), 2)
    assert scene.wait(800) == []
    assert scene.app().state == "Running"


def test_a_completed_id_can_be_used_again_and_old_clocks_do_not_reach_the_new_one() -> None:
    scene = Scene(a_configuration(a_queue("a")), nodes=1)
    for _ in range(3):
        assert rejection(scene.tell(ApplicationAdded(an_application()))) == ""
        scene.ask(an_ask("r0"))
        scene.release("r0")
        assert states(scene.wait(31)) == ["Completed"]


def test_a_live_id_is_refused_with_its_state() -> None:
    scene = Scene(a_configuration(a_queue("a")), nodes=1)
    scene.tell(ApplicationAdded(an_application()))
    assert "New" in rejection(scene.tell(ApplicationAdded(an_application())))


def test_removing_an_application_gives_everything_back_and_says_so() -> None:
    scene = Scene(a_configuration(a_queue("a")), nodes=1)
    scene.gang(ApplicationAdded(an_application(gang=2)), 2)
    scene.ask(an_ask("r0", group="workers"))
    said = scene.tell(ApplicationRemoved(PARTITION, ApplicationId("app")))
    assert set(releases(said)) == {"app-p0", "app-p1"}
    assert set(released_asks(said)) == {"r0"}
    assert scene.partition.queues.root.allocated == scene.partition.queues.root.pending
    assert scene.partition.applications == {}


def test_a_placeholder_ask_after_the_reservation_is_given_back_and_not_refused() -> None:
    """It may cross the word that the gang has its places, on another stream."""
    scene = Scene(a_configuration(a_queue("a")), nodes=1)
    scene.gang(ApplicationAdded(an_application(gang=2)), 2)
    said = scene.ask(an_ask("late", group="workers", placeholder=True))
    assert released_asks(said) == {"late": Termination.TIMEOUT}
    assert refused_asks(said) == {}


def test_an_execution_time_out_of_an_application_without_a_gang_limits_its_run_time() -> None:
    scene = Scene(a_configuration(a_queue("a")), nodes=1)
    scene.tell(ApplicationAdded(an_application(timeout_s=60)))
    scene.ask(an_ask("r0"))
    said = scene.wait(61)
    assert states(said) == ["Failing"]
    assert releases(said) == {"r0": TIMEOUT}
    assert states(scene.release("r0", why=TIMEOUT)) == ["Failed"]


def test_an_execution_time_out_of_an_ask_limits_the_run_time_of_its_allocation() -> None:
    scene = Scene(a_configuration(a_queue("a")), nodes=1)
    scene.tell(ApplicationAdded(an_application()))
    scene.ask(an_ask("r0", timeout_s=10), an_ask("r1"))
    assert releases(scene.wait(11)) == {"r0": TIMEOUT}


def test_the_run_time_of_an_allocation_starts_anew_when_its_key_is_asked_for_again() -> None:
    scene = Scene(a_configuration(a_queue("a")), nodes=1)
    scene.tell(ApplicationAdded(an_application()))
    scene.ask(an_ask("r0", timeout_s=10))
    scene.wait(5)
    scene.release("r0")
    scene.ask(an_ask("r0", timeout_s=10))
    assert scene.wait(6) == [], "the clock of the first one"
    assert releases(scene.wait(5)) == {"r0": TIMEOUT}


def test_an_execution_time_out_does_not_count_the_time_spent_waiting() -> None:
    scene = Scene(a_configuration(a_queue("a")))
    scene.tell(ApplicationAdded(an_application(timeout_s=60)))
    scene.ask(an_ask("r0"))
    scene.wait(100)
    assert states(scene.add_node("n0")) == ["Running"]
    assert scene.wait(59) == []
    assert states(scene.wait(2)) == ["Failing"]


def test_an_execution_time_out_goes_on_over_a_pause_in_completing() -> None:
    scene = Scene(a_configuration(a_queue("a")), nodes=1)
    scene.tell(ApplicationAdded(an_application(timeout_s=60)))
    scene.ask(an_ask("r0"))
    scene.wait(40)
    scene.release("r0")
    scene.ask(an_ask("r1"))
    assert states(scene.wait(21)) == ["Failing"]


def test_a_real_pod_placed_while_resuming_makes_the_application_run_when_it_is_accepted_again() -> None:
    scene = partial(GangStyle.SOFT)
    scene.ask(an_ask("r0", group="workers", vcore=500))
    scene.add_node("n1", vcore=500)
    timed_out = scene.wait(61)
    assert placed(timed_out) == {"r0": "n1"}
    scene.release("app-p0", why=TIMEOUT)
    assert states(scene.release("app-p1", why=TIMEOUT)) == ["Accepted", "Running"]


def test_an_application_whose_last_real_ask_went_while_resuming_completes() -> None:
    scene = partial(GangStyle.SOFT)
    scene.ask(an_ask("r0", group="workers", vcore=9000))
    scene.wait(61)
    assert states(scene.release_ask("r0")) == []
    scene.release("app-p0", why=TIMEOUT)
    assert states(scene.release("app-p1", why=TIMEOUT)) == ["Accepted", "Completing"]


def test_an_application_that_resumes_before_its_pods_have_come_waits_for_them() -> None:
    scene = partial(GangStyle.SOFT)
    scene.wait(61)
    scene.release("app-p0", why=TIMEOUT)
    assert states(scene.release("app-p1", why=TIMEOUT)) == ["Accepted"]
    assert states(scene.wait(1000)) == []


def test_the_clock_ends_a_reserved_gang_even_where_its_placeholders_went_by_themselves() -> None:
    scene = Scene(a_configuration(a_queue("a")), nodes=1)
    scene.gang(ApplicationAdded(an_application(gang=2, timeout_s=60)), 2)
    scene.release("app-p0")
    assert states(scene.release("app-p1")) == []
    assert states(scene.wait(61)) == ["Completing"]


def test_the_log_of_states_of_an_application_that_comes_and_goes_has_an_end() -> None:
    scene = Scene(a_configuration(a_queue("a")), nodes=1)
    scene.tell(ApplicationAdded(an_application()))
    for _ in range(100):
        scene.ask(an_ask("r0"))
        scene.release("r0")
    assert len(scene.app().state_log) <= 100
    assert scene.app().state_log[-1][1] == "Completing"
