"""Kubeconfig files as kubectl reads them: several files, contexts, certificates, tokens and credential plugins.

Not supported, and rejected: impersonation (`as`), `proxy-url`, `tls-server-name`, and `auth-provider`, which Kubernetes
1.26 has removed from its clients. The official client is not used, because loading it takes longer than most commands
run.
"""

from __future__ import annotations

import base64
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
#: Entries of users and clusters without which the request would have another identity or destination.
_UNSUPPORTED: Final = ("as", "as-uid", "as-groups", "as-user-extra", "auth-provider", "proxy-url", "tls-server-name")


@dataclass(frozen=True, slots=True)
class Access:
    """URL and credentials of an API server. `authority`, `certificate`, `key`: PEM files, empty = none.

    `context`: its name in the kubeconfig; empty = the service account of the pod in which the command runs.
    """

    server: str
    authority: str = ""
    is_verified: bool = True
    certificate: str = ""
    key: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    context: str = ""


@dataclass(frozen=True, slots=True)
class KubeContext:
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
        for item in _UNSUPPORTED:
            if user.get(item) or cluster.get(item):
                raise BadUsage(f'context "{self.name}" has {item}, which is not supported; use another context')
        token = _token(user)
        certificate, key = _file(user, "client-certificate"), _file(user, "client-key")
        if user.get("exec"):
            of_plugin = _run_plugin(user["exec"], cluster)
            token = token or of_plugin[0]
            if not certificate:
                certificate, key = of_plugin[1:]
        authorization = f"Bearer {token}" if token else ""
        if not token and user.get("username"):
            pair = f"{user['username']}:{user.get('password') or ''}"
            authorization = f"Basic {base64.b64encode(pair.encode()).decode()}"
        if not (authorization.isascii() and authorization.isprintable()):
            raise BadUsage(f'the token of context "{self.name}" has a character that HTTP does not allow')
        return Access(
            str(cluster.get("server") or ""),
            _file(cluster, "certificate-authority"),
            not cluster.get("insecure-skip-tls-verify"),
            certificate,
            key,
            {"Authorization": authorization} if authorization else {},
            self.name,
        )


def read(kubeconfig: str = "", context: str = "") -> KubeContext | None:
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
        return KubeContext("", "", {}, {}, paths)
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
    return KubeContext(name, str(chosen.get("namespace") or ""), parts["cluster"], parts["user"], paths)


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
    except (OSError, ValueError):
        return DEFAULT_NAMESPACE


def _paths(kubeconfig: str) -> Iterator[Path]:
    """`--kubeconfig` has to exist. Files of KUBECONFIG that do not exist are skipped, as kubectl does."""
    if kubeconfig:
        try:
            path = Path(kubeconfig).expanduser()
        except RuntimeError as error:
            raise BadUsage(f"--kubeconfig {kubeconfig} cannot be read: {error}") from error
        if _is_missing(path):
            raise BadUsage(f"--kubeconfig {kubeconfig} does not exist")
        yield path
    elif listed := os.environ.get("KUBECONFIG"):
        yield from (path for name in listed.split(os.pathsep) if name and not _is_missing(path := Path(name)))
    else:
        try:
            path = Path("~/.kube/config").expanduser()
            is_there = path.exists()
        except (OSError, RuntimeError):  # no home directory, or one of another account: common in containers
            return
        if is_there:
            yield path


def _is_missing(path: Path) -> bool:
    """False if it cannot be determined: reading the file then reports the error."""
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        return False
    return False


def _parsed(path: Path) -> Json:
    try:
        found = yaml.load(_text(path), Loader=_LOADER)  # noqa: S506  # both loaders are safe ones
    except (yaml.YAMLError, ValueError, RecursionError) as error:  # ValueError: an impossible date
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
            absolute: Json = {item: str(path.parent / str(value[item])) for item in _PATHS if value.get(item)}
            if value.get("exec"):
                absolute["exec"] = _plugin(value["exec"], path, name)
            return value | absolute
    return None


def _plugin(plugin: Any, path: Path, user: str) -> Json:
    """The `exec` entry of a user; a command with a slash is relative to its kubeconfig. Raises BadUsage."""
    wrong = f"{path} is not a kubeconfig: users {user}: exec"
    if not isinstance(plugin, dict):
        raise BadUsage(f"{wrong} is not a mapping")
    command, arguments, variables = plugin.get("command"), plugin.get("args") or [], plugin.get("env") or []
    if not isinstance(command, str) or not command or "\0" in command:
        raise BadUsage(f"{wrong} has no valid command")
    if not isinstance(arguments, list):
        raise BadUsage(f"{wrong}: args is not a list")
    if not isinstance(variables, list) or not all(isinstance(item, dict) and item.get("name") for item in variables):
        raise BadUsage(f"{wrong}: env is not a list of names and values")
    return plugin | {"command": str(path.parent / command) if os.sep in command else command}


def _token(user: Json) -> str:
    """As in client-go, `tokenFile` has precedence over `token`, which is used if the file has none."""
    token = str(user.get("token") or "")
    if not user.get("tokenFile"):
        return token
    try:
        return _text(Path(user["tokenFile"])).strip() or token
    except BadUsage:
        if not token:
            raise
        return token


def _file(entry: Json, key: str) -> str:
    """The path of a PEM file that the entry names or contains; empty = neither."""
    data = entry.get(f"{key}-data")
    if not data:
        return str(entry.get(key) or "")
    try:
        return _written(base64.b64decode("".join(str(data).split()), validate=True))
    except ValueError as error:
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
    except (OSError, ValueError) as error:  # ValueError: not UTF-8, or a path with a NUL character
        raise BadUsage(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}") from error


def _run_plugin(plugin: Json, cluster: Json) -> tuple[str, str, str]:
    """Token, and files of certificate and key, from a credential plugin (`exec` in a kubeconfig)."""
    spec: Json = {"interactive": sys.stdin.isatty()}
    if plugin.get("provideClusterInfo"):
        spec["cluster"] = cluster
    info = {"apiVersion": plugin.get("apiVersion"), "kind": "ExecCredential", "spec": spec}
    environment = {str(item["name"]): str(item.get("value") or "") for item in plugin.get("env") or []}
    name = f"credential plugin {plugin['command']}"
    try:
        done = subprocess.run(
            [plugin["command"], *map(str, plugin.get("args") or [])],
            env={**os.environ, **environment, "KUBERNETES_EXEC_INFO": json.dumps(info, default=str)},
            stdout=subprocess.PIPE,
            check=False,
        )
    except (OSError, ValueError, TypeError) as error:  # the last two: values that an environment or JSON cannot have
        hint = f": {plugin['installHint']}" if plugin.get("installHint") else ""
        reason = getattr(error, "strerror", None) or error
        raise Unreachable(CLUSTER, f"{name} cannot run: {reason}{hint}") from error
    if done.returncode:
        raise Unreachable(CLUSTER, f"{name} exited with code {done.returncode}")
    try:
        status = json.loads(done.stdout)["status"]
        token, certificate, key = (
            str(status.get(item) or "") for item in ("token", "clientCertificateData", "clientKeyData")
        )
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise Unreachable(CLUSTER, f"{name} did not print an ExecCredential") from error
    if bool(certificate) != bool(key) or not (token or certificate):
        raise Unreachable(CLUSTER, f"{name} returned neither a token nor a certificate with its key")
    return token, certificate and _written(certificate.encode()), key and _written(key.encode())
