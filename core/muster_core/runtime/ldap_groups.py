"""User group lookups in an LDAP directory, with the settings of YuniKorn's LDAP secret.

`user_groups` loads this module before the first lookup, because few installations use LDAP.

Differs: attribute names are compared without case, as in LDAP; YuniKorn finds no groups if the server spells GroupAttr
differently. Differs: referrals are not followed, so that the password is sent to one server only.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import ldap3
from ldap3.core.exceptions import LDAPException, LDAPInvalidDnError
from ldap3.utils.conv import escape_filter_chars
from ldap3.utils.dn import parse_dn

from muster_core.model.config import GroupsAnswer
from muster_core.si.values import NAME_LIMIT

#: Timeout of the connection and of each response.
_LDAP_TIMEOUT_S: Final = 2

#: Maximum number of groups per user.
_MOST_GROUPS: Final = 1000
_USER: Final = "%s"
_GROUP_TYPE: Final = "cn"
_ESCAPED: Final = re.compile(rb"\\([0-9a-fA-F]{2})|\\(.)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class LdapSettings:
    """Settings of the LDAP secret. Names and defaults are those of YuniKorn."""

    host: str = "localhost"
    port: int = 389
    base: str = "dc=example,dc=com"
    filter: str = f"(&(sAMAccountName={_USER}))"
    group_attribute: str = "memberOf"
    attributes: tuple[str, ...] = ("memberOf",)
    user: str = ""
    password: str = ""
    is_insecure: bool = False
    is_tls: bool = False


def look_up(secret: Path, user: str) -> GroupsAnswer:
    """Returns the user's groups in LDAP. `secret`: directory with the settings."""
    try:
        return _search(read_settings(secret), user)
    except LDAPException as error:  # includes network errors, which are OSErrors too
        return GroupsAnswer(problem=f"the LDAP server: {error}"[:300], is_silent=True)
    except (OSError, ValueError) as error:
        return GroupsAnswer(problem=f"the LDAP settings in {secret}: {error}", is_silent=True)


def read_settings(secret: Path) -> LdapSettings:
    """Returns the settings in the directory.

    Raises OSError if it cannot be read, ValueError if a value is invalid.
    """
    found = {path.name: path.read_text().strip() for path in secret.iterdir() if path.is_file()}
    default = LdapSettings()
    template = found.get("Filter") or default.filter
    if _USER not in template:
        raise ValueError(f"Filter has no {_USER} for the user")
    return LdapSettings(
        host=found.get("Host") or default.host,
        port=int(found.get("Port") or default.port),
        base=found.get("BaseDN") or default.base,
        filter=template,
        group_attribute=found.get("GroupAttr") or default.group_attribute,
        attributes=tuple(re.findall(r"[^\s,\[\]]+", found.get("ReturnAttr", ""))) or default.attributes,
        user=found.get("BindUser", ""),
        password=found.get("BindPassword", ""),
        is_insecure=found.get("Insecure", "").lower() == "true",
        is_tls=found.get("SSL", "").lower() == "true",
    )


def group_name(value: str) -> str:
    """Returns the group that a value of the group attribute names; empty = none."""
    try:
        parts = parse_dn(value, strip=True)
    except LDAPInvalidDnError:
        return "" if "=" in value else value.strip()
    return next((_unescaped(text) for kind, text, _ in parts if kind.lower() == _GROUP_TYPE), "")


def _search(settings: LdapSettings, user: str) -> GroupsAnswer:
    tls = ldap3.Tls(validate=ssl.CERT_NONE if settings.is_insecure else ssl.CERT_REQUIRED)
    server = ldap3.Server(
        settings.host,
        port=settings.port,
        use_ssl=settings.is_tls,
        tls=tls if settings.is_tls else None,
        get_info=ldap3.NONE,
        connect_timeout=_LDAP_TIMEOUT_S,
    )
    connection = ldap3.Connection(
        server,
        user=settings.user or None,
        password=settings.password or None,
        receive_timeout=_LDAP_TIMEOUT_S,
        auto_referrals=False,
        read_only=True,
    )
    try:
        if not connection.bind():
            return GroupsAnswer(
                problem=f"the LDAP server refuses BindUser: {_description(connection.result)}", is_silent=True
            )
        wanted = settings.filter.replace(_USER, escape_filter_chars(user))
        connection.search(settings.base, wanted, attributes=[*{*settings.attributes, settings.group_attribute}])
        return _answer(connection.response or [], connection.result, settings, user)
    finally:
        _close(connection)


def _close(connection: ldap3.Connection) -> None:
    opened = connection.socket
    connection.unbind()
    if opened is not None:  # ldap3 does not close a socket that failed to connect
        opened.close()


def _answer(
    entries: list[Mapping[str, Any]], result: Mapping[str, Any], settings: LdapSettings, user: str
) -> GroupsAnswer:
    found = [entry for entry in entries if entry.get("type") == "searchResEntry"]
    if not found:
        return GroupsAnswer(problem=f"the LDAP server has no user {user!r} ({_description(result)})")
    names = (group_name(value) for entry in found for value in _values(entry, settings.group_attribute))
    fit = (name for name in names if 0 < len(name) <= NAME_LIMIT)
    return GroupsAnswer(tuple(dict.fromkeys(fit))[:_MOST_GROUPS])


def _values(entry: Mapping[str, Any], attribute: str) -> Iterator[str]:
    for name, values in entry["raw_attributes"].items():
        if name.lower() == attribute.lower():
            yield from (value.decode(errors="replace") for value in values)


def _description(result: Mapping[str, Any]) -> str:
    return str(result.get("description", "no reason"))


def _unescaped(text: str) -> str:
    def plain(match: re.Match[bytes]) -> bytes:
        return bytes.fromhex(match[1].decode()) if match[1] else match[2]

    return _ESCAPED.sub(plain, text.encode()).decode(errors="replace")
