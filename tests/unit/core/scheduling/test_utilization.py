"""Utilization reports, node recommendations, and requests that are outstanding because no node fits."""

from dataclasses import replace

from muster_core.extensions.predicate_callbacks import LOST_NS, REFUSED_NS
from muster_core.model.config import Configuration, NodeOrder, NodeSort, Timing
from muster_core.model.constraints import (
    NAMESPACE,
    Constraints,
    InterPodConstraints,
    PlacementConstraint,
    Target,
    TopologySpreadConstraint,
)
from muster_core.model.effects import Effect, NodeRecommended, PlacementsProposed
from muster_core.model.events import (
    ApplicationAdded,
    AskAdded,
    CallbacksDeclared,
    ManagerRegistered,
    NodeAction,
    NodeAdded,
    NodeUpdated,
    PlacementsEvaluated,
    UtilizationReported,
    VictimsEvaluated,
)
from muster_core.model.ids import AllocationId, AllocationKey, ApplicationId, NodeId, Termination
from muster_core.model.resources import Resources
from muster_core.model.specs import PodProperties
from muster_core.placement.autoscaling import Outstanding
from tests.unit.builders import (
    PARTITION,
    RM,
    SECOND,
    a_configuration,
    a_node,
    a_queue,
    an_affinity,
    an_allocation,
    an_application,
    an_ask,
    resources,
)
from tests.unit.core.placement.affinity_clusters import HOST, ZONE, inter_pod, selecting, term
from tests.unit.core.scheduling.scenario import Scenario, outstanding, placed, refused_asks, releases, waits


def by_utilization() -> Configuration:
    configuration = a_configuration(a_queue("a"))
    [partition] = configuration.partitions
    sort = NodeSort(NodeOrder.UTILIZATION, (("vcore", 1.0),))
    return replace(configuration, partitions=(replace(partition, node_sort=sort),))


def a_scenario(nodes: int = 2, configuration: Configuration | None = None) -> Scenario:
    scenario = Scenario(configuration or a_configuration(a_queue("a")), nodes=nodes)
    scenario.submit(an_application())
    return scenario


def node_uses(node: str, vcore: int) -> UtilizationReported:
    return UtilizationReported(PARTITION, resources(vcore=vcore), NodeId(node), ApplicationId(""), AllocationId(""))


def recommended(effects: list[Effect]) -> dict[str, str]:
    return {one.node: one.message for one in effects if isinstance(one, NodeRecommended)}


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


def of(scenario: Scenario) -> list[Outstanding]:
    return outstanding(scenario.partition)


def test_outstanding_requests_need_only_nodes_and_are_grouped_by_shape() -> None:
    scenario = Scenario(a_configuration(a_queue("a"), a_queue("b", vcore=1000)), nodes=1)
    scenario.send(ApplicationAdded(an_application()), ApplicationAdded(an_application("other")))
    scenario.submit(an_application("bounded", queue="root.b"))
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
    scenario = Scenario(a_configuration(a_queue("a")), an_application())
    placement = an_affinity("role", "x", most=3)
    constraints = replace(an_ask("a").constraints, node_selector=(("node.kubernetes.io/instance-type", "m5.large"),))
    scenario.ask(an_ask("a", constraints=constraints), an_ask("b", placement=placement))
    assert [(one.id, one.count) for one in of(scenario)] == [
        ("pods=1,vcore=1000", 1),
        ("pods=1,vcore=1000@m5.large", 1),
    ]


def test_a_released_ask_is_not_outstanding() -> None:
    scenario = Scenario(a_configuration(a_queue("a")))
    scenario.submit(an_application(), an_ask("a"))
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


# -- Requests that wait for a predicate callback: waiting, answered, rejected for a while, lost.

DB = {"kubernetes.io/label/app": "db", NAMESPACE: "red"}


def scenario_with_predicates(nodes: int = 1, vcore: int = 4000) -> Scenario:
    """A resource manager with predicate callbacks, and an application."""
    scenario = Scenario(a_configuration(a_queue("a")), nodes=nodes, vcore=vcore)
    scenario.send(CallbacksDeclared(RM, places=True, victims=True), ApplicationAdded(an_application("x")))
    return scenario


def proposed(effects: list[Effect]) -> PlacementsProposed:
    [question] = [effect for effect in effects if isinstance(effect, PlacementsProposed)]
    return question


def answered(scenario: Scenario, question: PlacementsProposed, *refusals: str) -> list[Effect]:
    return scenario.send(PlacementsEvaluated(RM, question.number, refusals or ("",) * len(question.places)))


def test_nothing_is_allocated_while_a_validation_is_pending() -> None:
    scenario = scenario_with_predicates()
    question = proposed(scenario.ask(an_ask("x0", app="x", vcore=1000)))
    assert scenario.partition.nodes.available(question.places[0][1])["vcore"] == 4000
    assert scenario.ask(an_ask("x1", app="x", vcore=1000)) == []
    effects = answered(scenario, question)
    assert placed(effects) == {"x0": "n0"}
    assert [key for key, _ in proposed(effects).places] == ["x1"]


def test_a_rejected_placement_is_proposed_again_after_a_delay() -> None:
    scenario = scenario_with_predicates()
    question = proposed(scenario.ask(an_ask("x0", app="x")))
    assert placed(answered(scenario, question, "not today")) == {}
    assert not any(isinstance(effect, PlacementsProposed) for effect in scenario.wait(REFUSED_NS // SECOND - 1))
    assert placed(answered(scenario, proposed(scenario.wait(2)))) == {"x0": "n0"}


def test_a_rejection_applies_to_all_equal_requests() -> None:
    scenario = scenario_with_predicates(nodes=2)
    question = proposed(scenario.ask(an_ask("x0", app="x")))
    effects = answered(scenario, question, "never")
    assert proposed(effects).places[0][1] != question.places[0][1]
    answered(scenario, proposed(effects))
    assert proposed(scenario.ask(an_ask("x1", app="x"))).places[0][1] != question.places[0][1]


def test_an_unanswered_validation_is_repeated_and_its_late_answer_ignored() -> None:
    scenario = scenario_with_predicates()
    question = proposed(scenario.ask(an_ask("x0", app="x")))
    again = proposed(scenario.wait(LOST_NS // SECOND + 1))
    assert again.places == question.places
    assert answered(scenario, question) == []
    assert placed(answered(scenario, again)) == {"x0": "n0"}
    assert scenario.scheduler_state.ignored == {"response to an unknown request": 1}


def test_resources_of_unconfirmed_placements_count_as_free() -> None:
    scenario = scenario_with_predicates()
    assert len(proposed(scenario.ask(*(an_ask(f"x{index}", app="x", vcore=1000) for index in range(5)))).places) == 4
    effects = answered(scenario, proposed(scenario.wait(LOST_NS // SECOND + 1)))
    assert placed(effects) == {"x0": "n0"}, "room is held for it since it waited for long"
    assert len(proposed(effects).places) == 3


def test_an_approved_placement_is_dropped_if_the_node_is_drained() -> None:
    scenario = scenario_with_predicates()
    question = proposed(scenario.ask(an_ask("x0", app="x")))
    scenario.node("n0", NodeAction.DRAIN)
    assert placed(answered(scenario, question)) == {}


def test_only_one_of_two_approved_anti_affinity_pods_is_placed() -> None:
    scenario = scenario_with_predicates()
    scenario.send(ApplicationAdded(an_application("y")), NodeUpdated(a_node("n0", labels={HOST: "n0"})))
    lonely = PodProperties(inter_pod(anti_affinity=(term("db", HOST),)))
    one, other = (replace(an_ask(f"{app}0", app=app, vcore=1000, tags=DB), facts=lonely) for app in ("x", "y"))
    first, second = proposed(scenario.ask(one)), proposed(scenario.ask(other))
    assert placed(answered(scenario, first)) == {"x0": "n0"}
    assert placed(answered(scenario, second)) == {}


def test_members_with_affinity_to_each_other_are_placed_after_validation() -> None:
    scenario = scenario_with_predicates()
    scenario.send(NodeUpdated(a_node("n0", labels={HOST: "n0"})))
    follower = replace(an_ask("x0", app="x", vcore=1000), facts=PodProperties(inter_pod(affinity=(term("db", HOST),))))
    question = proposed(scenario.ask(follower, an_ask("x1", app="x", vcore=1000, tags=DB)))
    effects = answered(scenario, question)
    assert placed(effects) | placed(answered(scenario, proposed(effects))) == {"x0": "n0", "x1": "n0"}


def test_members_are_placed_in_the_order_in_which_their_nodes_were_found() -> None:
    scenario = Scenario(a_configuration(a_queue("a")))
    scenario.send(CallbacksDeclared(RM, places=True, victims=False), ApplicationAdded(an_application(gang=2)))
    for name, zone, vcore in (("n0", "a", 4000), ("n1", "b", 500)):
        scenario.send(NodeAdded(a_node(name, vcore, labels={ZONE: zone})))
    evenly = InterPodConstraints(spread=(TopologySpreadConstraint(ZONE, 1, selecting(app="db"), "red"),))
    member = an_ask("p0", group="workers", placeholder=True, tags=DB)
    in_a = Constraints(node_selector=((ZONE, "a"),))
    effects = scenario.ask(
        replace(member, key=AllocationKey("p1"), constraints=in_a), replace(member, facts=PodProperties(evenly))
    )
    assert placed(answered(scenario, proposed(effects))) == {"p0": "n0", "p1": "n0"}


def test_an_answer_of_an_earlier_session_is_ignored() -> None:
    scenario = scenario_with_predicates()
    question = proposed(scenario.ask(an_ask("x0", app="x")))
    scenario.send(
        ManagerRegistered(RM, scenario.scheduler_state.managers[RM].configuration),
        CallbacksDeclared(RM, places=True, victims=True),
    )
    scenario.send(NodeAdded(a_node("n0")), ApplicationAdded(an_application("x")))
    again = proposed(scenario.ask(an_ask("x0", app="x")))
    assert answered(scenario, question) == []
    assert placed(answered(scenario, again)) == {"x0": "n0"}


def test_an_answer_with_too_few_results_places_only_validated_asks() -> None:
    scenario = scenario_with_predicates()
    question = proposed(scenario.ask(*(an_ask(f"x{index}", app="x", vcore=1000) for index in range(2))))
    assert len(question.places) == 2
    assert placed(answered(scenario, question, "")).keys() == {question.places[0][0]}


def test_an_ask_released_during_validation_is_not_placed() -> None:
    scenario = scenario_with_predicates()
    question = proposed(scenario.ask(an_ask("x0", app="x")))
    scenario.release_ask("x0", "x")
    assert placed(answered(scenario, question)) == {}
    assert not scenario.partition.pending_callbacks.awaits_callback(scenario.partition.id, ApplicationId("x"))


def test_an_unexpected_victim_answer_is_counted_as_ignored() -> None:
    scenario = scenario_with_predicates()
    assert scenario.send(VictimsEvaluated(RM, 99, success=True)) == []
    assert scenario.scheduler_state.ignored == {"response to an unknown request": 1}


def test_an_approved_part_of_a_gang_is_placed_next_to_a_part_of_another_gang() -> None:
    scenario = scenario_with_predicates(vcore=2000)
    scenario.add_full_node()
    first = proposed(scenario.gang(an_application("one", gang=4), 4))
    assert len(placed(answered(scenario, first))) == 2
    second = proposed(scenario.add_node("n1", vcore=1000))
    assert len(placed(answered(scenario, second))) == 1


# -- Requests with placement constraints: gangs, placeholder replacement, later additions and removals.

ALONE = an_affinity("role", "web", scope="hostname", most=1)
NEAR_DB = an_affinity("role", "db", scope="hostname", least=1)
WEB, DATABASE = {"role": "web"}, {"role": "db"}


def test_a_constraint_limits_allocations_per_node() -> None:
    scenario = a_scenario()
    effects = scenario.ask(*(an_ask(f"w{i}", tags=WEB, placement=ALONE) for i in range(3)))
    assert placed(effects) == {"w0": "n0", "w1": "n1"}
    state, reason = waits(effects)["w2"]
    assert state == "FAILED"
    assert reason == ("0/2 nodes are available: 2 node(s) had as many allocations as the placement constraint allows.")
    assert placed(scenario.release("w1")) == {"w2": "n1"}


def test_allocations_older_than_the_first_constraint_count() -> None:
    scenario = a_scenario(1)
    scenario.ask(an_ask("old", tags=WEB))
    scenario.send(NodeAdded(a_node("n1"), existing=(replace(an_allocation("found", "n1"), tags=WEB),)))
    assert placed(scenario.ask(an_ask("w", tags=WEB, placement=ALONE))) == {}
    assert placed(scenario.add_node("n2")) == {"w": "n2"}


def test_an_ask_with_affinity_waits_for_the_other_pod() -> None:
    scenario = a_scenario()
    effects = scenario.ask(an_ask("w", placement=NEAR_DB))
    assert "had too few allocations" in waits(effects)["w"][1]
    # Of another application, and placed in the same pass: the waiting one is tried again immediately.
    effects = scenario.submit(an_application("other"), an_ask("d", tags=DATABASE))
    assert placed(effects)["w"] == placed(effects)["d"]


def test_an_ask_with_affinity_matches_later_asks_of_its_application() -> None:
    scenario = a_scenario()
    effects = scenario.ask(an_ask("w", priority=10, placement=NEAR_DB), an_ask("d", tags=DATABASE))
    assert placed(effects)["w"] == placed(effects)["d"]


def test_the_last_member_of_an_anti_affinity_gang_waits_for_a_separate_node() -> None:
    scenario = Scenario(a_configuration(a_queue("a")), nodes=2)
    gang = ApplicationAdded(an_application(gang=3))
    asks = (an_ask(f"p{i}", group="workers", placeholder=True, tags=WEB, placement=ALONE) for i in range(3))
    effects = scenario.send(gang, *(AskAdded(ask) for ask in asks))
    assert len(placed(effects)) == 2  # the only gang may reserve some of its members
    assert placed(scenario.add_node("n9")) == {"p2": "n9"}


def test_a_member_replaces_a_placeholder_with_the_same_constraint() -> None:
    scenario = Scenario(a_configuration(a_queue("a")), nodes=2)
    holders = [an_ask(f"p{i}", group="workers", placeholder=True, tags=WEB, placement=ALONE) for i in range(2)]
    scenario.send(ApplicationAdded(an_application(gang=2)), *(AskAdded(ask) for ask in holders))
    effects = scenario.ask(*(an_ask(f"r{i}", group="workers", tags=WEB, placement=ALONE) for i in range(2)))
    assert releases(effects) == {"p0": Termination.PLACEHOLDER_REPLACED, "p1": Termination.PLACEHOLDER_REPLACED}
    assert placed(scenario.release("p0", why=Termination.PLACEHOLDER_REPLACED)) == {"r0": "n0"}
    assert placed(scenario.release("p1", why=Termination.PLACEHOLDER_REPLACED)) == {"r1": "n1"}


def test_a_member_excluded_from_its_placeholder_node_runs_on_another_node() -> None:
    scenario = Scenario(a_configuration(a_queue("a"), a_queue("b")), nodes=2)
    scenario.submit(an_application("other", queue="root.b"))
    scenario.send(ApplicationAdded(an_application(gang=1)), AskAdded(an_ask("p", group="workers", placeholder=True)))
    here = scenario.app().allocations
    [holder] = here.values()
    scenario.ask(
        an_ask("db", app="other", tags=DATABASE, placement=PlacementConstraint((Target("hostname", values=("n0",)),)))
    )
    assert holder.node == "n0"
    apart = an_affinity("role", "db", scope="hostname", most=0)
    effects = scenario.ask(an_ask("r", group="workers", placement=apart))
    assert releases(effects) == {"p": Termination.PLACEHOLDER_REPLACED}
    assert placed(scenario.release("p", why=Termination.PLACEHOLDER_REPLACED)) == {"r": "n1"}


def test_members_of_one_plan_never_violate_each_others_constraints() -> None:
    scenario = Scenario(a_configuration(a_queue("a")), nodes=2)
    holders = [an_ask(f"p{i}", group="workers", placeholder=True, vcore=500) for i in range(2)]
    pin = PlacementConstraint((Target("hostname", values=("n0",)),))
    scenario.send(
        ApplicationAdded(an_application(gang=2, each=holders[0].resources)),
        *(AskAdded(replace(ask, placement=pin)) for ask in holders),
    )
    effects = scenario.ask(*(an_ask(f"r{i}", group="workers", vcore=500, tags=WEB, placement=ALONE) for i in range(2)))
    assert set(releases(effects)) == {"p0", "p1"}
    assert scenario.partition.targets.keys() == {NodeId("n1")}


def test_a_cancelled_replacement_is_not_counted() -> None:
    scenario = Scenario(a_configuration(a_queue("a")), nodes=1)
    holder = an_ask("p", group="workers", placeholder=True, tags=WEB, placement=ALONE)
    scenario.send(ApplicationAdded(an_application(gang=1)), AskAdded(holder))
    scenario.ask(an_ask("r", group="workers", tags=WEB, placement=ALONE))
    scenario.release_ask("r")
    assert placed(scenario.ask(an_ask("late", tags=WEB, placement=ALONE))) == {}
    assert placed(scenario.release("p", why=Termination.PLACEHOLDER_REPLACED)) == {"late": "n0"}


def test_constraints_may_read_any_number_of_different_tags() -> None:
    scenario = a_scenario(1)
    read = [an_ask(f"w{i}", placement=an_affinity(f"key{i}", "x", most=1)) for i in range(1100)]
    assert refused_asks(scenario.ask(*read)) == {}


def test_the_first_constraint_splits_the_classes_of_waiting_asks() -> None:
    scenario = a_scenario(0)
    scenario.ask(an_ask("before", tags=WEB, priority=5), an_ask("other", priority=5))
    assert len(scenario.app().waiting) == 1
    scenario.ask(an_ask("after", tags=WEB, placement=ALONE))
    assert len(scenario.app().waiting) == 3
    # All in one plan: the waiting member counts on its new node.
    assert placed(scenario.add_node("n1")) == {"before": "n1", "other": "n1"}
    assert placed(scenario.add_node("n2")) == {"after": "n2"}
