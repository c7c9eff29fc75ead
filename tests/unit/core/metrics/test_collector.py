"""A scrape reads applications, queues, nodes and gangs from the state; a removed queue has no series."""

from collections.abc import Iterable
from dataclasses import replace

from prometheus_client.core import Metric
from structlog.testing import capture_logs

from muster_core.metrics import collector
from muster_core.metrics.counters import Metrics
from muster_core.model import limits
from muster_core.model.events import ApplicationAdded, NodeAction
from muster_core.model.ids import ROOT, NodeId, QueuePath
from muster_core.model.resources import Limit, Resources
from muster_core.si.events import EventStore, PushFilter
from muster_core.state.scheduler_state import Partition
from muster_core.state.waiting_times import WaitingTimes
from tests.unit.builders import SECOND, a_configuration, a_queue, an_allocation, an_application, an_ask, resources
from tests.unit.core.conftest import Bench
from tests.unit.core.function_calls import MOST_CALLS, most_calls
from tests.unit.core.scheduling.scenario import Scenario


class NoBacklog:
    """No messages wait."""

    def __len__(self) -> int:
        return 0

    def oldest_s(self) -> float:
        return 0.0


Series = dict[tuple[str, ...], float]


def series(metrics: Iterable[Metric], name: str) -> Series:
    """Label values → value."""
    return {
        tuple(sample.labels.values()): sample.value
        for metric in metrics
        for sample in metric.samples
        if sample.name == name
    }


def of_applications(scenario: Scenario, name: str) -> Series:
    return series(collector.application_families([scenario.partition]), name)


def of_queues(partitions: list[Partition], name: str) -> Series:
    return series(collector.queue_families(partitions), name)


def named(scenario: Scenario, name: str, *, enabled: bool = True) -> Series:
    return series(collector.QueueNames().families([scenario.partition], enabled=enabled), name)


def test_applications_are_counted_by_state_and_by_queue() -> None:
    scenario = Scenario(a_configuration(a_queue("a"), a_queue("b")), nodes=1)
    for name, queue in (("one", "root.a"), ("two", "root.b"), ("three", "root.b")):
        scenario.submit(an_application(name, queue=queue))
    scenario.ask(an_ask("r", app="two"))
    scenario.submit(an_application("two"))
    states = of_applications(scenario, "yunikorn_scheduler_application_total")
    assert {key: count for key, count in states.items() if count} == {("new",): 2, ("running",): 1, ("rejected",): 1}
    by_queue = of_applications(scenario, "yunikorn_queue_app")
    assert by_queue["root.b", "running"] == 1
    assert by_queue["root.b", "new"] == 1
    in_a = {state: count for (queue, state), count in by_queue.items() if queue == "root.a"}
    assert in_a == {"new": 1, "rejected": 1, "running": 0}, "other states are omitted if they are 0"
    assert ("root", "running") not in by_queue


def test_finished_applications_stay_counted_after_their_queue_is_deleted() -> None:
    scenario = Scenario(a_configuration(), nodes=1)
    scenario.submit(an_application(queue=""))
    scenario.ask(an_ask("r"))
    scenario.release("r")
    assert ("root.ns", "completing") in of_applications(scenario, "yunikorn_queue_app")
    scenario.wait(40)
    ended = {("root.ns", "completed"): 1, ("root.ns", "failed"): 0, ("root.ns", "rejected"): 0}
    assert of_applications(scenario, "yunikorn_queue_app_total") == ended
    assert of_applications(scenario, "yunikorn_queue_app") == {}
    assert ("root.ns", "max", "vcore") not in of_queues([scenario.partition], "yunikorn_queue_resource")


def test_a_rejected_application_makes_no_series_of_the_queue_it_named() -> None:
    scenario = Scenario(a_configuration(a_queue("a")))
    scenario.send(ApplicationAdded(an_application("two")), ApplicationAdded(an_application("two", queue="root.x.y")))
    ended = of_applications(scenario, "yunikorn_queue_app_total")
    assert {queue for queue, _ in ended} == {"root"}
    assert ended["root", "rejected"] == 1


def test_gangs_are_counted_by_phase() -> None:
    scenario = Scenario(a_configuration(a_queue("a")), nodes=1, vcore=3000)
    scenario.gang(an_application("one", gang=2), 2)
    scenario.gang(an_application("two", gang=2), 2)
    phases = of_applications(scenario, "muster_core_gangs")
    assert {key: count for key, count in phases.items() if count} == {("reserved",): 1, ("partial",): 1}
    assert of_applications(scenario, "muster_core_pending_asks") == {(): 1}
    assert of_applications(scenario, "muster_core_allocations") == {(): 3}


def test_queues_show_resources_application_limits_and_allocation_counts() -> None:
    leaf = replace(a_queue("a-b", vcore=9000, guaranteed=1000), max_applications=3)
    scenario = Scenario(a_configuration(leaf), nodes=1, vcore=4000)
    scenario.submit(an_application(queue="root.a-b"))
    scenario.ask(*(an_ask(f"r{i}") for i in range(5)))
    scenario.release("r0")
    amounts = of_queues([scenario.partition], "yunikorn_queue_resource")
    assert {key[1]: value for key, value in amounts.items() if key[0] == "root.a-b" and key[2] == "vcore"} | {
        "maxRunningApps": amounts["root.a-b", "maxRunningApps", "apps"]
    } == {
        "guaranteed": 1000,
        "max": 9000,
        "allocated": 4000,
        "pending": 0,
        "maxRunningApps": 3,
    }
    assert amounts["root", "allocated", "vcore"] == 4000
    memory = {key[1]: value for key, value in amounts.items() if key[0] == "root.a-b" and key[2] == "memory"}
    assert memory == {"allocated": 0, "pending": 0}, "idle queues show 0"
    counts = of_queues([scenario.partition], "muster_core_queue_containers_total")
    assert counts == {("root.a-b", "allocated"): 5, ("root.a-b", "released"): 1}
    assert named(scenario, "yunikorn_root_a_b_queue_container") == {("allocated",): 5, ("released",): 1}


def test_the_maximum_of_root_is_the_size_of_the_cluster() -> None:
    scenario = Scenario(a_configuration(a_queue("a")), nodes=2, vcore=4000)
    amounts = of_queues([scenario.partition], "yunikorn_queue_resource")
    assert amounts["root", "max", "vcore"] == 8000
    assert (amounts["root", "allocated", "vcore"], amounts["root", "pending", "vcore"]) == (0, 0)


def test_queues_of_one_path_in_two_partitions_are_one_series() -> None:
    one, two = (Scenario(a_configuration(a_queue("a", vcore=vcore)), nodes=1) for vcore in (1000, 500))
    amounts = of_queues([one.partition, two.partition], "yunikorn_queue_resource")
    assert amounts["root.a", "max", "vcore"] == 1500


def of_nodes(scenario: Scenario, name: str) -> Series:
    return series(collector.node_families([scenario.partition], failed=2, decommissioned=3), name)


def test_nodes_are_counted_by_state() -> None:
    scenario = Scenario(a_configuration(a_queue("a")), nodes=3)
    scenario.node("n0", NodeAction.DRAIN)
    assert of_nodes(scenario, "yunikorn_scheduler_node") == {
        ("active",): 2,
        ("draining",): 1,
        ("failed",): 2,
        ("decommissioned",): 3,
    }


def test_nodes_are_counted_by_usage_range_including_the_upper_bound() -> None:
    scenario = Scenario(a_configuration(a_queue("a")), nodes=0)
    taken = {"n0": 0, "n1": 100, "n2": 101, "n3": 999, "n4": 1000}
    for name in taken:
        scenario.add_node(name, vcore=1000)
    for name, vcore in taken.items():
        scenario.partition.nodes.take(NodeId(name), resources(vcore=vcore))
    ranges = of_nodes(scenario, "yunikorn_scheduler_vcore_node_usage_total")
    assert list(ranges) == [
        ("[0,10%]",),
        *((f"({low}%,{low + 10}%]",) for low in range(10, 100, 10)),
    ]
    assert [ranges[key] for key in (("[0,10%]",), ("(10%,20%]",), ("(90%,100%]",))] == [2, 1, 2]


def test_the_cluster_shows_its_capacity_and_usage() -> None:
    scenario = Scenario(a_configuration(a_queue("a")), nodes=2, vcore=4000)
    scenario.submit(an_application())
    scenario.ask(an_ask("r0"))
    found = of_nodes(scenario, "muster_core_cluster_resource")
    assert [found["vcore", state] for state in ("capacity", "allocated", "reserved", "used")] == [8000, 1000, 0, 1000]


def test_only_requests_that_need_more_nodes_are_outstanding_and_not_those_over_quota() -> None:
    scenario = Scenario(a_configuration(a_queue("a"), a_queue("b", vcore=500)), nodes=1, vcore=1000)
    scenario.send(ApplicationAdded(an_application()), ApplicationAdded(an_application("b", queue="root.b")))
    scenario.ask(an_ask("r0"), an_ask("r1"), an_ask("r2"), an_ask("r3", app="b"))
    found = list(collector.shortage_families([scenario.partition]))
    assert series(found, "muster_core_outstanding_requests") == {(): 2}
    assert series(found, "muster_core_outstanding_resource")["vcore",] == 2000
    assert series(found, "muster_core_preemptions_total") == {(): 0}


def test_outstanding_resources_are_all_that_are_offered_and_a_bounded_number_of_invented_ones() -> None:
    """Users invent names of resources, and each would be a series."""
    scenario = Scenario(a_configuration(a_queue("a")), nodes=1, vcore=1000)
    scenario.submit(an_application())
    for number in range(4):
        ask = an_ask(f"r{number}")
        names = (f"example.com/{number}-{index:03}" for index in range(limits.RESOURCE_NAMES // 2 - 2))
        scenario.ask(replace(ask, resources=ask.resources + Resources(dict.fromkeys(names, 1))))
    found = series(collector.shortage_families([scenario.partition]), "muster_core_outstanding_resource")
    invented = [name for (name,) in found if name.startswith("example.com/")]
    assert found["vcore",] == 4000
    assert invented == sorted(f"example.com/{number}-{index:03}" for number in range(3) for index in range(62))[:128]
    assert len(invented) == limits.RESOURCE_NAMES


def test_a_removed_application_frees_its_series() -> None:
    scenario = Scenario(a_configuration(), nodes=1)
    scenario.submit(an_application(queue=""))
    assert "root.ns" in {key[0] for key in of_applications(scenario, "yunikorn_queue_app")}
    scenario.remove("app")
    scenario.wait(31)
    assert of_applications(scenario, "yunikorn_queue_app") == {}


async def test_a_core_shows_sessions_events_and_its_event_queue(bench: Bench) -> None:
    assert bench.metric("muster_core_sessions") == 0
    await bench.register()
    await bench.wait_until_idle()
    assert bench.metric("muster_core_sessions") == 1
    assert bench.metric("yunikorn_event_total_stored") == len(bench.core.events) > 0
    assert bench.metric("muster_core_event_queue_depth") == 0
    bench.core.events.subscribe("here")
    assert bench.metric("muster_core_event_streams") == 1


def test_a_limit_of_zero_is_shown() -> None:
    scenario = Scenario(a_configuration(replace(a_queue("a"), max=Limit({"vcore": 0}))))
    assert of_queues([scenario.partition], "yunikorn_queue_resource")["root.a", "max", "vcore"] == 0


def test_usage_of_0_is_shown_for_cpu_memory_and_guaranteed_resources() -> None:
    scenario = Scenario(a_configuration(replace(a_queue("a"), guaranteed=Resources({"gpu": 1}))))
    amounts = of_queues([scenario.partition], "yunikorn_queue_resource")
    assert {key[1:]: value for key, value in amounts.items() if key[0] == "root.a"} == {
        ("guaranteed", "gpu"): 1,
        **{(state, name): 0 for state in ("allocated", "pending") for name in ("vcore", "memory", "gpu")},
    }


def of_waiting(partitions: list[Partition], name: str) -> Series:
    return series(collector.waiting_families(partitions), name)


def test_the_time_from_the_creation_of_a_pod_to_its_allocation_is_a_histogram_by_queue() -> None:
    scenario = Scenario(a_configuration(a_queue("a"), a_queue("b")), nodes=1, vcore=3000)
    scenario.submit(an_application("one", queue="root.a"))
    ago = scenario.now_ns - 7 * SECOND
    later = replace(an_ask("ahead", app="one"), created_ns=scenario.now_ns + SECOND)
    scenario.ask(replace(an_ask("r0", app="one"), created_ns=ago), later)
    scenario.ask(an_ask("unknown", app="one"))
    name = "muster_core_pod_scheduling_seconds"
    buckets = of_waiting([scenario.partition], f"{name}_bucket")
    assert {bound: count for (queue, bound), count in buckets.items() if queue == "root.a"} == {
        **dict.fromkeys(("1.0", "2.0", "5.0"), 1),
        **{f"{bound}.0": 2 for bound in (10, 30, 60, 120, 300, 600, 1800, 3600, 14400, 86400)},
        "+Inf": 2,
    }
    assert of_waiting([scenario.partition], f"{name}_count") == {("root.a",): 2}
    assert of_waiting([scenario.partition], f"{name}_sum") == {("root.a",): 7.0}
    assert of_waiting([scenario.partition] * 2, f"{name}_sum") == {("root.a",): 14.0}, "partitions are added up"


def test_the_time_from_the_submission_of_a_gang_to_its_completion_is_a_histogram_by_queue() -> None:
    scenario = Scenario(a_configuration(a_queue("a")), nodes=1, vcore=1000)
    scenario.gang(an_application("one", gang=2), 2)
    name = "muster_core_gang_scheduling_seconds_sum"
    oldest = of_applications(scenario, "muster_core_oldest_pending_gang_timestamp_seconds")
    assert (of_waiting([scenario.partition], name), oldest) == ({}, {("root.a",): scenario.now_ns / SECOND})
    scenario.wait(40)
    scenario.add_node("more", vcore=1000)
    assert of_waiting([scenario.partition], name) == {("root.a",): 40.0}
    assert of_waiting([scenario.partition], "muster_core_pod_scheduling_seconds_sum") == {}, "placeholders do not count"
    assert of_applications(scenario, "muster_core_oldest_pending_gang_timestamp_seconds") == {}


def test_a_gang_that_was_complete_before_a_restart_is_not_counted_again() -> None:
    scenario = Scenario(a_configuration(a_queue("a")), nodes=1)
    scenario.submit(an_application("one", gang=1))
    placed = an_allocation("p0", "n0", app="one", placeholder=True, group="workers")
    scenario.report(placed)
    assert of_applications(scenario, "muster_core_gangs")["reserved",] == 1
    assert of_waiting([scenario.partition], "muster_core_gang_scheduling_seconds_sum") == {}


def test_waiting_times_of_more_queues_than_have_series_are_added_to_their_parents() -> None:
    times = WaitingTimes()
    for number in range(limits.TIMED_QUEUES - 1):
        times.note(QueuePath(f"root.a{number}"), SECOND)
    times.note(QueuePath("root.parent"), SECOND)
    for queue in ("root.parent.more", "root.other.deep", "root.a0"):
        times.note(QueuePath(queue), SECOND)
    found = {queue: sum(counts) for queue, counts, _ in times}
    assert len(found) == limits.TIMED_QUEUES + 1
    assert (found[QueuePath("root.parent")], found[QueuePath("root.a0")], found[ROOT]) == (2, 2, 1)


def test_only_the_queues_with_the_oldest_pending_gangs_have_a_series() -> None:
    most = limits.QUEUES_WITH_PENDING_GANGS
    scenario = Scenario(a_configuration(*(a_queue(f"q{number}") for number in range(most + 3))))
    for number in range(most + 3):
        scenario.wait(1)
        scenario.submit(an_application(f"g{number}", gang=2, queue=f"root.q{number}"))
    oldest = of_applications(scenario, "muster_core_oldest_pending_gang_timestamp_seconds")
    assert set(oldest) == {(f"root.q{number}",) for number in range(most)}


def colliding() -> Scenario:
    """Three leaf queues with the same name in metrics, and 1, 2 and 3 allocations."""
    scenario = Scenario(a_configuration(a_queue("a-b"), a_queue("a_b"), a_queue("a", a_queue("b"))), nodes=2)
    for number, queue in enumerate(("root.a-b", "root.a_b", "root.a.b"), 1):
        scenario.submit(an_application(queue, queue=queue))
        scenario.ask(*(an_ask(f"{queue}{index}", app=queue) for index in range(number)))
    return scenario


def test_d15_the_first_of_several_queues_with_one_name_has_the_metric_and_the_others_are_logged_once() -> None:
    scenario, names = colliding(), collector.QueueNames()
    with capture_logs() as logs:
        first, again = (list(names.families([scenario.partition], enabled=True)) for _ in range(2))
    assert [metric.name for metric in first] == [
        "yunikorn_root_a_b_queue_container",
        "muster_core_queue_name_collisions",
    ]
    assert series(first, "yunikorn_root_a_b_queue_container")["allocated",] == 1
    assert series(again, "muster_core_queue_name_collisions") == {(): 2}
    assert [(log["log_level"], log["queue"], log["first"]) for log in logs] == [
        ("warning", "root.a_b", "root.a-b"),
        ("warning", "root.a.b", "root.a-b"),
    ]
    by_queue = of_queues([scenario.partition], "muster_core_queue_containers_total")
    assert [by_queue[path, "allocated"] for path in ("root.a-b", "root.a_b", "root.a.b")] == [1, 2, 3]


def test_the_setting_removes_the_metrics_named_after_queues() -> None:
    assert named(colliding(), "yunikorn_root_a_b_queue_container", enabled=False) == {}
    assert named(colliding(), "muster_core_queue_name_collisions", enabled=False) == {(): 0}


def metric_names(bench: Bench) -> list[str]:
    return [metric.name for metric in bench.core.metrics.registry.collect()]


async def test_the_setting_of_the_resource_manager_applies_to_the_metrics(bench: Bench) -> None:
    for text, names in (("false", []), ("true", ["yunikorn_root_a_queue_container"])):
        await bench.register(**{"metrics.yunikornQueueNames": text})
        bench.core.loop.scheduler_state = Scenario(a_configuration(a_queue("a"))).scheduler_state
        assert [name for name in metric_names(bench) if name.endswith("_queue_container")] == names
        assert "muster_core_queue_containers" in metric_names(bench)


def test_d15_no_series_and_no_metric_is_written_twice_and_no_part_grows_with_the_queues() -> None:
    many = 2_000
    scenario = Scenario(a_configuration(*(a_queue(f"q{index}") for index in range(many))))
    metrics = Metrics()
    sources = collector.CollectorSources(
        lambda: scenario.scheduler_state, NoBacklog(), EventStore("x"), PushFilter(), lambda: 1, metrics
    )
    metrics.registry.register(collector.StateCollector(sources))
    calls, parts = most_calls(metrics.pieces())
    assert calls <= MOST_CALLS
    written = b"".join(part for part in parts if isinstance(part, bytes)).decode().splitlines()
    heads = [line.split()[2] for line in written if line.startswith("# TYPE")]
    assert len(heads) == len(set(heads)) > many
    lines = [line.rpartition(" ")[0] for line in written if not line.startswith("#")]
    assert len(lines) == len(set(lines)) > 4 * many
