"""The quota of a namespace is in the tags of its applications; an invalid value disables the complete tag."""

import json
from collections.abc import Mapping

import pytest

from muster_core.model.records import EventRecorded
from muster_core.model.resources import Limit, Resources
from muster_core.model.specs import NamespaceQuota
from muster_core.si.applications import NO_QUOTA, read_namespace_quota
from muster_core.si.pod_tags import AmountReader
from muster_si import keys
from tests.unit.core import messages

MAX, GUARANTEED, APPS = keys.APP_TAG_RESOURCE_QUOTA, keys.APP_TAG_RESOURCE_GUARANTEED, keys.APP_TAG_RESOURCE_MAX_APPS


def amounts(**found: object) -> str:
    return json.dumps({"resources": {name: {"value": value} for name, value in found.items()}})


@pytest.mark.parametrize(
    "tags, quota",
    [
        ({}, NO_QUOTA),
        ({MAX: "", GUARANTEED: "", APPS: ""}, NO_QUOTA),
        ({MAX: amounts(vcore=64_000, memory=10**11)}, NamespaceQuota(max=Limit({"vcore": 64_000, "memory": 10**11}))),
        ({MAX: amounts(vcore=0)}, NamespaceQuota(max=Limit({"vcore": 0}))),
        ({MAX: amounts(vcore="5")}, NamespaceQuota(max=Limit({"vcore": 5}))),
        ({GUARANTEED: amounts(vcore=1)}, NamespaceQuota(guaranteed=Resources({"vcore": 1}))),
        ({APPS: "0"}, NamespaceQuota(max_applications=0)),
        ({APPS: "12"}, NamespaceQuota(max_applications=12)),
    ],
)
def test_the_quota_of_a_namespace_is_read(tags: Mapping[str, str], quota: NamespaceQuota) -> None:
    assert read_namespace_quota(tags, AmountReader()) == (quota, [])


@pytest.mark.parametrize(
    "text",
    [
        amounts(vcore=1, memory=-1),
        amounts(vcore=1.5),
        amounts(vcore="lots"),
        amounts(vcore=2**63),
        '{"cpu": "64"}',
        '{"resources": {"vcore": 5}}',
        "[" * 5000,
        "64",
        "x" * 20_000,
        '{"resources"',
    ],
)
@pytest.mark.parametrize("tag", [MAX, GUARANTEED])
def test_one_invalid_value_drops_the_complete_tag_and_is_reported(tag: str, text: str) -> None:
    quota, odd = read_namespace_quota({tag: text, APPS: "3"}, AmountReader())
    assert quota == NamespaceQuota(max_applications=3)
    [effects] = odd
    assert effects.startswith(tag)
    assert len(effects) <= 300


@pytest.mark.parametrize("text", ["-1", "1.5", "many", "9" * 30, "٣"])
def test_an_invalid_application_count_is_ignored(text: str) -> None:
    quota, odd = read_namespace_quota({MAX: amounts(vcore=1), APPS: text}, AmountReader())
    assert quota == NamespaceQuota(max=Limit({"vcore": 1}))
    assert len(odd) == 1


def test_an_application_has_its_quota_and_an_event_if_the_quota_is_invalid() -> None:
    decoder = messages.a_decoder()
    good = messages.an_application("good", tags={MAX: amounts(vcore=1000)})
    bad = messages.an_application("bad", tags={MAX: amounts(vcore=-1)})
    intake = decoder.applications.read(messages.applications(good, bad))
    assert [event.spec.quota for event in intake.events] == [NamespaceQuota(max=Limit({"vcore": 1000})), NO_QUOTA]  # type: ignore[union-attr]  # both are ApplicationAdded
    [note] = intake.answers
    assert isinstance(note, EventRecorded)
    assert note.is_for_people
    assert (note.subject, "namespace quota is ignored" in note.message) == ("bad", True)
