"""All replicas sign with the same keys, and no state of the Secret stops the operator."""

import base64
from dataclasses import dataclass, field
from typing import Any

import pytest
from structlog.testing import capture_logs

from muster_operator.kube import secrets
from muster_operator.kube.secrets import SigningSecret
from muster_operator.kube.session import KubeSession, LeadershipGuard
from muster_operator.model.signing import CURRENT, PREVIOUS, SECRET, SigningKeys, Validity
from tests.unit.operator.kube.apiserver import FixedCredentials
from tests.unit.operator.webhook.cluster_peer import Peer, a_session

PATH = f"/api/v1/namespaces/muster/secrets/{SECRET}"


@dataclass
class Replica:
    """The keys that one replica received."""

    session: KubeSession
    recorder: list[SigningKeys] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.secret = SigningSecret(self.session, "muster", self.recorder.append)


def data(peer: Peer) -> dict[str, Any]:
    return dict(peer.objects[PATH]["data"])


async def test_the_first_replica_creates_the_key_and_the_second_reads_it() -> None:
    peer = Peer()
    async with a_session(peer) as session:
        one, other = Replica(session), Replica(session)
        for replica in (one, other, one):
            await replica.secret.ready()
    assert one.recorder == other.recorder
    assert len(one.recorder) == 1
    assert peer.writes == [f"POST {PATH}"]
    assert (peer.objects[PATH]["type"], set(data(peer))) == ("Opaque", {CURRENT})


async def test_two_replicas_that_create_the_key_concurrently_use_the_same_key() -> None:
    winner, peer = Peer(), Peer()
    async with a_session(winner) as session:
        won = Replica(session)
        await won.secret.ready()
    peer.rivals.append((PATH, winner.objects[PATH]))
    async with a_session(peer) as session:
        lost = Replica(session)
        await lost.secret.ready()
    assert lost.recorder == won.recorder
    assert peer.writes == []


async def test_a_key_moved_to_previous_still_verifies_and_a_stored_new_key_signs() -> None:
    peer = Peer()
    async with a_session(peer) as session:
        replica = Replica(session)
        await replica.secret.ready()
        old = replica.recorder[0].sign(["x"])
        peer.put(PATH, {**peer.objects[PATH], "data": {PREVIOUS: data(peer)[CURRENT]}})
        peer.denied.add("PUT")
        assert not await replica.secret.check()
        assert len(replica.recorder) == 1, "nothing signs with a key that is not stored"
        peer.denied.clear()
        assert await replica.secret.check()
    assert replica.recorder[1].verify(old, ["x"]) is Validity.VALID
    assert replica.recorder[1].sign(["x"]) != old
    assert set(data(peer)) == {CURRENT, PREVIOUS}


async def test_labels_and_annotations_of_others_stay_on_the_secret() -> None:
    peer = Peer()
    others = {"labels": {"team": "infra"}, "annotations": {"backup": "no"}}
    peer.put(PATH, {"metadata": {"name": SECRET, **others}, "type": "Opaque", "data": {}})
    async with a_session(peer) as session:
        await Replica(session).secret.ready()
    metadata = peer.objects[PATH]["metadata"]
    assert (metadata["labels"], metadata["annotations"]) == (
        {"team": "infra", "app": "muster"},
        {"backup": "no"},
    )


async def test_a_deleted_secret_is_created_again_with_the_same_keys() -> None:
    peer = Peer()
    async with a_session(peer) as session:
        replica = Replica(session)
        await replica.secret.ready()
        before = data(peer)
        del peer.objects[PATH]
        assert await replica.secret.check()
    assert data(peer) == before
    assert len(replica.recorder) == 1


@pytest.mark.parametrize("garbage", ["!", base64.b64encode(b"short").decode(), "", None])
async def test_a_garbled_key_is_replaced_and_the_previous_one_stays(garbage: str | None) -> None:
    peer = Peer()
    async with a_session(peer) as session:
        replica = Replica(session)
        await replica.secret.ready()
        good = data(peer)[CURRENT]
        peer.put(PATH, {**peer.objects[PATH], "data": {CURRENT: garbage, PREVIOUS: good}})
        assert await replica.secret.check()
    assert data(peer)[PREVIOUS] == good
    assert data(peer)[CURRENT] not in {garbage, good}


@pytest.mark.parametrize("garbage", ["!", base64.b64encode(b"short").decode(), ""])
async def test_an_unusable_current_key_is_replaced_by_the_one_in_memory(garbage: str) -> None:
    peer = Peer()
    async with a_session(peer) as session:
        replica = Replica(session)
        await replica.secret.ready()
        good = data(peer)[CURRENT]
        peer.put(PATH, {**peer.objects[PATH], "data": {CURRENT: garbage}})
        assert await replica.secret.check()
    assert data(peer) == {CURRENT: good}


async def test_an_unreadable_secret_leaves_the_keys_in_memory_unchanged() -> None:
    peer = Peer()
    async with a_session(peer) as session:
        replica = Replica(session)
        await replica.secret.ready()
        peer.denied.add("GET")
        assert not await replica.secret.check()
        assert replica.secret.count == 1
        fresh = Replica(session)
        assert not await fresh.secret.check()
    assert (fresh.recorder, fresh.secret.count) == ([], 0)


async def test_a_standby_creates_no_key() -> None:
    peer = Peer()
    async with a_session(peer) as leader:
        follower = KubeSession(FixedCredentials(leader._credentials.current().server, ["t"]), LeadershipGuard())
        try:
            replica = Replica(follower)
            assert not await replica.secret.check()
            assert peer.writes == []
            await Replica(leader).secret.ready()
            assert await replica.secret.check()
        finally:
            await follower.close()
    assert replica.secret.count == 1


async def test_a_new_leader_continues_without_keys_after_an_internal_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(secrets, "READY_S", 0.0)
    peer, calls = Peer(), list[SigningKeys]()

    def fails_once(keys: SigningKeys) -> None:
        calls.append(keys)
        if len(calls) == 1:
            raise ZeroDivisionError

    async with a_session(peer) as session:
        secret = SigningSecret(session, "muster", fails_once)
        with capture_logs() as logged:
            await secret.ready()
        assert await secret.check()
    assert "internal error: ZeroDivisionError()" in [line.get("reason") for line in logged]
    assert len(calls) == 2, "the keys are passed on again"
