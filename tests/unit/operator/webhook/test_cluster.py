"""Watched objects are available immediately; missing ones are looked up, never guessed."""

import asyncio
from dataclasses import replace

import pytest

from muster_operator.kube.session import KubeSession
from muster_operator.model.errors import ApiRefused, Unreachable
from muster_operator.runtime.loop import Inbox
from muster_operator.runtime.metrics import Metrics
from muster_operator.translate.values import Raw
from muster_operator.webhook.cluster import MAX_UNKNOWN_NAMES, ClusterView
from muster_operator.webhook.context import ClusterSnapshot
from tests.unit.operator.kube.apiserver import FixedCredentials
from tests.unit.operator.webhook.cluster_peer import Peer, a_session
from tests.unit.operator.webhook.reviews import KNOWN, PLACEHOLDER, USER_INFO, a_pod, creating, settings

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


# -- Which namespaces are managed and labelled: the annotation decides, else the lists.

PREFIX = "yunikorn.apache.org/namespace."


def is_served(namespace: str, annotation: str = "", **entries: str) -> bool:
    known = replace(KNOWN, namespaces={namespace: {f"{PREFIX}enableYuniKorn": annotation} if annotation else {}})
    return creating(a_pod(), namespace=namespace, known=known, how=settings(**entries)).object is not None


@pytest.mark.parametrize(
    "namespace, entries, served",
    [
        ("dev", {}, True),
        ("dev", {"processNamespaces": "^prod"}, False),
        ("prod-1", {"processNamespaces": "^prod"}, True),
        ("my-prod", {"processNamespaces": "prod"}, True),
        ("dev", {"processNamespaces": "^prod, ^dev$"}, True),
        ("prod-x", {"processNamespaces": "^prod", "bypassNamespaces": "x$"}, False),
        ("dev", {"bypassNamespaces": ""}, True),
        ("dev", {"bypassNamespaces": "dev"}, False),
    ],
)
def test_the_namespace_lists_decide_whether_a_namespace_is_managed(
    namespace: str, entries: dict[str, str], *, served: bool
) -> None:
    assert is_served(namespace, **entries) == served


@pytest.mark.parametrize("setting, served", [("true", True), ("false", False), ("True", False), ("yes", False)])
def test_the_namespace_annotation_overrides_the_lists(setting: str, *, served: bool) -> None:
    assert is_served("dev", setting) == served
    assert is_served("dev", setting, bypassNamespaces="dev") == served


def test_the_documented_yunikorn_spelling_counts_if_the_other_is_absent() -> None:
    misspelt = f"{PREFIX}enableYunikorn"
    known = replace(KNOWN, namespaces={"dev": {misspelt: "false"}})
    assert creating(a_pod(), known=known).object is None
    both = replace(KNOWN, namespaces={"dev": {misspelt: "false", f"{PREFIX}enableYuniKorn": "true"}})
    assert creating(a_pod(), known=both).object is not None


@pytest.mark.parametrize(
    "setting, entries, labelled",
    [
        ("", {}, True),
        ("", {"labelNamespaces": "prod"}, False),
        ("", {"labelNamespaces": "dev", "noLabelNamespaces": "dev"}, False),
        ("true", {"noLabelNamespaces": "dev"}, True),
        ("false", {}, False),
    ],
)
def test_ids_are_generated_by_namespace_annotation_or_lists(
    setting: str, entries: dict[str, str], *, labelled: bool
) -> None:
    known = replace(KNOWN, namespaces={"dev": {f"{PREFIX}generateAppId": setting} if setting else {}})
    made = creating(a_pod(), known=known, how=settings(**entries)).object
    assert made is not None
    assert bool(made["metadata"]["labels"]) == labelled


@pytest.mark.parametrize("namespace", ["kube-system", "muster", "elsewhere"])
def test_kube_system_and_the_own_namespace_are_never_modified(namespace: str) -> None:
    """With any settings, because their pods must start before Muster."""
    known = ClusterSnapshot(own_namespace="elsewhere" if namespace == "elsewhere" else "muster")
    served = replace(known, namespaces={namespace: {f"{PREFIX}enableYuniKorn": "true"}})
    for pod in (a_pod(), a_pod(schedulerName="muster", annotations={USER_INFO: "forged", PLACEHOLDER: "true"})):
        answer = creating(pod, namespace=namespace, known=served, how=settings(bypassNamespaces=""))
        assert (answer.is_allowed, answer.object) == (True, None)
