"""Completed and rejected applications are kept for a time for the REST API."""

import gc
import tracemalloc
from collections.abc import Callable
from dataclasses import replace

import pytest

from muster_core.model import limits
from muster_core.model.config import PlacementRule, Timing
from muster_core.model.effects import ApplicationUpdated
from muster_core.model.events import ApplicationAdded, ApplicationRemoved, AskAdded, ManagerRegistered
from muster_core.model.ids import ApplicationId
from muster_core.model.records import Detail
from muster_core.model.resources import Resources
from muster_core.scheduling.scheduler import step
from muster_core.state.applications import Application
from tests.unit.builders import PARTITION, RM, SECOND, a_configuration, a_queue, an_application, an_ask
from tests.unit.core.scheduling.scenario import Scenario, rejection

HOUR = 3600


def a_scenario(hours: int = 72) -> Scenario:
    return Scenario(a_configuration(a_queue("a"), timing=Timing(expiry_ns=hours * HOUR * SECOND)), nodes=1)


def finish(scenario: Scenario, name: str) -> None:
    """Submit an application, let it run, and complete it after a minute."""
    scenario.submit(an_application(name), an_ask(f"{name}-r"))
    scenario.release(f"{name}-r", name)
    scenario.wait(60)


def kept(scenario: Scenario) -> dict[str, Application]:
    return {app.id: app for app in scenario.partition.history}


def test_a_completed_application_expires_after_its_time() -> None:
    scenario = a_scenario()
    finish(scenario, "one")
    app = kept(scenario)["one"]
    assert app.state.value == "Completed"
    assert app.ended_ns == app.state_log[-1][0]
    scenario.wait(72 * HOUR - 61)
    assert "one" in kept(scenario)
    scenario.wait(61)
    assert kept(scenario) == {}
    assert app.state.value == "Expired"
    assert scenario.records[-1].detail is Detail.APP_EXPIRED


def test_a_rejected_application_is_kept_with_the_reason() -> None:
    scenario = a_scenario()
    spec = an_application("bad", gang=1000, each=None, queue="root.a")
    scenario.reload(a_configuration(a_queue("a", vcore=1000)))
    reason = rejection(scenario.submit(spec))
    app = kept(scenario)["bad"]
    assert reason
    assert (app.state.value, app.rejected_message, app.queue.path) == ("Rejected", reason, "root.a")
    assert app.spec == replace(spec, tags={}, members=())
    scenario.wait(73 * HOUR)
    assert app.state.value == "Expired"
    assert kept(scenario) == {}


def test_one_timer_expires_each_application_at_its_time() -> None:
    scenario = a_scenario(hours=1)
    for name in ("one", "two", "three"):
        finish(scenario, name)
        scenario.wait(600)
    expiring = [clock for *_, clock in scenario.timers if "ended" in clock.timer.kind.value]
    assert len(expiring) == 1
    ended = {name: app.ended_ns for name, app in kept(scenario).items()}
    for name, at_ns in ended.items():
        scenario.wait((at_ns - scenario.now_ns) / SECOND + HOUR - 1)
        assert name in kept(scenario)
        scenario.wait(2)
        assert name not in kept(scenario)


def test_a_completed_id_may_be_reused() -> None:
    scenario = a_scenario()
    finish(scenario, "one")
    finish(scenario, "one")
    assert [app.id for app in scenario.partition.history] == ["one", "one"]


def test_a_removed_application_is_completed_and_expires() -> None:
    """The resource manager gets no update, because another application may have the ID by then."""
    scenario = a_scenario(hours=1)
    scenario.submit(an_application("one"))
    effects = scenario.remove("one")
    effects += scenario.wait(31)
    [app] = scenario.partition.history
    assert [state.value for _, state in app.state_log][-2:] == ["Completing", "Completed"]
    assert not [item for item in effects if isinstance(item, ApplicationUpdated)]
    assert set(kept(scenario)) == {"one"}
    scenario.wait(2 * HOUR)
    assert app.state.value == "Expired"
    assert kept(scenario) == {}


def test_the_oldest_applications_are_dropped_early_to_limit_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "HISTORY_BYTES", 1_000_000)
    scenario = a_scenario(hours=1)
    specs = [an_application(f"app{i}", queue="root.a") for i in range(150)]
    scenario.send(*(ApplicationAdded(spec) for spec in specs))
    scenario.send(*(ApplicationRemoved(PARTITION, spec.id) for spec in specs))
    scenario.wait(31)
    names = [app.id for app in scenario.partition.history]
    assert names == [spec.id for spec in specs[-len(names) :]]
    assert 100 < len(names) < 150
    assert scenario.partition.history_bytes <= 1_000_000
    scenario.wait(2 * HOUR)
    assert (kept(scenario), scenario.partition.history_bytes) == ({}, 0)


def test_any_number_of_completed_applications_is_kept_until_expiry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "REMOVED_BYTES", 0)
    scenario = a_scenario(hours=1)
    specs = [an_application(f"app{i}", queue="root.a") for i in range(1_200)]
    scenario.send(*(ApplicationAdded(spec) for spec in specs))
    scenario.send(*(ApplicationRemoved(PARTITION, spec.id) for spec in specs))
    assert len(kept(scenario)) == 1_200


def test_many_removed_applications_complete_early_to_limit_memory_and_queues(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "REMOVED_BYTES", 500_000)
    scenario = Scenario(a_configuration(a_queue("a")), nodes=1)
    for index in range(60):
        spec = replace(an_application(f"app{index}", queue=""), tags={"namespace": f"ns{index}"})
        scenario.send(ApplicationAdded(spec), ApplicationRemoved(PARTITION, spec.id))
    kept = list(scenario.partition.applications)
    assert kept == [f"app{index}" for index in range(60 - len(kept), 60)]
    assert 20 < len(kept) < 40
    assert scenario.partition.removed_bytes <= 500_000
    assert sum(not queue.managed for queue in scenario.partition.queues.by_path.values()) == len(kept)
    assert len(scenario.partition.history) == 60 - len(kept)
    scenario.wait(31)
    assert (scenario.partition.applications, scenario.partition.removed_bytes) == ({}, 0)
    assert {path for path, queue in scenario.partition.queues.by_path.items() if not queue.managed} == set()


def test_user_data_is_dropped_or_counted_as_memory() -> None:
    scenario = a_scenario()
    tags = {"namespace": "ns", "large": "x" * 100_000}
    long = replace(an_application("long", gang=2), tags=tags, groups=("g" * 200,) * 50)
    scenario.send(ApplicationAdded(an_application("short")), ApplicationAdded(long))
    scenario.remove("short")
    scenario.remove("long")
    scenario.wait(31)
    short, ended = scenario.partition.history
    assert (dict(ended.spec.tags), ended.spec.members) == ({}, ())
    assert (ended.spec.groups, ended.spec.placeholder_ask) == (long.groups, long.placeholder_ask)
    assert 39_000 < ended.kept_bytes - short.kept_bytes < 50_000


def measured(scenario: Scenario, end: Callable[[int], None], count: int) -> tuple[int, int]:
    """End `count` applications. Return the bytes that they use, and the bytes that the partition counts."""
    end(0)
    partition = scenario.partition
    before = partition.history_bytes + partition.removed_bytes
    gc.collect()
    tracemalloc.start()
    for number in range(1, 1 + count):
        end(number)
    gc.collect()
    used, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return used, partition.history_bytes + partition.removed_bytes - before


@pytest.mark.parametrize("removed_bytes", [0, limits.REMOVED_BYTES], ids=["completed", "removed"])
@pytest.mark.parametrize("groups, names", [(100, 16), (20, 50), (1, 1)])
def test_the_estimated_memory_covers_task_groups_and_their_resources(
    groups: int, names: int, removed_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "REMOVED_BYTES", removed_bytes)
    scenario = a_scenario()

    def complete(number: int) -> None:
        name, state = f"app{number}", scenario.scheduler_state
        step(state, ApplicationAdded(an_application(name)), scenario.now_ns)
        for group in range(groups):
            amounts = {f"example.com/r{index}": 10**6 + number * 1000 + group + index for index in range(names)}
            ask = an_ask(f"{name}-{group}", app=name, group=f"group-{group}", placeholder=True)
            step(state, AskAdded(replace(ask, resources=Resources(amounts))), scenario.now_ns)
        step(state, ApplicationRemoved(PARTITION, ApplicationId(name)), scenario.now_ns)

    used, counted = measured(scenario, complete, 2)
    assert used <= 1.1 * counted


@pytest.mark.parametrize("levels", [1, 30])
def test_the_estimated_memory_of_removed_applications_covers_their_dynamic_queues(levels: int) -> None:
    configuration = a_configuration(a_queue("a"))
    [partition] = configuration.partitions
    scenario = Scenario(
        replace(configuration, partitions=(replace(partition, rules=(PlacementRule("provided", create=True),)),)),
        nodes=1,
    )

    def remove(number: int) -> None:
        path = ".".join(["root", *(f"team{number}-{level}" for level in range(levels))])
        spec = an_application(f"app{number}", queue=path)
        step(scenario.scheduler_state, ApplicationAdded(spec), scenario.now_ns)
        step(scenario.scheduler_state, ApplicationRemoved(PARTITION, spec.id), scenario.now_ns)
        assert path in scenario.partition.queues.by_path

    used, counted = measured(scenario, remove, 5)
    assert used <= 1.1 * counted


def test_a_timer_of_an_earlier_session_expires_nothing() -> None:
    scenario = a_scenario(hours=2)
    finish(scenario, "one")
    scenario.wait(HOUR)
    scenario.send(ManagerRegistered(RM, scenario.scheduler_state.managers[RM].configuration))
    scenario.add_node("n9")
    finish(scenario, "two")
    scenario.wait(HOUR + 60)
    assert set(kept(scenario)) == {"two"}


def test_many_counts_of_deleted_queues_are_merged_into_their_parents(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "REMOVED_BYTES", 0)
    scenario = a_scenario()
    number = limits.ENDED_COUNTS_OF_GONE_QUEUES + 200
    for index in range(number):
        name = f"app{index}"
        spec = replace(an_application(name, queue=""), tags={"namespace": f"ns{index}"})
        step(scenario.scheduler_state, ApplicationAdded(spec), scenario.now_ns)
        step(scenario.scheduler_state, ApplicationRemoved(PARTITION, ApplicationId(name)), scenario.now_ns)
    ended = scenario.partition.ended
    assert sum(ended.values()) == number
    assert len(ended) < number
    assert max(ended, key=lambda key: ended[key])[0] == "root"
