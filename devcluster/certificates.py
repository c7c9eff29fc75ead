"""A certificate authority for one cluster, and the key that signs service account tokens."""

from __future__ import annotations

import datetime as dt
import ipaddress
import ssl
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

VALID_FOR = dt.timedelta(days=30)
"""Long enough for a cluster that is kept for days (KEEP=1), short enough for stolen certificates to expire."""


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _private_bytes(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _write_private(path: Path, content: bytes) -> None:
    path.touch(mode=0o600)
    path.write_bytes(content)


def write_signing_key(folder: Path) -> tuple[Path, Path]:
    """Write a new key pair for service account tokens. Returns the paths (private, public)."""
    key = ec.generate_private_key(ec.SECP256R1())
    private, public = folder / "serviceaccount.key", folder / "serviceaccount.pub"
    _write_private(private, _private_bytes(key))
    public.write_bytes(
        key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    )
    return private, public


@dataclass(frozen=True, slots=True)
class ServerFiles:
    """A server's certificate and private key, as files."""

    certificate: Path
    key: Path

    def context(self) -> ssl.SSLContext:
        """A server-side TLS context with these files."""
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(self.certificate, self.key)
        return context


class Authority:
    """Signs server certificates; its own certificate is ``ca.crt`` in ``folder``."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.file = folder / "ca.crt"
        self._key = ec.generate_private_key(ec.SECP256R1())
        subject = _name("devcluster")
        key_id = x509.SubjectKeyIdentifier.from_public_key(self._key.public_key())
        usage = x509.KeyUsage(
            digital_signature=True, key_cert_sign=True, crl_sign=True, content_commitment=False,
            key_encipherment=False, data_encipherment=False, key_agreement=False,
            encipher_only=False, decipher_only=False,
        )  # fmt: skip
        self._certificate = (
            self._builder(subject, self._key.public_key())
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(usage, critical=True)
            .add_extension(key_id, critical=False)
            .sign(self._key, hashes.SHA256())
        )
        self.file.write_bytes(self._certificate.public_bytes(serialization.Encoding.PEM))

    def issue(self, name: str, hosts: list[str]) -> ServerFiles:
        """Issue a server certificate for ``hosts`` (names or addresses) as ``name.crt`` and ``name.key``."""
        key = ec.generate_private_key(ec.SECP256R1())
        authority_id = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        certificate = (
            self._builder(_name(name), key.public_key())
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.SubjectAlternativeName([_general_name(host) for host in hosts]), critical=False)
            .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
            .add_extension(authority_id, critical=False)
            .sign(self._key, hashes.SHA256())
        )
        files = ServerFiles(self.folder / f"{name}.crt", self.folder / f"{name}.key")
        files.certificate.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        _write_private(files.key, _private_bytes(key))
        return files

    def _builder(self, subject: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
        now = dt.datetime.now(dt.UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(_name("devcluster"))
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - dt.timedelta(minutes=5))
            .not_valid_after(now + VALID_FOR)
        )


def rotated_files(authority: str, hosts: list[str]) -> dict[str, bytes]:
    """Return an authority and a server certificate for ``hosts``, as cert-controller keeps them in a Secret.

    The Go module open-policy-agent/cert-controller, which frameworks use, keeps a Secret only if its keys are RSA, the
    authority is valid for its own name, and everything is valid for 90 days more.
    """
    authority_key, key = (rsa.generate_private_key(public_exponent=65537, key_size=2048) for _ in range(2))
    return {
        "ca.crt": _rotated(authority, authority_key, authority, authority_key, [authority]),
        "ca.key": _rsa_bytes(authority_key),
        "tls.crt": _rotated(hosts[0], key, authority, authority_key, hosts),
        "tls.key": _rsa_bytes(key),
    }


def _rsa_bytes(key: rsa.RSAPrivateKey) -> bytes:
    form = serialization.PrivateFormat.TraditionalOpenSSL
    return key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())


def _rotated(name: str, key: rsa.RSAPrivateKey, issuer: str, issuer_key: rsa.RSAPrivateKey, hosts: list[str]) -> bytes:
    now = dt.datetime.now(dt.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(_name(name))
        .issuer_name(_name(issuer))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(minutes=5))
        .not_valid_after(now + dt.timedelta(days=365))
        .add_extension(x509.BasicConstraints(ca=key is issuer_key, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName([_general_name(host) for host in hosts]), critical=False)
        .sign(issuer_key, hashes.SHA256())
    )
    return certificate.public_bytes(serialization.Encoding.PEM)


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)
