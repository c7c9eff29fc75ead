"""Checks before the registration: the own account, and whether the API server keeps match conditions."""

from __future__ import annotations

import pytest

from muster_operator.kube.session import KubeSession, LeadershipGuard
from muster_operator.model.errors import StartupRefused
from muster_operator.webhook.registration import discover_api
from tests.unit.operator.kube.apiserver import ApiServer, FixedCredentials, reply, serving, status

WHO = "POST /apis/authentication.k8s.io/v1/selfsubjectreviews"


async def introduction(server: ApiServer) -> str:
    """Discovery of a standby, which may only read."""
    async with serving(server):
        session = KubeSession(FixedCredentials(server.url, ["t"]), LeadershipGuard())
        try:
            return await discover_api(session)
        finally:
            await session.close()


async def test_the_api_server_reports_the_own_account() -> None:
    server = ApiServer()
    server.plan("GET /version", lambda: reply(200, {"major": "1", "minor": "28+"}))
    server.plan(WHO, lambda: reply(201, {"status": {"userInfo": {"username": "system:serviceaccount:muster:m"}}}))
    assert await introduction(server) == "system:serviceaccount:muster:m"


async def test_a_starting_api_server_is_queried_again() -> None:
    server = ApiServer()
    server.plan(
        "GET /version", lambda: status(503, "ServiceUnavailable"), lambda: reply(200, {"major": "1", "minor": "34"})
    )
    server.plan(WHO, lambda: reply(201, {"status": {"userInfo": {"username": "m"}}}))
    assert await introduction(server) == "m"


@pytest.mark.parametrize("minor", ["27", "24+"])
async def test_an_api_server_without_match_conditions_is_rejected_at_startup(minor: str) -> None:
    server = ApiServer()
    server.plan("GET /version", lambda: reply(200, {"major": "1", "minor": minor}))
    with pytest.raises(StartupRefused, match=r"needs Kubernetes 1\.28"):
        await introduction(server)
