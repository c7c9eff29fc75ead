"""Values of YuniKorn's chart: equal values have the same effect; the others are rejected by name."""

import re
import subprocess
from pathlib import Path

import pytest

from tests.install.choices import Json
from tests.install.test_chart import named
from tools.manifests import render

PAGE = Path(__file__).parents[2] / "docs" / "migration" / "from-yunikorn.md"

SAME: Json = {
    "image": {"repository": "registry.example.com/muster", "tag": "1.0.0", "pullPolicy": "Always"},
    "imagePullSecrets": ["one", "two"],
    "serviceAccount": "yunikorn-admin",
    "hostNetwork": True,
    "priorityClassName": "system-cluster-critical",
    "nodeSelector": {"pool": "system"},
    "tolerations": [{"key": "system", "operator": "Exists"}],
    "affinity": {"nodeAffinity": {}},
    "podLabels": {"team": "batch"},
    "podAnnotations": {"seen": "yes"},
    "podSecurityContext": {"runAsUser": 10001},
    "service": {"type": "LoadBalancer", "port": 9081},
    "embedAdmissionController": False,
    "yunikornDefaults": {"service.clusterId": "ours", "event.ringBufferCapacity": 1_000_000, "log.level": "DEBUG"},
}
"""All of them, with a value that is not the default."""

OTHERS = {
    "resources",
    "goGC",
    "goMemoryLimit",
    "goMemoryLimitPercentage",
    "ingress",
    "enableWebService",
    "admissionController",
    "web",
    "schedulerSecurityContext",
    "webSecurityContext",
    "admissionPodSecurityContext",
    "admissionContainerSecurityContext",
    "configuration",
    "operatorPlugins",
    "placeHolderImage",
}
"""All others at the top."""


@pytest.fixture(scope="module")
def made() -> list[Json]:
    return render(SAME)


def test_values_about_the_pod_do_what_they_do_there(made: list[Json]) -> None:
    deployment = named(made, "Deployment", "muster")["spec"]
    metadata, pod = deployment["template"]["metadata"], deployment["template"]["spec"]
    assert deployment["strategy"] == {"type": "Recreate"}
    assert (pod["hostNetwork"], pod["dnsPolicy"]) == (True, "ClusterFirstWithHostNet")
    assert pod["imagePullSecrets"] == [{"name": "one"}, {"name": "two"}]
    assert pod["serviceAccountName"] == "yunikorn-admin"
    assert all(pod[key] == SAME[key] for key in ("priorityClassName", "nodeSelector", "tolerations", "affinity"))
    assert pod["securityContext"]["runAsUser"] == 10001
    assert SAME["podLabels"].items() <= metadata["labels"].items()
    assert SAME["podAnnotations"].items() <= metadata["annotations"].items()
    for container in pod["containers"]:
        assert (container["image"], container["imagePullPolicy"]) == ("registry.example.com/muster:1.0.0", "Always")


def test_the_account_has_the_rights_that_ours_would_have(made: list[Json]) -> None:
    kinds = {"ClusterRoleBinding", "RoleBinding"}
    bindings = [one for one in made if one["kind"] in kinds and one["metadata"]["name"] == "muster-operator"]
    assert [one["metadata"].get("namespace") for one in bindings] == [None, "muster", "kube-system"]
    subjects = [subject for binding in bindings for subject in binding["subjects"]]
    assert {subject["name"] for subject in subjects} == {"yunikorn-admin"}
    assert named(made, "ServiceAccount", "yunikorn-admin")


def test_the_service_is_of_that_type_and_port_and_there_is_no_webhook(made: list[Json]) -> None:
    service = named(made, "Service", "muster")["spec"]
    assert (service["type"], service["ports"][0]["port"]) == ("LoadBalancer", 9081)
    assert not [one for one in made if one["metadata"]["name"] == "muster-webhook"]


def test_defaults_are_a_config_map_of_yunikorns_name_with_numbers_as_they_were_written(made: list[Json]) -> None:
    data = named(made, "ConfigMap", "yunikorn-defaults")["data"]
    assert data == {"service.clusterId": "ours", "event.ringBufferCapacity": "1000000", "log.level": "DEBUG"}


@pytest.mark.parametrize("name", sorted(OTHERS))
def test_any_other_value_is_refused_by_its_name(name: str) -> None:
    with pytest.raises(subprocess.CalledProcessError) as refused:
        render({name: {}})
    assert f"additional properties '{name}' not allowed" in refused.value.stderr


def test_the_page_about_migration_has_each_of_them() -> None:
    coming = PAGE.read_text().partition("## Helm values")[2].partition("\n## ")[0]
    told = set(re.findall(r"`([A-Za-z]+)[.`]", coming))
    assert OTHERS | set(SAME) <= told
