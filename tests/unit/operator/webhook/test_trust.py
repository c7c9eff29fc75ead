"""A server never shows a certificate that an API server does not trust yet, or no longer trusts."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from muster_operator.webhook.certificates import RETIRE, SETTLE, CertificateRotation, Leaf

NOW = datetime(2030, 1, 1, tzinfo=UTC)
SECOND = timedelta(seconds=1)
OLD, NEW, OTHER = b"old", b"new", b"other"


def a_leaf(*authorities: bytes) -> Leaf:
    return Leaf(b"chain", b"key", authorities, NOW + timedelta(days=30))


def serving(leaf: Leaf, existing: tuple[bytes, ...] = ()) -> CertificateRotation:
    """A replica that serves with it, registered."""
    trust = CertificateRotation()
    trust.want(leaf)
    assert trust.to_serve(NOW) is leaf
    trust.record_registered([existing or leaf.authorities] * 2, NOW)
    return trust


def test_the_first_certificate_is_served_immediately_and_then_registered() -> None:
    trust, leaf = CertificateRotation(), a_leaf(NEW)
    assert trust.to_serve(NOW) is None
    trust.want(leaf)
    assert trust.to_serve(NOW) is leaf
    assert trust.authorities_to_register([(), ()], NOW) == (NEW,)


def test_a_new_authority_is_registered_before_its_certificate_is_served() -> None:
    trust, leaf = serving(a_leaf(OLD)), a_leaf(NEW)
    trust.want(leaf)
    assert trust.to_serve(NOW) is None
    assert trust.authorities_to_register([(OLD,), (OLD,)], NOW) == (NEW, OLD)
    trust.record_registered([(NEW, OLD), (OLD,)], NOW + SECOND)  # one registration of two could be written
    assert trust.to_serve(NOW + SETTLE + SECOND) is None
    trust.record_registered([(NEW, OLD)] * 2, NOW + 2 * SECOND)
    assert trust.to_serve(NOW + SETTLE) is None
    assert trust.to_serve(NOW + SETTLE + 2 * SECOND) is leaf
    assert trust.to_serve(NOW + SETTLE + 3 * SECOND) is None


def test_a_renewed_certificate_of_the_same_authorities_is_served_immediately() -> None:
    trust, renewed = serving(a_leaf(OLD)), a_leaf(OLD)
    later = NOW + timedelta(days=20)
    trust.record_registered([(OLD,)] * 2, later)
    trust.want(renewed)
    assert trust.to_serve(later) is renewed


def test_an_old_authority_stays_registered_until_the_retirement_delay_has_passed() -> None:
    trust = serving(a_leaf(NEW), (NEW, OLD))
    assert trust.authorities_to_register([(NEW, OLD)] * 2, NOW) == (NEW, OLD)
    assert trust.authorities_to_register([(NEW, OLD)] * 2, NOW + RETIRE - SECOND) == (NEW, OLD)
    assert trust.authorities_to_register([(NEW, OLD)] * 2, NOW + RETIRE) == (NEW,)


def test_a_deleted_registration_keeps_all_trusted_authorities() -> None:
    trust = serving(a_leaf(NEW))
    assert trust.authorities_to_register([(NEW, OLD), ()], NOW) == (NEW, OLD)


def test_an_authority_that_was_unregistered_must_settle_again() -> None:
    trust, leaf = serving(a_leaf(OLD)), a_leaf(NEW)
    trust.want(leaf)
    trust.record_registered([(NEW, OLD)] * 2, NOW)
    trust.record_registered([(OLD,)] * 2, NOW + SECOND)
    trust.record_registered([(NEW, OLD)] * 2, NOW + 2 * SECOND)
    assert trust.to_serve(NOW + SETTLE + SECOND) is None
    assert trust.to_serve(NOW + SETTLE + 2 * SECOND) is leaf


def test_authorities_registered_by_others_are_left_unchanged() -> None:
    trust = serving(a_leaf())
    assert trust.authorities_to_register([(OTHER,)] * 2, NOW) == ()
    replaced = a_leaf()
    trust.want(replaced)
    assert trust.to_serve(NOW) is replaced
