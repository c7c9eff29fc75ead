"""Secrets of Muster's namespace: the store, and the Secret with the signing keys.

The Secret has a key for signatures (`current`) and a key for verification only (`previous`). The leader creates missing
keys and uses a new key after the API server has stored it. To rotate the keys, move `current` to `previous`.
"""

from __future__ import annotations

import asyncio
import base64
import secrets
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

import orjson
import structlog

from muster_operator.kube.session import KubeSession, Request
from muster_operator.model.errors import ApiRefused, LinkError, NotLeading, Unreachable
from muster_operator.model.signing import CURRENT, KEY_BYTES, PREVIOUS, SECRET, SigningKeys, read_key
from muster_operator.translate.values import Raw, mapping, text


class SecretStore:
    """A Secret by namespace and name."""

    def __init__(self, session: KubeSession, namespace: str, name: str) -> None:
        self._session, self._name = session, name
        self._path = f"/api/v1/namespaces/{namespace}/secrets"

    async def read(self) -> Raw | None:
        """Reads the object. Returns None if it does not exist.

        Raises:
            ApiRefused, Unreachable: the API server answered with an error, or not at all.
        """
        try:
            return await self._session.get(f"{self._path}/{self._name}")
        except ApiRefused as error:
            if error.status == 404:
                return None
            raise

    async def write(self, entries: Mapping[str, bytes], found: Raw | None) -> bool:
        """Creates the Secret, or replaces the version `found`. Returns False if another client changed it first.

        Raises:
            NotLeading: this replica is not the leader.
            ApiRefused, Unreachable: the API server answered with an error, or not at all.
        """
        body: dict[str, Any] = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": self._name, "labels": {"app": "muster"}},
            "type": "Opaque",
            "data": {name: base64.b64encode(value).decode() for name, value in entries.items()},
        }
        method, path = "POST", self._path
        if found is not None:  # what others wrote stays: labels, annotations, owners
            metadata = mapping(found.get("metadata"))
            labels = {**mapping(metadata.get("labels")), **body["metadata"]["labels"]}
            body["metadata"] = {**metadata, "name": self._name, "labels": labels}
            method, path = "PUT", f"{path}/{self._name}"
        reply = await self._session.send(Request(method, path, orjson.dumps(body)))
        if reply.ok or reply.status in {404, 409}:
            return reply.ok
        raise ApiRefused(f"{method} {path}", reply.status, reply.message())


log = structlog.get_logger("muster.signing")

#: Seconds between two reads of the Secret.
POLL_S: Final = 10.0
#: Seconds that a new leader waits for the keys before it continues without them.
READY_S: Final = 15.0
#: Seconds after a failed read while a new leader waits.
AGAIN_S: Final = 0.5
#: Maximum number of attempts after conflicts.
ATTEMPTS: Final = 5


class SigningSecret:
    """Keeps the signing keys up to date. `notify` is called with the keys when they change."""

    def __init__(self, session: KubeSession, namespace: str, notify: Callable[[SigningKeys], None]) -> None:
        self._namespace, self._notify = namespace, notify
        self._store = SecretStore(session, namespace, SECRET)
        self._stored: dict[str, bytes] = {}
        self._keys: SigningKeys | None = None
        self._problem = ""
        self._looking = asyncio.Lock()

    @property
    def count(self) -> int:
        """Number of known keys. With 0 nothing is signed, and no signature is valid."""
        return len(self._keys.ids) if self._keys is not None else 0

    async def ready(self) -> None:
        """Reads or creates the keys. Returns without them after READY_S, because pods without gangs need none."""
        deadline = time.monotonic() + READY_S
        while not await self.check() and time.monotonic() < deadline:  # noqa: ASYNC110 - there is no event to wait for
            await asyncio.sleep(AGAIN_S)
        if self._keys is None:
            log.warning("serving without signing keys: no placeholder is created or trusted", reason=self._problem)

    async def run(self) -> None:
        """Reads the Secret periodically until cancelled."""
        while True:
            await self.check()
            await asyncio.sleep(POLL_S)

    async def check(self) -> bool:
        """Reads the Secret and creates missing keys. Returns False if it has no usable key yet."""
        async with self._looking:
            try:
                return await self._check()
            except LinkError:
                raise
            except Exception as error:  # noqa: BLE001 - logged with its traceback; pods without gangs need no keys
                self._report(f"internal error: {error!r}", exc_info=True)
                return False

    async def _check(self) -> bool:
        try:
            stored = await self._kept()
        except (ApiRefused, Unreachable) as error:
            self._report(f"Secret {SECRET}: {error}")
            return False
        if CURRENT not in stored:
            return False  # the leader creates it
        if stored != self._stored:
            keys = SigningKeys(self._namespace, [stored[name] for name in (CURRENT, PREVIOUS) if name in stored])
            self._notify(keys)
            self._stored, self._keys = stored, keys
            log.info("signing keys loaded", keys=keys.ids)
        self._report("")
        return True

    def _report(self, problem: str, *, exc_info: bool = False) -> None:
        """Logs a problem when it begins."""
        if problem and problem != self._problem:
            reason, count = problem, self.count
            log.warning("the signing keys cannot be read", reason=reason, keys_in_memory=count, exc_info=exc_info)
        self._problem = problem

    async def _kept(self) -> dict[str, bytes]:
        """The stored keys, after creating missing ones.

        Raises:
            ApiRefused, Unreachable: the API server answered with an error, or not at all.
        """
        stored: dict[str, bytes] = {}
        for _ in range(ATTEMPTS):
            found = await self._store.read()
            stored = _usable(found)
            if CURRENT in stored:
                break
            wanted = (
                self._stored if found is None and self._stored else {**stored, CURRENT: self._missing(found, stored)}
            )
            try:
                if await self._store.write(wanted, found):
                    log.info("Secret with the signing keys written", secret=SECRET, first=found is None)
                    return wanted
            except NotLeading:
                break
        return stored

    def _missing(self, found: Raw | None, stored: Mapping[str, bytes]) -> bytes:
        """The key in memory if the stored one is unusable. A new key if the entry is missing, as after a rotation."""
        known = self._stored.get(CURRENT)
        is_unusable = found is not None and CURRENT in mapping(found.get("data"))
        return known if is_unusable and known is not None and known not in stored.values() else _new_key()


def _new_key() -> bytes:
    return secrets.token_bytes(KEY_BYTES)


def _usable(secret: Raw | None) -> dict[str, bytes]:
    """The usable keys of the Secret. Unusable entries are logged."""
    data = mapping(secret.get("data")) if secret is not None else {}
    found: dict[str, bytes] = {}
    for name in (CURRENT, PREVIOUS):
        if written := text(data.get(name)):
            if key := read_key(written):
                found[name] = key
            else:
                log.warning("entry of the Secret is not a signing key", secret=SECRET, entry=name)
    return found
