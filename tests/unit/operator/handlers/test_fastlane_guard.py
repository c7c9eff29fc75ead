"""The names and signatures of kopf that the fast lane stands on; where one goes, the lane steps aside."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

import pytest
from kopf._cogs.clients import api, errors, watching
from kopf._core.reactor import orchestration, queueing

from muster_operator.handlers import cluster, config, fastlane
from muster_operator.handlers.fastlane import Lane


class Nobody:
    """Hears nothing."""

    async def list_begun(self, plural: str) -> None: ...

    async def listed(self, plural: str, keys: frozenset[str]) -> None: ...

    def stream_broke(self, plural: str, reason: str) -> None: ...


@pytest.fixture(autouse=True)
def kopf_as_it_was() -> Iterator[None]:
    watcher, json = queueing.watcher, getattr(api, "json")  # noqa: B009 - kopf's import, not its export
    yield
    assert queueing.watcher is watcher
    assert getattr(api, "json") is json  # noqa: B009


def test_this_kopf_has_all_that_the_lane_needs() -> None:
    assert fastlane.missing() == []


def test_kopf_starts_its_watchers_through_the_name_that_is_replaced() -> None:
    source = inspect.getsource(orchestration.spawn_missing_watchers)
    assert "queueing.watcher(" in source
    for name in ("operator_paused", "settings", "resource", "namespace", "processor"):
        assert f"{name}=" in source


def test_a_watch_tells_the_end_of_its_list_and_then_goes_on() -> None:
    source = inspect.getsource(watching.continuous_watch)
    assert "yield {'type': None, 'object': obj}" in source
    assert "yield Bookmark.LISTED" in source


def test_an_iteration_of_the_watch_is_one_list_and_one_watch() -> None:
    source = inspect.getsource(watching.infinite_watch)
    assert "while _iterations is None or _iterations > 0" in source
    assert "continuous_watch(" in source


def test_the_errors_that_the_lane_survives_are_those_that_kopf_raises() -> None:
    for error in (errors.APIServerError, errors.APIForbiddenError, errors.APITooManyRequestsError):
        assert issubclass(error, errors.APIError)
    assert "raise WatchingError" in inspect.getsource(watching.continuous_watch)


def test_a_watch_event_reaches_a_handler_with_the_same_arguments_on_both_ways() -> None:
    [observe] = {handler.fn for handler in cluster.REGISTRY._watching.get_all_handlers()}
    taken = {name for name, it in inspect.signature(observe).parameters.items() if it.kind is not it.VAR_KEYWORD}
    assert taken == {"event", "resource", "memo"}


def test_the_lane_serves_exactly_the_resources_that_have_handlers() -> None:
    registries = (cluster.REGISTRY, config.REGISTRY)
    selectors = {handler.selector for registry in registries for handler in registry._watching.get_all_handlers()}
    assert {(it.group, it.any_name) for it in selectors if it is not None} == fastlane.HOT


def test_no_handler_makes_kopf_write_finalizers_or_status() -> None:
    for registry in (cluster.REGISTRY, config.REGISTRY):
        for kind in (registry._changing, registry._spawning, registry._indexing):
            assert list(kind.get_all_handlers()) == []


def test_the_lane_is_put_in_and_taken_out_again() -> None:
    slow = queueing.watcher
    remove = fastlane.install(Lane((), None, Nobody()))
    assert remove is not None
    assert queueing.watcher is not slow
    assert set(inspect.signature(slow).parameters) == set(fastlane._WATCHER_PARAMETERS)
    remove()
    assert queueing.watcher is slow


def test_a_kopf_without_one_of_the_names_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    slow = queueing.watcher
    with monkeypatch.context() as patched:
        patched.delattr(watching, "infinite_watch")
        assert fastlane.missing() == ["kopf._cogs.clients.watching.infinite_watch"]
        assert fastlane.install(Lane((), None, Nobody())) is None
        assert queueing.watcher is slow


def test_a_kopf_with_another_signature_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    async def watcher(*, everything: object) -> None: ...

    with monkeypatch.context() as patched:
        patched.setattr(queueing, "watcher", watcher)
        assert fastlane.missing() == ["watcher('everything',)"]
