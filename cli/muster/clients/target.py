"""Whom the options mean: a core by its URL, or that of a cluster, found by itself."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from muster.clients import forwarding, kubernetes
from muster.clients.http import Http, to_url
from muster.clients.rest import Rest
from muster.errors import BadUsage


@dataclass(frozen=True)
class Target:
    """`server`: the URL of a core, empty = look for it in the cluster. `namespace`: Muster's, empty = look for it."""

    server: str = ""
    token_file: Path | None = None
    authority: Path | None = None
    is_trusting: bool = False
    kubeconfig: str = ""
    context: str = ""
    namespace: str = ""

    @cached_property
    def rest(self) -> Rest:
        """The core. Raises BadUsage, Unreachable."""
        headers = {"Accept": "application/json", **self._authorization()}
        if not self.server:
            return forwarding.core(self.cluster, self.namespace, headers)
        connect, prefix = to_url(self.server, self._tls)
        return Rest(Http(f"the core at {self.server}", connect, prefix, headers))

    @cached_property
    def cluster(self) -> kubernetes.Cluster:
        """The cluster that kubectl would talk to. Raises Unreachable."""
        return kubernetes.connected(self.kubeconfig, self.context)

    def close(self) -> None:
        """Close all open connections."""
        made = vars(self)
        if "rest" in made:
            self.rest.close()
        if "cluster" in made:
            self.cluster.http.close()

    def _authorization(self) -> dict[str, str]:
        if self.token_file is None:
            return {}
        try:
            return {"Authorization": f"Bearer {self.token_file.read_text().strip()}"}
        except (OSError, UnicodeDecodeError) as error:
            raise BadUsage(f"--token-file {self.token_file} cannot be read: {error}") from error

    def _tls(self) -> ssl.SSLContext:
        try:
            context = ssl.create_default_context(cafile=self.authority)
        except OSError as error:  # ssl.SSLError is one
            raise BadUsage(f"--certificate-authority {self.authority} cannot be used: {error}") from error
        if self.is_trusting:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        return context
