"""`muster run`: core and operator in one event loop, connected by the in-process transport.

For demos and small clusters. Production runs two processes over a socket: `muster core` and `muster operator`.
"""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer
import uvloop

from muster.text import print_line
from muster_core import main as core
from muster_core.rest.auth import AccessSettings, CompatibilityMode
from muster_core.runtime.log_level import LogLevel as CoreLogLevel
from muster_core.runtime.service import Administration
from muster_operator import main as operator
from muster_operator.kube.leadership import DURATION_S, Candidacy
from muster_operator.model.errors import LinkError
from muster_operator.running import Options
from muster_operator.running import run as run_operator
from muster_operator.runtime import logs
from muster_operator.runtime.logs import LogLevel
from muster_operator.runtime.session import PAUSE_S
from muster_operator.webhook.service import WebhookOptions
from muster_si import log_lines
from muster_si.log_lines import LogFormat
from muster_si.transport.inprocess import InProcessClient

EXAMPLES = ("muster run --namespace muster",)


class _Levels:
    """The log level of this process, for the core's REST interface."""

    def __init__(self, level: LogLevel) -> None:
        self.level = CoreLogLevel(level.value)

    def set(self, level: CoreLogLevel) -> None:
        """Set the level."""
        self.level = level
        logs.set_level(level.value)


def command(  # noqa: PLR0913 # long: the command line is its options
    *,
    namespace: Annotated[str, typer.Option(envvar="NAMESPACE", help="Namespace of the ConfigMaps.")] = "default",
    leader_elect: operator.LeaderElect = True,
    lease_name: operator.LeaseName = operator.LEASE_NAME,
    lease_duration: operator.LeaseDuration = DURATION_S,
    identity: operator.Identity = "",
    pod_name: operator.PodName = "",
    webhook_service: operator.WebhookService = "",
    webhook_url: operator.WebhookUrl = "",
    webhook_port: operator.WebhookPort = operator.WEBHOOK_PORT,
    webhook_cert: operator.WebhookCert = None,
    webhook_key: operator.WebhookKey = None,
    webhook_ca: operator.WebhookCa = None,
    webhook_manifest: operator.WebhookManifest = False,
    compare_every: operator.CompareEvery = PAUSE_S,
    tracing: operator.Tracing = False,
    health_port: Annotated[
        int, typer.Option(envvar="MUSTER_HEALTH_PORT", help="Port of probes and metrics; 0 = any free port.")
    ] = 8081,
    rest_address: Annotated[
        str, typer.Option(envvar="MUSTER_CORE_REST_ADDRESS", help="Listen address of REST and of the core's metrics.")
    ] = "127.0.0.1",
    rest_port: Annotated[
        int, typer.Option(envvar="MUSTER_CORE_REST_PORT", help="Port of REST; 0 = any free port.")
    ] = 9080,
    rest_tls_cert: core.RestTlsCert = None,
    rest_tls_key: core.RestTlsKey = None,
    rest_token_file: core.RestTokenFile = None,
    rest_kubernetes_auth: core.RestKubernetesAuth = False,
    rest_closed: core.RestClosed = False,
    rest_trust_loopback: core.RestTrustLoopback = False,
    rest_compatibility_mode: core.RestCompatibilityMode = CompatibilityMode.CLOSED,
    rest_ui: core.RestUi = True,
    log_level: Annotated[LogLevel, typer.Option(envvar="MUSTER_LOG_LEVEL", help="Log level.")] = LogLevel.INFO,
    log_format: Annotated[LogFormat, typer.Option(envvar="MUSTER_LOG_FORMAT", help="Log format.")] = LogFormat.CONSOLE,
) -> None:
    """Run core and operator in one process, for the cluster of KUBECONFIG."""
    logs.configure(log_level, log_format)
    log_lines.log_uncaught_exceptions()
    candidacy = Candidacy(namespace, lease_name, identity or operator.own_identity(), lease_duration)
    leader = candidacy if leader_elect else None
    webhook = WebhookOptions(
        webhook_service, webhook_url, webhook_port, webhook_cert, webhook_key, webhook_ca, webhook_manifest
    )
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(
                run_embedded(
                    Options(namespace, health_port, leader, webhook, compare_every, pod_name, tracing),
                    core.Options(
                        rest_address=rest_address,
                        rest_port=rest_port,
                        rest_tls=core.rest_tls(rest_tls_cert, rest_tls_key),
                        rest_access=AccessSettings(
                            rest_token_file,
                            rest_kubernetes_auth,
                            rest_closed,
                            rest_trust_loopback,
                            rest_compatibility_mode,
                        ),
                        rest_ui=rest_ui,
                        levels=_Levels(log_level),
                    ),
                )
            )
    except (LinkError, core.StartError) as error:
        print_line(f"muster cannot start: {error}", err=True)
        raise typer.Exit(1) from error


async def run_embedded(operator_options: Options, core_options: core.Options) -> None:
    """Run core and operator in this event loop, until SIGTERM or SIGINT; the operator drains before the core stops.

    Raises:
        LinkError: the operator cannot start with these options.
        StartError: the core cannot start with these options.
    """
    async with core.running(core_options) as scheduler:
        await run_operator(operator_options, lambda: InProcessClient(scheduler), lambda: Administration(scheduler))
