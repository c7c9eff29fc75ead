"""Writes ``deploy/webhooks.yaml``: the Service and both webhook configurations that the operator would register.

The file is for clusters in which an administrator registers webhooks (``--webhook-manifest``). Called by ``make
diagrams``; a test fails if the file is stale. With other scheduler names or another namespace:
``python -m tools.webhooks --schedulers muster --namespace gangs > webhooks.yaml``.
"""

from pathlib import Path
from typing import Annotated, Any

import typer
import yaml

from muster_operator.webhook.context import MusterIdentity
from muster_operator.webhook.registration import WebhookClientConfig, mutating, validating

ROOT = Path(__file__).resolve().parent.parent
FILE = ROOT / "deploy" / "webhooks.yaml"
SERVICE = "muster-webhook"
PORT = 9089
HEADER = """\
# Written by `make diagrams`; do not edit. `python -m tools.webhooks --help` writes a file with other names.
# Only for --webhook-manifest. Without this option the operator registers the webhooks and needs only the Service.
# The operator fills in caBundle. docs/operate/admission.md has the request matrix and the failure policy.
"""


def manifest(schedulers: frozenset[str], namespace: str, account: str) -> str:
    """Return the three YAML documents."""
    service: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": SERVICE, "namespace": namespace, "labels": {"app": "muster"}},
        "spec": {
            "selector": {"app": "muster", "component": "scheduler"},
            "ports": [{"name": "webhook", "port": 443, "targetPort": PORT}],
        },
    }
    client_config = WebhookClientConfig(namespace, service=SERVICE)
    ours = MusterIdentity(schedulers, f"system:serviceaccount:{namespace}:{account}", namespace)
    documents = [service, mutating(client_config, ours, ()), validating(client_config, ours, ())]
    return HEADER + yaml.dump_all(documents, Dumper=_Plain, sort_keys=False, width=120)


class _Plain(yaml.SafeDumper):
    """Repeats equal values instead of using aliases."""

    def ignore_aliases(self, data: object) -> bool:
        """Return True for all values."""
        return True


def main(
    schedulers: Annotated[str, typer.Option(help="service.schedulerNames")] = "muster,yunikorn",
    namespace: Annotated[str, typer.Option(help="namespace of Muster")] = "muster",
    account: Annotated[str, typer.Option(help="the operator's service account")] = "muster-operator",
) -> None:
    """Print the manifest for these names."""
    names = frozenset(name.strip() for name in schedulers.split(","))
    typer.echo(manifest(names, namespace, account), nl=False)


def default() -> str:
    """Return the manifest with default arguments."""
    return manifest(frozenset({"muster", "yunikorn"}), "muster", "muster-operator")


if __name__ == "__main__":
    typer.run(main)
