"""The gRPC channel of a client, opened again after its TLS files were renewed. Existing connections keep theirs."""

from __future__ import annotations

import asyncio
from typing import Final

import grpc

from muster_si.errors import AddressError
from muster_si.transport.address import parse_address, require_protection
from muster_si.transport.credentials import Fingerprint, TlsFiles
from muster_si.transport.settings import TransportSettings

#: Seconds that calls on a channel with old certificates have to finish.
LAST_CALLS_S: Final = 10.0


class ClientChannel:
    """The connection to one address, for both clients. Does not connect before `channel` is called."""

    def __init__(
        self, address: str, tls: TlsFiles | None, settings: TransportSettings, *, allow_plaintext: bool
    ) -> None:
        """Reads the TLS files.

        Raises:
            AddressError: the address is invalid or needs TLS, or a file cannot be read.
        """
        require_protection(address, has_tls=tls is not None, allow_plaintext=allow_plaintext)
        self._target, self._tls = parse_address(address).target, tls
        self._options = [*settings.options(), *(tls.channel_options() if tls is not None else [])]
        self._credentials = tls.for_client() if tls is not None else None
        self._seen: Fingerprint = tls.fingerprint() if tls is not None else ()
        self._channel: grpc.aio.Channel | None = None
        self._closing: set[asyncio.Task[None]] = set()

    def channel(self) -> grpc.aio.Channel:
        """Returns the channel to use now. Unreadable new files are ignored."""
        if self._tls is not None and self._tls.fingerprint() != self._seen:
            self._renew(self._tls)
        if self._channel is None:
            self._channel = self._open()
        return self._channel

    async def aclose(self) -> None:
        """Closes the connection, and those with earlier certificates."""
        for task in self._closing:
            task.cancel()
        await asyncio.gather(*self._closing, return_exceptions=True)
        channel, self._channel = self._channel, None
        if channel is not None:
            await channel.close()

    def _open(self) -> grpc.aio.Channel:
        if self._credentials is None:
            return grpc.aio.insecure_channel(self._target, options=self._options)
        return grpc.aio.secure_channel(self._target, self._credentials, options=self._options)

    def _renew(self, tls: TlsFiles) -> None:
        seen = tls.fingerprint()
        try:
            self._credentials = tls.for_client()
        except AddressError:
            return
        self._seen = seen
        old, self._channel = self._channel, None
        if old is not None:
            task = asyncio.create_task(old.close(LAST_CALLS_S))
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)
