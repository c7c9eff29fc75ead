"""The gRPC server of the core: `GrpcServer` listens and calls a `SchedulerAPI`.

server = GrpcServer(core, "unix:///run/muster/si.sock")
await server.start()
...
await server.aclose()
"""

from __future__ import annotations

import grpc

from muster_si.api import AdministrationAPI, SchedulerAPI
from muster_si.errors import AddressError
from muster_si.transport.address import (
    Address,
    clear_stale_socket,
    parse_address,
    private_socket,
    require_protection,
)
from muster_si.transport.administration import handlers
from muster_si.transport.credentials import TlsFiles
from muster_si.transport.servicer import Servicer
from muster_si.transport.sessions import Sessions
from muster_si.transport.settings import TransportSettings

_DEFAULTS = TransportSettings()


class GrpcServer:
    """Serves si.v1.Scheduler and muster.v1.Session on one address, for any number of resource managers.

    With `administration` it also serves the services without a session. The core gets the calls of one kind in the
    order in which they were sent, and a ResourceManagerCallback that never blocks. When a connection is lost, the core
    receives `connection_lost`.
    """

    def __init__(
        self,
        core: SchedulerAPI,
        address: str,
        *,
        tls: TlsFiles | None = None,
        settings: TransportSettings = _DEFAULTS,
        allow_plaintext: bool = False,
        administration: AdministrationAPI | None = None,
    ) -> None:
        """Checks the address.

        Raises:
            AddressError: the address is invalid or needs TLS.
        """
        require_protection(address, has_tls=tls is not None, allow_plaintext=allow_plaintext)
        self._address = address
        self._parsed: Address = parse_address(address)
        self._tls = tls
        self._settings = settings
        self._sessions = Sessions(core)
        self._servicer = Servicer(core, self._sessions, settings)
        self._administration = administration
        self._server: grpc.aio.Server | None = None

    async def start(self) -> str:
        """Listens and returns the address, with the selected port in place of 0.

        Raises:
            AddressError: the address is in use, or the directory of the socket does not exist.
        """
        path = self._parsed.path
        if path is not None:
            clear_stale_socket(self._address, path)
        server = grpc.aio.server(options=self._settings.options())
        server.add_generic_rpc_handlers(self._servicer.handlers())
        if self._administration is not None:
            server.add_generic_rpc_handlers(handlers(self._administration))
        port = self._bind(server)
        await server.start()
        self._server = server
        if path is not None:
            return self._address
        return f"{self._parsed.target.rpartition(':')[0]}:{port}"

    def _bind(self, server: grpc.aio.Server) -> int:
        try:
            with private_socket():
                if self._tls is None:
                    return server.add_insecure_port(self._parsed.target)
                return server.add_secure_port(self._parsed.target, self._tls.for_server())
        except RuntimeError as error:
            raise AddressError(self._address, "cannot be listened on; is it in use?") from error

    async def aclose(self) -> None:
        """Sends what is queued, closes every session with UNAVAILABLE and stops listening.

        Takes at most twice `farewell_s`. The core gets the end of each session. Without `start` it does nothing.
        """
        server, self._server = self._server, None
        if server is None:
            return
        self._sessions.end_all("the scheduler is shutting down")
        await server.stop(grace=2 * self._settings.farewell_s)
        await self._sessions.notified()
        if self._parsed.path is not None:
            self._parsed.path.unlink(missing_ok=True)
