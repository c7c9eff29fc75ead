"""Every retry is limited, has a growing delay, and follows Retry-After."""

from __future__ import annotations

from dataclasses import fields
from datetime import UTC, datetime

import pytest

from muster_operator.kube.http import JITTER, RETRY_AFTER_LIMIT_S, Policies, Retry, retry_after_seconds

POLICIES = [field.name for field in fields(Policies)]


@pytest.mark.parametrize("name", POLICIES)
def test_every_retry_policy_is_limited(name: str) -> None:
    policy: Retry = getattr(Policies(), name)
    assert policy.pause_s(policy.attempts, 503) is None
    assert policy.pause_s(policy.attempts - 1, 503) is not None


def test_pauses_double_up_to_a_limit() -> None:
    policy = Retry(attempts=9, first_s=1.0, longest_s=5.0)
    assert [policy.pause_s(attempt, 500) for attempt in (1, 2, 3, 4)] == [1.0, 2.0, 4.0, 5.0]


def test_retry_after_may_lengthen_a_pause_and_never_shorten_it() -> None:
    policy = Retry(attempts=9, first_s=1.0)
    assert policy.pause_s(1, 429, 7.0) == 7.0
    assert policy.pause_s(1, 429, 0.0) == 1.0
    assert policy.pause_s(1, 429, 86400.0) == RETRY_AFTER_LIMIT_S


@pytest.mark.parametrize("status", [400, 403, 404, 409, 410, 422])
def test_a_rejection_is_not_retried(status: int) -> None:
    assert Policies().bind.pause_s(1, status) is None


def test_a_create_with_a_quota_conflict_is_retried() -> None:
    assert Policies().create.pause_s(1, 409) is not None


def test_jitter_lengthens_a_pause_and_never_shortens_it_below_retry_after() -> None:
    policy = Retry(attempts=3, first_s=1.0)
    pauses = [policy.pause_s(1, 429, 4.0, luck / 10) for luck in range(10)]
    assert pauses == sorted(set(pauses), key=lambda pause: pause or 0)
    assert pauses[0] == 4.0
    assert max(pause or 0 for pause in pauses) < 4.0 * (1 + JITTER)


@pytest.mark.parametrize(
    "header,seconds",
    [
        (None, None),
        ("7", 7.0),
        (" 7 ", 7.0),
        ("Wed, 21 Oct 2026 07:28:10 GMT", 10.0),
        ("Wed, 21 Oct 2026 07:27:00 GMT", 0.0),
        ("soon", None),
        ("-3", None),
        ("", None),
        ("Mon, 01 Jan 99999999999999999999 00:00:00 GMT", None),
    ],
)
def test_retry_after_is_read_as_seconds_or_as_a_date(header: str | None, seconds: float | None) -> None:
    now = datetime(2026, 10, 21, 7, 28, tzinfo=UTC).timestamp()
    assert retry_after_seconds(header, now) == seconds
