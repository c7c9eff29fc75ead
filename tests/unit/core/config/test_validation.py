"""A validation result has the errors of a configuration and reports whether its checksum is correct."""

import pytest

from muster_core.config.load import ValidationResult, checksum, validate
from tests.unit.core.config.tree import unplaced

TEXT = "partitions: [{queues: [{name: a, maxapplications: 0}]}]\n"
RIGHT = checksum(TEXT)
ODD = ("partitions[0].queues[0].maxapplications: 0 means unlimited",)


def test_a_valid_text_is_allowed_with_its_warnings() -> None:
    found = validate(TEXT)
    assert found == ValidationResult((), tuple(f"queues.yaml:1: {text}" for text in ODD), RIGHT, None)
    assert (found.allowed, found.reason) == (True, "")


@pytest.mark.parametrize("effects, is_right", [(RIGHT, True), (RIGHT.lower(), True), ("0" * 64, False)])
def test_a_checksum_in_the_text_is_compared_in_either_case_and_forbids_nothing(effects: str, *, is_right: bool) -> None:
    found = validate(f"checksum: '{effects}'\n{TEXT}")
    assert (found.allowed, found.checksum, found.checksum_match) == (True, RIGHT, is_right)


def test_the_first_error_is_the_reason_and_the_checksum_is_still_reported() -> None:
    text = "partitions: [{queues: [{name: a.b}, {name: c.d}]}]\n"
    found = validate(text, file="mine.yaml")
    assert (found.allowed, len(found.findings), found.reason) == (False, 2, found.findings[0])
    assert found.reason.startswith("mine.yaml:1: partitions[0].queues[0].name: 'a.b' is not a queue name; ")
    assert found.checksum == checksum(text)


def test_settings_are_validated_too() -> None:
    found = validate(TEXT, {"service.expiry": "soon", "event.maxStreams": "many"})
    assert found.reason.startswith("service.expiry: 'soon' is not a duration; ")
    assert unplaced(found.warnings) == (
        *ODD,
        "event.maxStreams: 'many' is not a whole number from 0 to 10000000, 100 is used",
    )


def test_an_empty_text_is_allowed() -> None:
    assert validate("").allowed
