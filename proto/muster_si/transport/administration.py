"""muster.v1.AdminService and MetricsService over gRPC: handlers of the server, and a client.

    admin = AdministrationClient("unix:///run/muster/si.sock")
    state = await admin.scheduler_state(muster_pb2.SchedulerStateRequest())

The services have no sessions: every client that can connect can use them. In one process the core's own
AdministrationAPI is used.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

import grpc
from google.protobuf.message import Message

from muster_si import muster_pb2
from muster_si.api import AdministrationAPI
from muster_si.errors import SessionLost
from muster_si.transport.channel import ClientChannel
from muster_si.transport.credentials import TlsFiles
from muster_si.transport.servicer import unary
from muster_si.transport.sessions import Context
from muster_si.transport.settings import TransportSettings
from muster_si.transport.status import raised
from muster_si.transport.streams import ADMIN_SERVICE, METRICS_SERVICE, parse

M = TypeVar("M", bound=Message)
_DEFAULTS = TransportSettings()


def handlers(core: AdministrationAPI) -> list[grpc.GenericRpcHandler]:
    """Handlers of both services for a grpc.aio server."""
    admin = {
        "UpdateConfig": _handler(muster_pb2.UpdateConfigRequest, core.update_config),
        "ValidateConfiguration": _handler(muster_pb2.ValidateConfigurationRequest, core.validate_configuration),
    }
    metrics = {
        "GetSchedulerState": _handler(muster_pb2.SchedulerStateRequest, core.scheduler_state),
        "GetAutoScalingMetrics": _handler(muster_pb2.AutoScalingMetricsRequest, core.autoscaling_metrics),
    }
    return [
        grpc.method_handlers_generic_handler(ADMIN_SERVICE, admin),
        grpc.method_handlers_generic_handler(METRICS_SERVICE, metrics),
    ]


def _handler(kind: type[M], ask: Callable[[M], Awaitable[Message]]) -> grpc.RpcMethodHandler[bytes, bytes]:
    async def act(data: bytes, context: Context) -> Message:
        return await ask(parse(kind, data))

    return unary(act)


class AdministrationClient:
    """An AdministrationAPI over a socket."""

    def __init__(
        self,
        address: str,
        *,
        tls: TlsFiles | None = None,
        settings: TransportSettings = _DEFAULTS,
        allow_plaintext: bool = False,
    ) -> None:
        """Does not connect yet.

        Raises:
            AddressError: the address is invalid or needs TLS.
        """
        self._timeout_s = settings.question_timeout_s
        self._channel = ClientChannel(address, tls, settings, allow_plaintext=allow_plaintext)

    async def update_config(self, request: muster_pb2.UpdateConfigRequest) -> muster_pb2.UpdateConfigResponse:
        """Replaces a configuration. Raises Refused, or SessionLost without an answer."""
        data = await self._call(f"/{ADMIN_SERVICE}/UpdateConfig", request)
        return parse(muster_pb2.UpdateConfigResponse, data)

    async def validate_configuration(
        self, request: muster_pb2.ValidateConfigurationRequest
    ) -> muster_pb2.ValidateConfigurationResponse:
        """Validates a configuration. Raises Refused, or SessionLost without an answer."""
        data = await self._call(f"/{ADMIN_SERVICE}/ValidateConfiguration", request)
        return parse(muster_pb2.ValidateConfigurationResponse, data)

    async def scheduler_state(self, request: muster_pb2.SchedulerStateRequest) -> muster_pb2.SchedulerState:
        """Statistics of resource managers and partitions. Raises Refused, or SessionLost without an answer."""
        data = await self._call(f"/{METRICS_SERVICE}/GetSchedulerState", request)
        return parse(muster_pb2.SchedulerState, data)

    async def autoscaling_metrics(self, request: muster_pb2.AutoScalingMetricsRequest) -> muster_pb2.AutoScalingMetrics:
        """Resource requests that wait for missing nodes. Raises Refused, or SessionLost without an answer."""
        data = await self._call(f"/{METRICS_SERVICE}/GetAutoScalingMetrics", request)
        return parse(muster_pb2.AutoScalingMetrics, data)

    async def aclose(self) -> None:
        """Closes the connection."""
        await self._channel.aclose()

    async def _call(self, method: str, request: Message) -> bytes:
        call: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = self._channel.channel().unary_unary(method)
        try:
            # Waits for a core that is starting, because gRPC retries a failed address only after a pause.
            return await call(request.SerializeToString(), wait_for_ready=True, timeout=self._timeout_s)
        except grpc.aio.AioRpcError as error:
            if error.code() is not grpc.StatusCode.DEADLINE_EXCEEDED:
                raise raised(error) from error
            reason = f"no scheduler answered within {self._timeout_s:g} s: {error.details()}"
            raise SessionLost(reason) from error
