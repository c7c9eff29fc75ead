"""Where the API server is and who we are there: one answer for kopf's streams and for our own writes.

In a cluster the service account's files answer, and `KUBECONFIG` is not looked at (contract 3). Outside, the kubeconfig
answers: tokens, client certificates and passwords as they stand there; plug-ins (`exec`, `auth-provider`) through the
official client, which knows them. The files are looked at every `LOOK_S`, and read again when one of them changed, as
service accounts' tokens and certificates do that are rotated. Anything is read again after a 401.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Final

import kopf
import structlog
import yaml

from muster_operator.link.errors import NoCredentials

log = structlog.get_logger("muster.credentials")

#: Seconds between looks at the files; a service account's token lives an hour, its file changes at 80 percent of that.
LOOK_S: Final = 10.0
#: Where a cluster puts the files of a service account.
SERVICE_ACCOUNT: Final = "/var/run/secrets/kubernetes.io/serviceaccount"


class Credentials:
    """The present way into the cluster, read again when its files changed or it was refused."""

    def __init__(self, settings: kopf.OperatorSettings | None = None) -> None:
        self._settings = settings or kopf.OperatorSettings()
        self._info: kopf.ConnectionInfo | None = None
        self._looked_at = float("-inf")
        self._seen: Fingerprint = ()

    def current(self) -> kopf.ConnectionInfo:
        """The credentials to use now.

        Raises:
            NoCredentials: there is neither a service account nor a usable kubeconfig.
        """
        if self._info is None:
            return self.reread()
        now = time.monotonic()
        if now - self._looked_at > LOOK_S:
            self._looked_at = now
            if fingerprint(_files(self._info)) != self._seen:
                return self.reread()
        return self._info

    def reread(self) -> kopf.ConnectionInfo:
        """Read the files again, because the server refused what we have or because it is old.

        Raises:
            NoCredentials: there is neither a service account nor a usable kubeconfig.
        """
        try:
            info = self._read()
        except (OSError, ValueError, KeyError, TypeError, kopf.LoginError, yaml.YAMLError) as error:
            if self._info is None:
                raise NoCredentials(str(error)) from error
            log.warning("credentials could not be read again, going on with the old ones", reason=str(error))
            info = self._info
        self._info, self._looked_at = info, time.monotonic()
        self._seen = fingerprint(_files(info))
        return info

    def _read(self) -> kopf.ConnectionInfo:
        in_cluster = kopf.login_with_service_account(settings=self._settings)
        if in_cluster is not None:
            return _by_address(in_cluster)
        info = None if _needs_plugin() else kopf.login_with_kubeconfig(settings=self._settings)
        if info is None:
            info = kopf.login_via_client(logger=log, settings=self._settings)
        if info is None:
            raise NoCredentials("no service account and no kubeconfig")
        return info


def _by_address(info: kopf.ConnectionInfo) -> kopf.ConnectionInfo:
    """The API server by the address that every pod is told, so that a cluster DNS in trouble does not stop us."""
    host, port = os.environ.get("KUBERNETES_SERVICE_HOST"), os.environ.get("KUBERNETES_SERVICE_PORT", "443")
    if not host:
        return info
    return replace(info, server=f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}")


def _needs_plugin() -> bool:
    """Whether the kubeconfig gets its credentials from a program, which only the official client can run."""
    texts = [path.read_text(encoding="utf-8") for path in _kubeconfigs() if path.is_file()]
    users = [user.get("user") or {} for text in texts for user in (yaml.safe_load(text) or {}).get("users") or []]
    return any("exec" in user or "auth-provider" in user for user in users)


def _kubeconfigs() -> list[Path]:
    return [Path(path).expanduser() for path in os.environ.get("KUBECONFIG", "~/.kube/config").split(os.pathsep)]


def _files(info: kopf.ConnectionInfo) -> list[Path]:
    """The files that credentials are from, as far as they can change under us."""
    named = (info.ca_path, info.certificate_path, info.private_key_path)
    return [*_kubeconfigs(), Path(SERVICE_ACCOUNT, "token"), *(Path(os.fsdecode(path)) for path in named if path)]


#: What tells a file from its successor: inode, time of change, size; None = there is none.
Fingerprint = tuple[tuple[int, int, int] | None, ...]


def fingerprint(paths: Iterable[str | bytes | os.PathLike[str] | os.PathLike[bytes] | None]) -> Fingerprint:
    """What tells the present contents of these files from later ones, without reading them."""
    found: list[tuple[int, int, int] | None] = []
    for path in paths:
        try:
            status = Path(os.fsdecode(path)).stat() if path else None
        except OSError:
            status = None
        found.append((status.st_ino, status.st_mtime_ns, status.st_size) if status is not None else None)
    return tuple(found)
