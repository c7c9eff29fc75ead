"""The round that keeps certificates and registration as they should be, every few seconds, for as long as we run.

One round looks at the source of certificates and at what is registered, serves what may be served by now, and tells
what has to be told. A round that fails changes nothing, says so once, and is followed by the next.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Protocol

import structlog

from muster_operator.admission.certifying.certificates import BadCertificate, Leaf, Pair, given, issue
from muster_operator.admission.certifying.secret import AuthoritySecret
from muster_operator.admission.certifying.trust import Trust
from muster_operator.admission.registering.registration import Registrar
from muster_operator.link.errors import ApiRefused, LinkError, NotLeading

log = structlog.get_logger("muster.admission")

#: Seconds between rounds: a configuration that somebody broke is whole again after one.
EVERY_S: Final = 3.0


class Source(Protocol):
    """Where certificates come from."""

    async def leaf(self, now: datetime) -> Leaf | None:
        """What should be served with; None = there is nothing yet.

        Raises:
            BadCertificate: what is there cannot be used.
            LinkError: it cannot be read.
        """


class OwnSource:
    """Made by ourselves from the Secret's authorities, for these names and addresses."""

    def __init__(self, secret: AuthoritySecret, names: list[str]) -> None:
        self._secret, self._names = secret, names
        self._pair: tuple[bytes, ...] = ()
        self._leaf: Leaf | None = None

    async def leaf(self, now: datetime) -> Leaf | None:
        """The same one until it is due or an authority is replaced."""
        pair: Pair | None = await self._secret.pair(now)
        if pair is None:
            return None
        authorities = tuple(one.pem for one in pair)
        if self._leaf is None or self._leaf.authorities != authorities or self._leaf.is_due(now):
            self._leaf = issue(pair, self._names, now)
        return self._leaf


class GivenSource:
    """Files that somebody else keeps; read in every round, for they may be replaced (cert-manager does)."""

    def __init__(self, certificate: Path, key: Path, authority: Path | None) -> None:
        self._paths = (certificate, key, authority)
        self._read: tuple[bytes, ...] = ()
        self._leaf: Leaf | None = None

    async def leaf(self, now: datetime) -> Leaf | None:
        """What stands in the files now."""
        try:
            read = tuple(path.read_bytes() if path is not None else b"" for path in self._paths)
        except OSError as error:
            raise BadCertificate(f"{error.filename}: {error.strerror}") from error
        if self._leaf is None or read != self._read:
            self._leaf, self._read = given(*read), read
        return self._leaf


class Keeper:
    """Runs the rounds. `serve` takes what is to be served from now on."""

    def __init__(self, source: Source, registrar: Registrar, serve: Callable[[Leaf], None]) -> None:
        self._source, self._registrar, self._serve = source, registrar, serve
        self._trust = Trust()
        self._said = ""
        self._is_registered = False

    @property
    def missing(self) -> str:
        """What keeps the API server from asking us; empty = nothing."""
        if self._trust.serving is None:
            return self._said or "there is no certificate yet"
        return "" if self._is_registered else self._said or "not registered yet"

    async def run(self) -> None:
        """Round after round, until cancelled."""
        while True:
            await self.attempt(datetime.now(UTC))
            await asyncio.sleep(EVERY_S)

    async def attempt(self, now: datetime) -> None:
        """One round; what goes wrong is said once, and again when it is something else."""
        try:
            await self._round(now)
        except NotLeading:
            self._say("")  # the one that leads puts it right
        except ApiRefused as error:
            rights = " (the rights are in deploy/rbac.yaml, at 'webhook')" if error.status == 403 else ""
            self._say(f"{error}{rights}")
        except (LinkError, BadCertificate, ssl.SSLError) as error:
            self._say(str(error))
        else:
            self._say("")

    async def _round(self, now: datetime) -> None:
        leaf = await self._source.leaf(now)
        if leaf is not None:
            self._trust.want(leaf)
        look = await self._registrar.look()
        standing = look.authorities
        self._trust.told(standing, now)
        if (new := self._trust.to_serve(now)) is not None:
            self._serve(new)
            log.info("serving with a new certificate", until=new.not_after.isoformat())
        if self._trust.serving is None:
            return
        wanted = self._trust.to_tell(standing, now)
        self._is_registered = all(set(self._trust.serving.authorities) <= set(bundle) for bundle in standing)
        await self._registrar.keep(look, wanted)
        self._trust.told([wanted for _ in standing], now)
        self._is_registered = True

    def _say(self, problem: str) -> None:
        if problem and problem != self._said:
            log.warning("the webhook cannot be kept as it should be", reason=problem)
        self._said = problem
