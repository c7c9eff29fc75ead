"""Mutual TLS from three PEM files: each side shows a certificate and checks the other's against the same CA."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import grpc

from muster_si.errors import AddressError


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """Paths of PEM files, read once at start.

    server_name: what the server's certificate must be issued for, where that is not the host that is dialled.
    """

    certificate: Path
    key: Path
    authority: Path
    server_name: str | None = None

    def for_server(self) -> grpc.ServerCredentials:
        """Credentials that refuse a client without a certificate of this CA. Raises AddressError."""
        pair = (_read(self.key), _read(self.certificate))
        return grpc.ssl_server_credentials([pair], root_certificates=_read(self.authority), require_client_auth=True)

    def for_client(self) -> grpc.ChannelCredentials:
        """Credentials that show our certificate and trust only this CA. Raises AddressError."""
        return grpc.ssl_channel_credentials(
            root_certificates=_read(self.authority),
            private_key=_read(self.key),
            certificate_chain=_read(self.certificate),
        )

    def channel_options(self) -> list[tuple[str, int | str]]:
        """Arguments for the gRPC channel of the client."""
        return [("grpc.ssl_target_name_override", self.server_name)] if self.server_name else []


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise AddressError(str(path), f"this TLS file cannot be read: {error.strerror}") from error
