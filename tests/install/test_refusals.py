"""A value that the chart does not know, or that cannot be, is refused by the name of its key."""

import subprocess
from typing import Any

import pytest

from tools.manifests import render

WRONG: dict[str, dict[str, Any]] = {
    "replica": {"replica": 2},
    "replicas": {"replicas": 3},
    "/image": {"image": {"registry": "example.com"}},
    "/image/pullPolicy": {"image": {"pullPolicy": "Sometimes"}},
    "enable'": {"webhook": {"enable": True}},
    "/webhook/certificates": {"webhook": {"certificates": "letsencrypt"}},
    "/webhook/secret": {"webhook": {"certificates": "secret"}},
    "/log/level": {"log": {"level": "loud"}},
    "/core/resources": {"core": {"resources": {"request": {"cpu": "1"}}}},
    "leaseDurationSeconds": {"leaderElection": {"leaseDurationSeconds": "10s"}},
    "queues": {"queues": "partitions: []"},
    "/settings": {"settings": {"service": {"clusterId": "a"}}},
    "serviceAccount": {"serviceAccount": {"name": "mine"}},
    "goGC": {"goGC": 100},
    "admissionController": {"admissionController": {"replicaCount": 2}},
    "enableWebService": {"enableWebService": True},
    "/service/type": {"service": {"type": "ExternalName"}},
    "/split/port": {"split": {"port": 80}},
    "/monitoring": {"monitoring": {"podMonitor": {"enabled": True}}},
    "/imagePullSecrets/0": {"imagePullSecrets": ["key"]},
    "yunikornDefaults": {"yunikornDefaults": {"a": "b"}, "settings": {"a": "b"}},
}


@pytest.mark.parametrize("key", WRONG)
def test_a_wrong_value_is_refused_by_its_key(key: str) -> None:
    with pytest.raises(subprocess.CalledProcessError) as refused:
        render(WRONG[key])
    assert key in refused.value.stderr


def test_a_core_of_its_own_needs_certificates() -> None:
    with pytest.raises(subprocess.CalledProcessError) as refused:
        render({"split": {"enabled": True}})
    assert "split.tls" in refused.value.stderr
