"""Access to the API server for operator, core and command line, from kubeconfig files or the pod's service account.

Kubeconfig files are read as kubectl reads them: several files, contexts, certificates, tokens, credential plugins,
impersonation (`as`), `tls-server-name`, and proxies (`proxy-url`, else HTTPS_PROXY and NO_PROXY). Not supported, and
rejected: proxies other than http://, and `auth-provider`, which Kubernetes 1.26 has removed from its clients.

The official client is not used: loading it takes longer than most commands run, and it ignores half of the above.
"""

from __future__ import annotations

import base64
import json
import os
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final
from urllib.parse import SplitResult, quote, unquote, urlsplit

import yaml

Json = dict[str, Any]

#: Directory of a pod's service account files.
SERVICE_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
#: Seconds between checks of the files. A service account token is valid for an hour and renewed at 80 percent of that.
CHECK_INTERVAL_S: Final = 10.0
#: Seconds between two readings because of rejections. Requests that are rejected in the meantime keep their result.
REJECTION_INTERVAL_S: Final = 10.0
#: Seconds that a credential plugin can take, and with a terminal, at which it may wait for a login.
PLUGIN_S: Final = 30.0
LOGIN_S: Final = 300.0

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
#: Entries of clusters and users that are paths, relative to their kubeconfig.
_PATHS: Final = ("certificate-authority", "client-certificate", "client-key", "tokenFile")
#: Other entries of clusters and users that are text.
_TEXTS: Final = (
    *("server", "certificate-authority-data", "tls-server-name", "proxy-url", "client-certificate-data"),
    *("client-key-data", "token", "username", "password", "as", "as-uid"),
)


class NoAccess(Exception):
    """There are no credentials, or a credential plugin failed."""


class KubeconfigError(NoAccess):
    """A kubeconfig, or a context that was asked for, cannot be used."""


class _NamedServer(ssl.SSLContext):
    """Requests and verifies the certificate of `server_name` instead of the host's; empty = the host's."""

    server_name = ""

    def wrap_bio(self, *args: Any, **options: Any) -> ssl.SSLObject:
        return super().wrap_bio(*args, **self._renamed(options))

    def wrap_socket(self, *args: Any, **options: Any) -> ssl.SSLSocket:
        return super().wrap_socket(*args, **self._renamed(options))

    def _renamed(self, options: Json) -> Json:
        return options | {"server_hostname": self.server_name} if self.server_name else options


@dataclass(frozen=True, slots=True)
class Tls:
    """How to verify the server and authenticate with a certificate. Each PEM is a path or contents; empty = none."""

    authority: str | bytes = ""
    certificate: str | bytes = ""
    key: str | bytes = ""
    is_verified: bool = True
    server_name: str = ""

    @property
    def files(self) -> tuple[str, ...]:
        """The PEM files."""
        return tuple(pem for pem in (self.authority, self.certificate, self.key) if pem and isinstance(pem, str))

    def context(self) -> ssl.SSLContext:
        """A new TLS context. Raises OSError if a PEM cannot be loaded."""
        try:
            return self._context()
        except ValueError as error:  # a path with a NUL character, or contents that are no text
            raise OSError(str(error)) from error

    def _context(self) -> ssl.SSLContext:
        context = _NamedServer(ssl.PROTOCOL_TLS_CLIENT)
        context.server_name = self.server_name
        # The authority can be an intermediate one, as for kubectl.
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        if isinstance(self.authority, bytes):
            # Text around the certificates can have any encoding.
            context.load_verify_locations(cadata=self.authority.decode("ascii", "backslashreplace"))
        elif self.authority:
            context.load_verify_locations(self.authority)
        else:
            context.load_default_certs()
        if not self.is_verified:
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        if self.certificate:
            with _as_file(self.certificate) as certificate, _as_file(self.key) as key:
                context.load_cert_chain(certificate, key or None)
        return context


@contextmanager
def _as_file(pem: str | bytes) -> Iterator[str]:
    """A file with this PEM: OpenSSL loads client certificates from files only."""
    if isinstance(pem, str):
        yield pem
        return
    with TemporaryDirectory(prefix="muster-") as folder:  # readable by this user alone
        path = Path(folder, "pem")
        path.write_bytes(pem)
        yield str(path)


@dataclass(frozen=True, slots=True)
class Access:
    """URL and credentials of an API server.

    `proxy`: URL of an HTTP proxy; empty = none. `context`: its name in the kubeconfig; empty = the pod's service
    account. `files`: all files that were read.
    """

    server: str
    tls: Tls = Tls()
    headers: tuple[tuple[str, str], ...] = ()
    proxy: str = ""
    context: str = ""
    files: tuple[str, ...] = ()

    def tls_context(self) -> ssl.SSLContext | None:
        """A new TLS context; None = the server uses plain HTTP. Raises OSError if a PEM cannot be loaded."""
        return self.tls.context() if self.server.startswith("https:") else None


@dataclass(frozen=True, slots=True)
class KubeContext:
    """A context with its cluster and user. `paths`: the kubeconfig files. Empty name = there is no current context."""

    name: str
    namespace: str
    cluster: Json
    user: Json
    paths: tuple[Path, ...]

    def access(self) -> Access:
        """How to connect, with credentials from files and plugins. Raises NoAccess."""
        cluster, user = self.cluster, self.user
        if not self.name:
            raise KubeconfigError(f"{self.paths[0]} has no current context; set --context")
        if user.get("auth-provider"):
            raise KubeconfigError(f'context "{self.name}" has auth-provider, which is not supported; use exec instead')
        server, token = _server(cluster.get("server") or "", f'server of context "{self.name}"'), _token(user)
        certificate, key = _pem(user, "client-certificate"), _pem(user, "client-key")
        if user.get("exec"):
            of_plugin = _run_plugin(user["exec"], cluster)
            token = token or of_plugin[0]
            if not certificate:
                certificate, key = of_plugin[1].encode(), of_plugin[2].encode()
        headers = [("Authorization", f"Bearer {token}")] if token else []
        if not token and user.get("username"):
            pair = f"{user['username']}:{user.get('password') or ''}"
            headers = [("Authorization", f"Basic {base64.b64encode(pair.encode()).decode()}")]
        headers += _impersonation(user, self.name)
        _check_headers(headers, f'context "{self.name}"')
        server_name = cluster.get("tls-server-name") or ""
        if server_name and not _is_host(server_name):
            raise KubeconfigError(f'tls-server-name of context "{self.name}" is not a host name')
        tls = Tls(
            _pem(cluster, "certificate-authority"),
            certificate,
            key,
            not cluster.get("insecure-skip-tls-verify"),
            server_name,
        )
        proxy = _http_proxy(cluster.get("proxy-url") or "", f'proxy-url of context "{self.name}"')
        files = (*map(str, self.paths), *tls.files, *([str(user["tokenFile"])] if user.get("tokenFile") else []))
        return Access(server, tls, tuple(headers), proxy or proxy_of(server), self.name, files)


def read(kubeconfig: str = "", context: str = "") -> KubeContext | None:
    """The context of that name, or the current one; None = there is no kubeconfig.

    Raises KubeconfigError if a named file or context does not exist, or a file is not a kubeconfig.
    """
    paths = tuple(_paths(kubeconfig))
    if not paths:
        if context:
            raise KubeconfigError(f'context "{context}" does not exist: no kubeconfig found{missing(kubeconfig)}')
        return None
    found = [(path, _parsed(path)) for path in paths]
    shown = os.pathsep.join(map(str, paths)) + missing(kubeconfig)
    name = context or next((str(config["current-context"]) for _, config in found if config.get("current-context")), "")
    if not name:
        return KubeContext("", "", {}, {}, paths)
    chosen = _entry(found, "contexts", "context", name)
    if chosen is None:
        raise KubeconfigError(f'context "{name}" does not exist in {shown}')
    parts = {}
    for kind in ("cluster", "user"):
        wanted = str(chosen.get(kind) or "")
        part = _entry(found, f"{kind}s", kind, wanted) if wanted or kind == "cluster" else {}
        if part is None:
            raise KubeconfigError(f'{kind} "{wanted}" of context "{name}" does not exist in {shown}')
        parts[kind] = part
    return KubeContext(name, str(chosen.get("namespace") or ""), parts["cluster"], parts["user"], paths)


def missing(kubeconfig: str = "") -> str:
    """The files of KUBECONFIG that do not exist, in parentheses for an error; empty = none, or it is not used."""
    names = [] if kubeconfig else [name for name in _listed() if _is_missing(Path(name))]
    return f" (KUBECONFIG names missing files: {', '.join(names)})" if names else ""


def in_cluster() -> Access | None:
    """Access with the pod's service account; None = this process runs in no pod. Raises NoAccess."""
    token, authority = SERVICE_ACCOUNT / "token", str(SERVICE_ACCOUNT / "ca.crt")
    host, port = os.environ.get("KUBERNETES_SERVICE_HOST"), os.environ.get("KUBERNETES_SERVICE_PORT", "443")
    if not host or not token.exists():
        return None
    # The address instead of a name, so that a failure of cluster DNS has no effect.
    server = f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"
    headers = (("Authorization", f"Bearer {_text(token).strip()}"),)
    _check_headers(headers, "the pod's service account")
    return Access(server, Tls(authority), headers, proxy_of(server), files=(str(token), authority))


def of_process() -> Access:
    """Access for a process of Muster: the pod's service account, else the current context. Raises NoAccess."""
    found = in_cluster()
    if found is None and (context := read()) is not None:
        found = context.access()
    if found is None:
        raise NoAccess(f"no service account and no kubeconfig{missing()}; set KUBECONFIG")
    return found


#: Identifies a version of each file by inode, modification time and size. None = the file does not exist.
Fingerprint = tuple[tuple[int, int, int] | None, ...]


def fingerprint(paths: Iterable[str]) -> Fingerprint:
    """Fingerprint of the present contents of the files, without reading them."""
    found: list[tuple[int, int, int] | None] = []
    for path in paths:
        try:
            status = Path(path).stat()
        except OSError:
            found.append(None)
        else:
            found.append((status.st_ino, status.st_mtime_ns, status.st_size))
    return tuple(found)


class Credentials:
    """The present access of a process. It is read again if its files change or the API server rejects it.

    `warn` is called with `reason=` if it cannot be read again; the old one then stays in use. Threads can share it, but
    only one event loop uses `now` and `renewed`, which read in a thread: a credential plugin can take a while.
    """

    def __init__(
        self, read_access: Callable[[], Access] = of_process, warn: Callable[..., object] = lambda reason: None
    ) -> None:
        self._read, self._warn = read_access, warn
        self._access: Access | None = None
        self._checked_at = self._renewed_at = float("-inf")
        self._seen: Fingerprint = ()
        self._lock = threading.Lock()  # one reading at a time
        self._reading: Any = None  # asyncio.Future of the thread that reads

    def ready(self) -> Access | None:
        """The access to use now, if there is one and its files have not changed. It takes no time."""
        now = time.monotonic()
        if self._access is not None and now - self._checked_at > CHECK_INTERVAL_S:
            self._checked_at = now
            if fingerprint(self._access.files) != self._seen:
                return None
        return self._access

    def current(self) -> Access:
        """The access to use now; reads it if necessary. Raises NoAccess if there was none yet."""
        return self.ready() or self.reread()

    def reread(self, rejected: Access | None = None) -> Access:
        """Reads the files again, unless `rejected` was replaced in the meantime. Raises NoAccess if there was none."""
        with self._lock:
            if self._access is not None and rejected is not None and self._may_not_renew(rejected):
                return self._access
            try:
                access = self._read()
            except NoAccess as error:
                if self._access is None:
                    raise
                self._warn(reason=str(error))
                access = self._access
            self._seen = fingerprint(access.files)
            self._access = access
            self._checked_at = time.monotonic()
            if rejected is not None:
                self._renewed_at = self._checked_at
            return access

    async def now(self) -> Access:
        """Like `current`, without blocking the event loop."""
        return self.ready() or await self._in_thread(self.current)

    async def renewed(self, rejected: Access) -> Access:
        """The access to use after the API server rejected this one; the same one = there is no other yet."""
        if self._access is not None and self._may_not_renew(rejected):
            return self._access
        return await self._in_thread(lambda: self.reread(rejected))

    def _may_not_renew(self, rejected: Access) -> bool:
        is_replaced = rejected != self._access
        return is_replaced or time.monotonic() - self._renewed_at < REJECTION_INTERVAL_S

    async def _in_thread(self, read: Callable[[], Access]) -> Access:
        import asyncio  # noqa: PLC0415 - commands do not need it

        if self._reading is None:
            self._reading = asyncio.get_running_loop().run_in_executor(None, read)
            self._reading.add_done_callback(self._end_reading)
        access: Access = await asyncio.shield(self._reading)
        return access

    def _end_reading(self, reading: Any) -> None:
        self._reading = None
        if not reading.cancelled():
            reading.exception()  # there may be no caller left that retrieves it


def proxy_of(url: str) -> str:
    """The proxy for a URL by HTTPS_PROXY, HTTP_PROXY and NO_PROXY, as Go's clients read them; empty = none.

    Raises KubeconfigError if it is not an HTTP proxy.
    """
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)
    except ValueError:  # the connection reports it
        return ""
    name = f"{parts.scheme}_proxy"
    proxy = os.environ.get(name.upper()) or os.environ.get(name) or ""
    host = host.removesuffix(".")
    if not proxy or host == "localhost" or _matches(host, port, "127.0.0.0/8,::1"):
        return ""
    if _matches(host, port, os.environ.get("NO_PROXY") or os.environ.get("no_proxy") or ""):
        return ""
    hint = f"; to connect without it, set NO_PROXY={host}"
    return _http_proxy(proxy if "://" in proxy else f"http://{proxy}", name.upper(), hint)


def _matches(host: str, port: int, listed: str) -> bool:
    """Whether an entry of NO_PROXY selects the host: `*`, an address, a network, or a domain; with or without port."""
    for item in filter(None, listed.lower().replace(" ", "").split(",")):
        if item.startswith("["):
            entry, _, number = item[1:].replace("]:", "]").partition("]")
        else:
            entry, _, number = item.partition(":") if item.count(":") == 1 else (item, "", "")
        if item == "*":
            return True
        if number and number != str(port):
            continue
        try:
            if _address(host) in ip_network(entry, strict=False):
                return True
        except ValueError:  # one of them is a name
            domain = entry.removeprefix("*").removesuffix(".")
            if host == domain or host.endswith(domain if domain.startswith(".") else f".{domain}"):
                return True
    return False


def _address(host: str) -> IPv4Address | IPv6Address:
    """The address; of IPv4 if it is one that is written as an address of IPv6. Raises ValueError for a name."""
    found = ip_address(host)
    return found if found.version == 4 else found.ipv4_mapped or found


def _http_proxy(url: str, what: str, hint: str = "") -> str:
    """The URL, if it is empty or that of an HTTP proxy: its user and password are percent-encoded.

    Raises KubeconfigError. A user with a delimiter that is not percent-encoded would name another host.
    """
    if not url:
        return ""
    parts = _url(url)
    if parts is None or parts.scheme != "http" or "@" in f"{parts.path}{parts.query}{parts.fragment}":
        encoding = "; percent-encode special characters of its user and password" if "@" in url else ""
        wrong = f"{what} is not http://HOST:PORT, the only kind of proxy that is supported{encoding}{hint}"
        raise KubeconfigError(wrong)
    given, at, host = parts.netloc.rpartition("@")
    user, colon, password = (unquote(part) for part in given.partition(":"))
    if not (user + password).isascii():  # clients differ in the encoding of others
        raise KubeconfigError(f"user or password of {what} has a character that is not ASCII{hint}")
    return f"http://{quote(user, safe='')}{colon}{quote(password, safe='')}{at}{host}"


def _server(url: str, what: str) -> str:
    """The URL with its scheme in lower case, and without a slash at its end. Raises KubeconfigError."""
    parts = _url(url)
    if parts is None or parts.scheme not in ("http", "https") or "@" in parts.netloc:
        raise KubeconfigError(f"{what} is {url!r}, which is not a URL of a server; use https://HOST:PORT")
    return f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}"


def _url(url: str) -> SplitResult | None:
    """The parts of a URL; None = host or port are invalid."""
    try:
        parts = urlsplit(url)
        _ = parts.port  # raises ValueError
    except ValueError:
        return None
    return parts if _is_host(parts.hostname or "") and parts.netloc.isascii() else None


def _is_host(name: str) -> bool:
    """Whether TLS and HTTP accept the name or address of a host."""
    is_text = name.isascii() and name.isprintable() and " " not in name
    return is_text and all(0 < len(label) < 64 for label in name.removesuffix(".").split("."))


def _check_headers(headers: Iterable[tuple[str, str]], of: str) -> None:
    for name, value in headers:
        if not (value.isascii() and value.isprintable()):
            what = "token" if name == "Authorization" else name
            raise KubeconfigError(f"the {what} of {of} has a character that HTTP does not allow")


def _impersonation(user: Json, context: str) -> list[tuple[str, str]]:
    """Headers of the user, groups and extra fields that requests act as."""
    headers = [("Impersonate-User", user["as"])] if user.get("as") else []
    headers += [("Impersonate-Uid", user["as-uid"])] if user.get("as-uid") else []
    headers += [("Impersonate-Group", group) for group in user.get("as-groups") or []]
    for key, values in (user.get("as-user-extra") or {}).items():
        headers += [(f"Impersonate-Extra-{quote(key.lower(), safe='')}", value) for value in values]
    if headers and not user.get("as"):
        raise KubeconfigError(f'context "{context}" has groups, UID or extra fields to act as, but no user (as)')
    return headers


def _paths(kubeconfig: str) -> Iterator[Path]:
    """`--kubeconfig` has to exist. Files of KUBECONFIG that do not exist are skipped, as kubectl does."""
    if kubeconfig:
        try:
            path = Path(kubeconfig).expanduser()
        except RuntimeError as error:
            raise KubeconfigError(f"--kubeconfig {kubeconfig} cannot be read: {error}") from error
        if _is_missing(path):
            raise KubeconfigError(f"--kubeconfig {kubeconfig} does not exist")
        yield path
    elif os.environ.get("KUBECONFIG"):
        yield from (path for name in _listed() if not _is_missing(path := Path(name)))
    else:
        try:
            path = Path("~/.kube/config").expanduser()
            is_there = path.exists()
        except (OSError, RuntimeError):  # no home directory, or one of another account: common in containers
            return
        if is_there:
            yield path


def _listed() -> list[str]:
    return [name for name in os.environ.get("KUBECONFIG", "").split(os.pathsep) if name]


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
        raise KubeconfigError(f"{path} is not a kubeconfig: {' '.join(str(error).split())}") from error
    if not isinstance(found or {}, dict):
        raise KubeconfigError(f"{path} is not a kubeconfig: it is not a mapping")
    return found or {}


def _entry(found: Sequence[tuple[Path, Json]], section: str, key: str, name: str) -> Json | None:
    """The entry of that name in the first file that has one, with absolute paths."""
    for path, config in found:
        entries = config.get(section) or []
        if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
            raise KubeconfigError(f"{path} is not a kubeconfig: {section} is not a list of mappings")
        for entry in entries:
            if entry.get("name") != name:
                continue
            value, wrong = entry.get(key) or {}, f"{path} is not a kubeconfig: {section} {name}: "
            if not isinstance(value, dict):
                raise KubeconfigError(f"{wrong}{key} is not a mapping")
            for item in value:
                if value[item] is not None and (rule := _broken_rule(item, value[item])):
                    raise KubeconfigError(f"{wrong}{item} is not {rule}")
            folder = path.absolute().parent
            absolute: Json = {item: str(folder / value[item]) for item in _PATHS if value.get(item)}
            if value.get("exec"):
                absolute["exec"] = _plugin(value["exec"], path, name)
            return value | absolute
    return None


def _broken_rule(item: str, value: object) -> str:
    """What the value of an entry has to be and is not, as kubectl requires; empty = it is valid."""
    if item == "insecure-skip-tls-verify":
        return "" if isinstance(value, bool) else "true or false"
    if item == "as-groups":
        return "" if _are_texts(value) else "a list of strings"
    if item == "as-user-extra":
        is_valid = isinstance(value, dict) and _are_texts(list(value)) and all(map(_are_texts, value.values()))
        return "" if is_valid else "a mapping of lists of strings"
    return "a string" if item in (*_PATHS, *_TEXTS) and not isinstance(value, str) else ""


def _are_texts(values: object) -> bool:
    return isinstance(values, list) and all(isinstance(value, str) for value in values)


def _plugin(plugin: Any, path: Path, user: str) -> Json:
    """The `exec` entry of a user; a command with a slash is relative to its kubeconfig. Raises KubeconfigError."""
    wrong = f"{path} is not a kubeconfig: users {user}: exec"
    if not isinstance(plugin, dict):
        raise KubeconfigError(f"{wrong} is not a mapping")
    command, arguments, variables = plugin.get("command"), plugin.get("args") or [], plugin.get("env") or []
    if not isinstance(command, str) or not command or "\0" in command:
        raise KubeconfigError(f"{wrong} has no valid command")
    if not isinstance(arguments, list):
        raise KubeconfigError(f"{wrong}: args is not a list")
    if not isinstance(variables, list) or not all(isinstance(item, dict) and item.get("name") for item in variables):
        raise KubeconfigError(f"{wrong}: env is not a list of names and values")
    return plugin | {"command": str(path.absolute().parent / command) if os.sep in command else command}


def _token(user: Json) -> str:
    """As in client-go, `tokenFile` has precedence over `token`, which is used if the file has none."""
    token = str(user.get("token") or "")
    if not user.get("tokenFile"):
        return token
    try:
        return _text(Path(user["tokenFile"])).strip() or token
    except KubeconfigError:
        if not token:
            raise
        return token


def _pem(entry: Json, key: str) -> str | bytes:
    """The path of a PEM file that the entry names, or the contents that it has; empty = neither."""
    data = entry.get(f"{key}-data")
    if not data:
        return str(entry.get(key) or "")
    try:
        return base64.b64decode("".join(str(data).split()), validate=True)
    except ValueError as error:
        raise KubeconfigError(f"the kubeconfig cannot be used: {key}-data is not base64") from error


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:  # ValueError: not UTF-8, or a path with a NUL character
        raise KubeconfigError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}") from error


def _run_plugin(plugin: Json, cluster: Json) -> tuple[str, str, str]:
    """Token, certificate and key from a credential plugin (`exec` in a kubeconfig). Raises NoAccess."""
    is_interactive = sys.stdin.isatty()
    within_s = LOGIN_S if is_interactive else PLUGIN_S
    spec: Json = {"interactive": is_interactive}
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
            timeout=within_s,
        )
    except subprocess.TimeoutExpired as error:
        raise NoAccess(f"{name} did not end in {within_s:g} s") from error
    except (OSError, ValueError, TypeError) as error:  # the last two: values that an environment or JSON cannot have
        hint = f": {plugin['installHint']}" if plugin.get("installHint") else ""
        reason = getattr(error, "strerror", None) or error
        raise NoAccess(f"{name} cannot run: {reason}{hint}") from error
    if done.returncode:
        raise NoAccess(f"{name} exited with code {done.returncode}")
    try:
        status = json.loads(done.stdout)["status"]
        token, certificate, key = (
            str(status.get(item) or "") for item in ("token", "clientCertificateData", "clientKeyData")
        )
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise NoAccess(f"{name} did not print an ExecCredential") from error
    if bool(certificate) != bool(key) or not (token or certificate):
        raise NoAccess(f"{name} returned neither a token nor a certificate with its key")
    return token, certificate, key
