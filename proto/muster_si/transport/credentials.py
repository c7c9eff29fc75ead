"""Mutual TLS from three PEM files: each side has a certificate, and verifies the other's with the same CA.

Certificates can be renewed at runtime by changing the files. A server uses the new one from the next handshake on, a
client from its next connection on (`transport.channel`).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import grpc

from muster_si.errors import AddressError

#: Of each file: inode, modification time, size.
Fingerprint = tuple[tuple[int, int, int] | None, ...]


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """Paths of PEM files.

    server_name: name in the server's certificate, if it is not the host of the address.
    """

    certificate: Path
    key: Path
    authority: Path
    server_name: str | None = None

    def for_server(self) -> grpc.ServerCredentials:
        """Credentials that reject clients without a certificate of this CA. Raises AddressError."""
        renewal = _Renewal(self)
        present = self._configuration()
        return grpc.dynamic_ssl_server_credentials(
            present,
            renewal,  # type: ignore[arg-type] # None means "as before", which is missing in its stubs
            require_client_authentication=True,
        )

    def for_client(self) -> grpc.ChannelCredentials:
        """Credentials with our certificate that trust only this CA. Raises AddressError."""
        return grpc.ssl_channel_credentials(
            root_certificates=_read(self.authority),
            private_key=_read(self.key),
            certificate_chain=_read(self.certificate),
        )

    def fingerprint(self) -> Fingerprint:
        """Identifies the present version of each file by inode, modification time and size; None = missing."""
        return tuple(_mark(path) for path in (self.certificate, self.key, self.authority))

    def _configuration(self) -> grpc.ServerCertificateConfiguration:
        pair = (_read(self.key), _read(self.certificate))
        return grpc.ssl_server_certificate_configuration([pair], root_certificates=_read(self.authority))

    def channel_options(self) -> list[tuple[str, int | str]]:
        """Channel arguments of the client."""
        return [("grpc.ssl_target_name_override", self.server_name)] if self.server_name else []


class _Renewal:
    """Called by gRPC in its own thread for each handshake. Returns the files if they have changed, else None."""

    def __init__(self, files: TlsFiles) -> None:
        self._files, self._seen = files, files.fingerprint()

    def __call__(self) -> grpc.ServerCertificateConfiguration | None:
        seen = self._files.fingerprint()
        if seen == self._seen:
            return None
        try:
            configuration = self._files._configuration()  # noqa: SLF001 - its own helper
        except AddressError:
            return None  # only a part of the files has been replaced yet
        self._seen = seen
        return configuration


def _mark(path: Path) -> tuple[int, int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns, status.st_size


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise AddressError(str(path), f"this TLS file cannot be read: {error.strerror}") from error
