"""Gangs that pods declare by labels and annotations, without an object."""

import json
from dataclasses import replace

import pytest

from muster_operator.model.ids import PodUid
from muster_operator.model.pod_groups import PodGroup
from muster_operator.model.pods import Membership, PodRef
from muster_operator.model.settings import Settings
from muster_operator.translate.membership import gang_app_id, membership
from tests.unit.operator.controller.objects import Raw, a_group, gang_annotations

SIZE = "yunikorn.apache.org/gang-size"
GANG = "gang.scheduling.koordinator.sh/"
KUEUE = "kueue.x-k8s.io/pod-group-"
LABEL = "scheduling.x-k8s.io/pod-group"
LWS = "leaderworkerset.sigs.k8s.io/"
JOB = [{"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "uid-job", "controller": True}]
SETTINGS = Settings()


def read(
    annotations: Raw, labels: Raw | None = None, owners: list[Raw] | None = None, settings: Settings = SETTINGS
) -> Membership:
    metadata = {"labels": labels or {}, "annotations": annotations, "ownerReferences": owners or []}
    return membership(metadata, PodRef("dev", "w0", PodUid("uid-w0")), settings)


def declared(annotations: Raw, labels: Raw | None = None, owners: list[Raw] | None = None) -> PodGroup:
    found = read(annotations, labels, owners).declared
    assert found is not None
    return found


@pytest.mark.parametrize(
    "annotations, labels, owners, group, app",
    [
        ({GANG + "name": "a", GANG + "min-available": "3"}, {}, [], f"dev/{GANG}name=a", "dev/a"),
        ({GANG + "name": "a", GANG + "min-available": "3", GANG + "groups": '["dev/a"]'}, {}, [], None, "dev/a"),
        (
            {GANG + "name": "b", GANG + "min-available": "3", GANG + "groups": '["dev/b", "dev/a", "dev/b"]'},
            *({}, [], f"dev/{GANG}name=a,b", "dev/a"),
        ),
        ({SIZE: "3"}, {KUEUE + "name": "b"}, JOB, f"dev/{SIZE}=Kueue/b", "dev/b"),
        ({SIZE: "3"}, {}, JOB, f"dev/{SIZE}=uid-job", "dev/train"),
        ({SIZE: "3"}, {"jobset.sigs.k8s.io/jobset-name": "js"}, JOB, f"dev/{SIZE}=JobSet/js", "dev/js"),
        ({SIZE: "3"}, {LWS + "name": "s", LWS + "group-index": "1"}, JOB, f"dev/{SIZE}=LeaderWorkerSet/s/1", "dev/s-1"),
        ({SIZE: "3"}, {"applicationId": "mine"}, [], f"dev/{SIZE}=/mine", "dev/mine"),
        ({SIZE: "3"}, {"applicationId": "mine"}, JOB, f"dev/{SIZE}=uid-job", "dev/mine"),
    ],
)
def test_each_dialect_names_the_gang_and_its_size(
    annotations: Raw, labels: Raw, owners: list[Raw], group: str | None, app: str
) -> None:
    found = read(annotations, labels, owners)
    assert found.declared is not None
    assert (found.declared.min_count, found.declared.problem, found.app) == (3, "", app)
    assert group is None or (found.declared.key, f"dev/{found.pod_group}") == (group, group)


@pytest.mark.parametrize(
    "annotations, labels, rule",
    [
        *(
            ({SIZE: text}, {KUEUE + "name": "b"}, "is not a number of pods; write a whole number from 1 to 10,000")
            for text in ("0", "-1", "2147483648", "10001", "9" * 5000, "1.5", "³", " 3", "three")
        ),
        ({GANG + "name": "a"}, {}, "min-available is missing"),
        ({GANG + "name": "x" * 254, GANG + "min-available": "3"}, {}, "is not a name"),
        ({GANG + "name": "a\0b", GANG + "min-available": "3"}, {}, "is not a name"),
        *(
            ({GANG + "name": "a", GANG + "min-available": "3", GANG + "groups": text}, {}, rule)
            for text, rule in (
                ("dev/a", "is not a JSON list of at most 100 gangs and 4,096 bytes"),
                ('{"dev/a": 1}', "is not a JSON list"),
                ('["dev/a", 1]', "is not a JSON list"),
                ("[" * 4_000, "is not a JSON list"),
                (json.dumps([f"dev/{number}" for number in range(101)]), "is not a JSON list of at most 100 gangs"),
                ('["dev/a", "dev/' + 4_096 * "b" + '"]', "is not a JSON list of at most 100 gangs and 4,096 bytes"),
                ('["dev/a", "prod/b"]', "has a gang of another namespace, which is not supported; write names such as"),
                ('["dev/a", "b"]', 'write names such as "dev/a"'),
                ('["dev/a", "dev/b,c"]', 'write names such as "dev/a"'),
                ('["dev/b", "dev/c"]', 'does not have the gang of the pod; add "dev/a"'),
            )
        ),
        ({GANG + "name": "a", GANG + "min-available": "3", GANG + "network-topology-spec": "{x}"}, {}, "not supported"),
        ({SIZE: "x"}, {"applicationId": "mine"}, "is not a number of pods"),
    ],
)
def test_a_value_that_is_not_understood_names_key_value_and_rule(annotations: Raw, labels: Raw, rule: str) -> None:
    found = declared(annotations, labels)
    assert rule in found.problem
    assert found.min_count == 0
    assert len(found.problem) < 300
    assert found.problem.isprintable()
    assert len(found.key) < 400


@pytest.mark.parametrize(
    "annotations, labels",
    [
        ({KUEUE + "total-count": "3"}, {KUEUE + "name": "b"}),
        ({LWS + "size": "3"}, {LWS + "name": "s", LWS + "group-index": "1"}),
        ({}, {"jobset.sigs.k8s.io/jobset-name": "js"}),
        ({GANG + "min-available": "3"}, {}),
    ],
)
def test_what_other_controllers_write_and_a_size_without_a_name_declare_nothing(annotations: Raw, labels: Raw) -> None:
    found = read(annotations, labels)
    assert (found.declared, found.pod_group) == (None, "")


@pytest.mark.parametrize(
    "more, used",
    [
        ({}, SIZE),
        (gang_annotations(a_group("g", 5)), "yunikorn.apache.org/task-groups"),
        (gang_annotations(member_of="g"), "yunikorn.apache.org/task-group-name"),
    ],
)
def test_the_first_dialect_is_used_and_each_other_one_is_reported(more: Raw, used: str) -> None:
    annotations = {SIZE: "3", GANG + "name": "a", GANG + "min-available": "4", **more}
    found = read(annotations, {LABEL: "p"}, JOB)
    assert (found.declared is not None) is not bool(more)
    ignored = [name for name in (SIZE, LABEL, f"{GANG}name") if name != used]
    assert found.conflicts == tuple(
        f"{name} is ignored, because {used} takes precedence; remove one of them" for name in ignored
    )


def test_the_label_of_scheduler_plugins_names_an_object_and_precedes_koordinator() -> None:
    found = read({GANG + "name": "a", GANG + "min-available": "4"}, {LABEL: "p"})
    assert (found.declared, found.pod_group, found.app) == (None, f"{LABEL}=p", "dev/p")
    assert found.conflicts == (f"{GANG}name is ignored, because {LABEL} takes precedence; remove one of them",)


def test_where_gangs_are_disabled_the_pods_declare_nothing() -> None:
    annotations = {GANG + "name": "a", GANG + "min-available": "3"}
    found = read(annotations, {LABEL: "p"}, settings=replace(SETTINGS, disable_gang=True))
    assert (found.declared, found.pod_group) == (None, "")


def test_the_webhook_writes_the_name_of_the_gang_as_the_application_id() -> None:
    assert gang_app_id("dev", {"annotations": {SIZE: "3"}, "ownerReferences": JOB}, {}) == "train"
    assert gang_app_id("dev", {"annotations": {GANG + "name": "not a label"}}, {}) == ""
    assert gang_app_id("dev", {"annotations": {SIZE: "3"}}, {}) == ""
    assert gang_app_id("dev", {"labels": {KUEUE + "name": "a"}}, {}) == ""
    assert gang_app_id("dev", {"labels": {LABEL: "p"}}, {}) == "p"
