"""The names and signatures of kopf that the fast path needs; without one of them kopf is used unchanged."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

import pytest
from kopf._cogs.clients import api, auth, errors
from kopf._core.reactor import orchestration, queueing

from muster_operator.handlers import framework
from muster_operator.handlers import registry as handlers_registry
from muster_operator.handlers.framework import FastPath
from muster_operator.kube.session import KubeSession
from muster_operator.runtime.session import NEEDED
from tests.unit.operator.kube.apiserver import FixedCredentials


class IgnoringListener:
    """A listener that ignores all events."""

    def changed(self, plural: str, kind: str, raw: object) -> None: ...

    async def watched(self, plural: str, kind: str | None, raw: object) -> None: ...

    def list_begun(self, plural: str, *, is_reset: bool = False) -> None: ...

    async def listed(self, plural: str, version: str = "") -> None: ...

    async def comparison_due(self, plural: str, within_s: float) -> None: ...

    def stream_broke(self, plural: str, reason: str) -> None: ...

    def stream_expired(self, plural: str) -> None: ...

    def record_activity(self, plural: str) -> None: ...

    def bookmark(self, plural: str) -> None: ...


def a_path() -> FastPath:
    return FastPath(IgnoringListener(), KubeSession(FixedCredentials("http://127.0.0.1:9", ["t"])))


@pytest.fixture(autouse=True)
def kopf_as_it_was() -> Iterator[None]:
    watcher = queueing.watcher
    yield
    assert queueing.watcher is watcher


def test_the_installed_kopf_has_every_name_that_the_fast_path_needs() -> None:
    assert framework.missing() == []


def test_kopf_starts_its_watchers_through_the_replaced_function() -> None:
    source = inspect.getsource(orchestration.spawn_missing_watchers)
    assert "queueing.watcher(" in source
    for name in ("operator_paused", "settings", "resource", "namespace", "processor"):
        assert f"{name}=" in source


def test_kopf_requests_use_the_context_session_and_return_the_response() -> None:
    source = inspect.getsource(api.request)
    assert "context.session.request(" in source
    assert "errors.check_response(response)" in source
    assert "return response" in source


def test_the_errors_that_the_fast_path_handles_are_those_that_kopf_raises() -> None:
    for error in (errors.APIServerError, errors.APIForbiddenError, errors.APITooManyRequestsError):
        assert issubclass(error, errors.APIError)
        assert hasattr(error, "status")


def test_kopf_uses_and_closes_the_given_session() -> None:
    source = inspect.getsource(auth.APIContext)
    assert "self.session = info.aiohttp_session" in source
    assert "await self.session.close()" in source


def test_every_needed_resource_has_a_kopf_handler_and_a_list_path() -> None:
    declared = {handler.selector for handler in handlers_registry.REGISTRY._watching.get_all_handlers()}
    names = {(it.group, it.any_name) for it in declared if it is not None}
    assert names > framework.FAST
    assert {plural for _, plural in names} == set(framework.PATHS) == NEEDED


def test_kopf_starts_and_authenticates_through_our_handlers() -> None:
    for registry in (handlers_registry.REGISTRY, handlers_registry.CONFIGMAP_REGISTRY):
        activities = {handler.activity for handler in registry._activities.get_all_handlers()}
        assert {activity.value for activity in activities if activity is not None} == {"startup", "authentication"}


def test_no_handler_makes_kopf_write_finalizers_or_status() -> None:
    for registry in (handlers_registry.REGISTRY, handlers_registry.CONFIGMAP_REGISTRY):
        for kind in (registry._changing, registry._spawning, registry._indexing):
            assert list(kind.get_all_handlers()) == []


def test_the_fast_path_is_installed_and_removed() -> None:
    slow = queueing.watcher
    remove = framework.install(a_path())
    assert remove is not None
    assert queueing.watcher is not slow
    assert set(inspect.signature(slow).parameters) == set(framework._WATCHER_PARAMETERS)
    remove()
    assert queueing.watcher is slow


def test_a_kopf_with_a_missing_name_is_not_patched(monkeypatch: pytest.MonkeyPatch) -> None:
    slow = queueing.watcher
    with monkeypatch.context() as patched:
        patched.delattr(api, "request")
        assert framework.missing() == ["kopf._cogs.clients.api.request"]
        assert framework.install(a_path()) is None
        assert queueing.watcher is slow


def test_a_kopf_with_another_signature_is_unsupported(monkeypatch: pytest.MonkeyPatch) -> None:
    async def watcher(*, everything: object) -> None: ...

    with monkeypatch.context() as patched:
        patched.setattr(queueing, "watcher", watcher)
        assert framework.missing() == ["watcher('everything',)"]
