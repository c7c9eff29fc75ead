"""Certificate authorities of the webhook, their Secret and their rotation.

Two authorities exist at any time, as in YuniKorn, so that one can be replaced while clients trust the other.
"""

from __future__ import annotations

import base64
import binascii
import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

import structlog
from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from muster_operator.kube.secrets import SecretStore
from muster_operator.kube.session import KubeSession
from muster_operator.model.errors import NotLeading
from muster_operator.translate.values import Raw, mapping, text

log = structlog.get_logger("muster.admission")

#: Validity of an authority, and when it is replaced before its end, as in YuniKorn.
LIFETIME: Final = timedelta(days=365)
RENEW_BEFORE: Final = timedelta(days=90)
#: Validity of the serving certificate, which is in memory only, and when it is replaced before its end.
SERVING_LIFETIME: Final = timedelta(days=30)
SERVED_RENEW_BEFORE: Final = timedelta(days=10)
#: Tolerated difference between the clocks of two machines.
SKEW: Final = timedelta(minutes=5)
AUTHORITY_NAME: Final = "muster admission authority"
SECRET: Final = "muster-admission"  # noqa: S105 - a name
#: Entries of the Secret: certificate and key of each authority, named as in YuniKorn.
ENTRIES: Final = (("cacert1.pem", "cakey1.pem"), ("cacert2.pem", "cakey2.pem"))
#: Attempts after conflicts before the next round.
ATTEMPTS: Final = 5


class BadCertificate(ValueError):
    """The given or stored certificate or key is unusable. The text is the reason."""


@dataclass(frozen=True, slots=True)
class Authority:
    """A CA certificate and its key."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    @property
    def pem(self) -> bytes:
        """The certificate as PEM."""
        return self.certificate.public_bytes(serialization.Encoding.PEM)

    @property
    def key_pem(self) -> bytes:
        """The key as PEM, unencrypted."""
        return _key_pem(self.key)

    def is_due(self, now: datetime) -> bool:
        """Whether it has to be replaced: it expires soon, or is not valid yet because a clock was wrong."""
        certificate = self.certificate
        return certificate.not_valid_after_utc - now < RENEW_BEFORE or certificate.not_valid_before_utc > now + SKEW


@dataclass(frozen=True, slots=True)
class Leaf:
    """A serving certificate chain, its key, and the authorities (PEM) that clients have to trust for it."""

    chain: bytes
    key: bytes
    authorities: tuple[bytes, ...]
    not_after: datetime

    def is_due(self, now: datetime) -> bool:
        """Whether a certificate that Muster issued has to be replaced."""
        return self.not_after - now < SERVED_RENEW_BEFORE


Pair = tuple[Authority, Authority]


def authority(now: datetime, lifetime: timedelta = LIFETIME) -> Authority:
    """Creates an authority that is valid from now on."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = _name(AUTHORITY_NAME)
    usage = x509.KeyUsage(
        digital_signature=True, key_cert_sign=True, crl_sign=True, content_commitment=False, key_encipherment=False,
        data_encipherment=False, key_agreement=False, encipher_only=False, decipher_only=False,
    )  # fmt: skip
    certificate = (
        _builder(name, name, key.public_key(), now, now + lifetime)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    return Authority(certificate, key)


def kept_or_made(found: tuple[Authority | None, Authority | None], now: datetime) -> Pair:
    """Returns the authorities to use: missing or due ones are created, the others kept.

    In the first pair the second authority has half the lifetime, so that both are never replaced at the same time.
    """
    first, second = (None if one is None or one.is_due(now) else one for one in found)
    if first is None and second is None:
        return authority(now), authority(now, LIFETIME / 2)
    return first or authority(now), second or authority(now)


def signer(pair: Pair) -> Authority:
    """The authority that signs: the oldest one, and of equally old ones the one that expires last."""
    return min(
        pair, key=lambda one: (one.certificate.not_valid_before_utc, -one.certificate.not_valid_after_utc.timestamp())
    )


def issue(pair: Pair, names: Iterable[str], now: datetime) -> Leaf:
    """Issues a certificate for these host names and addresses, signed by an authority of the pair."""
    names, by = list(names), signer(pair)
    key = ec.generate_private_key(ec.SECP256R1())
    ends = min(now + SERVING_LIFETIME, by.certificate.not_valid_after_utc)
    certificate = (
        _builder(_name(names[0][:64]), by.certificate.subject, key.public_key(), now, ends)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName([_general_name(name) for name in names]), critical=False)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(by.key.public_key()), critical=False)
        .sign(by.key, hashes.SHA256())
    )
    return Leaf(
        chain=certificate.public_bytes(serialization.Encoding.PEM),
        key=_key_pem(key),
        authorities=tuple(one.pem for one in pair),
        not_after=ends,
    )


def read_authority(certificate: bytes, key: bytes) -> Authority:
    """Reads an authority from PEM texts.

    Raises:
        BadCertificate: the texts are invalid, do not match, or are not of an authority.
    """
    try:
        read = x509.load_pem_x509_certificate(certificate)
        private = serialization.load_pem_private_key(key, None)
        if not isinstance(private, ec.EllipticCurvePrivateKey) or private.public_key() != read.public_key():
            raise BadCertificate("the key does not match the certificate")
        if not read.extensions.get_extension_for_class(x509.BasicConstraints).value.ca:
            raise BadCertificate("the certificate is not a CA certificate")
        read.verify_directly_issued_by(read)
    except (ValueError, TypeError, UnsupportedAlgorithm, InvalidSignature, x509.ExtensionNotFound) as error:
        raise BadCertificate(f"no CA certificate: {error}") from error
    return Authority(read, private)


def given(chain: bytes, key: bytes, authorities: bytes) -> Leaf:
    """Reads a serving certificate from files that another tool maintains, such as cert-manager.

    `authorities` may be empty.

    Raises:
        BadCertificate: the texts are invalid, or key and certificate do not match.
    """
    try:
        leaf = x509.load_pem_x509_certificates(chain)[0]
        private = serialization.load_pem_private_key(key, None)
        trusted = x509.load_pem_x509_certificates(authorities) if authorities.strip() else []
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise BadCertificate(str(error)) from error
    if private.public_key() != leaf.public_key():
        raise BadCertificate("the key does not match the certificate")
    pems = tuple(one.public_bytes(serialization.Encoding.PEM) for one in trusted)
    return Leaf(chain, key, pems, leaf.not_valid_after_utc)


def split(bundle: bytes) -> tuple[bytes, ...]:
    """Splits a bundle into its certificates as PEM. Returns none if it is invalid."""
    try:
        found = x509.load_pem_x509_certificates(bundle)
    except ValueError:
        return ()
    return tuple(one.public_bytes(serialization.Encoding.PEM) for one in found)


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, begins: datetime, ends: datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(begins - SKEW)
        .not_valid_after(ends)
    )


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


class AuthoritySecret:
    """The Secret with the authorities."""

    def __init__(self, session: KubeSession, namespace: str) -> None:
        self._store = SecretStore(session, namespace, SECRET)

    async def pair(self, now: datetime) -> Pair | None:
        """Returns the authorities, and creates missing or due ones. None if another replica has to create them.

        Raises:
            ApiRefused: permissions are missing, or the API server answered with another error.
            Unreachable: there was no answer.
        """
        for _ in range(ATTEMPTS):
            found = await self._store.read()
            authorities = _authorities(found)
            pair = kept_or_made(authorities, now)
            if pair == authorities:
                return pair
            try:
                if await self._store.write(_entries(pair), found):
                    log.info("webhook authorities created or renewed", secret=SECRET, first=found is None)
                    return pair
            except NotLeading:
                return _usable(authorities, now)
        return None


def _entries(pair: Pair) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    for (certificate, key), one in zip(ENTRIES, pair, strict=True):
        found |= {certificate: one.pem, key: one.key_pem}
    return found


def _authorities(secret: Raw | None) -> tuple[Authority | None, Authority | None]:
    """The authorities of the Secret. None for one that is missing or unusable."""
    data = mapping(secret.get("data")) if secret is not None else {}
    first, second = (_authority(data, names) for names in ENTRIES)
    return first, second


def _authority(data: Raw, names: tuple[str, str]) -> Authority | None:
    written = [text(data.get(name)) for name in names]
    if not any(written):
        return None
    try:
        certificate, key = (base64.b64decode(one, validate=True) for one in written)
        return read_authority(certificate, key)
    except (binascii.Error, BadCertificate) as error:
        log.warning("authority in the Secret is unusable", secret=SECRET, entry=names[0], reason=str(error))
        return None


def _usable(found: tuple[Authority | None, Authority | None], now: datetime) -> Pair | None:
    """The authorities if both exist and have not expired, even if they are due. Otherwise None."""
    first, second = (None if one is None or one.certificate.not_valid_after_utc <= now else one for one in found)
    return (first, second) if first is not None and second is not None else None


#: Time until API servers use a changed registration. They watch it, normally with a delay of milliseconds.
SETTLE: Final = timedelta(seconds=5)

#: Time for which a replaced authority stays registered, in case a replica was disconnected and still serves with it.
RETIRE: Final = timedelta(minutes=10)


class CertificateRotation:
    """Coordinates a certificate change with the registration, so that clients always trust the serving certificate.

    Authorities are PEM texts.
    """

    def __init__(self) -> None:
        self.serving: Leaf | None = None
        self._wanted: Leaf | None = None
        self._known_since: dict[bytes, datetime] = {}
        self._unwanted_since: dict[bytes, datetime] = {}

    def want(self, leaf: Leaf) -> None:
        """Sets the certificate to serve as soon as it is trusted."""
        self._wanted = leaf

    def authorities_to_register(self, registered: Iterable[Iterable[bytes]], now: datetime) -> tuple[bytes, ...]:
        """Returns the authorities to register: those of the wanted certificate, and replaced ones for RETIRE.

        `registered`: the authorities of each present registration. Empty if the wanted certificate has no authorities;
        another tool registers them in that case.
        """
        wanted = self._wanted.authorities if self._wanted is not None else ()
        if not wanted:
            return ()
        unwanted = dict.fromkeys(one for bundle in registered for one in bundle if one not in wanted)
        self._unwanted_since = {one: self._unwanted_since.get(one, now) for one in unwanted}
        return (*wanted, *(one for one in unwanted if now - self._unwanted_since[one] < RETIRE))

    def record_registered(self, registered: Iterable[Iterable[bytes]], now: datetime) -> None:
        """Records which authorities all registrations contain."""
        known = set.intersection(*map(set, registered))
        self._known_since = {one: self._known_since.get(one, now) for one in known}

    def to_serve(self, now: datetime) -> Leaf | None:
        """Returns the certificate to serve now, or None for no change. The first one is served without a delay."""
        wanted = self._wanted
        if wanted is None or wanted is self.serving:
            return None
        is_known = all(now - self._known_since.get(one, now) >= SETTLE for one in wanted.authorities)
        if self.serving is not None and not is_known:
            return None
        self.serving = wanted
        return wanted
