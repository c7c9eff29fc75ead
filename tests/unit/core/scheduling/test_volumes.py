"""Volumes are chosen with a node, reserved, and sent with the allocation; storage updates requeue waiting requests."""

from dataclasses import replace

import pytest

from muster_core.model.claims import ClaimChoice
from muster_core.model.decisions import Placement
from muster_core.model.effects import AllocationResponse, Effect, PlacementsProposed
from muster_core.model.errors import BrokenDecision
from muster_core.model.events import (
    CallbacksDeclared,
    ClusterObjectsReported,
    NodeAction,
    NodeUpdated,
    PlacementsEvaluated,
)
from muster_core.model.ids import AllocationKey, NodeId, Termination
from muster_core.model.specs import AskSpec, PodProperties, Volumes
from muster_core.model.storage import ClaimReference, ObjectGone, ObjectKind, StorageFact
from muster_core.scheduling import invariants
from muster_core.scheduling.commit import commit
from muster_core.state.storage import Storage
from tests.unit.builders import (
    PARTITION,
    RM,
    a_configuration,
    a_queue,
    an_allocation,
    an_application,
    an_ask,
    resources,
)
from tests.unit.core.placement.volumes.storage_clusters import (
    HOST,
    LATE,
    MADE,
    a_claim,
    a_disk,
    a_volume,
    attaching,
    bound,
    on,
    using,
)
from tests.unit.core.scheduling.scenario import Scenario, placed, releases, waits

REPLACED = Termination.PLACEHOLDER_REPLACED
ON_N1 = on(HOST, "n1")


def send(scenario: Scenario, *facts: StorageFact) -> list[Effect]:
    return scenario.send(ClusterObjectsReported(PARTITION, facts))


def scenario_with(*facts: StorageFact, nodes: int = 2) -> Scenario:
    """Nodes n0, n1, … with their hostname labels, and an application without a gang."""
    scenario = Scenario(a_configuration(a_queue("a")))
    for number in range(nodes):
        scenario.add_node(f"n{number}")
        spec = scenario.partition.nodes.record(NodeId(f"n{number}")).spec
        scenario.send(NodeUpdated(replace(spec, labels={HOST: spec.id})))
    send(scenario, LATE, MADE, *facts)
    scenario.submit(an_application())
    return scenario


def with_volume(key: str, *claims: str, group: str = "", volumes: Volumes | None = None) -> AskSpec:
    return replace(an_ask(key, group=group), facts=PodProperties(volumes=volumes or using(*claims)))


def chosen(effects: list[Effect]) -> dict[str, dict[str, str]]:
    """Volumes of new allocations: key → claim → volume."""
    answers = [effect for effect in effects if isinstance(effect, AllocationResponse)]
    return {new.ask.key: dict(new.chosen.volumes) for answer in answers for new in answer.new if new.chosen.volumes}


def storage(scenario: Scenario) -> Storage:
    return scenario.partition.nodes.pods_on_nodes.attachments.storage


def test_an_allocation_reports_the_volumes_of_its_unbound_claims() -> None:
    scenario = scenario_with(a_claim("free"), a_volume("v"), a_claim("made", of="made"), *bound("bound", a_volume("w")))
    effects = scenario.ask(with_volume("a", "free", "made", "bound"), with_volume("b", "bound"))
    assert set(placed(effects)) == {"a", "b"}
    assert chosen(effects) == {"a": {"ns/free": "v", "ns/made": ""}}


def test_the_second_pod_waits_for_a_volume_until_the_first_is_deleted() -> None:
    scenario = scenario_with(a_claim("a"), a_claim("b"), a_volume("v", affinity=ON_N1))
    effects = scenario.ask(with_volume("a", "a"), with_volume("b", "b"))
    assert chosen(effects) == {"a": {"ns/a": "v"}}
    assert waits(effects)["b"][1].endswith("2 node(s) didn't find available persistent volumes to bind.")
    assert chosen(scenario.release("a")) == {"b": {"ns/b": "v"}}


def test_an_assumed_volume_is_confirmed_when_claim_and_volume_are_bound() -> None:
    scenario = scenario_with(a_claim("a"), a_volume("v"))
    scenario.ask(with_volume("a", "a"))
    assert set(storage(scenario).assumed) == {"ns/a"}
    claim, volume = bound("a", a_volume("v"))
    send(scenario, volume)
    assert set(storage(scenario).assumed) == {"ns/a"}
    send(scenario, claim)
    assert (storage(scenario).assumed, storage(scenario).taken) == ({}, {})


def test_a_volume_stays_assumed_until_it_is_reported_as_bound() -> None:
    scenario = scenario_with(a_claim("a"), a_claim("b"), a_volume("v"))
    scenario.ask(with_volume("a", "a"), with_volume("b", "b"))
    claim, volume = bound("a", a_volume("v"))
    assert placed(send(scenario, claim)) == {}, "the two are told by different watches"
    assert chosen(scenario.ask(with_volume("d", "a"))) == {}
    send(scenario, volume)
    assert (storage(scenario).assumed, storage(scenario).taken) == ({}, {})


@pytest.mark.parametrize("fact", [ObjectGone(ObjectKind.CLAIM, "ns/a"), bound("a", a_volume("other"))[0]])
def test_an_assumed_volume_is_free_when_its_claim_is_deleted_or_bound_elsewhere(fact: StorageFact) -> None:
    scenario = scenario_with(a_claim("a"), a_claim("b"), a_volume("v"))
    assert chosen(scenario.ask(with_volume("a", "a"), with_volume("b", "b"))) == {"a": {"ns/a": "v"}}
    assert chosen(send(scenario, fact)) == {"b": {"ns/b": "v"}}


def test_pods_that_share_a_claim_keep_its_volume_when_the_first_is_deleted() -> None:
    scenario = scenario_with(a_claim("c", of="made"))
    effects = scenario.ask(with_volume("a", "c"), with_volume("b", "c"))
    assert chosen(effects) == {"a": {"ns/c": ""}, "b": {"ns/c": ""}}
    assert len(set(placed(effects).values())) == 1
    scenario.release("a")
    again = scenario.ask(with_volume("d", "c"))
    assert placed(again) == {"d": placed(effects)["b"]}
    scenario.release("b")
    scenario.release("d")
    assert storage(scenario).assumed == {}


@pytest.mark.parametrize("volume", ["gone", "taken", "named"])
def test_a_decision_whose_volume_is_taken_is_rejected_before_any_write(volume: str) -> None:
    scenario = scenario_with(a_claim("a"), a_claim("c"), a_volume("taken"), nodes=1)
    scenario.ask(
        with_volume("a", "a"), replace(with_volume("b", "c"), max_allocations=1, avoid=frozenset({NodeId("n0")}))
    )
    send(scenario, a_volume("named", reference=ClaimReference("ns/z")))
    decision = Placement(
        PARTITION, scenario.app().id, ((AllocationKey("b"), NodeId("n0")),), ClaimChoice((("ns/c", volume),))
    )
    with pytest.raises(BrokenDecision, match=f"volume {volume} is not free for claim ns/c"):
        commit(scenario.partition, decision, scenario.now_ns)
    assert invariants.check(scenario.scheduler_state) == []


def test_a_removed_node_drops_its_assumed_volumes() -> None:
    scenario = scenario_with(a_claim("c", of="made"))
    node = placed(scenario.ask(with_volume("a", "c")))["a"]
    scenario.node(node, NodeAction.DECOMMISSION)
    other = placed(scenario.ask(with_volume("b", "c")))["b"]
    assert other != node
    assert storage(scenario).assumed["ns/c"].node == other


def test_a_pod_that_is_reported_again_keeps_its_assumed_volume() -> None:
    scenario = scenario_with(a_claim("c"), a_volume("v"))
    node = placed(scenario.ask(with_volume("a", "c")))["a"]
    updated = replace(an_allocation("a", node, vcore=1000), facts=PodProperties(volumes=using("c", "d")))
    scenario.report(updated)
    assert storage(scenario).choice(["ns/c"]) == (("ns/c", "v"),)


def test_an_ask_waits_for_a_missing_claim_with_the_kube_scheduler_message() -> None:
    scenario = scenario_with(a_volume("v"))
    assert waits(scenario.ask(with_volume("a", "c")))["a"][1] == (
        '0/2 nodes are available: persistentvolumeclaim "c" not found.'
    )
    assert chosen(send(scenario, a_claim("c"))) == {"a": {"ns/c": "v"}}


def test_every_change_that_a_claim_waits_for_requeues_its_pod() -> None:
    now = replace(LATE, delayed=False)
    for facts, wakes in (
        ((now, a_claim("c")), bound("c", a_volume("v"))),
        ((a_claim("c"),), (a_volume("v"),)),
        ((a_claim("c", of="made"), ObjectGone(ObjectKind.CLASS, "made")), (MADE,)),
        ((a_claim("c"), a_volume("v", 1, affinity=on(HOST, "n9"))), (a_volume("v", affinity=ON_N1),)),
    ):
        scenario = scenario_with(*facts)
        assert placed(scenario.ask(with_volume("a", "c"))) == {}
        assert list(placed(send(scenario, *wakes))) == ["a"]


def test_an_unrelated_claim_requeues_no_pod() -> None:
    scenario = scenario_with(a_claim("c"))
    scenario.ask(with_volume("a", "c"))
    assert send(scenario, a_claim("d")) == []
    assert scenario.partition.unschedulable_classes.get(next(iter(scenario.app().waiting))) is not None


def test_a_deleted_pod_or_a_higher_attach_limit_requeues_waiting_pods() -> None:
    scenario = scenario_with(
        *bound("a", a_volume("v")), *bound("b", a_volume("w")), *bound("c", a_volume("x")), nodes=0
    )
    spec = replace(attaching("n0", 1), partition=PARTITION)
    scenario.add_node("n0")
    scenario.send(NodeUpdated(spec))
    effects = scenario.ask(with_volume("a", "a"), with_volume("b", "b"), with_volume("c", "c"))
    assert list(placed(effects)) == ["a"]
    assert waits(effects)["b"][1].endswith("1 node(s) exceed max volume count.")
    assert list(placed(scenario.release("a"))) == ["b"]
    assert list(placed(scenario.send(NodeUpdated(replace(attaching("n0", 2), partition=PARTITION))))) == ["c"]


def test_a_released_disk_requeues_the_pod_that_waits_for_it() -> None:
    scenario = scenario_with(nodes=1)
    disk = a_disk("gce", "x")
    assert list(placed(scenario.ask(with_volume("a", volumes=disk), with_volume("b", volumes=disk)))) == ["a"]
    assert list(placed(scenario.release("a"))) == ["b"]


def test_volumes_of_running_pods_are_in_use() -> None:
    claim, volume = bound("c", a_volume("v"), modes=("ReadWriteOncePod",))
    scenario = scenario_with(claim, volume)
    scenario.report(replace(an_allocation("old", "n0"), facts=PodProperties(volumes=using("c"))))
    assert placed(scenario.ask(with_volume("a", "c"))) == {}
    assert list(placed(scenario.release("old"))) == ["a"]


def test_members_of_a_gang_with_claims_get_a_volume_each() -> None:
    scenario = scenario_with(a_claim("a"), a_claim("b"), a_volume("v", affinity=on(HOST, "n0")))
    send(scenario, a_volume("w", affinity=ON_N1))
    scenario.submit(an_application("gang", gang=2))
    members = [
        replace(
            an_ask(f"p{name}", app="gang", group="workers", placeholder=True), facts=PodProperties(volumes=using(name))
        )
        for name in "ab"
    ]
    effects = [effect for member in members for effect in scenario.ask(member)]
    assert chosen(effects) == {"pa": {"ns/a": "v"}, "pb": {"ns/b": "w"}}
    assert placed(effects) == {"pa": "n0", "pb": "n1"}


def replacing(scenario: Scenario) -> list[Effect]:
    """A gang of two with its placeholders; a real member with claim c is requested."""
    scenario.gang(an_application("gang", gang=2), 2)
    return scenario.ask(replace(with_volume("r", "c", group="workers"), application=scenario.app("gang").id))


def test_a_replacement_uses_the_node_of_its_volume_and_reports_it_on_confirmation() -> None:
    scenario = scenario_with(a_claim("c"), a_claim("d"), a_volume("v", affinity=ON_N1))
    effects = replacing(scenario)
    (placeholder,) = releases(effects)
    assert chosen(effects) == {}
    assert placed(scenario.ask(with_volume("d", "d"))) == {}, "the volume is kept for the swap"
    done = scenario.release(placeholder, app="gang", why=REPLACED)
    assert (placed(done), chosen(done)) == ({"r": "n1"}, {"r": {"ns/c": "v"}})
    assert storage(scenario).choice(["ns/c"]) == (("ns/c", "v"),)


def test_a_cancelled_replacement_releases_its_volume() -> None:
    scenario = scenario_with(a_claim("c"), a_claim("d"), a_volume("v", affinity=ON_N1))
    replacing(scenario)
    scenario.ask(with_volume("d", "d"))
    assert chosen(scenario.release_ask("r", app="gang")) == {"d": {"ns/d": "v"}}


@pytest.mark.parametrize("fact", [ObjectGone(ObjectKind.CLAIM, "ns/c"), bound("c", a_volume("other"))[0]])
@pytest.mark.parametrize("group", ["workers", ""])
def test_a_claim_that_changes_during_validation_gets_no_assumed_volume(fact: StorageFact, group: str) -> None:
    scenario = scenario_with(a_claim("c"), a_volume("v", affinity=ON_N1))
    scenario.gang(an_application("gang", gang=2), 2)
    scenario.send(CallbacksDeclared(RM, places=True, victims=False))
    effects = scenario.ask(
        replace(with_volume("r", "c", group=group), application=scenario.app("gang" if group else "app").id)
    )
    [question] = [effect for effect in effects if isinstance(effect, PlacementsProposed)]
    send(scenario, fact)
    scenario.send(PlacementsEvaluated(RM, question.number, ("",)))
    assert (storage(scenario).assumed, storage(scenario).taken) == ({}, {})


def test_requests_with_different_claims_share_one_node_evaluation() -> None:
    scenario = scenario_with(*(a_claim(f"c{number}", of="made") for number in range(30)))
    scenario.ask(
        *(replace(with_volume(f"p{number}", f"c{number}"), resources=resources(vcore=9000)) for number in range(30))
    )
    refusals = list(scenario.app().refusals.values())
    assert len(refusals) == 30
    assert len({id(why) for why in refusals}) == 1
    assert "Insufficient cpu" in refusals[0].text()


def test_each_request_is_placed_on_the_node_of_its_volume() -> None:
    volumes = [bound(f"c{number}", a_volume(f"v{number}", affinity=on(HOST, f"n{number % 3}"))) for number in range(9)]
    scenario = scenario_with(*(fact for pair in volumes for fact in pair), nodes=3)
    scenario.ask(*(with_volume(f"p{number}", f"c{number}") for number in range(9)))
    nodes = {one.spec.key: one.node for one in scenario.app().allocations.values()}
    assert nodes == {f"p{number}": f"n{number % 3}" for number in range(9)}
