"""The start of the operator while the API server is not available yet."""

import pytest

from muster_operator.kube.session import KubeSession
from muster_operator.model.errors import StartupRefused
from muster_operator.running import configured
from tests.unit.operator.kube.apiserver import ApiServer, FixedCredentials, serving, status

CONFIG = "GET /api/v1/namespaces/muster/configmaps/muster-defaults"


async def test_the_start_retries_while_the_api_server_is_unavailable_or_forbids_access() -> None:
    async with serving(ApiServer()) as server:
        server.plan(CONFIG, lambda: status(503, "ServiceUnavailable"), lambda: status(403, "Forbidden"))
        session = KubeSession(FixedCredentials(server.url, ["t"]))
        try:
            configuration = await configured(session, "muster")
        finally:
            await session.close()
        assert "muster" in configuration.settings.scheduler_names
        assert server.planned[CONFIG] == []


async def test_an_invalid_request_ends_the_start_immediately() -> None:
    async with serving(ApiServer()) as server:
        server.plan(CONFIG, lambda: status(400, "BadRequest", "no such namespace"))
        session = KubeSession(FixedCredentials(server.url, ["t"]))
        try:
            with pytest.raises(StartupRefused, match="no such namespace"):
                await configured(session, "muster")
        finally:
            await session.close()
