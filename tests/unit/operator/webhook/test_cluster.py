"""Watched objects are available immediately; missing ones are looked up, never guessed."""

from __future__ import annotations

import asyncio

import pytest

from muster_operator.kube.session import KubeSession
from muster_operator.model.errors import ApiRefused, Unreachable
from muster_operator.runtime.loop import Inbox
from muster_operator.runtime.metrics import Metrics
from muster_operator.translate.values import Raw
from muster_operator.webhook.cluster import MAX_UNKNOWN_NAMES, ClusterView
from tests.unit.operator.kube.apiserver import FixedCredentials
from tests.unit.operator.webhook.cluster_peer import Peer, a_session

ENABLE = "yunikorn.apache.org/namespace.enableYuniKorn"
NAMES = frozenset({"muster"})


def a_namespace(name: str, **annotations: str) -> Raw:
    return {"metadata": {"name": name, "annotations": annotations}}


def a_class(name: str, allow: str) -> Raw:
    return {"metadata": {"name": name, "annotations": {"yunikorn.apache.org/allow-preemption": allow}}}


async def test_the_cluster_view_follows_the_watch_of_the_operator() -> None:
    async with a_session(Peer()) as session:
        view, inbox = ClusterView(session, "muster", NAMES), Inbox(Metrics())
        inbox.show_also(view, "namespaces", "priorityclasses")
        await inbox.watched("namespaces", "ADDED", a_namespace("gone"))
        inbox.list_begun("namespaces")
        inbox.list_begun("priorityclasses")
        await inbox.watched("namespaces", None, a_namespace("dev", **{ENABLE: "false", "theirs": "x"}))
        await inbox.watched("priorityclasses", "ADDED", a_class("low", "false"))
        await inbox.watched("pods", "ADDED", {"metadata": {"name": "dev", "uid": "u"}})
        assert view.missing == "namespaces, priorityclasses"
        await inbox.listed("namespaces")
        await inbox.listed("priorityclasses")
        assert view.missing == ""
        assert view.known.namespaces == {"dev": {ENABLE: "false"}}
        assert view.known.may_be_preempted == {"low": False}
        await inbox.watched("namespaces", "DELETED", a_namespace("dev"))
        assert view.known.namespaces == {}


async def test_objects_missing_from_the_watch_are_looked_up_once() -> None:
    peer = Peer()
    peer.put("/api/v1/namespaces/new", a_namespace("new", **{ENABLE: "true"}))
    peer.put("/apis/scheduling.k8s.io/v1/priorityclasses/low", a_class("low", "false"))
    async with a_session(peer) as session:
        view = ClusterView(session, "muster", NAMES)
        assert view.is_missing("new", "")
        await view.look_up("new", "low")
        assert not view.is_missing("new", "low")
        await view.look_up("new", "low")
    assert len(peer.reads) == 2
    assert view.known.namespaces == {"new": {ENABLE: "true"}}
    assert view.known.may_be_preempted == {"low": False}


async def test_a_failed_lookup_raises_an_error() -> None:
    async with a_session(Peer(denied={"GET"})) as session:
        with pytest.raises(ApiRefused):
            await ClusterView(session, "muster", NAMES).look_up("new", "")
    nobody = KubeSession(FixedCredentials("http://127.0.0.1:1", ["t"]))
    with pytest.raises(Unreachable):
        await ClusterView(nobody, "muster", NAMES).look_up("new", "")
    await nobody.close()


async def test_a_name_that_does_not_exist_is_looked_up_at_most_once_per_second() -> None:
    """Every client of the webhook can send any name, which must not cause a list request each time."""
    peer, now = Peer(), [100.0]
    async with a_session(peer) as session:
        view = ClusterView(session, "muster", NAMES, clock=lambda: now[0])
        await asyncio.gather(*(view.look_up("nowhere", "") for _ in range(50)))
        assert len(peer.reads) == 1
        now[0] += 0.5
        await view.look_up("nowhere", "")
        assert len(peer.reads) == 1
        now[0] += 0.6
        peer.put("/api/v1/namespaces/nowhere", a_namespace("nowhere"))
        await view.look_up("nowhere", "")
        assert len(peer.reads) == 2
        assert not view.is_missing("nowhere", "")


async def test_names_that_were_not_found_are_remembered_up_to_a_bound() -> None:
    async with a_session(Peer()) as session:
        view = ClusterView(session, "muster", NAMES, clock=lambda: 0.0)
        for number in range(3 * MAX_UNKNOWN_NAMES):
            view.not_found("namespaces", f"n{number}")
        assert len(view._unknown) == MAX_UNKNOWN_NAMES
