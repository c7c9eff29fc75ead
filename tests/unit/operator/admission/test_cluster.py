"""What the watch shows is known at once; what it has not shown yet is looked up and not guessed."""

from __future__ import annotations

import pytest

from muster_operator.admission.answering.cluster import ClusterView
from muster_operator.link.api.session import KubeSession
from muster_operator.link.errors import ApiRefused, Unreachable
from muster_operator.link.inbox import Inbox
from muster_operator.link.metrics import Metrics
from muster_operator.translate.raw import Raw
from tests.unit.operator.admission.cluster_peer import Peer, a_session
from tests.unit.operator.link.api.apiserver import FixedCredentials

ENABLE = "yunikorn.apache.org/namespace.enableYuniKorn"
NAMES = frozenset({"muster"})


def a_namespace(name: str, **annotations: str) -> Raw:
    return {"metadata": {"name": name, "annotations": annotations}}


def a_class(name: str, allow: str) -> Raw:
    return {"metadata": {"name": name, "annotations": {"yunikorn.apache.org/allow-preemption": allow}}}


async def test_the_operators_own_watch_tells_it() -> None:
    async with a_session(Peer()) as session:
        view, inbox = ClusterView(session, "muster", NAMES), Inbox(Metrics())
        inbox.show_also(view, "namespaces", "priorityclasses")
        await inbox.watched("namespaces", None, a_namespace("dev", **{ENABLE: "false", "theirs": "x"}))
        await inbox.watched("namespaces", "ADDED", a_namespace("gone"))
        await inbox.watched("priorityclasses", "ADDED", a_class("low", "false"))
        await inbox.watched("pods", "ADDED", {"metadata": {"name": "dev", "uid": "u"}})
        assert view.missing == "namespaces, priorityclasses"
        await inbox.listed("namespaces", frozenset({"dev"}))
        await inbox.listed("priorityclasses", frozenset({"low"}))
        assert view.missing == ""
        assert view.known.namespaces == {"dev": {ENABLE: "false"}}
        assert view.known.may_be_preempted == {"low": False}
        await inbox.watched("namespaces", "DELETED", a_namespace("dev"))
        assert view.known.namespaces == {}


async def test_what_the_watch_has_not_shown_is_looked_up_once() -> None:
    peer = Peer()
    peer.put("/api/v1/namespaces/new", a_namespace("new", **{ENABLE: "true"}))
    peer.put("/apis/scheduling.k8s.io/v1/priorityclasses/low", a_class("low", "false"))
    async with a_session(peer) as session:
        view = ClusterView(session, "muster", NAMES)
        assert view.lacks("new", "")
        await view.look_up("new", "low")
        assert not view.lacks("new", "low")
        await view.look_up("new", "low")
    assert len(peer.reads) == 2
    assert view.known.namespaces == {"new": {ENABLE: "true"}}
    assert view.known.may_be_preempted == {"low": False}


async def test_what_cannot_be_looked_up_is_an_error_and_not_a_guess() -> None:
    async with a_session(Peer(denied={"GET"})) as session:
        with pytest.raises(ApiRefused):
            await ClusterView(session, "muster", NAMES).look_up("new", "")
    nobody = KubeSession(FixedCredentials("http://127.0.0.1:1", ["t"]))
    with pytest.raises(Unreachable):
        await ClusterView(nobody, "muster", NAMES).look_up("new", "")
    await nobody.close()
