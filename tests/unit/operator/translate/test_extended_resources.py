"""Claims for extended resources have the requests and mappings of kube-scheduler; a pod with one is translated."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest

from muster_operator.model.cluster_events import DeviceClassSeen, PodSeen
from muster_operator.model.devices import PodClaim
from muster_operator.model.ids import PodUid
from muster_operator.model.pods import Pod, PodRef
from muster_operator.model.settings import Settings
from muster_operator.translate.extended_resources import claim, providers
from muster_operator.translate.objects import read_object
from muster_si import keys

#: 60 random pods, and what `createRequestsAndMappings` of Kubernetes 1.37.2 returns for them.
CASES: list[dict[str, Any]] = orjson.loads(Path(__file__).with_name("extended_resources.json").read_bytes())
CLASSES = {"x.io/gpu": "gpus", "x.io/nic": "nics"}
POD = PodRef("dev", "p", PodUid("uid-p"))


@pytest.mark.parametrize("case", CASES, ids=range(len(CASES)))
def test_requests_and_mappings_are_those_of_kube_scheduler(case: dict[str, Any]) -> None:
    manifest, status = claim(POD, case["spec"], CLASSES)
    requests = [
        [one["name"], one["exactly"]["deviceClassName"], one["exactly"]["count"]]
        for one in manifest["spec"]["devices"]["requests"]
    ]
    mappings = [[one["containerName"], one["resourceName"], one["requestName"]] for one in status["requestMappings"]]
    assert (requests, mappings) == (case["requests"], case["mappings"])
    assert status["resourceClaimName"] == manifest["metadata"]["name"]


def test_the_name_of_a_claim_is_valid_and_that_of_one_pod() -> None:
    refs = [PodRef("dev", "a." * 126, PodUid(uid)) for uid in ("1", "2")]
    names = {claim(ref, {}, {})[0]["metadata"]["name"] for ref in refs}
    assert len(names) == 2
    assert all(len(name) <= 253 and ".-" not in name for name in names)


def test_the_newest_class_provides_a_resource_then_the_first_by_name() -> None:
    def a_class(name: str, day: int, resource: str = "x.io/gpu") -> Any:
        metadata = {"name": name, "creationTimestamp": f"2026-01-0{day}T00:00:00Z"}
        raw = {"metadata": metadata, "spec": {"extendedResourceName": resource}}
        fact = read_object("deviceclasses", raw, Settings())
        assert isinstance(fact, DeviceClassSeen)
        return fact.device_class

    classes = [a_class("old", 1), a_class("c", 2), a_class("b", 2), a_class("none", 3, "")]
    found = providers(classes)
    assert found == {"x.io/gpu": "b"} | {keys.RESOURCE_OF_CLASS + one.name: one.name for one in classes}


def test_a_pod_has_the_claim_of_its_status_instead_of_the_resources() -> None:
    requests = {"cpu": "1", "x.io/gpu": "2", "x.io/nic": "1"}
    raw = {
        "metadata": {"name": "p", "namespace": "dev", "uid": "uid-p", "labels": {"applicationId": "a"}},
        "spec": {
            "schedulerName": "muster",
            "containers": [{"name": "c", "resources": {"requests": requests}}],
            "resourceClaims": [{"name": "own", "resourceClaimName": "own"}],
        },
        "status": {
            "phase": "Pending",
            "extendedResourceClaimStatus": {
                "resourceClaimName": "made",
                "requestMappings": [{"containerName": "c", "resourceName": "x.io/gpu", "requestName": "r"}],
            },
        },
    }
    fact = read_object("pods", raw, Settings())
    assert isinstance(fact, PodSeen)
    assert isinstance(fact.pod, Pod)
    assert fact.pod.claims == (PodClaim("own", "own", False), PodClaim("extended resources", "made", True))
    assert fact.pod.resources == {"vcore": 1000, "x.io/nic": 1, "pods": 1}
