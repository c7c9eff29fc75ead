"""Where the API server is and who we are there: one answer for kopf's streams and for our own writes.

In a cluster the service account's files answer, and `KUBECONFIG` is not looked at (contract 3); its token is rotated,
so it is read again every `REREAD_S`. Outside, the kubeconfig answers: tokens, client certificates and passwords as they
stand there; plug-ins (`exec`, `auth-provider`) through the official client, which knows them. Anything is read again
after a 401.
"""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path
from typing import Final

import kopf
import structlog
import yaml

from muster_operator.link.errors import NoCredentials

log = structlog.get_logger("muster.credentials")

#: Seconds after which the credentials are read again; a service account's token lives an hour, its file changes at
#: 80 percent of that.
REREAD_S: Final = 60.0


class Credentials:
    """The present way into the cluster, read again when it is old or was refused."""

    def __init__(self, settings: kopf.OperatorSettings | None = None) -> None:
        self._settings = settings or kopf.OperatorSettings()
        self._info: kopf.ConnectionInfo | None = None
        self._read_at = float("-inf")
        self._rotates = False

    def current(self) -> kopf.ConnectionInfo:
        """The credentials to use now.

        Raises:
            NoCredentials: there is neither a service account nor a usable kubeconfig.
        """
        is_old = self._rotates and time.monotonic() - self._read_at > REREAD_S
        return self.reread() if self._info is None or is_old else self._info

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
        self._info, self._read_at = info, time.monotonic()
        return info

    def _read(self) -> kopf.ConnectionInfo:
        in_cluster = kopf.login_with_service_account(settings=self._settings)
        self._rotates = in_cluster is not None
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
    paths = [Path(path).expanduser() for path in os.environ.get("KUBECONFIG", "~/.kube/config").split(os.pathsep)]
    texts = [path.read_text(encoding="utf-8") for path in paths if path.is_file()]
    users = [user.get("user") or {} for text in texts for user in (yaml.safe_load(text) or {}).get("users") or []]
    return any("exec" in user or "auth-provider" in user for user in users)
