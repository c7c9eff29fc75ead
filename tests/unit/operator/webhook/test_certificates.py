"""Two authorities with overlapping lifetimes; certificates are signed by the one that was trusted longer."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.x509.verification import PolicyBuilder, Store

from muster_operator.webhook import certificates
from muster_operator.webhook.certificates import RENEW_BEFORE, BadCertificate, Leaf, Pair, issue, kept_or_made, signer

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
