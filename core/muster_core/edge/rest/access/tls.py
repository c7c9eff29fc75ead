"""The certificate of the server, taken anew when its files change."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from pathlib import Path

import structlog

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class ServerTls:
    """Both files in PEM."""

    certificate: Path
    key: Path


class ServerContext:
    """`context` is for new connections, whatever certificate it holds then. Raises OSError, ssl.SSLError."""

    def __init__(self, files: ServerTls) -> None:
        self._files = files
        self._seen = self._stamps()
        self.context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self.context.minimum_version = ssl.TLSVersion.TLSv1_2
        self.context.load_cert_chain(files.certificate, files.key)

    def renew(self) -> bool:
        """Take other files in force; files that do not go together are told and the old ones kept."""
        try:
            seen = self._stamps()
            if seen == self._seen:
                return False
            self._seen = seen
            ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(
                self._files.certificate, self._files.key
            )
            self.context.load_cert_chain(self._files.certificate, self._files.key)
        except (OSError, ssl.SSLError) as error:
            _log.warning("REST keeps its old certificate", reason=str(error))
            return False
        _log.info("REST has a new certificate", certificate=str(self._files.certificate))
        return True

    def _stamps(self) -> tuple[tuple[int, int], ...]:
        stats = [path.stat() for path in (self._files.certificate, self._files.key)]
        return tuple((stat.st_mtime_ns, stat.st_ino) for stat in stats)
