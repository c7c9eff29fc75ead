"""Every retry ends, grows, and listens to the server."""

from __future__ import annotations

from dataclasses import fields

import pytest

from muster_operator.link.api.retry import RETRY_AFTER_LIMIT_S, Policies, Retry

POLICIES = [field.name for field in fields(Policies)]


@pytest.mark.parametrize("name", POLICIES)
def test_every_policy_ends(name: str) -> None:
    policy: Retry = getattr(Policies(), name)
    assert policy.pause_s(policy.attempts, 503) is None
    assert policy.pause_s(policy.attempts - 1, 503) is not None


def test_pauses_double_up_to_a_limit() -> None:
    policy = Retry(attempts=9, first_s=1.0, longest_s=5.0)
    assert [policy.pause_s(attempt, 500) for attempt in (1, 2, 3, 4)] == [1.0, 2.0, 4.0, 5.0]


def test_a_server_may_lengthen_a_pause_and_never_shorten_it() -> None:
    policy = Retry(attempts=9, first_s=1.0)
    assert policy.pause_s(1, 429, 7.0) == 7.0
    assert policy.pause_s(1, 429, 0.0) == 1.0
    assert policy.pause_s(1, 429, 86400.0) == RETRY_AFTER_LIMIT_S


@pytest.mark.parametrize("status", [400, 403, 404, 409, 410, 422])
def test_a_refusal_is_not_tried_again(status: int) -> None:
    assert Policies().bind.pause_s(1, status) is None


def test_a_quota_conflict_is_worth_another_create() -> None:
    assert Policies().create.pause_s(1, 409) is not None
