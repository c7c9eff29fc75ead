"""Each received item has limits: new items that are too large are rejected, but existing allocations still count."""

from __future__ import annotations

import json
from dataclasses import replace

from muster_core.model import limits
from muster_core.model.effects import AllocationResponse, ApplicationRejected
from muster_core.model.events import AllocationReported, ApplicationAdded, AskAdded, NodeAdded
from muster_core.model.ids import ApplicationId
from muster_core.model.records import EventRecorded
from muster_core.model.resources import Resources
from muster_core.model.specs import NO_PROPERTIES
from muster_core.si import pod_tags
from muster_core.si.values import memoized
from muster_si import keys
from tests.unit.builders import a_configuration, a_node, a_queue, an_allocation, an_application, an_ask
from tests.unit.core import messages
from tests.unit.core.scheduling.scenario import Scenario, placed

HUGE = 2**62
MANY_TAGS = {f"{keys.TAG_POD_LABEL_PREFIX}l{number}": "x" for number in range(limits.TAGS_PER_ITEM + 1)}
LONG_TAGS = {f"{keys.TAG_POD_LABEL_PREFIX}l{number}": "x" * 60_000 for number in range(5)}


def test_only_the_ask_with_too_many_or_too_long_tags_is_rejected() -> None:
    asks = messages.asks(
        messages.an_ask("many", tags=MANY_TAGS), messages.an_ask("good"), messages.an_ask("long", tags=LONG_TAGS)
    )
    intake = messages.a_decoder().allocations.read(asks)
    assert len(intake.events) == 1
    [answer] = intake.answers
    assert isinstance(answer, AllocationResponse)
    reasons: dict[str, str] = {refusal.key: refusal.reason for refusal in answer.rejected_asks}
    assert reasons["many"] == "tags has 1025 entries, the limit is 1024: remove entries"
    assert "characters in total, the limit is 262144" in reasons["long"]


def test_only_the_application_with_too_long_tags_is_rejected() -> None:
    long = {f"tag{number}": "x" * 60_000 for number in range(20)}
    intake = messages.a_decoder().applications.read(
        messages.applications(messages.an_application("bad", tags=long), messages.an_application("good"))
    )
    [event] = intake.events
    assert isinstance(event, ApplicationAdded)
    assert event.spec.id == "good"
    assert [one.application for one in intake.answers if isinstance(one, ApplicationRejected)] == ["bad"]


def test_a_running_pod_counts_without_its_oversized_or_invalid_constraints() -> None:
    own = {keys.TAG_NAMESPACE: "ns", keys.TAG_FOREIGN: "", keys.TAG_ALLOCATED_AT: "5"}
    odd = {keys.TAG_POD_CONSTRAINTS: "{"}
    for tags in (own | LONG_TAGS, own | MANY_TAGS, own | odd):
        intake = messages.a_decoder().allocations.read(
            messages.allocations(messages.an_allocation(allocationTags=tags))
        )
        [event] = intake.events
        assert isinstance(event, AllocationReported)
        assert dict(event.spec.tags) == own
        assert event.spec.facts is NO_PROPERTIES
        assert event.spec.foreign
        assert event.spec.resources["vcore"] == 1000
        [effects] = intake.answers
        assert isinstance(effects, EventRecorded)
        assert "constraints are ignored, resources count" in effects.message


def test_quantities_of_existing_nodes_and_pods_are_capped_at_the_maximum() -> None:
    pod = messages.an_allocation(resourcePerAlloc=messages.a_resource(vcore=HUGE, memory=5))
    node = messages.a_node(schedulableResource=messages.a_resource(vcore=HUGE), existingAllocations=[pod])
    [event] = messages.a_decoder().nodes.read(messages.nodes(node)).events
    assert isinstance(event, NodeAdded)
    assert event.spec.capacity == Resources({"vcore": limits.QUANTITY})
    assert event.existing[0].resources == Resources({"vcore": limits.QUANTITY, "memory": 5})


def test_the_number_of_resource_names_in_an_amount_is_limited() -> None:
    many = {f"example.com/r{number:03}": 1 for number in range(limits.RESOURCE_NAMES + 1)}
    intake = messages.a_decoder().allocations.read(
        messages.asks(messages.an_ask(resourceAsk=messages.a_resource(**many)))
    )
    assert intake.events == []
    [event] = (
        messages.a_decoder()
        .nodes.read(messages.nodes(messages.a_node(schedulableResource=messages.a_resource(**many))))
        .events
    )
    assert isinstance(event, NodeAdded)
    assert len(list(event.spec.capacity.items())) == limits.RESOURCE_NAMES


def test_asks_beyond_the_message_limit_are_rejected_and_the_others_are_accepted() -> None:
    request = messages.asks(*(messages.an_ask(f"p{number}") for number in range(limits.ITEMS_PER_MESSAGE + 2)))
    intake = messages.a_decoder().allocations.read(request)
    assert len(intake.events) == limits.ITEMS_PER_MESSAGE
    [answer] = intake.answers
    assert isinstance(answer, AllocationResponse)
    assert len(answer.rejected_asks) == 2
    assert "send several messages" in answer.rejected_asks[0].reason


def test_many_of_the_largest_pods_on_one_node_add_up() -> None:
    scenario = Scenario(a_configuration(a_queue("a")), nodes=1)
    amount = Resources({"vcore": limits.QUANTITY})
    pods = [replace(an_allocation(f"f{number}", "n0", foreign=True), resources=amount) for number in range(60)]
    scenario.send(*(AllocationReported(replace(pod, application=ApplicationId(""))) for pod in pods))
    assert scenario.partition.nodes.available(a_node("n0").id)["vcore"] == 4000 - 60 * limits.QUANTITY


def test_long_texts_are_not_cached_and_short_ones_are() -> None:
    read: list[int] = []

    @memoized
    def length(text: str, others: tuple[str, ...]) -> int:
        read.append(len(text))
        return len(text) + len(others)

    for _ in range(3):
        length("short", ())
        length("x" * (limits.CACHED_CHARACTERS + 1), ())
        length("", ("x" * limits.CACHED_CHARACTERS, "x"))
    assert sorted(read) == [0, 0, 0, 5, *[limits.CACHED_CHARACTERS + 1] * 3]
    assert pod_tags.inter_pod_constraints("{}", "ns") is pod_tags.inter_pod_constraints("{}", "ns")


def test_too_many_selector_labels_reject_an_ask_and_are_ignored_for_a_running_pod() -> None:
    def anti_affinity(expressions: int, **scopes: object) -> dict[str, str]:
        labels = [{"key": f"l{number}", "operator": "Exists"} for number in range(expressions)]
        term = {"topologyKey": "host", "labelSelector": {"matchExpressions": labels}, **scopes}
        return {keys.TAG_NAMESPACE: "ns", keys.TAG_POD_CONSTRAINTS: json.dumps({"antiAffinity": [term]})}

    many = anti_affinity(limits.SELECTOR_EXPRESSIONS_PER_POD + 1, namespaceSelector={})
    named = anti_affinity(11, namespaces=[f"n{number}" for number in range(100)])
    good = anti_affinity(limits.SELECTOR_EXPRESSIONS_PER_POD, namespaceSelector={})
    asks = messages.asks(
        messages.an_ask("many", tags=many), messages.an_ask("named", tags=named), messages.an_ask("good", tags=good)
    )
    intake = messages.a_decoder().allocations.read(asks)
    assert [event.spec.key for event in intake.events if isinstance(event, AskAdded)] == ["good"]
    [answer] = intake.answers
    assert isinstance(answer, AllocationResponse)
    reasons: dict[str, str] = {refusal.key: refusal.reason for refusal in answer.rejected_asks}
    assert "have 257 expressions, the limit is 256" in reasons["many"]
    assert "have 1100 expressions if each counts once per named namespace, the limit is 1024" in reasons["named"]
    [event] = (
        messages.a_decoder().allocations.read(messages.allocations(messages.an_allocation(allocationTags=many))).events
    )
    assert isinstance(event, AllocationReported)
    assert event.spec.facts is NO_PROPERTIES


def too_many_members() -> str:
    group = {"minMember": limits.MEMBERS_PER_GANG, "resource": {"vcore": 1}}
    return json.dumps([{"name": f"g{number}", **group} for number in range(2)])


def test_an_application_with_bound_pods_is_accepted_without_its_invalid_definition() -> None:
    forced = {
        keys.APP_TAG_NAMESPACE: "ns",
        keys.APP_TAG_APPLICATION_ID: "train",
        keys.APP_TAG_CREATE_FORCE: "true",
        keys.APP_TAG_CREATION_TIME: "7",
    }
    definitions: tuple[dict[str, str], ...] = (
        {keys.APP_TAG_MEMBERS: too_many_members()},
        {keys.APP_TAG_MEMBERS: "["},
        {keys.APP_TAG_GANG_PLACEMENT: "Nowhere"},
        {keys.APP_TAG_CREATION_TIME: "long ago"},
        {f"tag{number}": "x" * 60_000 for number in range(20)},
    )
    for definition in definitions:
        ask = messages.a_resource(vcore=1000)
        new = messages.an_application("ns/train", tags=forced | definition, placeholderAsk=ask, queueName="root.a")
        intake = messages.a_decoder().applications.read(
            messages.applications(new, messages.an_application("new", tags=definition))
        )
        [event] = intake.events
        assert isinstance(event, ApplicationAdded)
        spec = event.spec
        assert (spec.id, spec.queue, spec.user, spec.forced) == ("ns/train", "root.a", "alice", True)
        assert (spec.namespace, spec.name, spec.members, spec.is_gang) == ("ns", "train", (), False)
        noted, refused = intake.answers
        assert isinstance(noted, EventRecorded)
        assert "the definition is ignored, bound pods count: " in noted.message
        assert isinstance(refused, ApplicationRejected)


def test_bound_placeholders_of_an_application_without_its_definition_count() -> None:
    scenario = Scenario(a_configuration(a_queue("a")), nodes=1)
    scenario.submit(replace(an_application(forced=True), tags={}))
    bound = an_allocation("ph", "n0", group="workers", placeholder=True), an_allocation("real", "n0")
    scenario.send(*(AllocationReported(one) for one in bound))
    assert scenario.partition.nodes.available(a_node("n0").id)["vcore"] == 2000
    assert placed(scenario.ask(an_ask("more"))) == {"more": "n0"}
    assert scenario.app().state == "Running"
