"""A dynamic leaf has the settings of its template and the quota of its namespace, and ends with its last one."""

from collections.abc import Sequence
from dataclasses import replace

from muster_core.model.config import (
    ALLOW_ALL,
    ApplicationOrder,
    ChildTemplate,
    Configuration,
    PartitionConfig,
    PlacementRule,
    QueueConfig,
    QueuePolicies,
)
from muster_core.model.effects import Effect
from muster_core.model.events import ApplicationAdded, ApplicationRemoved, AskAdded
from muster_core.model.ids import RECOVERY, ApplicationId, QueuePath
from muster_core.model.records import Change, Detail
from muster_core.model.resources import NOTHING, UNLIMITED, Limit, Resources
from muster_core.model.specs import ApplicationSpec, NamespaceQuota
from muster_core.scheduling import invariants, ledger
from muster_core.state.queues import Queue
from tests.unit.builders import PARTITION, a_queue, an_allocation, an_application, an_ask, resources
from tests.unit.core.scheduling.scenario import Scenario, placed, rejection, releases, states

PROVIDED = (PlacementRule("provided", create=True),)


def configuration(*queues: QueueConfig, template: ChildTemplate | None = None) -> Configuration:
    """Queues below root, which has the template; applications select their queue."""
    root = QueueConfig("root", parent=True, children=queues, submit_acl=ALLOW_ALL, template=template)
    return Configuration((PartitionConfig("default", root, PROVIDED),))


def template(vcore: int, *, guaranteed: int = 0, most: int = 0, fair: bool = False) -> ChildTemplate:
    order = ApplicationOrder.FAIR if fair else ApplicationOrder.FIFO
    policies = QueuePolicies(order=order)
    properties = {"application.sort.policy": order.value}
    return ChildTemplate(Limit({"vcore": vcore}), Resources({"vcore": guaranteed}), most, properties, policies)


def parent(name: str, *children: QueueConfig, of: ChildTemplate | None = None) -> QueueConfig:
    return replace(a_queue(name, *children), parent=True, template=of)


def quota(vcore: int | None = None, guaranteed: int | None = None, most: int | None = None) -> NamespaceQuota:
    return NamespaceQuota(
        None if vcore is None else Limit({"vcore": vcore}),
        None if guaranteed is None else Resources({"vcore": guaranteed}),
        most,
    )


def spec(name: str, to: str, *, gang: int = 0, of: NamespaceQuota = NamespaceQuota()) -> ApplicationSpec:  # noqa: B008
    return replace(an_application(name, queue=to, gang=gang), quota=of, tags={})


def submit(scenario: Scenario, new: ApplicationSpec) -> Sequence[Effect]:
    return scenario.submit(new)


def queue(scenario: Scenario, path: str) -> Queue:
    return scenario.partition.queues.by_path[QueuePath(path)]


def settings(scenario: Scenario, path: str) -> tuple[Limit, Resources, int]:
    found = queue(scenario, path)
    return found.max, found.guaranteed, found.max_applications


# -- templates -------------------------------------------------------------------


def test_a_dynamic_leaf_uses_the_template_of_the_nearest_parent_queue() -> None:
    """YuniKorn's documented example: one template at root, a second one at root.parent."""
    first, second = template(1000, guaranteed=500, most=3), template(2000)
    scenario = Scenario(configuration(parent("parent", of=second), parent("notemplate", of=first), template=first))
    submit(scenario, spec("one", "root.parent.sales"))
    submit(scenario, spec("two", "root.notemplate.sales"))
    assert settings(scenario, "root.parent.sales") == (Limit({"vcore": 2000}), NOTHING, 0)
    assert settings(scenario, "root.notemplate.sales") == (Limit({"vcore": 1000}), Resources({"vcore": 500}), 3)
    assert queue(scenario, "root.notemplate.sales").properties == first.properties


def test_a_dynamic_parent_passes_the_template_on_and_does_not_use_it() -> None:
    scenario = Scenario(configuration(template=template(1000)))
    submit(scenario, spec("one", "root.x.y.z"))
    for path in ("root.x", "root.x.y"):
        assert settings(scenario, path) == (UNLIMITED, NOTHING, 0)
        assert not queue(scenario, path).is_leaf
    assert queue(scenario, "root.x.y.z").max == Limit({"vcore": 1000})


def test_a_dynamic_leaf_does_not_inherit_the_policies_of_its_parent() -> None:
    above = replace(parent("p"), policies=QueuePolicies(order=ApplicationOrder.FAIR, priority_offset=5))
    scenario = Scenario(configuration(above))
    submit(scenario, spec("one", "root.p.x"))
    assert queue(scenario, "root.p.x").policies == QueuePolicies()


def test_a_changed_template_counts_for_new_leaves_only() -> None:
    scenario = Scenario(configuration(template=template(1000)))
    submit(scenario, spec("one", "root.x.old"))
    scenario.reload(configuration(template=template(2000)))
    submit(scenario, spec("two", "root.x.new"))
    assert queue(scenario, "root.x.old").max == Limit({"vcore": 1000})
    assert queue(scenario, "root.x.new").max == Limit({"vcore": 2000})


def test_adding_and_removing_a_dynamic_queue_is_recorded() -> None:
    scenario = Scenario(configuration())
    scenario.records.clear()
    submit(scenario, spec("one", "root.x.y"))
    scenario.ask(an_ask("r", app="one"))
    scenario.release_ask("r", "one")
    scenario.wait(60)
    assert list(scenario.partition.queues.by_path) == ["root"]
    dynamic = [(note.subject, note.change) for note in scenario.records if note.detail is Detail.QUEUE_DYNAMIC]
    made, gone = Change.ADD, Change.REMOVE
    assert dynamic == [("root.x", made), ("root.x.y", made), ("root.x.y", gone), ("root.x", gone)]


# -- quotas of namespaces --------------------------------------------------------


def test_a_namespace_quota_overrides_the_template() -> None:
    scenario = Scenario(configuration(template=template(1000, guaranteed=100, most=9)))
    submit(scenario, spec("one", "root.ns", of=quota(5000, 300, 2)))
    submit(scenario, spec("two", "root.part", of=quota(guaranteed=300)))
    assert settings(scenario, "root.ns") == (Limit({"vcore": 5000}), Resources({"vcore": 300}), 2)
    assert settings(scenario, "root.part") == (Limit({"vcore": 1000}), Resources({"vcore": 300}), 9)


def test_a_new_application_updates_the_namespace_quota() -> None:
    scenario = Scenario(configuration(), nodes=1)
    submit(scenario, spec("one", "root.ns", of=quota(1000)))
    assert len(placed(scenario.ask(an_ask("a", app="one"), an_ask("b", app="one")))) == 1
    effects = submit(scenario, spec("two", "root.ns", of=quota(2000, 500, 4)))
    assert len(placed([*effects])) == 1
    assert settings(scenario, "root.ns") == (Limit({"vcore": 2000}), Resources({"vcore": 500}), 4)
    submit(scenario, spec("three", "root.ns"))
    assert settings(scenario, "root.ns") == (Limit({"vcore": 2000}), Resources({"vcore": 500}), 4)


def test_a_lowered_quota_keeps_running_allocations() -> None:
    scenario = Scenario(configuration(), nodes=1)
    submit(scenario, spec("one", "root.ns", of=quota(3000)))
    scenario.ask(an_ask("a", app="one", count=3))
    effects = submit(scenario, spec("two", "root.ns", of=quota(1000)))
    assert releases([*effects]) == {}
    assert queue(scenario, "root.ns").tolerated == resources(vcore=2000)
    assert placed(scenario.ask(an_ask("b", app="two"))) == {}


def test_a_quota_of_zero_forbids_the_resource() -> None:
    scenario = Scenario(configuration(), nodes=1)
    submit(scenario, spec("one", "root.ns", of=quota(0)))
    assert placed(scenario.ask(an_ask("a", app="one"))) == {}


def test_a_namespace_quota_does_not_change_configured_or_parent_queues() -> None:
    scenario = Scenario(configuration(a_queue("a", vcore=3000), parent("p")))
    submit(scenario, spec("one", "root.a", of=quota(1000, 500, 1)))
    submit(scenario, spec("two", "root.p.ns", of=quota(1000, 500, 1)))
    assert settings(scenario, "root.a") == (Limit({"vcore": 3000}), NOTHING, 0)
    assert settings(scenario, "root.p") == (UNLIMITED, NOTHING, 0)


def test_the_recovery_queue_has_neither_template_nor_quota() -> None:
    scenario = Scenario(configuration(template=template(1000)))
    for name in ("one", "two"):
        lost = replace(spec(name, "root", of=quota(1000, 500, 1)), forced=True)
        assert rejection([*submit(scenario, lost)]) == ""
    assert settings(scenario, RECOVERY) == (UNLIMITED, NOTHING, 0)
    assert queue(scenario, RECOVERY).is_recovery
    scenario.add_node("n0", an_allocation("x", "n0", app="one", vcore=3000))
    assert queue(scenario, RECOVERY).allocated["vcore"] == 3000


# -- gangs -----------------------------------------------------------------------


def test_a_gang_above_the_template_or_quota_is_rejected_before_its_leaf_is_created() -> None:
    scenario = Scenario(configuration(template=template(2000)))
    assert "maximum of queue root.x is 2:" in rejection([*submit(scenario, spec("one", "root.x", gang=3))])
    small = spec("two", "root.x", gang=3, of=quota(1000))
    assert "maximum of queue root.x is 1:" in rejection([*submit(scenario, small)])
    assert list(scenario.partition.queues.by_path) == ["root"]
    assert rejection([*submit(scenario, spec("three", "root.x", gang=3, of=quota(3000)))]) == ""


def test_a_gang_is_rejected_when_the_template_creates_fair_leaves() -> None:
    scenario = Scenario(configuration(template=template(9000, fair=True)))
    refused = rejection([*submit(scenario, spec("one", "root.x", gang=2))])
    assert "sorts its applications by fair share" in refused


def test_a_gang_is_checked_against_the_quota_of_its_own_application() -> None:
    scenario = Scenario(configuration())
    submit(scenario, spec("one", "root.ns", of=quota(1000)))
    assert "maximum of queue root.ns is 1:" in rejection([*submit(scenario, spec("two", "root.ns", gang=3))])
    assert rejection([*submit(scenario, spec("three", "root.ns", gang=3, of=quota(3000)))]) == ""
    assert queue(scenario, "root.ns").max == Limit({"vcore": 3000})


def test_a_rejected_gang_does_not_change_the_quota() -> None:
    scenario = Scenario(configuration())
    submit(scenario, spec("one", "root.ns", of=quota(5000)))
    assert rejection([*submit(scenario, spec("two", "root.ns", gang=3, of=quota(2000)))]) != ""
    assert queue(scenario, "root.ns").max == Limit({"vcore": 5000})


def test_a_gang_made_unsatisfiable_by_a_lower_quota_waits_until_it_is_raised() -> None:
    scenario = Scenario(configuration(), nodes=1)
    scenario.add_full_node()
    scenario.gang(spec("g", "root.ns", gang=5, of=quota(5000)), 5)
    lowered = submit(scenario, spec("two", "root.ns", of=quota(2000)))
    assert states([*lowered], "g") == []
    scenario.add_node("n1")
    assert scenario.app("g").gang.reserved["vcore"] == 4000
    raised = submit(scenario, spec("three", "root.ns", of=quota(5000)))
    assert states([*raised], "g") == ["Running"]


def test_a_raised_application_limit_lets_the_next_application_run() -> None:
    scenario = Scenario(configuration(), nodes=1)
    submit(scenario, spec("one", "root.ns", of=quota(most=1)))
    submit(scenario, spec("two", "root.ns", of=quota(most=1)))
    assert placed(scenario.ask(an_ask("a", app="one"))) == {"a": "n0"}
    assert placed(scenario.ask(an_ask("b", app="two"))) == {}
    assert placed([*submit(scenario, spec("three", "root.ns", of=quota(most=2)))]) == {"b": "n0"}


def test_a_raised_guarantee_and_a_lower_maximum_by_annotation_preempt_no_one() -> None:
    scenario = Scenario(configuration(), nodes=1)
    submit(scenario, spec("one", "root.ns", of=quota(3000)))
    scenario.ask(an_ask("a", app="one", count=3))
    submit(scenario, spec("two", "root.ns", of=quota(1000, 500)))
    assert releases(scenario.wait(3600)) == {}


def test_a_leaf_deleted_before_it_is_scheduled_does_not_block_other_leaves() -> None:
    scenario = Scenario(configuration(), nodes=1)
    submit(scenario, spec("stays", "root.x"))
    effects = scenario.send(
        ApplicationAdded(spec("goes", "root.y")),
        AskAdded(an_ask("first", app="goes")),
        ApplicationRemoved(PARTITION, ApplicationId("goes")),
        AskAdded(an_ask("second", app="stays")),
    )
    assert placed(effects) == {"second": "n0"}


def renew(scenario: Scenario, name: str, of: NamespaceQuota, *, namespace: str = "ns") -> Sequence[Effect]:
    """Change the namespace quota of an application."""
    return submit(scenario, replace(spec(name, "", of=of), namespace=namespace, is_renewal=True))


def of_namespace(name: str, to: str, of: NamespaceQuota, namespace: str = "ns") -> ApplicationSpec:
    return replace(spec(name, to, of=of), namespace=namespace)


def test_a_namespace_quota_update_applies_immediately_and_is_not_rejected() -> None:
    scenario = Scenario(configuration(template=template(1000, most=9)), nodes=1)
    submit(scenario, of_namespace("one", "root.ns", quota(500, 100)))
    assert placed(scenario.ask(an_ask("a", app="one"))) == {}
    effects = renew(scenario, "one", quota(2000))
    assert placed([*effects]) == {"a": "n0"}
    assert rejection([*effects]) == ""
    assert settings(scenario, "root.ns") == (Limit({"vcore": 2000}), Resources({"vcore": 0}), 9)


def test_a_removed_quota_annotation_restores_the_template() -> None:
    scenario = Scenario(configuration(template=template(1000)))
    submit(scenario, of_namespace("one", "root.ns", quota(5000)))
    renew(scenario, "one", quota())
    assert queue(scenario, "root.ns").max == Limit({"vcore": 1000})


def test_a_leaf_of_several_namespaces_keeps_settings_that_an_update_omits() -> None:
    scenario = Scenario(configuration())
    submit(scenario, of_namespace("one", "root.kim", quota(5000)))
    submit(scenario, of_namespace("two", "root.kim", quota(), "other"))
    renew(scenario, "two", quota(guaranteed=100), namespace="other")
    assert settings(scenario, "root.kim") == (Limit({"vcore": 5000}), Resources({"vcore": 100}), 0)


def test_a_quota_update_is_ignored_for_configured_queues_and_unknown_applications() -> None:
    scenario = Scenario(configuration(a_queue("a", vcore=3000)))
    submit(scenario, of_namespace("one", "root.a", quota()))
    assert [*renew(scenario, "one", quota(1000)), *renew(scenario, "gone", quota(1000))] == []
    assert queue(scenario, "root.a").max == Limit({"vcore": 3000})


def test_adding_to_the_tolerated_usage_over_a_maximum_violates_an_invariant() -> None:
    scenario = Scenario(configuration(), nodes=1)
    submit(scenario, spec("one", "root.ns", of=quota(3000)))
    scenario.ask(an_ask("a", app="one", count=3))
    submit(scenario, spec("two", "root.ns", of=quota(1000)))
    scenario.release("a", app="one", identity="a-0")
    assert queue(scenario, "root.ns").tolerated == resources(vcore=1000)
    ledger.charge(scenario.partition, scenario.app("two"), resources(vcore=1), 1)
    assert any("tolerated are" in broken for broken in invariants.check(scenario.scheduler_state))
