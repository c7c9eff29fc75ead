"""Kubeconfig files are read as kubectl reads them."""

import base64
import json
import os
import stat
from datetime import date
from pathlib import Path
from typing import Any

import pytest
import yaml

from muster.clients import kubeconfig
from muster.errors import BadUsage, CommandError, Unreachable

Json = dict[str, Any]


@pytest.fixture(autouse=True)
def no_kubeconfig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A user without any kubeconfig, outside of a cluster."""
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
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
    assert kubeconfig.access().headers == {"Authorization": "Bearer t"}
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
    assert kubeconfig.access().headers == {"Authorization": "Bearer first"}
    assert kubeconfig.access(context="two").server == "https://two:6443"
    assert kubeconfig.namespace(context="two") == "team-b"


def test_paths_are_relative_to_their_file_and_inline_data_is_private(tmp_path: Path) -> None:
    inline = base64.b64encode(b"a key").decode()
    user = {"client-certificate": "certificate.pem", "client-key-data": inline}
    access = kubeconfig.access(a_file(tmp_path / "a", a_config(user, {"certificate-authority": "/ca.pem"})))
    assert (access.authority, access.certificate) == ("/ca.pem", f"{tmp_path}/certificate.pem")
    key = Path(access.key)
    assert key.read_text() == "a key"
    assert stat.S_IMODE(key.parent.stat().st_mode) == 0o700


def test_inline_data_may_be_wrapped_into_lines(tmp_path: Path) -> None:
    user = {"client-key-data": base64.encodebytes(b"a key" * 100).decode()}
    assert Path(kubeconfig.access(a_file(tmp_path / "a", a_config(user))).key).read_text() == "a key" * 100


def test_a_file_with_a_token_has_precedence_over_a_token(tmp_path: Path) -> None:
    path = a_file(tmp_path / "a", a_config({"token": "old", "tokenFile": "token"}))
    assert kubeconfig.access(path).headers == {"Authorization": "Bearer old"}
    (tmp_path / "token").write_text("new\n")
    assert kubeconfig.access(path).headers == {"Authorization": "Bearer new"}


def test_a_token_may_be_in_a_file_and_a_password_is_sent_as_basic_authentication(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("from a file\n")
    by_file = kubeconfig.access(a_file(tmp_path / "a", a_config({"tokenFile": "token"})))
    assert by_file.headers == {"Authorization": "Bearer from a file"}
    by_password = kubeconfig.access(a_file(tmp_path / "b", a_config({"username": "ann", "password": "secret"})))
    assert by_password.headers == {"Authorization": f"Basic {base64.b64encode(b'ann:secret').decode()}"}


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
    assert access.headers == {"Authorization": "Bearer ann of an argument"}
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
    assert kubeconfig.access().headers == {"Authorization": "Bearer t"}


def test_credentials_of_the_file_have_precedence_over_those_of_the_plugin(tmp_path: Path) -> None:
    plugin = a_plugin(tmp_path, """echo '{"status": {"token": "t"}}'""")
    certificate = {"client-certificate": "/cert.pem", "client-key": "/key.pem"}
    access = kubeconfig.access(a_file(tmp_path / "a", a_config({"exec": plugin, **certificate})))
    assert access.headers == {"Authorization": "Bearer t"}
    assert (access.certificate, access.key) == ("/cert.pem", "/key.pem")
    path = a_file(tmp_path / "b", a_config({"exec": plugin, "token": "of the file"}))
    assert kubeconfig.access(path).headers == {"Authorization": "Bearer of the file"}


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
    monkeypatch.setattr(kubeconfig, "_SERVICE_ACCOUNT", tmp_path)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "fd00::1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    access = kubeconfig.access()
    assert (access.server, access.headers) == ("https://[fd00::1]:443", {"Authorization": "Bearer t"})
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
    monkeypatch.setattr(kubeconfig, "_SERVICE_ACCOUNT", tmp_path)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    assert kubeconfig.access().headers == {"Authorization": "Bearer t"}
    assert kubeconfig.namespace() == "default"


def test_a_file_that_cannot_be_read_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    path = f"/{'a' * 300}/config"
    with pytest.raises(BadUsage, match="cannot be read: File name too long"):
        kubeconfig.access(path)
    monkeypatch.setenv("KUBECONFIG", path)
    with pytest.raises(BadUsage, match="cannot be read: File name too long"):
        kubeconfig.access()


@pytest.mark.parametrize(
    "user, cluster, item",
    [
        ({"as": "ann"}, {}, "as"),
        ({"as-groups": ["a"]}, {}, "as-groups"),
        ({"as-uid": "1"}, {}, "as-uid"),
        ({"as-user-extra": {"a": ["b"]}}, {}, "as-user-extra"),
        ({"auth-provider": {"name": "oidc", "config": {"id-token": "t"}}}, {}, "auth-provider"),
        ({}, {"proxy-url": "http://proxy"}, "proxy-url"),
        ({}, {"tls-server-name": "name"}, "tls-server-name"),
    ],
)
def test_unsupported_entries_are_rejected(user: Json, cluster: Json, item: str, tmp_path: Path) -> None:
    with pytest.raises(BadUsage, match=f'context "one" has {item}, which is not supported'):
        kubeconfig.access(a_file(tmp_path / "a", a_config(user, cluster)))


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
