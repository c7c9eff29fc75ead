"""All replicas sign with the same two authorities, whichever replica created or renewed them."""

from __future__ import annotations

import base64
from datetime import UTC, datetime, timedelta

import pytest

from muster_operator.kube.session import KubeSession, LeadershipGuard
from muster_operator.model.errors import ApiRefused
from muster_operator.webhook.certificates import ENTRIES, SECRET, AuthoritySecret, Pair
from tests.unit.operator.kube.apiserver import FixedCredentials
from tests.unit.operator.webhook.cluster_peer import Peer, a_session

NOW = datetime(2030, 1, 1, tzinfo=UTC)
PATH = f"/api/v1/namespaces/muster/secrets/{SECRET}"


def pems(pair: Pair | None) -> list[bytes]:
    assert pair is not None
    return [one.pem for one in pair]


async def test_the_first_replica_creates_the_authorities_and_the_second_reads_them() -> None:
    peer = Peer()
    async with a_session(peer) as session:
        one = await AuthoritySecret(session, "muster").pair(NOW)
        other = await AuthoritySecret(session, "muster").pair(NOW)
    assert pems(one) == pems(other)
    assert len(peer.writes) == 1
    assert set(peer.objects[PATH]["data"]) == {name for names in ENTRIES for name in names}


async def test_one_of_two_concurrent_creations_wins_and_both_replicas_use_it() -> None:
    winner, peer = Peer(), Peer()
    async with a_session(winner) as session:
        won = await AuthoritySecret(session, "muster").pair(NOW)
    peer.rivals.append((PATH, winner.objects[PATH]))
    async with a_session(peer) as session:
        lost = await AuthoritySecret(session, "muster").pair(NOW)
    assert pems(lost) == pems(won)
    assert peer.writes == []


@pytest.mark.parametrize("garbage", ["!", base64.b64encode(b"garbage").decode(), "", None])
async def test_a_corrupt_authority_is_replaced_and_the_other_stays(garbage: str | None) -> None:
    peer = Peer()
    async with a_session(peer) as session:
        before = pems(await AuthoritySecret(session, "muster").pair(NOW))
        peer.put(PATH, {**peer.objects[PATH], "data": {**peer.objects[PATH]["data"], "cacert1.pem": garbage}})
        after = pems(await AuthoritySecret(session, "muster").pair(NOW))
    assert after[0] != before[0]
    assert after[1] == before[1]


async def test_the_authority_that_expires_soon_is_renewed_in_the_secret() -> None:
    peer = Peer()
    async with a_session(peer) as session:
        secret = AuthoritySecret(session, "muster")
        before = pems(await secret.pair(NOW))
        after = pems(await secret.pair(NOW + timedelta(days=100)))
        assert pems(await secret.pair(NOW + timedelta(days=101))) == after
    assert after[0] == before[0]
    assert after[1] != before[1]
    assert len(peer.writes) == 2


async def test_a_standby_uses_the_stored_authorities_and_writes_nothing() -> None:
    peer = Peer()
    async with a_session(peer) as session:
        standby = KubeSession(FixedCredentials(session._credentials.current().server, ["t"]), LeadershipGuard())
        secret = AuthoritySecret(standby, "muster")
        assert await secret.pair(NOW) is None
        made = pems(await AuthoritySecret(session, "muster").pair(NOW))
        assert pems(await secret.pair(NOW)) == made
        assert pems(await secret.pair(NOW + timedelta(days=100))) == made  # due, and the leader's to renew
        assert await secret.pair(NOW + timedelta(days=190)) is None  # one has ended, in a cluster that was off for long
        await standby.close()
    assert len(peer.writes) == 1


async def test_missing_permissions_are_reported() -> None:
    async with a_session(Peer(denied={"POST"})) as session:
        with pytest.raises(ApiRefused, match="cannot POST"):
            await AuthoritySecret(session, "muster").pair(NOW)
