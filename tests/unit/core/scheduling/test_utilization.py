"""Utilization reports, node recommendations, and requests that are outstanding because no node fits."""

from __future__ import annotations

from dataclasses import replace

from muster_core.model.config import Configuration, NodeOrder, NodeSort, Timing
from muster_core.model.effects import Effect, NodeRecommended
from muster_core.model.events import ApplicationAdded, AskAdded, NodeAdded, NodeUpdated, UtilizationReported
from muster_core.model.ids import AllocationId, ApplicationId, NodeId
from muster_core.model.resources import Resources
from muster_core.placement.autoscaling import Outstanding
from tests.unit.builders import (
    PARTITION,
    a_configuration,
    a_node,
    a_queue,
    an_affinity,
    an_application,
    an_ask,
    resources,
)
from tests.unit.core.scheduling.scenario import Scenario, outstanding, placed, waits


def by_utilization() -> Configuration:
    configuration = a_configuration(a_queue("a"))
    [partition] = configuration.partitions
    sort = NodeSort(NodeOrder.UTILIZATION, (("vcore", 1.0),))
    return replace(configuration, partitions=(replace(partition, node_sort=sort),))


def a_scenario(nodes: int = 2, configuration: Configuration | None = None) -> Scenario:
    scenario = Scenario(configuration or a_configuration(a_queue("a")), nodes)
    scenario.send(ApplicationAdded(an_application()))
    return scenario


def node_uses(node: str, vcore: int) -> UtilizationReported:
    return UtilizationReported(PARTITION, resources(vcore=vcore), NodeId(node), ApplicationId(""), AllocationId(""))


def recommended(effects: list[Effect]) -> dict[str, str]:
    return {one.node: one.message for one in effects if isinstance(one, NodeRecommended)}


# -- utilization ----------------------------------------------------------------


def test_the_node_with_the_lowest_actual_usage_is_chosen() -> None:
    scenario = a_scenario(configuration=by_utilization())
    scenario.send(node_uses("n0", 1500))
    # n1 has no report: it counts as what is allocated there, first nothing, then one core, then two.
    assert placed(scenario.ask(an_ask("a"))) == {"a": "n1"}
    assert placed(scenario.ask(an_ask("b"))) == {"b": "n1"}
    assert placed(scenario.ask(an_ask("c"))) == {"c": "n0"}
    assert placed(scenario.ask(an_ask("d"))) == {"d": "n1"}
    scenario.send(node_uses("n1", 100))
    assert placed(scenario.ask(an_ask("e"))) == {"e": "n1"}


def test_a_utilization_report_survives_node_updates() -> None:
    scenario = a_scenario(configuration=by_utilization())
    scenario.send(node_uses("n0", 3000), NodeUpdated(a_node("n0", vcore=4000)))
    assert scenario.partition.nodes.record(NodeId("n0")).utilization == resources(vcore=3000)
    assert placed(scenario.ask(an_ask("a"), an_ask("b"))) == {"a": "n1", "b": "n1"}


def test_reports_of_unknown_nodes_and_allocations_are_counted_and_ignored() -> None:
    scenario = a_scenario()
    scenario.ask(an_ask("a"))
    mine = UtilizationReported(PARTITION, resources(vcore=7), None, ApplicationId("app"), AllocationId("a-0"))
    scenario.send(mine, replace(mine, application=ApplicationId("other")), node_uses("gone", 1))
    [allocation] = scenario.app().allocations.values()
    assert allocation.utilization == resources(vcore=7)
    assert scenario.scheduler_state.ignored == {
        "utilization of an unknown allocation": 1,
        "utilization of an unknown node": 1,
    }


# -- recommendations ------------------------------------------------------------


def repeated(key: str, *nodes: str) -> AskAdded:
    return AskAdded(replace(an_ask(key), avoid=frozenset(NodeId(node) for node in nodes)))


def test_a_node_with_three_failed_binds_is_recommended_once() -> None:
    scenario = a_scenario()
    assert (
        recommended(
            scenario.send(
                repeated("a", "n0"),
                repeated("a", "n0", "n1"),
                repeated("b", "n0", "gone"),
            )
        )
        == {}
    )
    effects = recommended(scenario.send(repeated("c", "n0")))
    assert list(effects) == ["n0"]
    assert effects["n0"].startswith("3 pods could not be bound to this node within 10 minutes")
    assert recommended(scenario.send(repeated("d", "n0"))) == {}


def test_old_failed_binds_are_not_counted() -> None:
    scenario = a_scenario()
    scenario.send(repeated("a", "n0"), repeated("b", "n0"))
    scenario.wait(600)
    assert recommended(scenario.send(repeated("c", "n0"))) == {}


def test_a_node_to_empty_is_searched_periodically_while_nothing_waits() -> None:
    seconds = 1_000_000_000
    timing = Timing(empty_node_interval_ns=300 * seconds)
    scenario = a_scenario(1, a_configuration(a_queue("a"), timing=timing))
    scenario.ask(an_ask("a"), an_ask("b"))
    assert recommended(scenario.add_node("n1")) == {}  # evaluated already on arrival, and there was no other node
    scenario.wait(300)
    effects = recommended(scenario.ask(an_ask("c")))
    assert effects == {"n1": "the node could be emptied: its 1 allocations would fit on the other nodes"}
    assert recommended(scenario.ask(an_ask("d"))) == {}
    scenario.wait(300)
    assert recommended(scenario.ask(an_ask("huge", vcore=9000))) == {}  # something waits
    assert list(recommended(scenario.release_ask("huge"))) == ["n0"]


def test_no_node_is_recommended_to_be_emptied_by_default() -> None:
    scenario = a_scenario(2)
    scenario.ask(an_ask("a"))
    scenario.wait(100_000)
    assert recommended(scenario.ask(an_ask("b"))) == {}


# -- autoscaling ----------------------------------------------------------------


def of(scenario: Scenario) -> list[Outstanding]:
    return outstanding(scenario.partition)


def test_outstanding_requests_need_only_nodes_and_are_grouped_by_shape() -> None:
    scenario = Scenario(a_configuration(a_queue("a"), a_queue("b", vcore=1000)), 1)
    scenario.send(ApplicationAdded(an_application()), ApplicationAdded(an_application("other")))
    scenario.send(ApplicationAdded(an_application("bounded", queue="root.b")))
    scenario.ask(an_ask("x", count=3, vcore=3000), an_ask("y", vcore=3000, app="other"))
    scenario.ask(*(an_ask(f"q{i}", app="bounded", vcore=800) for i in range(3)))
    assert of(scenario) == [Outstanding(PARTITION, resources(vcore=3000, pods=1), "", 3, 2)]
    assert of(scenario)[0].id == "pods=1,vcore=3000"
    scenario.add_node("n1")
    assert [one.count for one in of(scenario)] == [2]
    scenario.add_node("n2")
    scenario.add_node("n3")
    assert of(scenario) == []


def test_an_ask_that_its_constraints_exclude_from_every_node_is_not_outstanding() -> None:
    scenario = a_scenario()
    effects = scenario.ask(an_ask("w", placement=an_affinity("role", "db", least=1)))
    assert waits(effects)["w"][0] == "FAILED"
    assert of(scenario) == []


def test_without_nodes_all_asks_are_outstanding_with_their_instance_type() -> None:
    scenario = Scenario(a_configuration(a_queue("a")))
    scenario.send(ApplicationAdded(an_application()))
    placement = an_affinity("role", "x", most=3)
    constraints = replace(an_ask("a").constraints, node_selector=(("node.kubernetes.io/instance-type", "m5.large"),))
    scenario.ask(an_ask("a", constraints=constraints), an_ask("b", placement=placement))
    assert [(one.id, one.count) for one in of(scenario)] == [
        ("pods=1,vcore=1000", 1),
        ("pods=1,vcore=1000@m5.large", 1),
    ]


def test_a_released_ask_is_not_outstanding() -> None:
    scenario = Scenario(a_configuration(a_queue("a")))
    scenario.send(ApplicationAdded(an_application()))
    scenario.ask(an_ask("a"))
    scenario.release_ask("a")
    assert of(scenario) == []


def test_a_report_of_one_resource_keeps_the_others_as_allocated() -> None:
    scenario = a_scenario(1, by_utilization())
    scenario.send(NodeAdded(a_node("n9")))
    scenario.send(
        UtilizationReported(PARTITION, Resources({"memory": 5}), NodeId("n9"), ApplicationId(""), AllocationId(""))
    )
    assert placed(scenario.ask(an_ask("a"), an_ask("b"))) == {"a": "n0", "b": "n9"}
    assert scenario.partition.nodes.record(NodeId("n0")).utilization is None
