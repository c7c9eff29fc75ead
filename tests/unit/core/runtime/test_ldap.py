"""Groups from a real LDAP server, and what is said where it, or its settings, are no good."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import trustme

from muster_core.runtime.ldap_groups import LdapSettings, group_name, read_settings
from muster_core.runtime.user_groups import LdapDirectory

_SERVER = Path(__file__).with_name("ldap_server.py")


def write(secret: Path, **settings: str) -> LdapDirectory:
    for key, value in settings.items():
        (secret / key).write_text(f"{value}\n")
    return LdapDirectory(secret)


@contextmanager
def serving(*options: str) -> Iterator[str]:
    """The port of a server that runs during the block."""
    command = [sys.executable, "-W", "ignore", str(_SERVER), *options]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        yield server.stdout.readline().strip()
        server.stdin.close()


@pytest.fixture(scope="module")
def port() -> Iterator[str]:
    with serving() as found:
        yield found


@pytest.fixture
def directory(port: str, tmp_path: Path) -> LdapDirectory:
    bind = {"BindUser": "cn=reader,dc=example,dc=com", "BindPassword": "secret"}
    return write(tmp_path, Host="127.0.0.1", Port=port, Filter="(&(uid=%s))", **bind)


def test_groups_are_the_names_of_the_distinguished_names_of_a_user(directory: LdapDirectory) -> None:
    answer = directory("kim")
    assert sorted(answer.groups) == ["dev", "ops", "plain"]
    assert answer.problem == ""


def test_a_user_without_groups_is_not_a_problem(directory: LdapDirectory) -> None:
    answer = directory("lone")
    assert (answer.groups, answer.problem) == ((), "")


@pytest.mark.parametrize("user", ["nobody", "k*", "*", "kim)(uid=ann", "kim\x00"])
def test_an_unknown_user_is_not_found_whatever_its_name_contains(directory: LdapDirectory, user: str) -> None:
    answer = directory(user)
    assert answer.groups == ()
    assert "has no user" in answer.problem
    assert not answer.is_silent


def test_a_user_with_a_special_character_in_the_name_is_found(directory: LdapDirectory) -> None:
    assert directory("ann*").groups == ("star",)


def test_attribute_names_in_lower_case_are_read_like_others(directory: LdapDirectory) -> None:
    """A group written `cn=` instead of `CN=` ended YuniKorn with a panic (CVE-2026-78243)."""
    assert group_name("cn=dev,ou=groups,dc=example,dc=com") == group_name("CN=dev,OU=groups,DC=example,DC=com") == "dev"
    write(directory.secret, GroupAttr="memberof")
    assert "dev" in directory("kim").groups


@pytest.mark.parametrize("spelling", ["memberOf", "MEMBEROF", "memberof"])
def test_the_case_of_the_attribute_does_not_count(directory: LdapDirectory, spelling: str) -> None:
    write(directory.secret, GroupAttr=spelling, ReturnAttr="cn")
    assert sorted(directory("kim").groups) == ["dev", "ops", "plain"]


def test_a_password_is_read_again_for_every_search(directory: LdapDirectory) -> None:
    write(directory.secret, BindPassword="old")
    refused = directory("kim")
    assert "refuses BindUser" in refused.problem
    assert refused.is_silent
    write(directory.secret, BindPassword="secret")
    assert directory("kim").problem == ""


@pytest.mark.filterwarnings(
    "ignore:ssl.match_hostname", "ignore:unclosed", "ignore::pytest.PytestUnraisableExceptionWarning"
)
def test_the_server_certificate_and_name_are_verified_unless_disabled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    pair = tmp_path / "pair.pem"
    authority.issue_cert("localhost").private_key_and_cert_chain_pem.write_to_path(str(pair))
    secret = tmp_path / "secret"
    secret.mkdir()
    with serving(str(pair)) as port:
        directory = write(secret, Host="localhost", Port=port, Filter="(uid=%s)", SSL="true")
        unknown = directory("kim")
        assert unknown.is_silent
        assert "certificate verify failed" in unknown.problem
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
        assert sorted(directory("kim").groups) == ["dev", "ops", "plain"]
        other = write(secret, Host="127.0.0.1")("kim")
        assert other.is_silent
        assert other.groups == ()
        monkeypatch.delenv("SSL_CERT_FILE")
        assert sorted(write(secret, Insecure="true")("kim").groups) == ["dev", "ops", "plain"]


def test_an_unreachable_server_is_reported(tmp_path: Path) -> None:
    answer = write(tmp_path, Host="127.0.0.1", Port="1")("kim")
    assert answer.is_silent
    assert answer.problem.startswith("the LDAP server: ")


def test_a_missing_secret_is_named(tmp_path: Path) -> None:
    answer = LdapDirectory(tmp_path / "gone")("kim")
    assert answer.is_silent
    assert str(tmp_path / "gone") in answer.problem


@pytest.mark.parametrize(
    "settings, effects", [({"Port": "ldap"}, "'ldap'"), ({"Filter": "(uid=kim)"}, "Filter has no %s for the user")]
)
def test_an_invalid_setting_is_named(tmp_path: Path, settings: dict[str, str], effects: str) -> None:
    answer = write(tmp_path, **settings)("kim")
    assert answer.is_silent
    assert effects in answer.problem


def test_an_empty_secret_uses_the_defaults(tmp_path: Path) -> None:
    assert read_settings(tmp_path) == LdapSettings(
        host="localhost",
        port=389,
        base="dc=example,dc=com",
        filter="(&(sAMAccountName=%s))",
        group_attribute="memberOf",
        attributes=("memberOf",),
        user="",
        password="",
        is_insecure=False,
        is_tls=False,
    )


def test_every_key_of_the_secret_is_read(tmp_path: Path) -> None:
    write(tmp_path, Host="h", Port="636", BaseDN="dc=x", Filter="(uid=%s)", GroupAttr="g", ReturnAttr="[g, mail]")
    write(tmp_path, BindUser="u", BindPassword="p", Insecure="true", SSL="True")
    assert read_settings(tmp_path) == LdapSettings(
        "h", 636, "dc=x", "(uid=%s)", "g", ("g", "mail"), "u", "p", is_insecure=True, is_tls=True
    )


@pytest.mark.parametrize(
    "value, name",
    [
        ("CN=dev,OU=groups,DC=example,DC=com", "dev"),
        ("cn = dev , ou=groups", "dev"),
        ("ou=groups,cn=late", "late"),
        (r"CN=Dev\, Ops,OU=x", "Dev, Ops"),
        (r"CN=Dev\2C Ops,OU=x", "Dev, Ops"),
        (r"cn=Gro\C3\9Fe,dc=x", "Große"),
        ("ou=groups,dc=x", ""),
        ("cn=,dc=x", ""),
        ("plain", "plain"),
        ("", ""),
    ],
)
def test_a_group_is_the_common_name_of_its_distinguished_name(value: str, name: str) -> None:
    assert group_name(value) == name
