"""Writes kubeconfig files with one server, one user and one token."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

CONTEXT = "muster-devcluster"


def document(server: str, authority: str, token: str, namespace: str = "default") -> dict[str, Any]:
    """Return a kubeconfig. ``authority`` is the path of the certificate authority's file."""
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": CONTEXT,
        "clusters": [{"name": CONTEXT, "cluster": {"server": server, "certificate-authority": authority}}],
        "users": [{"name": CONTEXT, "user": {"token": token}}],
        "contexts": [{"name": CONTEXT, "context": {"cluster": CONTEXT, "user": CONTEXT, "namespace": namespace}}],
    }


def write(path: Path, content: dict[str, Any]) -> Path:
    """Write the file with mode 0600, because it contains a token."""
    path.touch(mode=0o600)
    path.write_text(yaml.safe_dump(content, sort_keys=False))
    return path
