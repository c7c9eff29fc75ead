"""Kubeconfig files are read as kubectl reads them."""

import base64
import json
import os
import ssl
from datetime import date
from pathlib import Path
from typing import Any

import pytest
import trustme
import yaml

from muster.clients import kubeconfig
from muster.errors import BadUsage, CommandError, Unreachable
from muster_si import kubeconfig as files
from muster_si.kubeconfig import Tls

Json = dict[str, Any]


@pytest.fixture(autouse=True)
def no_kubeconfig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A user without any kubeconfig, outside of a cluster."""
    monkeypatch.delenv("KUBECONFIG", raising=False)
    for name in ("KUBERNETES_SERVICE_HOST", "HTTPS_PROXY", "https_proxy", "NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))


def a_config(user: Json | None = None, cluster: Json | None = None, *, name: str = "one", namespace: str = "") -> Json:
    """A kubeconfig with one context, which is the current one."""
    return {
        "current-context": name,
        "contexts": [{"name": name, "context": {"cluster": name, "user": name, "namespace": namespace}}],
        "clusters": [{"name": name, "cluster": {"server": f"https://{name}:6443", **(cluster or {})}}],
        "users": [{"name": name, "user": user or {}}],
    }


def a_file(path: Path, config: Json) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.safe_dump(config))
    return str(path)


def test_the_kubeconfig_of_the_home_directory_is_the_default(tmp_path: Path) -> None:
    a_file(tmp_path / "home/.kube/config", a_config({"token": "t"}, namespace="team-a"))
    assert dict(kubeconfig.access().headers) == {"Authorization": "Bearer t"}
    assert kubeconfig.namespace() == "team-a"


def test_the_namespace_is_default_without_one_in_the_context_or_without_a_kubeconfig(tmp_path: Path) -> None:
    assert kubeconfig.namespace() == "default"
    assert kubeconfig.namespace(a_file(tmp_path / "a", a_config())) == "default"
    assert kubeconfig.namespace(a_file(tmp_path / "b", {"current-context": ""})) == "default"


def test_of_several_files_the_first_with_an_entry_wins_and_missing_ones_are_skipped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = a_file(tmp_path / "a", a_config({"token": "first"}, name="one"))
    second = a_config({"token": "second"}, name="two", namespace="team-b")
    second["users"].append({"name": "one", "user": {"token": "ignored"}})
    monkeypatch.setenv("KUBECONFIG", f"{first}:{tmp_path}/missing:{a_file(tmp_path / 'b', second)}")
    assert dict(kubeconfig.access().headers) == {"Authorization": "Bearer first"}
    assert kubeconfig.access(context="two").server == "https://two:6443"
    assert kubeconfig.namespace(context="two") == "team-b"


def test_paths_are_relative_to_their_file_and_inline_data_stays_in_memory(tmp_path: Path) -> None:
    inline = base64.b64encode(b"a key").decode()
    user = {"client-certificate": "certificate.pem", "client-key-data": inline}
    access = kubeconfig.access(a_file(tmp_path / "a", a_config(user, {"certificate-authority": "/ca.pem"})))
    assert access.tls == Tls("/ca.pem", f"{tmp_path}/certificate.pem", b"a key")


def test_inline_data_may_be_wrapped_into_lines(tmp_path: Path) -> None:
    user = {"client-key-data": base64.encodebytes(b"a key" * 100).decode()}
    assert kubeconfig.access(a_file(tmp_path / "a", a_config(user))).tls.key == b"a key" * 100


def test_a_file_with_a_token_has_precedence_over_a_token(tmp_path: Path) -> None:
    path = a_file(tmp_path / "a", a_config({"token": "old", "tokenFile": "token"}))
    assert dict(kubeconfig.access(path).headers) == {"Authorization": "Bearer old"}
    (tmp_path / "token").write_text("new\n")
    assert dict(kubeconfig.access(path).headers) == {"Authorization": "Bearer new"}


def test_a_token_may_be_in_a_file_and_a_password_is_sent_as_basic_authentication(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("from a file\n")
    by_file = kubeconfig.access(a_file(tmp_path / "a", a_config({"tokenFile": "token"})))
    assert dict(by_file.headers) == {"Authorization": "Bearer from a file"}
    by_password = kubeconfig.access(a_file(tmp_path / "b", a_config({"username": "ann", "password": "secret"})))
    assert dict(by_password.headers) == {"Authorization": f"Basic {base64.b64encode(b'ann:secret').decode()}"}


def a_plugin(folder: Path, script: str) -> Json:
    """A credential plugin next to the kubeconfig."""
    path = folder / "plugin"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": "./plugin",
        "args": ["an argument"],
        "env": [{"name": "WHO", "value": "ann"}],
        "provideClusterInfo": True,
        "installHint": "install the plugin",
    }


def test_a_credential_plugin_gets_its_arguments_and_the_cluster_and_returns_a_token(tmp_path: Path) -> None:
    answer = json.dumps({"status": {"token": "$WHO of $1"}}).replace('"', '\\"')
    script = f'echo "$KUBERNETES_EXEC_INFO" > {tmp_path}/info; echo "{answer}"'
    access = kubeconfig.access(a_file(tmp_path / "a", a_config({"exec": a_plugin(tmp_path, script)})))
    assert dict(access.headers) == {"Authorization": "Bearer ann of an argument"}
    info = json.loads((tmp_path / "info").read_text())
    assert (info["kind"], info["spec"]["cluster"]["server"]) == ("ExecCredential", "https://one:6443")


def test_a_relative_plugin_path_is_resolved_from_the_file_of_its_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    second = tmp_path / "second"
    second.mkdir()
    user = {"exec": a_plugin(second, """echo '{"status": {"token": "t"}}'""")}
    first = a_file(tmp_path / "first/config", a_config() | {"users": []})
    monkeypatch.setenv("KUBECONFIG", f"{first}:{a_file(second / 'config', a_config(user))}")
    assert dict(kubeconfig.access().headers) == {"Authorization": "Bearer t"}


def test_relative_paths_of_a_relative_kubeconfig_are_resolved_from_its_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "programs").mkdir()
    a_plugin(tmp_path / "programs", """echo '{"status": {"token": "of PATH"}}'""")
    own = a_plugin(tmp_path, """echo '{"status": {"token": "own"}}'""")
    monkeypatch.setenv("PATH", f"{tmp_path}/programs:{os.environ['PATH']}")
    a_file(tmp_path / "a", a_config({"exec": own, "client-certificate": "c.pem", "client-key": "k.pem"}))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KUBECONFIG", "a")
    access = kubeconfig.access()
    assert dict(access.headers) == {"Authorization": "Bearer own"}
    assert (access.tls.certificate, access.tls.key) == (f"{tmp_path}/c.pem", f"{tmp_path}/k.pem")


def test_a_credential_plugin_that_does_not_end_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "PLUGIN_S", 0.1)
    os.mkfifo(tmp_path / "pipe")
    path = a_file(tmp_path / "a", a_config({"exec": a_plugin(tmp_path, f"exec cat {tmp_path}/pipe")}))
    with pytest.raises(Unreachable, match=r"plugin did not end in 0\.1 s"):
        kubeconfig.access(path)


def test_credentials_of_the_file_have_precedence_over_those_of_the_plugin(tmp_path: Path) -> None:
    plugin = a_plugin(tmp_path, """echo '{"status": {"token": "t"}}'""")
    certificate = {"client-certificate": "/cert.pem", "client-key": "/key.pem"}
    access = kubeconfig.access(a_file(tmp_path / "a", a_config({"exec": plugin, **certificate})))
    assert dict(access.headers) == {"Authorization": "Bearer t"}
    assert (access.tls.certificate, access.tls.key) == ("/cert.pem", "/key.pem")
    path = a_file(tmp_path / "b", a_config({"exec": plugin, "token": "of the file"}))
    assert dict(kubeconfig.access(path).headers) == {"Authorization": "Bearer of the file"}


def test_a_plugin_receives_dates_as_text(tmp_path: Path) -> None:
    plugin = a_plugin(
        tmp_path, f"""echo "$KUBERNETES_EXEC_INFO" > {tmp_path}/info; echo '{{"status": {{"token": "t"}}}}'"""
    )
    path = a_file(tmp_path / "a", a_config({"exec": plugin}, {"since": date(2026, 1, 1)}))
    kubeconfig.access(path)
    assert json.loads((tmp_path / "info").read_text())["spec"]["cluster"]["since"] == "2026-01-01"


@pytest.mark.parametrize(
    "script, message",
    [
        ("exit 3", "exited with code 3"),
        ("echo nonsense", "did not print an ExecCredential"),
        ("""echo '{"status": {}}'""", "returned neither a token nor a certificate with its key"),
        ("""echo '{"status": {"clientKeyData": "x"}}'""", "returned neither a token nor a certificate with its key"),
    ],
)
def test_a_failing_credential_plugin_is_reported_by_name(tmp_path: Path, script: str, message: str) -> None:
    path = a_file(tmp_path / "a", a_config({"exec": a_plugin(tmp_path, script)}))
    with pytest.raises(Unreachable, match=f"plugin {message}"):
        kubeconfig.access(path)


def test_a_credential_plugin_that_is_not_installed_shows_its_hint(tmp_path: Path) -> None:
    plugin = a_plugin(tmp_path, "")
    (tmp_path / "plugin").unlink()
    with pytest.raises(Unreachable, match=r"cannot run: No such file or directory: install the plugin"):
        kubeconfig.access(a_file(tmp_path / "a", a_config({"exec": plugin})))


def test_the_pod_service_account_is_used_without_a_kubeconfig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, text in (("token", "t"), ("namespace", "muster")):
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(files, "SERVICE_ACCOUNT", tmp_path)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "fd00::1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    access = kubeconfig.access()
    assert (access.server, dict(access.headers)) == ("https://[fd00::1]:443", {"Authorization": "Bearer t"})
    assert kubeconfig.namespace() == "muster"


@pytest.mark.parametrize("home", ["", "a" * 300], ids=["no home directory", "inaccessible"])
def test_the_pod_service_account_is_used_if_the_home_directory_is_unreadable(
    home: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if home:
        monkeypatch.setenv("HOME", f"/{home}")
    else:
        monkeypatch.delenv("HOME")
        monkeypatch.setattr(os, "getuid", lambda: 4_000_000)  # not in the password database
    (tmp_path / "token").write_text("t")
    monkeypatch.setattr(files, "SERVICE_ACCOUNT", tmp_path)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    assert dict(kubeconfig.access().headers) == {"Authorization": "Bearer t"}
    assert kubeconfig.namespace() == "default"


def test_a_file_that_cannot_be_read_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    path = f"/{'a' * 300}/config"
    with pytest.raises(BadUsage, match="cannot be read: File name too long"):
        kubeconfig.access(path)
    monkeypatch.setenv("KUBECONFIG", path)
    with pytest.raises(BadUsage, match="cannot be read: File name too long"):
        kubeconfig.access()


def test_impersonation_is_sent_as_headers_of_which_some_occur_several_times(tmp_path: Path) -> None:
    user = {"as": "ann", "as-uid": "7", "as-groups": ["a", "b"], "as-user-extra": {"Scopes/x": ["1", "2"]}}
    assert kubeconfig.access(a_file(tmp_path / "a", a_config({"token": "t", **user}))).headers == (
        ("Authorization", "Bearer t"),
        ("Impersonate-User", "ann"),
        ("Impersonate-Uid", "7"),
        ("Impersonate-Group", "a"),
        ("Impersonate-Group", "b"),
        ("Impersonate-Extra-scopes%2Fx", "1"),
        ("Impersonate-Extra-scopes%2Fx", "2"),
    )


def test_the_proxy_of_the_kubeconfig_has_precedence_over_that_of_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "other:3128")
    monkeypatch.setenv("NO_PROXY", "*")
    cluster = {"proxy-url": "http://ann:secret@proxy:3128", "tls-server-name": "api.example"}
    access = kubeconfig.access(a_file(tmp_path / "a", a_config(cluster=cluster)))
    assert (access.proxy, access.tls.server_name) == ("http://ann:secret@proxy:3128", "api.example")
    assert kubeconfig.access(a_file(tmp_path / "b", a_config())).proxy == ""
    monkeypatch.delenv("NO_PROXY")
    assert kubeconfig.access(a_file(tmp_path / "b", a_config())).proxy == "http://other:3128"


@pytest.mark.parametrize(
    "url, no_proxy, is_used",
    [
        ("https://10.96.0.1:443", "", True),
        ("https://10.96.0.1:443", "192.168.0.0/16, 10.96.0.0/12", False),
        ("https://10.96.0.1:443", "10.96.0.1", False),
        ("https://10.96.0.1:443", "10.96.0.1:6443", True),
        ("https://[fd00::1]:443", "fd00::/8", False),
        ("https://api.example:6443", "example", False),
        ("https://api.example:6443", ".example", False),
        ("https://api.example:6443", "*.example", False),
        ("https://api.example:6443", "api.example:6443", False),
        ("https://api.example:6443", "api.example:443", True),
        ("https://example:6443", ".example", True),
        ("https://counterexample:6443", "example", True),
        ("https://api.example:6443", "*", False),
        ("https://localhost:6443", "", False),
        ("https://localhost.:6443", "", False),
        ("https://[::ffff:127.0.0.1]:6443", "", False),
        ("https://[::ffff:10.96.0.1]:6443", "10.96.0.0/12", False),
        ("https://[::ffff:10.96.0.1]:6443", "10.97.0.0/16", True),
        ("https://api.example.:6443", "example", False),
        ("https://api.example:6443", "example.", False),
        ("https://127.0.0.1:6443", "", False),
        ("https://[::1]:6443", "", False),
        ("https://[fd00::1]:6443", "[fd00::1]:6443", False),
        ("https://[fd00::1]:6443", "[fd00::1]:443", True),
        ("https://[fd00::1]:6443", "[fd00::1]", False),
        ("http://api.example", "", False),
    ],
)
def test_the_proxy_of_the_environment_is_used_as_by_kubectl(
    url: str, no_proxy: str, monkeypatch: pytest.MonkeyPatch, *, is_used: bool
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy:3128")
    monkeypatch.setenv("NO_PROXY", no_proxy)
    assert files.proxy_of(url) == ("http://proxy:3128" if is_used else "")


@pytest.mark.parametrize(
    "user, cluster, message",
    [
        ({"as-groups": ["a"]}, {}, 'context "one" has groups, UID or extra fields to act as, but no user'),
        ({"as": "two\nlines"}, {}, 'the Impersonate-User of context "one" has a character that HTTP does not allow'),
        ({"as": "ann", "as-groups": "a"}, {}, "users one: as-groups is not a list"),
        ({"as": "ann", "as-user-extra": ["a"]}, {}, "users one: as-user-extra is not a mapping"),
        ({"auth-provider": {"name": "oidc"}}, {}, 'context "one" has auth-provider, which is not supported; use exec'),
        ({}, {"proxy-url": "socks5://proxy"}, 'proxy-url of context "one" is not http://HOST:PORT'),
        ({}, {"proxy-url": "https://proxy"}, 'proxy-url of context "one" is not http://HOST:PORT'),
        ({}, {"proxy-url": "http://proxy:x"}, 'proxy-url of context "one" is not http://HOST:PORT'),
        ({}, {"proxy-url": "http://:3128"}, 'proxy-url of context "one" is not http://HOST:PORT'),
        (
            {},
            {"server": "https://127.0.0.1:x"},
            "server of context \"one\" is 'https://127.0.0.1:x', which is not a URL",
        ),
        ({}, {"server": "api:6443"}, "which is not a URL of a server; use https://HOST:PORT"),
        ({}, {"server": ""}, "which is not a URL of a server"),
        ({}, {"server": "https://a..b"}, "which is not a URL of a server"),
        ({}, {"server": "https://ann:secret@api"}, "which is not a URL of a server"),
        ({}, {"tls-server-name": ".api"}, 'tls-server-name of context "one" is not a host name'),
        (
            {},
            {"insecure-skip-tls-verify": "false"},
            "/a is not .*: clusters one: insecure-skip-tls-verify is not true or",
        ),
        ({}, {"server": 5}, "clusters one: server is not a string"),
        ({"token": 5}, {}, "users one: token is not a string"),
        ({"as": ["ann"]}, {}, "users one: as is not a string"),
        ({"as": "ann", "as-groups": [None]}, {}, "users one: as-groups is not a list of strings"),
        (
            {"as": "ann", "as-user-extra": {"k": None}},
            {},
            "users one: as-user-extra is not a mapping of lists of strings",
        ),
        ({"as": "ann", "as-user-extra": {"k": 5}}, {}, "users one: as-user-extra is not a mapping of lists of strings"),
        ({"as": "ann", "as-user-extra": {"k": "abc"}}, {}, "as-user-extra is not a mapping of lists of strings"),
    ],
)
def test_entries_that_cannot_be_honored_are_rejected(user: Json, cluster: Json, message: str, tmp_path: Path) -> None:
    with pytest.raises(BadUsage, match=message):
        kubeconfig.access(a_file(tmp_path / "a", a_config(user, cluster)))


@pytest.mark.parametrize(
    "server, expected",
    [
        ("HTTPS://api.example:6443", "https://api.example:6443"),
        ("https://api.example:6443/", "https://api.example:6443"),
        ("https://api.example/k8s/c-1//", "https://api.example/k8s/c-1"),
        ("https://[fd00::1]:6443/?q#f", "https://[fd00::1]:6443"),
    ],
)
def test_a_server_url_is_normalized(server: str, expected: str, tmp_path: Path) -> None:
    access = kubeconfig.access(a_file(tmp_path / "a", a_config(cluster={"server": server})))
    assert access.server == expected
    assert access.tls_context() is not None


def test_the_server_is_verified_unless_the_kubeconfig_says_otherwise(tmp_path: Path) -> None:
    for value, is_verified in ((None, True), (False, True), (True, False)):
        cluster = {"insecure-skip-tls-verify": value}
        assert kubeconfig.access(a_file(tmp_path / "a", a_config(cluster=cluster))).tls.is_verified is is_verified


@pytest.mark.parametrize("proxy", ["http://proxy:x", "https://proxy:3128", "socks5://proxy"])
def test_an_unsupported_proxy_of_the_environment_is_reported_with_the_fix(
    proxy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", proxy)
    with pytest.raises(files.KubeconfigError, match=r"HTTPS_PROXY is not http://.*; .* set NO_PROXY=10\.96\.0\.1$"):
        files.proxy_of("https://10.96.0.1:443")
    monkeypatch.setenv("NO_PROXY", "10.96.0.1")
    assert files.proxy_of("https://10.96.0.1:443") == ""


@pytest.mark.parametrize(
    "written, read",
    [
        ("ann:secret", "ann:secret"),
        ("corp%5Cann:p%40ss%2Fw%23rd%3A", "corp%5Cann:p%40ss%2Fw%23rd%3A"),
        ("corp\\ann:p@ss:word", "corp%5Cann:p%40ss%3Aword"),
        ('an"n', "an%22n"),
        ("ann:", "ann:"),
    ],
)
def test_user_and_password_of_a_proxy_are_percent_encoded(written: str, read: str, tmp_path: Path) -> None:
    cluster = {"proxy-url": f"http://{written}@proxy:3128"}
    assert kubeconfig.access(a_file(tmp_path / "a", a_config(cluster=cluster))).proxy == f"http://{read}@proxy:3128"


@pytest.mark.parametrize("user", ["ann:1#x", "ann:1/x", "ann:1?x", "ann:p#x", "j%C3%B6rg", "j\u00f6rg:x"])
def test_a_proxy_whose_user_cannot_be_sent_is_rejected_and_not_another_host_used(
    user: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", f"http://{user}@proxy:3128")
    with pytest.raises(files.KubeconfigError, match=r"percent-encode special characters|not ASCII"):
        files.proxy_of("https://api.example")


def test_the_scheme_of_a_proxy_may_be_in_upper_case(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "HTTP://proxy:3128")
    assert files.proxy_of("https://api.example") == "http://proxy:3128"


def test_a_service_account_token_with_a_line_break_is_rejected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "token").write_text("two\nlines")
    monkeypatch.setattr(files, "SERVICE_ACCOUNT", tmp_path)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    with pytest.raises(BadUsage, match="the token of the pod's service account has a character that HTTP does not"):
        kubeconfig.access()


def test_missing_files_of_kubeconfig_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    missing = rf"\(KUBECONFIG names missing files: {tmp_path}/x, {tmp_path}/y\)"
    monkeypatch.setenv("KUBECONFIG", f"{tmp_path}/x:{tmp_path}/y")
    with pytest.raises(CommandError, match=f"no kubeconfig found {missing}; set --kubeconfig"):
        kubeconfig.access()
    with pytest.raises(files.NoAccess, match=f"no service account and no kubeconfig {missing}; set KUBECONFIG"):
        files.of_process()
    with pytest.raises(BadUsage, match=f'context "two" does not exist: no kubeconfig found {missing}'):
        kubeconfig.access(context="two")
    path = a_file(tmp_path / "a", a_config())
    monkeypatch.setenv("KUBECONFIG", f"{tmp_path}/x:{path}:{tmp_path}/y")
    with pytest.raises(BadUsage, match=f'context "two" does not exist in {path} {missing}'):
        kubeconfig.access(context="two")


def served_by(certificate: trustme.LeafCert, tls: Tls) -> bool:
    """Whether a client completes a handshake with a server that has this certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    certificate.configure_cert(context)
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    server = context.wrap_bio(to_server, to_client, server_side=True)
    client = tls.context().wrap_bio(to_client, to_server, server_hostname="api.example")
    for _ in range(3):
        for side in (client, server):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
            except ssl.SSLCertVerificationError:
                return False
    return client.cipher() is not None


def test_an_intermediate_authority_may_be_trusted_without_its_root() -> None:
    root, other = trustme.CA(), trustme.CA()
    intermediate = root.create_child_ca()
    certificate = intermediate.issue_cert("api.example")
    assert served_by(certificate, Tls(intermediate.cert_pem.bytes()))
    assert served_by(certificate, Tls(root.cert_pem.bytes()))
    assert not served_by(certificate, Tls(other.cert_pem.bytes()))


def test_a_certificate_authority_may_have_comments_in_any_language(tmp_path: Path) -> None:
    authority = trustme.CA()
    pem = "# Főtanúsítvány\n".encode() + authority.cert_pem.bytes()
    cluster = {"certificate-authority-data": base64.b64encode(pem).decode()}
    access = kubeconfig.access(a_file(tmp_path / "a", a_config(cluster=cluster)))
    assert served_by(authority.issue_cert("api.example"), access.tls)


def with_user(user: Json) -> Json:
    return {"users": [{"name": "one", "user": user}]}


@pytest.mark.parametrize(
    "change, message",
    [
        ({"contexts": 1}, "contexts is not a list of mappings"),
        ({"contexts": []}, 'context "one" does not exist in '),
        ({"users": []}, 'user "one" of context "one" does not exist in '),
        ({"clusters": [{"name": "one", "cluster": "x"}]}, "clusters one: cluster is not a mapping"),
        ({"current-context": ""}, "has no current context; set --context"),
        (with_user({"client-key-data": "%"}), "client-key-data is not base64"),
        (with_user({"client-key-data": "é"}), "client-key-data is not base64"),
        (with_user({"token": "two\nlines"}), "has a character that HTTP does not allow"),
        (with_user({"tokenFile": "a\0b"}), "cannot be read: embedded null byte"),
        (with_user({"exec": "foo"}), "users one: exec is not a mapping"),
        (with_user({"exec": {"args": []}}), "users one: exec has no valid command"),
        (with_user({"exec": {"command": "a\0b"}}), "users one: exec has no valid command"),
        (with_user({"exec": {"command": "a", "args": "b"}}), "users one: exec: args is not a list"),
        (with_user({"exec": {"command": "a", "env": [{"value": "b"}]}}), "users one: exec: env is not a list of names"),
    ],
)
def test_an_unusable_kubeconfig_is_reported_with_its_path_or_entry(change: Json, message: str, tmp_path: Path) -> None:
    path = a_file(tmp_path / "a", a_config() | change)
    with pytest.raises(BadUsage, match=message):
        kubeconfig.access(path)


def test_an_invalid_process_argument_is_one_error(tmp_path: Path) -> None:
    path = a_file(tmp_path / "a", a_config({"exec": {"command": "a", "args": ["b\0c"]}}))
    with pytest.raises(Unreachable, match="credential plugin a cannot run: embedded null byte"):
        kubeconfig.access(path)


def test_an_impossible_date_is_not_a_kubeconfig(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("since: 2026-13-45\n")
    with pytest.raises(BadUsage, match="is not a kubeconfig: month must be in"):
        kubeconfig.access(str(tmp_path / "a"))


def test_a_missing_kubeconfig_is_reported_with_the_options() -> None:
    with pytest.raises(CommandError, match="no kubeconfig found; set --kubeconfig, or --server"):
        kubeconfig.access()
