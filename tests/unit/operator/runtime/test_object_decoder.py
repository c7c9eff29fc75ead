"""Objects that become events, and those that are rejected."""

from typing import Any

import pytest

from muster_operator.model.cluster_events import PodGone, PodSeen
from muster_operator.model.pods import ForeignPod, Pod
from muster_operator.model.settings import Settings
from muster_operator.runtime import loop
from muster_operator.runtime.inputs import Unreadable
from muster_operator.runtime.loop import READ, Inbox, ObjectDecoder
from muster_operator.runtime.metrics import Metrics


def a_pod(version: int, scheduler: str = "muster") -> dict[str, Any]:
    metadata = {"name": "p", "namespace": "ns", "uid": "uid-p", "resourceVersion": str(version)}
    return {"metadata": metadata, "spec": {"schedulerName": scheduler}}


def test_an_unchanged_object_produces_no_second_event() -> None:
    at = ObjectDecoder(Settings)
    assert isinstance(at.fact("pods", "uid-p", None, a_pod(1)), PodSeen)
    assert at.fact("pods", "uid-p", None, a_pod(1)) is None
    assert isinstance(at.fact("pods", "uid-p", "MODIFIED", a_pod(2)), PodSeen)


def test_a_read_older_than_the_watch_produces_no_event() -> None:
    at = ObjectDecoder(Settings)
    at.fact("pods", "uid-p", "MODIFIED", a_pod(5))
    assert at.fact("pods", "uid-p", READ, a_pod(4)) is None
    assert isinstance(at.fact("pods", "uid-p", "DELETED", a_pod(6)), PodGone)
    assert at.fact("pods", "uid-p", READ, a_pod(5)) is None


def test_changed_settings_apply_to_the_next_object() -> None:
    settings = Settings(scheduler_names=frozenset({"muster"}))
    at = ObjectDecoder(lambda: settings)
    first = at.fact("pods", "uid-p", None, a_pod(1, "mine"))
    settings = Settings(scheduler_names=frozenset({"mine"}))
    second = at.fact("pods", "uid-p", "MODIFIED", a_pod(2, "mine"))
    assert isinstance(first, PodSeen)
    assert isinstance(second, PodSeen)
    assert (type(first.pod), type(second.pod)) == (ForeignPod, Pod)


async def test_an_object_that_fails_to_decode_is_passed_to_the_loop_as_unreadable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(loop, "read_object", broken)
    inbox = Inbox(Metrics())
    await inbox.watched("pods", "ADDED", a_pod(1))
    item = inbox.take()
    assert isinstance(item, Unreadable)
    assert isinstance(item.error, ZeroDivisionError)
