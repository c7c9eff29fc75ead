"""Kubeconfig files as kubectl reads them: several files, contexts, certificates, tokens and credential plugins.

The official client reads them too, but loading it takes longer than most commands run. It is used only for
`auth-provider` entries, which have to be refreshed.
"""

from __future__ import annotations

import base64
import binascii
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import yaml

from muster.errors import BadUsage, Unreachable

Json = dict[str, Any]

CLUSTER: Final = "the cluster"
DEFAULT_NAMESPACE: Final = "default"
_SERVICE_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
#: Entries of clusters and users that are paths, relative to their kubeconfig.
_PATHS: Final = ("certificate-authority", "client-certificate", "client-key", "tokenFile")


@dataclass(frozen=True, slots=True)
class Access:
    """URL and credentials of an API server. `authority`, `certificate`, `key`: PEM files, empty = none."""

    server: str
    authority: str = ""
    is_verified: bool = True
    certificate: str = ""
    key: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Context:
    """A context with its cluster and user. `paths`: the kubeconfig files. Empty name = there is no current context."""

    name: str
    namespace: str
    cluster: Json
    user: Json
    paths: tuple[Path, ...]

    def access(self) -> Access:
        """How to connect, with credentials from files and plugins. Raises BadUsage, Unreachable."""
        cluster, user = self.cluster, self.user
        if not self.name:
            raise BadUsage(f"{self.paths[0]} has no current context; set --context")
        token = str(user.get("token") or "")
        if not token and user.get("tokenFile"):
            token = _text(Path(user["tokenFile"])).strip()
        certificate, key = _file(user, "client-certificate"), _file(user, "client-key")
        if user.get("exec"):
            token, certificate, key = _run_plugin(user["exec"], cluster, self.paths[0].parent)
        authorization = f"Bearer {token}" if token else ""
        if not token and user.get("username"):
            pair = f"{user['username']}:{user.get('password') or ''}"
            authorization = f"Basic {base64.b64encode(pair.encode()).decode()}"
        if not authorization and user.get("auth-provider"):
            authorization = _from_auth_provider(self)
        return Access(
            str(cluster.get("server") or ""),
            _file(cluster, "certificate-authority"),
            not cluster.get("insecure-skip-tls-verify"),
            certificate,
            key,
            {"Authorization": authorization} if authorization else {},
        )


def read(kubeconfig: str = "", context: str = "") -> Context | None:
    """The context of that name, or the current one; None = there is no kubeconfig.

    Raises BadUsage if a named file or context does not exist, or a file is not a kubeconfig.
    """
    paths = tuple(_paths(kubeconfig))
    if not paths:
        if context:
            raise BadUsage(f'context "{context}" does not exist: no kubeconfig found')
        return None
    found = [(path, _parsed(path)) for path in paths]
    shown = os.pathsep.join(map(str, paths))
    name = context or next((str(config["current-context"]) for _, config in found if config.get("current-context")), "")
    if not name:
        return Context("", "", {}, {}, paths)
    chosen = _entry(found, "contexts", "context", name)
    if chosen is None:
        raise BadUsage(f'context "{name}" does not exist in {shown}')
    parts = {}
    for kind in ("cluster", "user"):
        wanted = str(chosen.get(kind) or "")
        part = _entry(found, f"{kind}s", kind, wanted) if wanted or kind == "cluster" else {}
        if part is None:
            raise BadUsage(f'{kind} "{wanted}" of context "{name}" does not exist in {shown}')
        parts[kind] = part
    return Context(name, str(chosen.get("namespace") or ""), parts["cluster"], parts["user"], paths)


def access(kubeconfig: str = "", context: str = "") -> Access:
    """How to connect to the cluster that kubectl would use. Raises BadUsage, Unreachable."""
    found = read(kubeconfig, context)
    if found is not None:
        return found.access()
    host, port = os.environ.get("KUBERNETES_SERVICE_HOST"), os.environ.get("KUBERNETES_SERVICE_PORT")
    if not host or not port:
        raise Unreachable(
            CLUSTER, "no kubeconfig found; set --kubeconfig, or --server to connect to a core without a cluster"
        )
    address = f"[{host}]" if ":" in host else host
    token = _text(_SERVICE_ACCOUNT / "token").strip()
    return Access(
        f"https://{address}:{port}",
        str(_SERVICE_ACCOUNT / "ca.crt"),
        headers={"Authorization": f"Bearer {token}"},
    )


def namespace(kubeconfig: str = "", context: str = "") -> str:
    """The namespace of the context, else of the pod in which the command runs, else `default`. Raises BadUsage."""
    found = read(kubeconfig, context)
    if found is not None:
        return found.namespace or DEFAULT_NAMESPACE
    try:
        return (_SERVICE_ACCOUNT / "namespace").read_text().strip() or DEFAULT_NAMESPACE
    except OSError:
        return DEFAULT_NAMESPACE


def _paths(kubeconfig: str) -> Iterator[Path]:
    """`--kubeconfig` has to exist. Files of KUBECONFIG that do not exist are skipped, as kubectl does."""
    if kubeconfig:
        path = Path(kubeconfig).expanduser()
        if not path.exists():
            raise BadUsage(f"--kubeconfig {kubeconfig} does not exist")
        yield path
        return
    listed = os.environ.get("KUBECONFIG")
    names = listed.split(os.pathsep) if listed else [str(Path("~/.kube/config").expanduser())]
    yield from (path for name in names if name and (path := Path(name)).exists())


def _parsed(path: Path) -> Json:
    try:
        found = yaml.load(_text(path), Loader=_LOADER)  # noqa: S506  # both loaders are safe ones
    except yaml.YAMLError as error:
        raise BadUsage(f"{path} is not a kubeconfig: {' '.join(str(error).split())}") from error
    if not isinstance(found or {}, dict):
        raise BadUsage(f"{path} is not a kubeconfig: it is not a mapping")
    return found or {}


def _entry(found: list[tuple[Path, Json]], section: str, key: str, name: str) -> Json | None:
    """The entry of that name in the first file that has one, with absolute paths."""
    for path, config in found:
        entries = config.get(section) or []
        if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
            raise BadUsage(f"{path} is not a kubeconfig: {section} is not a list of mappings")
        for entry in entries:
            if entry.get("name") != name:
                continue
            value = entry.get(key) or {}
            if not isinstance(value, dict):
                raise BadUsage(f"{path} is not a kubeconfig: {section} {name}: {key} is not a mapping")
            absolute = {item: str(path.parent / str(value[item])) for item in _PATHS if value.get(item)}
            return value | absolute
    return None


def _file(entry: Json, key: str) -> str:
    """The path of a PEM file that the entry names or contains; empty = neither."""
    data = entry.get(f"{key}-data")
    if not data:
        return str(entry.get(key) or "")
    try:
        return _written(base64.b64decode(str(data), validate=True))
    except binascii.Error as error:
        raise BadUsage(f"the kubeconfig cannot be used: {key}-data is not base64") from error


@cache
def _folder() -> TemporaryDirectory[str]:
    """Readable by this user alone; deleted at the end of the process."""
    return TemporaryDirectory(prefix="muster-")


def _written(data: bytes) -> str:
    folder = Path(_folder().name)
    path = folder / str(len(list(folder.iterdir())))
    path.write_bytes(data)
    return str(path)


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise BadUsage(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}") from error


def _run_plugin(plugin: Json, cluster: Json, folder: Path) -> tuple[str, str, str]:
    """Token, and files of certificate and key, from a credential plugin (`exec` in a kubeconfig)."""
    command = str(plugin.get("command") or "")
    if os.sep in command:
        command = str(folder / command)
    spec: Json = {"interactive": sys.stdin.isatty()}
    if plugin.get("provideClusterInfo"):
        spec["cluster"] = cluster
    info = {"apiVersion": plugin.get("apiVersion"), "kind": "ExecCredential", "spec": spec}
    environment = {str(item["name"]): str(item["value"]) for item in plugin.get("env") or []}
    environment |= {"KUBERNETES_EXEC_INFO": json.dumps(info)}
    try:
        done = subprocess.run(
            [command, *map(str, plugin.get("args") or [])],
            env={**os.environ, **environment},
            stdout=subprocess.PIPE,
            check=False,
        )
    except OSError as error:
        hint = f": {plugin['installHint']}" if plugin.get("installHint") else ""
        raise Unreachable(CLUSTER, f"credential plugin {command} cannot run: {error.strerror}{hint}") from error
    if done.returncode:
        raise Unreachable(CLUSTER, f"credential plugin {command} exited with code {done.returncode}")
    try:
        status = json.loads(done.stdout)["status"]
        token, certificate, key = (
            str(status.get(item) or "") for item in ("token", "clientCertificateData", "clientKeyData")
        )
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise Unreachable(CLUSTER, f"credential plugin {command} did not print an ExecCredential") from error
    return token, certificate and _written(certificate.encode()), key and _written(key.encode())


def _from_auth_provider(context: Context) -> str:
    """The Authorization header of an `auth-provider` entry, which the official client refreshes."""
    from kubernetes import client, config  # noqa: PLC0415  # takes longer to load than most commands run

    settings: Any = client.Configuration()  # the client ships no types
    load: Any = config.load_kube_config
    try:
        load(os.pathsep.join(map(str, context.paths)), context.name, client_configuration=settings)
    except (config.ConfigException, OSError, ValueError, KeyError) as error:
        raise Unreachable(CLUSTER, f"the auth-provider of context {context.name} failed: {error}") from error
    return str((settings.auth_settings().get("BearerToken") or {}).get("value") or "")
