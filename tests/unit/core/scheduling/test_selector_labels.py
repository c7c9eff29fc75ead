"""Labels that selectors use are kept while a pod uses them, and are charged only to the selected pods."""

import tracemalloc
from collections.abc import Iterable
from dataclasses import replace

import pytest

from muster_core.model import limits
from muster_core.model.constraints import (
    LABEL_PREFIX,
    NAMESPACE,
    InterPodConstraints,
    PodTerm,
    Selector,
    Target,
    TargetOperator,
    TopologySpreadConstraint,
)
from muster_core.model.events import AskAdded
from muster_core.model.ids import ApplicationId
from muster_core.model.specs import NO_PROPERTIES, AskSpec, Member, PodProperties
from muster_core.scheduling.scheduler import step
from muster_core.state.affinity import SelectorLabels
from tests.unit.builders import a_configuration, a_node, a_queue, an_application, an_ask
from tests.unit.core.placement.affinity_clusters import HOST
from tests.unit.core.scheduling.scenario import Scenario, placed, refused_asks

#: More labels than a namespace may have read before all of its labels are kept, and than are kept unread.
MANY = limits.SELECTOR_LABELS_PER_NAMESPACE + limits.IDLE_SELECTOR_LABELS + 10


def label(name: str) -> str:
    return LABEL_PREFIX + name


def anti_affinity(name: str, namespace: str = "red", *, anywhere: bool = False) -> PodProperties:
    """Away from pods that have the label, whatever its value."""
    selector = (Target(label(name), TargetOperator.EXIST),)
    term = PodTerm(HOST, selector, among=()) if anywhere else PodTerm(HOST, selector, (namespace,))
    return PodProperties(InterPodConstraints(anti_affinity=(term,)))


def reading(*names: str, namespace: str = "red", among: Selector = None) -> PodProperties:
    """Away from pods that have all these labels."""
    selector = tuple(Target(label(name), TargetOperator.EXIST) for name in names)
    return PodProperties(
        InterPodConstraints(anti_affinity=(PodTerm(HOST, selector, (namespace,) if among is None else (), among),))
    )


def pod(
    key: str,
    *names: str,
    app: str = "app",
    namespace: str = "red",
    facts: PodProperties = NO_PROPERTIES,
    value: str = "x",
) -> AskSpec:
    tags = {NAMESPACE: namespace} | {label(name): value for name in names}
    return replace(an_ask(key, app=app, vcore=1, tags=tags), facts=facts, namespace=namespace)


def a_scenario(*apps: str, nodes: int = 2) -> Scenario:
    scenario = Scenario(a_configuration(a_queue("a")))
    for number in range(nodes):
        scenario.add_node(f"n{number}", vcore=400_000)
        spec = replace(a_node(f"n{number}", 400_000, 10_000), labels={HOST: f"n{number}"})
        scenario.partition.nodes.update(spec)
    for app in apps or ("app",):
        scenario.submit(an_application(app))
    return scenario


def send(scenario: Scenario, asks: Iterable[AskSpec]) -> None:
    """Without a look at every sentence after each."""
    for ask in asks:
        assert refused_asks(step(scenario.scheduler_state, AskAdded(ask), scenario.now_ns)) == {}
    scenario.send()


def labels(scenario: Scenario) -> SelectorLabels:
    return scenario.partition.nodes.pods_on_nodes.tags.labels


def test_a_label_is_kept_while_a_selector_reads_it_and_dropped_with_other_unused_labels() -> None:
    scenario = a_scenario("reader", "other")
    send(scenario, (pod(f"r{i}", app="reader", facts=anti_affinity(f"l{i}")) for i in range(MANY)))
    assert len(labels(scenario).readers()) == MANY
    scenario.remove("reader")
    assert labels(scenario).readers() == {}
    assert labels(scenario).unread([("red", label("l0"))]) == [("red", label("l0"))]


def test_a_tenant_with_many_selectors_blocks_no_pod_of_another_tenant() -> None:
    scenario = a_scenario("evil", "good")
    send(scenario, (pod(f"e{i}", app="evil", facts=anti_affinity(f"l{i}")) for i in range(1100)))
    effects = scenario.ask(
        *(pod(f"g{i}", "web", app="good", namespace="blue", facts=anti_affinity("web", "blue")) for i in range(3))
    )
    assert sorted(placed(effects)) == ["g0", "g1"]
    assert set(placed(effects).values()) == {"n0", "n1"}


def test_selectors_of_a_namespace_do_not_split_the_classes_of_another() -> None:
    scenario = a_scenario("evil", "good", nodes=0)
    scenario.ask(*(pod(f"g{i}", "index", app="good", namespace="blue", value=str(i)) for i in range(5)))
    scenario.ask(pod("e", app="evil", facts=anti_affinity("index")))
    assert len(scenario.app("good").waiting) == 1
    scenario.ask(pod("e2", app="evil", facts=anti_affinity("index", anywhere=True)))
    assert len(scenario.app("good").waiting) == 5
    scenario.remove("evil")
    assert labels(scenario).readers() == {}


@pytest.mark.parametrize("anywhere", [False, True])
def test_selectors_match_the_same_pods_when_all_labels_are_kept(*, anywhere: bool) -> None:
    scenario = a_scenario("there", "reader")
    send(scenario, (pod(f"t{i}", f"l{i}", app="there") for i in range(MANY)))
    at: dict[str, str] = {one.spec.key: one.node for one in scenario.app("there").allocations.values()}
    assert len(at) == MANY
    reading = [pod(f"r{i}", app="reader", facts=anti_affinity(f"l{i}", anywhere=anywhere)) for i in range(MANY)]
    send(scenario, reading)
    assert labels(scenario).keeps_all("red")
    nodes: dict[str, str] = {one.spec.key: one.node for one in scenario.app("reader").allocations.values()}
    assert {key for key, node in nodes.items() if at["t" + key[1:]] == node} == set()
    assert len(nodes) == MANY
    # In the other direction: existing pods reject the new one.
    late = scenario.ask(pod("late", "l3", app="there"))
    assert placed(late)["late"] != nodes["r3"]
    scenario.remove("reader")
    assert not labels(scenario).keeps_all("red")
    assert len(scenario.app("there").allocations) == MANY + 1


def test_an_ask_that_is_updated_with_other_labels_is_counted_once() -> None:
    scenario = a_scenario(nodes=0)
    scenario.ask(pod("a", "web"), pod("b", facts=anti_affinity("web")))
    scenario.ask(pod("a", "web", "other"), pod("b", "more", facts=anti_affinity("db")))
    assert labels(scenario).readers() == {("red", label("db")): 1}


def test_topology_spread_and_gang_affinity_read_labels_too() -> None:
    scenario = a_scenario(nodes=0)
    spread = PodProperties(
        InterPodConstraints(
            spread=(TopologySpreadConstraint(HOST, 1, (Target(label("web"), TargetOperator.EXIST),), "red"),)
        )
    )
    scenario.ask(pod("a", facts=spread))
    affinity = PodProperties(
        InterPodConstraints(affinity=(PodTerm(HOST, (Target(label("cache"), TargetOperator.EXIST),), ("red",)),))
    )
    gang = an_application("gang", gang=2)
    [member] = gang.members
    members: tuple[Member, ...] = (replace(member, facts=affinity),)
    scenario.submit(replace(gang, members=members))
    assert labels(scenario).readers() == {("red", label("web")): 1, ("red", label("cache")): 1}
    scenario.remove("gang")
    assert labels(scenario).readers() == {("red", label("web")): 1}


def test_values_without_waiting_selectors_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "IDLE_SELECTOR_VALUES", 100)
    scenario = a_scenario("first", nodes=0)

    def waiting(app: str, number: int) -> AskSpec:
        selector = (Target(label("app"), values=(f"{app}-{number}",)),)
        facts = PodProperties(InterPodConstraints(affinity=(PodTerm(HOST, selector, ("red",)),)))
        return pod(f"{app}-{number}", app=app, facts=facts)

    tags = scenario.partition.nodes.pods_on_nodes.tags
    for app in ("first", "second", "third", "fourth"):
        scenario.submit(an_application(app))
        send(scenario, (waiting(app, number) for number in range(limits.IDLE_SELECTOR_VALUES)))
        assert tags.is_wanted(tags.project({NAMESPACE: "red", label("app"): f"{app}-7"}))
        scenario.remove(app)
    assert not tags.is_wanted(tags.project({NAMESPACE: "red", label("app"): "first-7"}))


def test_labels_of_selectors_for_all_namespaces_are_kept_once() -> None:
    scenario = a_scenario("there", "reader", nodes=0)
    asks = [pod(f"r{i}", app="reader", facts=reading(*(f"l{i}-{n}" for n in range(250)), among=())) for i in range(12)]
    others = [pod(f"t{i}", app="there", namespace=f"ns{i}") for i in range(200)]
    tracemalloc.start()
    try:
        send(scenario, asks + others)
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(labels(scenario).readers()) == 3000
    assert held < 8 * 2**20, f"{held / 2**20:.0f} MiB for 3,000 labels and 200 namespaces"


def test_only_the_namespace_that_reads_too_many_labels_has_requests_rejected() -> None:
    scenario = a_scenario("evil", "good", nodes=0)
    most = limits.SELECTOR_LABELS_PER_READING_NAMESPACE
    send(scenario, [pod("e", app="evil", facts=reading(*(f"l{n}" for n in range(most)), among=()))])
    more = pod("more", app="evil", facts=reading("another", among=()))
    reason = refused_asks(step(scenario.scheduler_state, AskAdded(more), scenario.now_ns))["more"]
    assert f"the limit is {most}: use fewer labels in selectors" in reason
    send(scenario, [pod("same", app="evil", facts=reading("l0", among=()))])
    send(scenario, [pod("g", app="good", namespace="blue", facts=reading("another", "l0", namespace="blue"))])
    scenario.remove("evil")
    assert labels(scenario).charged() == {"blue": 2}


def test_pods_without_tags_are_forgotten_after_the_last_tagged_pod() -> None:
    """Pods without a tag have no namespace either, as pods with tags of which none is a namespace."""
    scenario = a_scenario("reader", "other")
    scenario.ask(pod("r", app="reader", facts=anti_affinity("l")))
    scenario.ask(an_ask("bare", app="other", vcore=1), an_ask("tagged", app="other", vcore=1, tags={"role": "x"}))
    for key in ("tagged", "bare"):
        scenario.release(key, app="other")
    assert scenario.app("other").allocations == {}
    assert labels(scenario).pods() == {("red", ApplicationId("reader")): 1}
