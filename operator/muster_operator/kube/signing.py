"""The Secret with the signing keys.

It holds the key that signs (`current`) and a key that only verifies (`previous`). The leader creates missing keys and
uses a new one after the API server has stored it. To rotate, move `current` to `previous`.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable, Mapping
from typing import Final

import structlog

from muster_operator.kube.secrets import SecretStore
from muster_operator.kube.session import KubeSession
from muster_operator.model.errors import ApiRefused, NotLeading, Unreachable
from muster_operator.model.signing import CURRENT, KEY_BYTES, PREVIOUS, SECRET, SigningKeys, read_key
from muster_operator.translate.values import Raw, mapping, text

log = structlog.get_logger("muster.signing")

#: Seconds between two looks.
POLL_S: Final = 10.0
#: Seconds that a new leader waits for the keys before it serves without them.
READY_S: Final = 15.0
#: Seconds after a look that failed while a leader waits.
AGAIN_S: Final = 0.5
#: Times that a conflict is answered by reading again.
ATTEMPTS: Final = 5


class SigningSecret:
    """The Secret of one namespace. `tell`: takes the keys when they are others than before."""

    def __init__(self, session: KubeSession, namespace: str, tell: Callable[[SigningKeys], None]) -> None:
        self._namespace, self._tell = namespace, tell
        self._store = SecretStore(session, namespace, SECRET)
        self._stored: dict[str, bytes] = {}
        self._keys: SigningKeys | None = None
        self._problem = ""
        self._looking = asyncio.Lock()

    @property
    def count(self) -> int:
        """How many keys are known; 0: nothing is signed or trusted."""
        return len(self._keys.ids) if self._keys is not None else 0

    async def ready(self) -> None:
        """Read the keys, or create them; return without them after READY_S, because pods without gangs need none."""
        deadline = time.monotonic() + READY_S
        while not await self.look() and time.monotonic() < deadline:  # noqa: ASYNC110 - only a look can tell
            await asyncio.sleep(AGAIN_S)
        if self._keys is None:
            log.warning("serving without signing keys: no placeholder is created or trusted", reason=self._problem)

    async def run(self) -> None:
        """Look again and again until cancelled."""
        while True:
            await self.look()
            await asyncio.sleep(POLL_S)

    async def look(self) -> bool:
        """Read the Secret and create what is missing. False: it could not be read, or another replica creates it."""
        async with self._looking:
            return await self._look()

    async def _look(self) -> bool:
        try:
            stored = await self._kept()
        except (ApiRefused, Unreachable) as error:
            self._report(f"Secret {SECRET}: {error}")
            return False
        if CURRENT not in stored:
            return False  # the leader creates it
        self._report("")
        if stored != self._stored:
            self._stored = stored
            ordered = [stored[name] for name in (CURRENT, PREVIOUS) if name in stored]
            self._keys = SigningKeys(self._namespace, ordered)
            log.info("the signing keys are in use", keys=self._keys.ids)
            self._tell(self._keys)
        return True

    def _report(self, problem: str) -> None:
        """Log a problem when it begins."""
        if problem and problem != self._problem:
            log.warning("the signing keys cannot be read", reason=problem, keys_in_memory=self.count)
        self._problem = problem

    async def _kept(self) -> dict[str, bytes]:
        """The stored keys, with what was missing.

        Raises:
            ApiRefused, Unreachable: as the API server has it.
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
                    log.info("the Secret with the signing keys was written", secret=SECRET, first=found is None)
                    return wanted
            except NotLeading:
                break
        return stored

    def _missing(self, found: Raw | None, stored: Mapping[str, bytes]) -> bytes:
        """The key in memory where the stored one is unusable; a new one after a rotation, which removes the entry."""
        known = self._stored.get(CURRENT)
        is_unusable = found is not None and CURRENT in mapping(found.get("data"))
        return known if is_unusable and known is not None and known not in stored.values() else _new_key()


def _new_key() -> bytes:
    return secrets.token_bytes(KEY_BYTES)


def _usable(secret: Raw | None) -> dict[str, bytes]:
    """The keys of the Secret that can be used; others are reported."""
    data = mapping(secret.get("data")) if secret is not None else {}
    found: dict[str, bytes] = {}
    for name in (CURRENT, PREVIOUS):
        if written := text(data.get(name)):
            if key := read_key(written):
                found[name] = key
            else:
                log.warning("an entry of the Secret is no signing key", secret=SECRET, entry=name)
    return found
