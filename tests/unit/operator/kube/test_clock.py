"""The difference between our clock and that of the API server, by the `Date` header of its responses."""

from __future__ import annotations

from datetime import UTC, datetime
from email.utils import format_datetime

import pytest
from aiohttp import web

from muster_operator.kube.http import ServerClock
from muster_operator.kube.session import KubeSession
from tests.unit.operator.kube.apiserver import ApiServer, FixedCredentials, serving

NOW_S = 1_767_225_600.0


def http_date(epoch_s: float) -> str:
    return format_datetime(datetime.fromtimestamp(epoch_s, tz=UTC), usegmt=True)


@pytest.mark.parametrize("ahead_s", [900.0, -900.0])
def test_the_smallest_clock_difference_is_used(ahead_s: float) -> None:
    clock = ServerClock()
    for late_s in (0.9, 0.1, 3.0, 0.5):
        clock.note(http_date(NOW_S), NOW_S + ahead_s + late_s)
    assert clock.ahead_s == pytest.approx(ahead_s + 0.1)


def test_a_clock_difference_within_the_error_margin_is_zero() -> None:
    clock = ServerClock()
    clock.note(http_date(NOW_S), NOW_S + 1.5)
    assert clock.ahead_s == 0.0


@pytest.mark.parametrize("date", [None, "", "yesterday"])
def test_a_response_without_a_date_is_ignored(date: str | None) -> None:
    clock = ServerClock()
    clock.note(date, NOW_S)
    assert clock.ahead_s == 0.0


async def test_every_read_of_the_session_updates_the_server_clock() -> None:
    path = "/api/v1/namespaces/ns/pods/p"
    async with serving(ApiServer()) as server:
        server.plan(f"GET {path}", lambda: web.json_response({}, headers={"Date": http_date(0.0)}))
        session = KubeSession(FixedCredentials(server.url, ["t"]))
        await session.get(path)
        await session.close()
    assert session.clock.ahead_s > NOW_S
