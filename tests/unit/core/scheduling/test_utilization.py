"""Utilization reports, node recommendations, and requests that are outstanding because no node fits."""

from __future__ import annotations

from dataclasses import replace

from muster_core.model.config import Configuration, NodeOrder, NodeSort, Timing
from muster_core.model.effects import Effect, NodeRecommended
from muster_core.model.events import ApplicationAdded, AskAdded, NodeAdded, NodeUpdated, UtilizationReported
from muster_core.model.ids import AllocationId, ApplicationId, NodeId
from muster_core.model.resources import Resources
from muster_core.placement.autoscaling import Outstanding, outstanding
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
from tests.unit.core.scheduling.scene import Scene, placed, waits


def by_utilization() -> Configuration:
    configuration = a_configuration(a_queue("a"))
    [partition] = configuration.partitions
    sort = NodeSort(NodeOrder.UTILIZATION, (("vcore", 1.0),))
    return replace(configuration, partitions=(replace(partition, node_sort=sort),))


def a_scene(nodes: int = 2, configuration: Configuration | None = None) -> Scene:
    scene = Scene(configuration or a_configuration(a_queue("a")), nodes)
    scene.tell(ApplicationAdded(an_application()))
    return scene


def node_uses(node: str, vcore: int) -> UtilizationReported:
    return UtilizationReported(PARTITION, resources(vcore=vcore), NodeId(node), ApplicationId(""), AllocationId(""))


def recommended(effects: list[Effect]) -> dict[str, str]:
    return {one.node: one.message for one in effects if isinstance(one, NodeRecommended)}


# -- utilization ----------------------------------------------------------------


def test_the_node_that_really_uses_least_is_chosen_and_what_is_placed_since_counts_on_top() -> None:
    scene = a_scene(configuration=by_utilization())
    scene.tell(node_uses("n0", 1500))
    # n1 has no report: it counts as what is allocated there, first nothing, then one core, then two.
    assert placed(scene.ask(an_ask("a"))) == {"a": "n1"}
    assert placed(scene.ask(an_ask("b"))) == {"b": "n1"}
    assert placed(scene.ask(an_ask("c"))) == {"c": "n0"}
    assert placed(scene.ask(an_ask("d"))) == {"d": "n1"}
    scene.tell(node_uses("n1", 100))
    assert placed(scene.ask(an_ask("e"))) == {"e": "n1"}


def test_a_report_is_kept_through_changes_of_the_node_and_forgotten_with_it() -> None:
    scene = a_scene(configuration=by_utilization())
    scene.tell(node_uses("n0", 3000), NodeUpdated(a_node("n0", vcore=4000)))
    assert scene.partition.nodes.record(NodeId("n0")).utilization == resources(vcore=3000)
    assert placed(scene.ask(an_ask("a"), an_ask("b"))) == {"a": "n1", "b": "n1"}


def test_reports_about_what_is_not_there_are_counted_and_left() -> None:
    scene = a_scene()
    scene.ask(an_ask("a"))
    mine = UtilizationReported(PARTITION, resources(vcore=7), None, ApplicationId("app"), AllocationId("a-0"))
    scene.tell(mine, replace(mine, application=ApplicationId("other")), node_uses("gone", 1))
    [allocation] = scene.app().allocations.values()
    assert allocation.utilization == resources(vcore=7)
    assert scene.scheduler_state.ignored == {
        "utilization of an unknown allocation": 1,
        "utilization of an unknown node": 1,
    }


# -- recommendations ------------------------------------------------------------


def came_back(key: str, *nodes: str) -> AskAdded:
    return AskAdded(replace(an_ask(key), avoid=frozenset(NodeId(node) for node in nodes)))


def test_a_node_that_three_pods_could_not_be_bound_to_is_recommended_once() -> None:
    scene = a_scene()
    assert recommended(scene.tell(came_back("a", "n0"), came_back("a", "n0", "n1"), came_back("b", "n0", "gone"))) == {}
    said = recommended(scene.tell(came_back("c", "n0")))
    assert list(said) == ["n0"]
    assert said["n0"].startswith("3 pods could not be bound to it within 10 minutes")
    assert recommended(scene.tell(came_back("d", "n0"))) == {}


def test_refused_binds_long_ago_are_not_counted() -> None:
    scene = a_scene()
    scene.tell(came_back("a", "n0"), came_back("b", "n0"))
    scene.wait(600)
    assert recommended(scene.tell(came_back("c", "n0"))) == {}


def test_a_node_that_could_be_emptied_is_sought_when_nothing_waits_and_not_too_often() -> None:
    seconds = 1_000_000_000
    timing = Timing(empty_node_interval_ns=300 * seconds)
    scene = a_scene(1, a_configuration(a_queue("a"), timing=timing))
    scene.ask(an_ask("a"), an_ask("b"))
    assert recommended(scene.add_node("n1")) == {}  # sought already when they came, and there was no other node
    scene.wait(300)
    said = recommended(scene.ask(an_ask("c")))
    assert said == {"n1": "it could be emptied: its 1 allocations would fit on the other nodes"}
    assert recommended(scene.ask(an_ask("d"))) == {}
    scene.wait(300)
    assert recommended(scene.ask(an_ask("huge", vcore=9000))) == {}  # something waits
    assert list(recommended(scene.release_ask("huge"))) == ["n0"]


def test_no_node_is_recommended_to_be_emptied_unless_that_is_set() -> None:
    scene = a_scene(2)
    scene.ask(an_ask("a"))
    scene.wait(100_000)
    assert recommended(scene.ask(an_ask("b"))) == {}


# -- autoscaling ----------------------------------------------------------------


def of(scene: Scene) -> list[Outstanding]:
    return outstanding(scene.partition)


def test_only_what_nodes_lack_is_outstanding_and_equal_shapes_are_one_request() -> None:
    scene = Scene(a_configuration(a_queue("a"), a_queue("b", vcore=1000)), 1)
    scene.tell(ApplicationAdded(an_application()), ApplicationAdded(an_application("other")))
    scene.tell(ApplicationAdded(an_application("bounded", queue="root.b")))
    scene.ask(an_ask("x", count=3, vcore=3000), an_ask("y", vcore=3000, app="other"))
    scene.ask(*(an_ask(f"q{i}", app="bounded", vcore=800) for i in range(3)))
    assert of(scene) == [Outstanding(PARTITION, resources(vcore=3000, pods=1), "", 3, 2)]
    assert of(scene)[0].id == "pods=1,vcore=3000"
    scene.add_node("n1")
    assert [one.count for one in of(scene)] == [2]
    scene.add_node("n2")
    scene.add_node("n3")
    assert of(scene) == []


def test_an_ask_that_its_own_constraints_keep_from_every_node_is_not_outstanding() -> None:
    scene = a_scene()
    said = scene.ask(an_ask("w", placement=an_affinity("role", "db", least=1)))
    assert waits(said)["w"][0] == "FAILED"
    assert of(scene) == []


def test_without_any_node_everything_is_outstanding_with_the_kind_of_machine_it_wants() -> None:
    scene = Scene(a_configuration(a_queue("a")))
    scene.tell(ApplicationAdded(an_application()))
    placement = an_affinity("role", "x", most=3)
    constraints = replace(an_ask("a").constraints, node_selector=(("node.kubernetes.io/instance-type", "m5.large"),))
    scene.ask(an_ask("a", constraints=constraints), an_ask("b", placement=placement))
    assert [(one.id, one.count) for one in of(scene)] == [
        ("pods=1,vcore=1000", 1),
        ("pods=1,vcore=1000@m5.large", 1),
    ]


def test_an_ask_that_is_taken_back_is_outstanding_no_more() -> None:
    scene = Scene(a_configuration(a_queue("a")))
    scene.tell(ApplicationAdded(an_application()))
    scene.ask(an_ask("a"))
    scene.release_ask("a")
    assert of(scene) == []


def test_a_report_of_one_resource_leaves_the_others_as_allocated() -> None:
    scene = a_scene(1, by_utilization())
    scene.tell(NodeAdded(a_node("n9")))
    scene.tell(
        UtilizationReported(PARTITION, Resources({"memory": 5}), NodeId("n9"), ApplicationId(""), AllocationId(""))
    )
    assert placed(scene.ask(an_ask("a"), an_ask("b"))) == {"a": "n0", "b": "n9"}
    assert scene.partition.nodes.record(NodeId("n0")).utilization is None
