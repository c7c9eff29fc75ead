"""Two authorities with overlapping lifetimes; certificates are signed by the one that was trusted longer."""

import base64
import ssl
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.x509.verification import PolicyBuilder, Store

from muster_operator.kube.session import KubeSession, LeadershipGuard
from muster_operator.model.errors import ApiRefused
from muster_operator.webhook import certificates
from muster_operator.webhook.certificates import (
    ENTRIES,
    RENEW_BEFORE,
    SECRET,
    AuthoritySecret,
    BadCertificate,
    Leaf,
    Pair,
    issue,
    kept_or_made,
    signer,
)
from tests.unit.operator.kube.apiserver import FixedCredentials
from tests.unit.operator.webhook.cluster_peer import Peer, a_session

NOW = datetime(2030, 1, 1, tzinfo=UTC)
DAY = timedelta(days=1)
HOST = "muster.muster.svc"


def accepts(authorities: tuple[bytes, ...], leaf: Leaf, at: datetime, host: str = HOST) -> bool:
    """Whether a client that trusts these would go on with the server."""
    store = Store([x509.load_pem_x509_certificate(one) for one in authorities])
    verifier = PolicyBuilder().store(store).time(at).build_server_verifier(x509.DNSName(host))
    try:
        verifier.verify(x509.load_pem_x509_certificate(leaf.chain), [])
    except x509.verification.VerificationError:
        return False
    return True


def a_pair(now: datetime = NOW) -> Pair:
    return kept_or_made((None, None), now)


def test_a_certificate_is_valid_only_for_its_hosts_authorities_and_lifetime() -> None:
    pair = a_pair()
    leaf = issue(pair, [HOST, "127.0.0.1"], NOW)
    assert accepts(leaf.authorities, leaf, NOW)
    assert not accepts(leaf.authorities, leaf, NOW, host="elsewhere.muster.svc")
    assert not accepts(tuple(one.pem for one in a_pair()), leaf, NOW)
    assert not accepts(leaf.authorities, leaf, leaf.not_after + DAY)
    ssl.create_default_context(cadata=b"".join(leaf.authorities).decode())


def test_authorities_are_not_renewed_early() -> None:
    pair = a_pair()
    assert kept_or_made(pair, NOW + timedelta(days=90)) == pair


def test_authorities_are_replaced_one_at_a_time_and_sign_only_after_months_of_trust() -> None:
    pair, replaced = a_pair(), 0
    trusted_since: dict[bytes, datetime] = {}
    for day in range(0, 3650, 5):
        now = NOW + day * DAY
        renewed = kept_or_made(pair, now)
        changed = [new for old, new in zip(pair, renewed, strict=True) if new is not old]
        assert len(changed) <= 1
        replaced += len(changed)
        pair = renewed
        for one in pair:
            trusted_since.setdefault(one.pem, now)
        by = signer(pair)
        if day > 200:
            assert now - trusted_since[by.pem] >= timedelta(days=60), day
        assert by.certificate.not_valid_after_utc - now >= RENEW_BEFORE
        leaf = issue(pair, [HOST], now)
        assert accepts(leaf.authorities, leaf, now)
    assert replaced > 10


def test_a_served_certificate_is_due_for_renewal_with_a_third_of_its_lifetime_left() -> None:
    leaf = issue(a_pair(), [HOST], NOW)
    assert not leaf.is_due(NOW + 19 * DAY)
    assert leaf.is_due(NOW + 21 * DAY)


def test_an_authority_survives_serialization() -> None:
    one, _ = a_pair()
    read = certificates.read_authority(one.pem, one.key_pem)
    assert (read.pem, read.key_pem) == (one.pem, one.key_pem)


@pytest.mark.parametrize("wrong", ["garbled", "strange key", "no authority", "no key"])
def test_an_invalid_authority_is_rejected(wrong: str) -> None:
    one, other = a_pair()
    leaf = issue((one, other), [HOST], NOW)
    certificate, key = {
        "garbled": (b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", one.key_pem),
        "strange key": (one.pem, other.key_pem),
        "no authority": (leaf.chain, leaf.key),
        "no key": (one.pem, b""),
    }[wrong]
    with pytest.raises(BadCertificate):
        certificates.read_authority(certificate, key)


def test_an_authority_that_is_not_valid_yet_is_replaced() -> None:
    early = a_pair(NOW + 400 * DAY)
    assert not set(kept_or_made(early, NOW)) & set(early)


def test_provided_certificate_files_must_match() -> None:
    pair = a_pair()
    leaf, other = issue(pair, [HOST], NOW), issue(pair, [HOST], NOW)
    found = certificates.given(leaf.chain, leaf.key, b"".join(leaf.authorities))
    assert set(found.authorities) == set(leaf.authorities)
    assert certificates.given(leaf.chain, leaf.key, b"").authorities == ()
    for chain, key, authorities in ((leaf.chain, other.key, b""), (b"?", leaf.key, b""), (leaf.chain, leaf.key, b"?")):
        with pytest.raises(BadCertificate):
            certificates.given(chain, key, authorities)


# -- All replicas sign with the same two authorities, whichever replica created or renewed them.

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
