"""Application ID and queue from all labels and annotations, in every combination."""

from itertools import chain, combinations

import pytest

from muster_operator.model.ids import PodUid
from muster_operator.model.pods import Membership, PodRef
from muster_operator.model.settings import Settings
from muster_operator.translate.membership import membership
from tests.unit.operator.controller.objects import APP_ID, QUEUE, Raw

APP_PLACES = (
    ("labels", APP_ID),
    ("annotations", APP_ID),
    ("labels", "applicationId"),
    ("labels", "spark-app-selector"),
)
QUEUE_PLACES = (("labels", QUEUE), ("annotations", QUEUE), ("labels", "queue"))
UID = "0b4f8a1e-6c1d-4a55-9a38-3a1f7c2f9d10"
USER = "yunikorn.apache.org/user.info"
Places = tuple[tuple[str, str], ...]


def subsets(places: Places) -> list[Places]:
    return list(chain.from_iterable(combinations(places, size) for size in range(1, len(places) + 1)))


def read(metadata: Raw, namespace: str = "dev", settings: Settings | None = None) -> Membership:
    return membership(metadata, PodRef(namespace, "pod", PodUid(UID)), settings or Settings())


def written(places: Places, values: list[str]) -> Raw:
    metadata: Raw = {"labels": {}, "annotations": {}}
    for (where, key), value in zip(places, values, strict=True):
        metadata[where][key] = value
    return metadata


@pytest.mark.parametrize("places", subsets(APP_PLACES))
def test_the_first_application_id_key_wins_and_conflicting_values_are_reported(places: Places) -> None:
    values = [f"v{index}" for index in range(len(places))]
    found = read(written(places, values))
    assert found.app == "dev/v0"
    assert [conflict.split()[3] for conflict in found.conflicts] == [
        f"{key}={value}" for (_, key), value in list(zip(places, values, strict=True))[1:]
    ]
    assert read(written(places, ["same"] * len(places))).conflicts == ()


@pytest.mark.parametrize("places", subsets(QUEUE_PLACES))
def test_the_first_queue_key_wins_and_conflicting_values_are_reported(places: Places) -> None:
    values = [f"root.v{index}" for index in range(len(places))]
    found = read(written(places, values))
    assert (found.queue, len(found.conflicts)) == ("root.v0", len(places) - 1)
    assert read(written(places, ["same"] * len(places))).conflicts == ()


def test_the_autogen_mark_of_admission_becomes_an_id_of_at_most_63_characters() -> None:
    made = read({"labels": {APP_ID: "n" * 26 + "-uniqueautogen"}})
    assert (made.app, made.refusal) == (f"dev/{'n' * 26}-{UID}", "")
    long = read({"labels": {APP_ID: "n" * 27 + "-uniqueautogen"}})
    assert "has 64 characters, more than 63" in long.refusal


def test_pods_without_an_id_get_a_shared_or_a_unique_id_by_setting() -> None:
    assert read({}).app == "dev/yunikorn-dev-autogen"
    assert read({}, settings=Settings(unique_app_ids=True)).app == f"dev/dev-{UID}"
    assert read({}, "n" * 63).app == "n" * 63 + "/yunikorn-" + "n" * 54
    assert read({}, "n" * 63, Settings(unique_app_ids=True)).refusal == ""


@pytest.mark.parametrize(
    "annotation, problem",
    [
        ('{"user": "ann"}', ""),
        ('{"username": "ann"}', '"user" is missing or empty; user.info.username is ignored; did you mean user?'),
        ('{"user": ""}', '"user" is missing or empty'),
        ('{"user": null}', '"user" is missing or empty'),
        ('{"user": "eve\\u001b]0;owned\\u0007"}', "a name is blank or has control characters"),
        ('{"user": "ann", "groups": ["dev\\u009b2J"]}', "a name is blank or has control characters"),
        ('{"user": 7}', "user.info.user: is the number 7, not text; write text in quotes"),
        ('{"user": "ann", "groups": ["dev", 7]}', "user.info.groups[1]: is the number 7, not text"),
        ("[]", "is a list, not an object; write {user, groups}"),
        ("ann", "user.info is ignored: is not JSON"),
        ("[" * 3000, "is nested too deeply"),
    ],
)
def test_an_annotation_that_names_no_user_is_ignored_with_a_reason(annotation: str, problem: str) -> None:
    conflict = read({"annotations": {USER: annotation}}).user_problem
    assert problem in conflict
    assert bool(conflict) is bool(problem)
    assert not conflict or conflict.startswith(f"annotation {USER} is ignored")


def test_a_missing_user_annotation_is_no_problem() -> None:
    assert read({}).user_problem == ""
