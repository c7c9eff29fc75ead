"""The command line of the operator, `python -m muster_operator`. It is a gRPC client of the core.

If the configuration does not allow the operator to run, it prints the reason in one line and exits with status 1. In a
cluster the kubelet restarts it, and each log ends with the reason and the fix.
"""

from __future__ import annotations

import asyncio
import socket
import uuid
from pathlib import Path
from typing import Annotated, Any, Final

import typer
import uvloop

from muster_operator.kube.leadership import DURATION_S, Candidacy
from muster_operator.model.errors import LinkError, StartupRefused
from muster_operator.running import Options, run
from muster_operator.runtime import logs
from muster_operator.runtime.logs import LogLevel
from muster_operator.runtime.session import PAUSE_S
from muster_operator.webhook.service import WebhookOptions
from muster_si import log_lines
from muster_si.errors import AddressError
from muster_si.log_lines import LogFormat
from muster_si.transport.administration import AdministrationClient
from muster_si.transport.credentials import TlsFiles
from muster_si.transport.grpc_client import GrpcClient

LEASE_NAME: Final = "muster"


def option(variable: str, about: str, *names: str, **bounds: Any) -> Any:
    """Returns an option of the operator, which is also the environment variable MUSTER_ + `variable`."""
    return typer.Option(*names, envvar=f"MUSTER_{variable}", help=about, **bounds)


LeaderElect = Annotated[bool, option("LEADER_ELECT", "Elect a leader with the Lease, and write only as the leader.")]
LeaseName = Annotated[str, option("LEASE_NAME", "Name of the leader's Lease in Muster's namespace.")]
LeaseDuration = Annotated[int, option("LEASE_DURATION", "Duration of the Lease in seconds.", min=2)]
Identity = Annotated[
    str,
    option(
        "IDENTITY",
        "Holder identity, unique for each process and kept when the container restarts (pod name and UID); "
        "empty: a new one at each start.",
    ),
]
PodName = Annotated[
    str, typer.Option(envvar="POD_NAME", help="Name of the pod that gets the leader label; empty: none.")
]
CompareEvery = Annotated[float, option("COMPARE_EVERY", "Seconds between two parts of the state comparison.", min=0.05)]
Tracing = Annotated[
    bool,
    option("TRACING", "Export a trace of each application with OpenTelemetry; set the endpoint with OTEL_* variables."),
]
WEBHOOK_PORT: Final = 9089

WebhookService = Annotated[
    str, option("WEBHOOK_SERVICE", "Service of the webhook in Muster's namespace; enables the webhook.")
]
WebhookUrl = Annotated[
    str,
    option(
        "WEBHOOK_URL",
        "URL of the webhook (https://host:port) for an operator outside the cluster; enables the webhook.",
    ),
]
WebhookPort = Annotated[int, option("WEBHOOK_PORT", "Port of the webhook.")]
WebhookCert = Annotated[
    Path | None, option("WEBHOOK_CERT", "Serving certificate of the webhook, PEM (default: created by Muster).")
]
WebhookKey = Annotated[Path | None, option("WEBHOOK_KEY", "Key of the certificate, PEM.")]
WebhookCa = Annotated[
    Path | None, option("WEBHOOK_CA", "CA certificate of the webhook, PEM; if empty, caBundle is not written.")
]
WebhookManifest = Annotated[
    bool, option("WEBHOOK_MANIFEST", "Update only caBundle of a registration that you apply (deploy/webhooks.yaml).")
]

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


def tls_files(certificate: Path | None, key: Path | None, authority: Path | None) -> TlsFiles | None:
    """Returns the three files of mutual TLS, or None if none is given.

    Raises:
        StartupRefused: only some are given, or one does not exist.
    """
    if certificate is None and key is None and authority is None:
        return None
    if certificate is None or key is None or authority is None:
        raise StartupRefused("--tls-cert, --tls-key and --tls-ca must be set together")
    for path in (certificate, key, authority):
        if not path.is_file():
            raise StartupRefused(f"TLS: {path} does not exist")
    return TlsFiles(certificate, key, authority)


def own_identity() -> str:
    """Returns a unique name of this process, so that another process never takes its Lease for its own."""
    return f"{socket.gethostname()}_{uuid.uuid4()}"


@app.command()
def main(  # noqa: PLR0913 # long: the command line is its options
    *,
    core: Annotated[
        str, option("CORE", "Address of the core: unix:///path or host:port.")
    ] = "unix:///run/muster/core.sock",
    tls_cert: Annotated[Path | None, option("TLS_CERT", "Client certificate, PEM.")] = None,
    tls_key: Annotated[Path | None, option("TLS_KEY", "Key of the certificate, PEM.")] = None,
    tls_ca: Annotated[Path | None, option("TLS_CA", "CA certificate that verifies the core, PEM.")] = None,
    allow_plaintext: Annotated[bool, option("ALLOW_PLAINTEXT", "Allow TCP without TLS beyond loopback.")] = False,
    health_port: Annotated[int, option("HEALTH_PORT", "Port of probes and metrics; 0 = any free port.")] = 8081,
    namespace: Annotated[str, typer.Option(envvar="NAMESPACE", help="Namespace of the ConfigMaps.")] = "default",
    leader_elect: LeaderElect = True,
    lease_name: LeaseName = LEASE_NAME,
    lease_duration: LeaseDuration = DURATION_S,
    identity: Identity = "",
    pod_name: PodName = "",
    webhook_service: WebhookService = "",
    webhook_url: WebhookUrl = "",
    webhook_port: WebhookPort = WEBHOOK_PORT,
    webhook_cert: WebhookCert = None,
    webhook_key: WebhookKey = None,
    webhook_ca: WebhookCa = None,
    webhook_manifest: WebhookManifest = False,
    compare_every: CompareEvery = PAUSE_S,
    tracing: Tracing = False,
    log_level: Annotated[
        LogLevel, option("LOG_LEVEL", "Log level; the setting log.level takes precedence.")
    ] = LogLevel.INFO,
    log_format: Annotated[LogFormat, option("LOG_FORMAT", "Log format.")] = LogFormat.JSON,
) -> None:
    """Run the operator: watch the cluster and apply the decisions of the core."""
    try:
        logs.configure(log_level, log_format)
        log_lines.log_uncaught_exceptions()
        tls = tls_files(tls_cert, tls_key, tls_ca)
        client = GrpcClient(core, tls=tls, allow_plaintext=allow_plaintext)
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            candidacy = Candidacy(namespace, lease_name, identity or own_identity(), lease_duration)
            webhook = WebhookOptions(
                webhook_service, webhook_url, webhook_port, webhook_cert, webhook_key, webhook_ca, webhook_manifest
            )
            leader = candidacy if leader_elect else None
            options = Options(namespace, health_port, leader, webhook, compare_every, pod_name, tracing)
            runner.run(
                run(
                    options,
                    lambda: client,
                    lambda: AdministrationClient(core, tls=tls, allow_plaintext=allow_plaintext),
                )
            )
    except (LinkError, AddressError) as error:
        typer.echo(f"muster operator cannot serve: {error}", err=True)
        raise typer.Exit(1) from error
