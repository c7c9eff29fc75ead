"""The Secret of the two authorities, so that all replicas sign by the same (contract 7: two of them, by number).

Whoever may write makes what is missing, garbled or due; everybody else reads. Two that write at once agree by the API
server's word: the second one meets 409 and reads what the first one wrote.
"""

from __future__ import annotations

import base64
import binascii
from datetime import datetime
from typing import Any, Final

import orjson
import structlog

from muster_operator.admission.certifying.certificates import (
    Authority,
    BadCertificate,
    Pair,
    kept_or_made,
    read_authority,
)
from muster_operator.link.api.session import KubeSession, Request
from muster_operator.link.errors import ApiRefused, NotLeading
from muster_operator.translate.raw import Raw, mapping, text

log = structlog.get_logger("muster.admission")

SECRET: Final = "muster-admission"  # noqa: S105 - its name
#: Its entries, certificate and key of each authority (contract 7).
ENTRIES: Final = (("cacert1.pem", "cakey1.pem"), ("cacert2.pem", "cakey2.pem"))
#: Times that a conflict is answered by reading again, before the next round.
ATTEMPTS: Final = 5


class AuthoritySecret:
    """The Secret of one namespace."""

    def __init__(self, session: KubeSession, namespace: str) -> None:
        self._session = session
        self._path = f"/api/v1/namespaces/{namespace}/secrets"

    async def pair(self, now: datetime) -> Pair | None:
        """The authorities in force; None = they are not all there, and another replica has to make them.

        Raises:
            ApiRefused: we lack the rights, or the API server refuses.
            Unreachable: it did not answer.
        """
        for _ in range(ATTEMPTS):
            found = await self._read()
            authorities = _authorities(found)
            pair = kept_or_made(authorities, now)
            if pair == authorities:
                return pair
            try:
                if await self._write(pair, found):
                    return pair
            except NotLeading:
                return _usable(authorities, now)
        return None

    async def _read(self) -> Raw | None:
        try:
            return await self._session.get(f"{self._path}/{SECRET}")
        except ApiRefused as error:
            if error.status == 404:
                return None
            raise

    async def _write(self, pair: Pair, found: Raw | None) -> bool:
        """Create or replace; False = somebody else was faster.

        Raises:
            NotLeading: another replica writes.
            ApiRefused, Unreachable: as the API server has it.
        """
        body: dict[str, Any] = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": SECRET, "labels": {"app": "muster"}},
            "type": "Opaque",
            "data": {name: base64.b64encode(pem).decode() for name, pem in _entries(pair)},
        }
        method, path = "POST", self._path
        if found is not None:
            body["metadata"]["resourceVersion"] = text(mapping(found.get("metadata")).get("resourceVersion"))
            method, path = "PUT", f"{path}/{SECRET}"
        reply = await self._session.send(Request(method, path, orjson.dumps(body)))
        if reply.ok:
            log.info("the webhook's authorities were made or renewed", secret=SECRET, first=found is None)
            return True
        if reply.status in {404, 409}:
            return False
        raise ApiRefused(f"{method} {path}", reply.status, reply.message())


def _entries(pair: Pair) -> list[tuple[str, bytes]]:
    found: list[tuple[str, bytes]] = []
    for (certificate, key), one in zip(ENTRIES, pair, strict=True):
        found += [(certificate, one.pem), (key, one.key_pem)]
    return found


def _authorities(secret: Raw | None) -> tuple[Authority | None, Authority | None]:
    """What of the Secret can be used."""
    data = mapping(secret.get("data")) if secret is not None else {}
    first, second = (_authority(data, names) for names in ENTRIES)
    return first, second


def _authority(data: Raw, names: tuple[str, str]) -> Authority | None:
    written = [text(data.get(name)) for name in names]
    if not any(written):
        return None
    try:
        certificate, key = (base64.b64decode(one, validate=True) for one in written)
        return read_authority(certificate, key)
    except (binascii.Error, BadCertificate) as error:
        log.warning("an authority in the Secret cannot be used", secret=SECRET, entry=names[0], reason=str(error))
        return None


def _usable(found: tuple[Authority | None, Authority | None], now: datetime) -> Pair | None:
    """Those that are there though they may be due; None = one is missing or has ended, and can sign nothing."""
    first, second = (None if one is None or one.certificate.not_valid_after_utc <= now else one for one in found)
    return (first, second) if first is not None and second is not None else None
