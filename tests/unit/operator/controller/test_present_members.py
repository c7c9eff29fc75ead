"""In Reserve, placeholders request what the present members of their task group request (semantics, rule 16)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from muster_operator.config.settings import parse
from muster_operator.model.commands import CreatePlaceholder, DeletePod, Outcome, PostEvent
from muster_operator.model.core_messages import ApplicationSubmitted, AskReleased, AskSpec, AskSubmitted
from muster_operator.model.ids import PodUid
from muster_operator.model.pods import Placement
from muster_operator.model.settings import Settings
from muster_operator.translate.present_members import written
from muster_si import keys
from tests.unit.operator.controller.driver import APP, Driver, done, live, requested_keys
from tests.unit.operator.controller.gang import creates, pod_of
from tests.unit.operator.controller.objects import Raw, a_container, a_group, a_pod, gang_annotations

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
    assert [one.pod.name for one in out.commands if isinstance(one, DeletePod)] == [second.spec.name]
    assert [one.key for one in out.requests if isinstance(one, AskReleased)] == [f"ph-{second.spec.name}"]
    assert "cpu: 2 instead of 1" in notes(out)[0]
    [again] = creates(driver.gone_uid(pod_of(second)["metadata"]["uid"]))
    assert again.spec.group.requests["cpu"] == "2"
    assert again.spec.name != second.spec.name
    driver.result(done(third))
    late = driver.see(pod_of(third))
    assert requested_keys(late) == []
    assert [one.pod.name for one in late.commands if isinstance(one, DeletePod)] == [third.spec.name]
    assert seen(driver, again).resources["vcore"] == 2000


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
