"""The user of a pod is its submitter, unless a trusted account sets another one, and does not change."""

import json

import pytest

from muster_operator.webhook.context import Submitter
from muster_operator.webhook.decisions import LIMIT
from tests.unit.operator.webhook.reviews import (
    ANN,
    APP_ID,
    BOB,
    CONTROLLER,
    USER_INFO,
    WORKLOADS,
    a_description,
    a_pod,
    a_thing,
    creating,
    info,
    owner_of,
    settings,
    updating,
)

KINDS = ("Pod", *WORKLOADS)
FIELDS = {
    "Pod": "metadata",
    "CronJob": "spec.jobTemplate",
    "ControllerRevision": "data.spec.template",
    "PodTemplate": "template",
}
JENKINS = Submitter("system:serviceaccount:ci:jenkins", ("system:serviceaccounts", "robots"))


def owned(kind: str, submitter: Submitter, image: str = "x") -> dict[str, object]:
    return a_thing(kind, a_description(annotations={USER_INFO: info(submitter)}, restartPolicy=image))


def free(kind: str, image: str = "x") -> dict[str, object]:
    return a_thing(kind, a_description(restartPolicy=image))


@pytest.mark.parametrize("kind", KINDS)
def test_a_created_object_gets_its_submitter_as_user(kind: str) -> None:
    assert owner_of(kind, creating(free(kind)).object) == '{"user":"ann","groups":["dev","system:authenticated"]}'


@pytest.mark.parametrize("kind", KINDS)
def test_the_name_of_another_user_is_rejected_with_field_and_fix(kind: str) -> None:
    refusal = creating(owned(kind, ANN), BOB).refusal
    assert f"metadata.annotations[{USER_INFO}] names user 'ann', but the request is from 'bob': remove it" in refusal
    assert refusal.startswith(FIELDS.get(kind, "spec.template"))


@pytest.mark.parametrize(
    "stated", ['{"user": "bob", "User": "ann"}', '{"user": "bob", "user": "ann"}', '{"u\\u017fer": "ann"}']
)
def test_the_user_is_the_one_that_the_scheduler_reads(stated: str) -> None:
    forged = a_thing("Pod", a_description(annotations={USER_INFO: stated}))
    assert "names user 'ann', but the request is from 'bob'" in creating(forged, BOB).refusal


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "submitter, entries",
    [
        (CONTROLLER, {}),
        (JENKINS, {"systemUsers": "^system:serviceaccount:ci:"}),
        (JENKINS, {"externalUsers": "jenkins$"}),
        (JENKINS, {"externalGroups": "other,^robots$"}),
        (JENKINS, {"bypassAuth": "true"}),
    ],
)
def test_trusted_accounts_can_name_another_user(kind: str, submitter: Submitter, entries: dict[str, str]) -> None:
    answer = creating(owned(kind, ANN), submitter, how=settings(**entries))
    assert answer.is_allowed
    assert answer.object is None or owner_of(kind, answer.object) == info(ANN)


@pytest.mark.parametrize(
    "submitter, entries",
    [
        (CONTROLLER, {"trustControllers": "false"}),
        (JENKINS, {}),
        (JENKINS, {"externalUsers": "^jenkins$"}),
        (JENKINS, {"externalGroups": "^robot$"}),
        (JENKINS, {"trustControllers": "false", "systemUsers": "jenkins"}),
    ],
)
def test_untrusted_accounts_cannot_name_another_user(submitter: Submitter, entries: dict[str, str]) -> None:
    assert not creating(owned("Pod", ANN), submitter, how=settings(**entries)).is_allowed


@pytest.mark.parametrize("kind", KINDS)
def test_users_can_name_themselves_but_their_groups_are_replaced(kind: str) -> None:
    assert owner_of(kind, creating(owned(kind, ANN), ANN).object or owned(kind, ANN)) == info(ANN)
    grand = Submitter("ann", ("dev", "admins"))
    answer = creating(owned(kind, grand), ANN)
    assert owner_of(kind, answer.object) == info(ANN)
    assert answer.warnings[0].endswith(f"[{USER_INFO}]: replaced by the groups of your login")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("submitter", [ANN, BOB, CONTROLLER])
def test_any_user_can_change_other_fields_and_the_recorded_user_stays(kind: str, submitter: Submitter) -> None:
    """A user who can change a workload can run pods as its user, as with its service account."""
    answer = updating(owned(kind, ANN), owned(kind, ANN, "another"), submitter)
    assert (answer.is_allowed, answer.object) == (True, None)


@pytest.mark.parametrize("kind", WORKLOADS)
def test_a_workload_updated_without_its_user_keeps_it(kind: str) -> None:
    for submitter in (ANN, BOB):
        assert owner_of(kind, updating(owned(kind, ANN), free(kind, "another"), submitter).object) == info(ANN)


@pytest.mark.parametrize("kind", WORKLOADS)
def test_only_the_recorded_user_can_update_the_groups(kind: str) -> None:
    moved = Submitter("ann", ("new",))
    assert updating(owned(kind, ANN), owned(kind, moved), moved).object is None
    assert owner_of(kind, updating(owned(kind, ANN), owned(kind, moved), BOB).object) == info(ANN)


@pytest.mark.parametrize("kind", WORKLOADS)
def test_an_untrusted_user_cannot_take_over_a_workload(kind: str) -> None:
    refusal = updating(owned(kind, ANN), owned(kind, BOB), BOB).refusal
    assert "would change from 'ann' to 'bob'" in refusal
    assert updating(owned(kind, ANN), owned(kind, BOB), CONTROLLER).is_allowed


@pytest.mark.parametrize("kind", WORKLOADS)
def test_a_workload_without_a_user_gets_one_only_if_its_template_changes(kind: str) -> None:
    assert owner_of(kind, updating(free(kind), free(kind, "another"), BOB).object) == info(BOB)
    same = a_thing(kind, a_description(restartPolicy="x"), labels={"scaled": "up"})
    assert updating(free(kind), same, BOB).object is None, "all its pods would be replaced"


@pytest.mark.parametrize("now", [{}, {USER_INFO: ""}, {USER_INFO: info(BOB)}])
def test_the_user_of_a_stored_pod_cannot_be_changed(now: dict[str, str]) -> None:
    assert "cannot change" in updating(owned("Pod", ANN), a_pod(annotations=now), BOB).refusal
    assert updating(owned("Pod", ANN), a_pod(annotations=now), CONTROLLER).is_allowed


def test_a_user_cannot_be_added_to_a_stored_pod() -> None:
    assert not updating(a_pod(), owned("Pod", ANN), ANN).is_allowed
    assert updating(a_pod(), a_pod(labels={"a": "b"}), ANN).object is None


@pytest.mark.parametrize("owner", WORKLOADS)
def test_objects_created_by_a_controller_keep_the_user_of_the_workload(owner: str) -> None:
    """A workload from before Muster creates pods without a user, not with the controller as user of all."""
    assert owner_of("Pod", creating(a_pod(owner=owner), CONTROLLER).object) is None
    assert owner_of("Pod", creating(a_pod(owner=owner, annotations={USER_INFO: info(ANN)}), CONTROLLER).object) == info(
        ANN
    )
    replica_set = a_thing("ReplicaSet", a_description(), owner="Deployment")
    assert creating(replica_set, CONTROLLER).object is None, "another template means another ReplicaSet, forever"


def test_other_pods_of_a_service_account_get_it_as_user_despite_owner_references() -> None:
    assert owner_of("Pod", creating(a_pod(), CONTROLLER).object) == info(CONTROLLER)
    assert owner_of("Pod", creating(a_pod(owner="ReplicaSet"), JENKINS).object) == info(JENKINS)
    foreign = a_pod()
    foreign["metadata"]["ownerReferences"] = [
        {"apiVersion": "ray.io/v1", "kind": "RayCluster", "controller": True},
        {"apiVersion": "example.org/v1", "kind": "Job", "controller": True},
        {"apiVersion": "batch/v1", "kind": "Job"},
    ]
    assert owner_of("Pod", creating(foreign, CONTROLLER).object) == info(CONTROLLER)


@pytest.mark.parametrize(
    "stated, message",
    [
        ("ann", "is not JSON"),
        ('{"user":"ann"', "is not JSON"),
        ("[" * 100_00, "is nested too deeply"),
        ("[]", "is a list, not an object"),
        ("{}", "has no user"),
        ('{"username":"ann"}', "user.info.username is ignored; did you mean user?"),
        ('{"user":7}', "user.info.user: is the number 7, not text"),
        ('{"user":" "}', "has no user"),
        ('{"user":"a\\u0000b"}', "not printable"),
        ('{"user":"ann","groups":"dev"}', 'user.info.groups: is "dev", not a list'),
        ('{"user":"ann","groups":["dev",7]}', "user.info.groups[1]: is the number 7, not text"),
        ('{"user":"ann","groups":["dev\\n"]}', "groups that are not printable"),
        (json.dumps({"user": "ann", "groups": ["g" * LIMIT]}), "more than 65536"),
    ],
)
@pytest.mark.parametrize("submitter", [ANN, CONTROLLER])
def test_an_invalid_user_annotation_is_rejected_unless_already_stored(
    stated: str, message: str, submitter: Submitter
) -> None:
    broken = a_thing("Deployment", a_description(annotations={USER_INFO: stated}))
    refusal = creating(broken, submitter).refusal
    assert message in refusal
    assert 'write {"user": "name", "groups": ["group"]}' in refusal
    assert len(refusal) < 400
    assert updating(broken, broken, submitter).is_allowed
    assert owner_of("Deployment", updating(broken, free("Deployment"), ANN).object) == info(ANN)


def test_user_and_group_names_are_kept_unchanged() -> None:
    zoe = Submitter("zoë@example.org/\u4e2d", ('quote"', "CN=a,OU=b"))
    assert owner_of("Pod", creating(a_pod(), zoe).object) == json.dumps(
        {"user": zoe.name, "groups": list(zoe.groups)}, ensure_ascii=False, separators=(",", ":")
    )


def test_groups_over_the_annotation_size_limit_are_cut() -> None:
    many = Submitter("ann", tuple(f"group-{number:050}" for number in range(5000)))
    written = owner_of("Pod", creating(a_pod(), many).object) or ""
    assert len(written) <= LIMIT
    assert json.loads(written)["groups"][:2] == list(many.groups[:2])
    assert len(json.loads(written)["groups"]) > 500


def test_in_unmanaged_namespaces_only_muster_objects_get_a_user() -> None:
    nowhere = settings(processNamespaces="^prod$")
    for kind in KINDS:
        named = a_thing(kind, a_description(schedulerName="muster"))
        assert owner_of(kind, creating(named, how=nowhere).object) == info(ANN)
        assert creating(free(kind), how=nowhere).object is None
        assert not creating(owned(kind, ANN), BOB, how=nowhere).is_allowed, "the namespace may be served tomorrow"


# -- The webhook warns about names and task groups that have no effect, when they are written.

Y = "yunikorn.apache.org/"
PARAMETERS = f"{Y}schedulingPolicyParameters"
MISSPELT = {f"{Y}taskGroups": "[]"}
NO_GANG = {f"{Y}task-groups": "[{}]", PARAMETERS: "gangSchedulingStyle=Hard"}
ELSEWHERE = settings(processNamespaces="^other$")
GANG = {f"{Y}task-groups": '[{"name": "g", "minMember": 1, "minResource": {}}]', PARAMETERS: "style=Hard"}


def test_a_misspelt_name_is_a_warning_with_the_place_of_the_template() -> None:
    advice = f"annotation {Y}taskGroups has no effect; did you mean {Y}task-groups?"
    made = a_pod(annotations=MISSPELT, labels={APP_ID: "a"}, schedulerName="muster")
    assert creating(made).warnings == (advice,)
    template = a_description(annotations=MISSPELT, labels={APP_ID: "a"}, schedulerName="muster")
    assert creating(a_thing("Job", template)).warnings == (f"spec.template.{advice}",)


def test_an_invalid_gang_and_an_unknown_parameter_are_warnings() -> None:
    [lost] = creating(a_pod(annotations=NO_GANG, schedulerName="muster")).warnings
    assert lost.startswith(
        "task-groups[0].name: is missing or empty; give every group a name; task-groups[0].minMember: "
    )
    [unknown] = creating(a_pod(annotations=GANG, schedulerName="muster")).warnings
    assert "unknown parameter style is ignored" in unknown


def test_an_unchanged_object_and_a_pod_of_another_scheduler_cause_no_warning() -> None:
    stored = a_thing("Job", a_description(annotations=MISSPELT, schedulerName="muster"))
    scaled = {**stored, "spec": {**stored["spec"], "parallelism": 2}}
    assert updating(stored, scaled).warnings == ()
    assert creating(a_pod(annotations=MISSPELT, schedulerName="other"), how=ELSEWHERE).warnings == ()
