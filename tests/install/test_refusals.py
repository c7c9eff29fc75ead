"""An unknown or invalid chart value is rejected with a message that names its key."""

import subprocess
from typing import Any

import pytest

from tools.manifests import render

INVALID: dict[str, dict[str, Any]] = {
    "at '/replicas': maximum: got 3, want 2": {"replicas": 3},
    "at '/image': additional properties 'mirror' not allowed": {"image": {"mirror": "example.com"}},
    "at '/image/pullPolicy': value must be one of 'Always', 'IfNotPresent', 'Never'": {
        "image": {"pullPolicy": "Sometimes"}
    },
    "at '/image/digest': 'latest' does not match pattern": {"image": {"digest": "latest"}},
    "at '/imagePullSecrets/0': got number, want string": {"imagePullSecrets": [1]},
    "at '/webhook': additional properties 'enable' not allowed": {"webhook": {"enable": True}},
    "at '/webhook/certificates': value must be one of 'self', 'certManager', 'secret'": {
        "webhook": {"certificates": "letsencrypt"}
    },
    "at '/webhook/secret': minLength: got 0, want 1": {"webhook": {"enabled": True, "certificates": "secret"}},
    "at '/log/level': value must be one of 'debug', 'info', 'warning', 'error'": {"log": {"level": "loud"}},
    "at '/core/resources': additional properties 'request' not allowed": {
        "core": {"resources": {"request": {"cpu": "1"}}}
    },
    "at '/leaderElection/leaseDurationSeconds': got string, want integer": {
        "leaderElection": {"leaseDurationSeconds": "10s"}
    },
    "at '/serviceAccount': got object, want string": {"serviceAccount": {"name": "mine"}},
    "at '/service/type': value must be one of 'ClusterIP', 'NodePort', 'LoadBalancer'": {
        "service": {"type": "ExternalName"}
    },
    "at '/split/port': minimum: got 80, want 1,024": {"split": {"port": 80}},
    "at '/monitoring': additional properties 'podMonitor' not allowed": {"monitoring": {"podMonitor": {}}},
    "at '/priorityClass/value': maximum": {"priorityClass": {"value": 2_000_000_000}},
    "at '/rest/simulationMiB': minimum: got 64, want 128": {"rest": {"simulationMiB": 64}},
    "at '/startupSeconds': minimum: got 1, want 10": {"startupSeconds": 1},
}
"""Error message of the schema -> invalid values."""

CONTRADICTIONS: dict[str, dict[str, Any]] = {
    "split.tls: split.enabled requires mutual TLS": {"split": {"enabled": True}},
    "yunikornDefaults and queues or settings": {"yunikornDefaults": {"a": "b"}, "settings": {"a": "b"}},
    "queues and settings.queues.yaml: both define the queues": {
        "queues": {"partitions": []},
        "settings": {"queues.yaml": "partitions: []"},
    },
    "settings.service.schedulerNames: written twice, as a key with dots and as a nested key": {
        "settings": {"service.schedulerNames": "a", "service": {"schedulerNames": ["b"]}}
    },
    "settings.service.schedulerNames: an item of the list is not a single value": {
        "settings": {"service": {"schedulerNames": [{"name": "b"}]}}
    },
    "rest.ingress.host: rest.ingress.enabled needs the host name": {"rest": {"ingress": {"enabled": True}}},
    "rest.closed requires rest.kubernetesAuth": {"rest": {"closed": True}},
    "hostNetwork: REST would be open to everyone who reaches the node": {
        "hostNetwork": True,
        "rest": {"closed": False},
    },
    "rest.compatibilityMode: open contradicts rest.closed": {
        "rest": {"closed": True, "kubernetesAuth": True, "compatibilityMode": "open", "tlsSecret": "rest"}
    },
    "tracing.endpoint: tracing.enabled needs the OTLP endpoint": {"tracing": {"enabled": True}},
    "monitoring.serviceMonitor.tokenSecret: rest.closed requires a token": {
        "rest": {"closed": True, "kubernetesAuth": True},
        "monitoring": {"serviceMonitor": {"enabled": True}},
    },
}
"""Error message of the templates -> contradicting values."""


@pytest.mark.parametrize("message", [*INVALID, *CONTRADICTIONS])
def test_an_invalid_value_is_rejected_with_its_key(message: str) -> None:
    with pytest.raises(subprocess.CalledProcessError) as rejected:
        render((INVALID | CONTRADICTIONS)[message])
    assert message in rejected.value.stderr
