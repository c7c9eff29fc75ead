"""In Reserve, placeholders request what the present members of their task group request (semantics, rule 16)."""

import json
from typing import Any

import pytest

from muster_operator.config.settings import parse
from muster_operator.controller import recovery
from muster_operator.model.commands import CreatePlaceholder, DeletePod, Outcome, PostEvent
from muster_operator.model.core_messages import ApplicationSubmitted, AskReleased, AskSpec, AskSubmitted
from muster_operator.model.ids import PodUid
from muster_operator.model.pods import Placement
from muster_operator.model.settings import Settings
from muster_operator.translate.present_members import written
from muster_si import keys
from tests.unit.operator.controller.driver import APP, Driver, done, live, requested_keys, whole
from tests.unit.operator.controller.gang import creates, pod_of
from tests.unit.operator.controller.kubernetes import namespace_seen, node_seen
from tests.unit.operator.controller.objects import (
    Raw,
    a_container,
    a_group,
    a_namespace,
    a_node,
    a_pod,
    gang_annotations,
)

QUIET_S = Settings().member_quiet_s

SPREAD = {
    "requiredDuringSchedulingIgnoredDuringExecution": [
        {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"role": "w"}}}
    ]
}
TAINT = {"key": "dedicated", "operator": "Equal", "value": "ml", "effect": "NoSchedule"}
NOT_READY = {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"}


def a_member(number: int = 0, *, members: int = 3, group: Raw | None = None, **spec: Any) -> Raw:
    annotations = gang_annotations(group or a_group("g", members), member_of="g")
    return a_pod(f"w{number}", app=APP, annotations=annotations, **spec)


def of_size(cpu: str, **requests: str) -> list[Raw]:
    return [a_container(cpu=cpu, memory="1Gi", **requests)]


def notes(out: Outcome) -> list[str]:
    return [
        one.note for one in out.commands if isinstance(one, PostEvent) and one.action == "PlaceholdersFollowMembers"
    ]


def seen(driver: Driver, command: CreatePlaceholder) -> AskSpec:
    """The API server reports the placeholder. Returns its request."""
    driver.result(done(command))
    [request] = [one for one in driver.see(pod_of(command)).requests if isinstance(one, AskSubmitted)]
    return request.ask


def deleted(out: Outcome) -> list[str]:
    return [one.pod.name for one in out.commands if isinstance(one, DeletePod)]


def withdrawn(out: Outcome) -> list[str]:
    return [one.key for one in out.requests if isinstance(one, AskReleased)]


def recreated(driver: Driver, commands: list[CreatePlaceholder]) -> list[CreatePlaceholder]:
    """The deleted placeholders are gone. Returns the creations in place of them, which the API server reports."""
    again = [new for one in commands for new in creates(driver.gone_uid(PodUid(pod_of(one)["metadata"]["uid"])))]
    for one in again:
        seen(driver, one)
    return again


def cpu_of(commands: list[CreatePlaceholder]) -> set[str | None]:
    return {one.spec.group.requests["cpu"] for one in commands}


def body_of(command: CreatePlaceholder) -> Raw:
    spec: Raw = pod_of(command)["spec"]
    return spec


def test_placeholders_request_the_larger_amount_of_each_resource_and_what_the_group_does_not_name() -> None:
    driver = live()
    containers = [*of_size("1500m"), a_container("sidecar", **{"a.b/gpu": "1"})]
    out = driver.see(a_member(containers=containers))
    [submitted] = [one for one in out.requests if isinstance(one, ApplicationSubmitted)]
    assert submitted.spec.placeholder_ask == {"vcore": 4500, "memory": 3 * 2**30, "a.b/gpu": 3, "pods": 3}
    [member] = json.loads(submitted.spec.tags[keys.APP_TAG_MEMBERS])
    assert member["resource"] == {"vcore": 1500, "memory": 2**30, "a.b/gpu": 1, "pods": 1}
    out = driver.accepted()
    expected = {"cpu": "1500m", "memory": "1Gi", "a.b/gpu": "1"}
    assert [body_of(one)["containers"][0]["resources"]["requests"] for one in creates(out)] == [expected] * 3
    [note] = notes(out)
    assert "task group g" in note
    assert "cpu: 1500m instead of 1, a.b/gpu: 1 instead of 0" in note
    assert '"minResource": {"cpu": "1500m", "a.b/gpu": "1"}' in note
    assert seen(driver, creates(out)[0]).resources == {"vcore": 1500, "memory": 2**30, "a.b/gpu": 1, "pods": 1}


def test_the_maximum_over_the_present_members_counts() -> None:
    driver = live()
    for number, cpu in enumerate(("500m", "3", "2")):
        driver.see(a_member(number, containers=of_size(cpu)))
    assert {one.spec.group.requests["cpu"] for one in creates(driver.accepted())} == {"3"}


def test_smaller_members_change_nothing_and_nothing_is_reported() -> None:
    driver = live()
    driver.see(a_member(containers=of_size("100m"), tolerations=[NOT_READY]))
    out = driver.accepted()
    assert {one.spec.group.requests["cpu"] for one in creates(out)} == {"1"}
    assert "tolerations" not in body_of(creates(out)[0])
    assert notes(out) == []


def test_constraints_that_all_members_have_and_the_group_leaves_out_are_copied() -> None:
    driver = live()
    group = a_group("g", nodeSelector={"zone": "a"})
    for number in range(2):
        selector = {"zone": "b", "disk": "fast", "own": f"{number}"}
        driver.see(a_member(number, group=group, nodeSelector=selector, tolerations=[TAINT, NOT_READY]))
    out = driver.accepted()
    body = body_of(creates(out)[0])
    assert body["nodeSelector"] == {"zone": "a", "disk": "fast"}
    assert body["tolerations"] == [TAINT]
    [note] = notes(out)
    assert '"nodeSelector": {"disk": "fast", "zone": "a"}' in note
    assert '"tolerations": [{' in note


def test_required_node_affinity_of_all_members_is_copied() -> None:
    terms = [{"matchExpressions": [{"key": "arch", "operator": "In", "values": ["arm"]}]}]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    driver = live()
    driver.see(a_member(affinity={"nodeAffinity": required}))
    assert body_of(creates(driver.accepted())[0])["affinity"] == {"nodeAffinity": required}


def test_a_constraint_that_one_member_does_not_have_is_not_copied_and_its_placeholder_is_planned_with_it() -> None:
    driver = live()
    driver.see(a_member(0, members=2, nodeSelector={"disk": "fast"}))
    driver.see(a_member(1, members=2))
    first, second = creates(driver.accepted())
    assert "nodeSelector" not in body_of(first)
    asks = [seen(driver, first), seen(driver, second)]
    assert [ask.tags.get(keys.TAG_CONSTRAINTS) for ask in asks] == ['{"nodeSelector":{"disk":"fast"}}', None]
    driver.gone_uid(asks[0].key)
    assert driver.ledger.applications[APP].present["g"].member_like(PodUid("other")) is None


def test_the_core_plans_placeholders_with_the_anti_affinity_labels_and_ports_of_their_members() -> None:
    driver = live()
    container = {**a_container(cpu="1"), "ports": [{"containerPort": 80, "hostPort": 80}]}
    for number in range(2):
        member = a_member(number, affinity={"podAntiAffinity": SPREAD}, containers=[container])
        member["metadata"]["labels"]["role"] = "w"
        driver.see(member)
    out = driver.accepted()
    [note] = notes(out)
    assert "podAntiAffinity, host ports" in note
    ask = seen(driver, creates(out)[0])
    assert "affinity" not in body_of(creates(out)[0])
    assert "role" not in pod_of(creates(out)[0])["metadata"]["labels"]
    assert json.loads(ask.tags[keys.TAG_POD_CONSTRAINTS])["antiAffinity"][0]["topologyKey"] == "kubernetes.io/hostname"
    assert ask.tags[keys.TAG_POD_LABEL_PREFIX + "role"] == "w"
    assert keys.CONTAINER_PORTS in ask.tags
    assert ask.common == {}
    assert all(keys.CONTAINER_PORTS in seen(driver, one).tags for one in creates(out)[1:]), "absent members are alike"


def test_a_larger_member_that_appears_replaces_placeholders_without_a_node() -> None:
    driver = live("n1")
    driver.see(a_member())
    first, second, third = creates(driver.accepted())
    seen(driver, first)
    seen(driver, second)
    driver.allocated(f"ph-{first.spec.name}", "n1")
    out = driver.see(a_member(1, containers=of_size("2")))
    assert (deleted(out), withdrawn(out), notes(out)) == ([], [f"ph-{second.spec.name}"], [])
    out = driver.wait(QUIET_S)
    assert (deleted(out), withdrawn(out)) == ([second.spec.name], [])
    assert "cpu: 2 instead of 1" in notes(out)[0]
    [again] = creates(driver.gone_uid(PodUid(pod_of(second)["metadata"]["uid"])))
    assert again.spec.group.requests["cpu"] == "2"
    assert again.spec.name != second.spec.name
    driver.result(done(third))
    late = driver.see(pod_of(third))
    assert requested_keys(late) == []
    assert deleted(late) == [third.spec.name]
    assert seen(driver, again).resources["vcore"] == 2000


def test_an_oversized_member_that_ended_before_the_acceptance_does_not_count() -> None:
    driver = live()
    driver.see(a_member(0))
    large = a_member(9, containers=of_size("100"), nodeSelector={"disk": "fast"})
    driver.see(large)
    large["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:05Z"
    driver.see(large)
    out = driver.accepted()
    assert cpu_of(creates(out)) == {"1"}
    assert notes(out) == []


def test_constraints_that_the_remaining_members_have_in_common_count() -> None:
    driver = live()
    for number in range(2):
        driver.see(a_member(number, nodeSelector={"disk": "fast"}))
    driver.see(a_member(9))
    driver.gone("w9")
    assert body_of(creates(driver.accepted())[0])["nodeSelector"] == {"disk": "fast"}


def test_an_oversized_member_that_ends_within_the_quiet_period_replaces_nothing() -> None:
    driver = live()
    driver.see(a_member())
    asks = [seen(driver, one) for one in creates(driver.accepted())]
    driver.see(a_member(9, containers=of_size("100")))
    driver.wait(QUIET_S / 2)
    driver.gone("w9")
    assert requested_keys(driver.wait(QUIET_S / 2)) == [], "the quiet period begins again"
    out = driver.wait(QUIET_S)
    assert deleted(out) == []
    assert requested_keys(out) == [ask.key for ask in asks], "their requests were withdrawn"


def test_placeholders_shrink_when_an_oversized_member_ends_and_those_with_a_node_stay() -> None:
    driver = live("n1")
    driver.see(a_member())
    driver.see(a_member(9, containers=of_size("100")))
    commands = creates(driver.accepted())
    for one in commands:
        seen(driver, one)
    allocated, bound, waits = (one.spec.name for one in commands)
    driver.allocated(f"ph-{allocated}", "n1")
    driver.see(pod_of(commands[1], nodeName="n1"))
    driver.gone("w9")
    out = driver.wait(QUIET_S)
    assert (deleted(out), withdrawn(out)) == ([waits], [f"ph-{waits}"])
    assert bound in driver.ledger.applications[APP].slots
    assert cpu_of(recreated(driver, commands[2:])) == {"1"}


def test_a_burst_of_ever_larger_members_replaces_each_placeholder_once() -> None:
    driver = live()
    driver.see(a_member(members=20))
    commands = creates(driver.accepted())
    for one in commands[:10]:
        seen(driver, one)
    writes: list[str] = []
    for number in range(1, 11):
        out = driver.see(a_member(number, members=20, containers=of_size(f"{1000 + number}m")))
        late = driver.see(pod_of(commands[9 + number]))
        writes += [*deleted(out), *deleted(late), *deleted(driver.wait(QUIET_S / 10)), *notes(out)]
    assert writes == []
    out = driver.wait(QUIET_S)
    assert sorted(deleted(out)) == sorted(one.spec.name for one in commands)
    assert len(notes(out)) == 1
    again = recreated(driver, commands)
    assert (len(again), cpu_of(again)) == (20, {"1010m"})
    assert deleted(driver.wait(60)) == []


def test_members_that_grow_without_end_cause_ever_rarer_replacements() -> None:
    driver = live()
    driver.see(a_member(members=2))
    commands = creates(driver.accepted())
    for one in commands:
        seen(driver, one)
    rounds = 0
    for number in range(1, 100):
        driver.see(a_member(number, members=2, containers=of_size(f"{1000 + number}m")))
        if deleted(driver.wait(1)):
            rounds += 1
            commands = recreated(driver, commands)
    assert rounds == 7


def test_a_restart_computes_the_requests_from_the_present_members() -> None:
    driver = live()
    driver.see(a_member())
    driver.see(a_member(9, containers=of_size("100")))
    first, second, _ = creates(driver.accepted())
    again = Driver()
    again.fact(namespace_seen(a_namespace()))
    again.fact(node_seen(a_node("n1")))
    for pod in (a_member(), pod_of(first), pod_of(second, nodeName="n1")):
        again.see(pod)
    whole(recovery.begin(again.ledger, 0.0))
    again.accepted()
    whole(recovery.report_nodes(again.ledger, 0.0))
    out = whole(recovery.submit_asks(again.ledger, 0.0))
    assert deleted(out) == [first.spec.name]
    assert cpu_of(creates(out)) == {"1"}


def test_the_setting_turns_it_off() -> None:
    driver = live(settings=Settings(gang_placement=Placement.RESERVE, placeholders_follow=False))
    driver.see(a_member(containers=of_size("2"), nodeSelector={"disk": "fast"}))
    out = driver.accepted()
    assert {one.spec.group.requests["cpu"] for one in creates(out)} == {"1"}
    assert "nodeSelector" not in body_of(creates(out)[0])
    assert notes(out) == []


def test_placeholders_follow_members_unless_the_setting_is_false() -> None:
    assert parse({}).settings.placeholders_follow
    assert not parse({"gang.placeholdersFollowMembers": "false"}).settings.placeholders_follow


@pytest.mark.parametrize(
    "name, amount, quantity",
    [
        ("vcore", 1500, "1500m"),
        ("vcore", 2000, "2"),
        ("memory", 1500 * 2**20, "1500Mi"),
        ("memory", 2**30, "1Gi"),
        ("memory", 1, "1"),
        ("x", 3, "3"),
    ],
)
def test_amounts_are_written_as_kubernetes_quantities(name: str, amount: int, quantity: str) -> None:
    assert written(name, amount) == quantity
