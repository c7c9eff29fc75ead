"""Values of YuniKorn's chart: equal values have the same effect; the others are rejected with their replacement."""

import re
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.install.choices import TLS, Json
from tests.install.test_chart import named
from tools.chart import REJECTED
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
"""All values with the same effect, each with a value other than the default."""

OTHERS = {
    "image.registry",
    "resources",
    "envs",
    "extraVolumes",
    "extraVolumeMounts",
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
    "service.portWeb",
}
"""All other values of the chart."""


@pytest.fixture(scope="module")
def rendered() -> list[Json]:
    return render(SAME)


def test_values_about_the_pod_do_what_they_do_there(rendered: list[Json]) -> None:
    deployment = named(rendered, "Deployment", "muster")["spec"]
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


def test_the_custom_account_has_all_operator_permissions(rendered: list[Json]) -> None:
    kinds = {"ClusterRoleBinding", "RoleBinding"}
    bindings = [one for one in rendered if one["kind"] in kinds and one["metadata"]["name"] == "muster-operator"]
    assert [one["metadata"].get("namespace") for one in bindings] == [None, "muster", "kube-system"]
    subjects = [subject for binding in bindings for subject in binding["subjects"]]
    assert {subject["name"] for subject in subjects} == {"yunikorn-admin"}
    assert named(rendered, "ServiceAccount", "yunikorn-admin")


def test_the_service_is_of_that_type_and_port_and_there_is_no_webhook(rendered: list[Json]) -> None:
    service = named(rendered, "Service", "muster")["spec"]
    assert (service["type"], service["ports"][0]["port"]) == ("LoadBalancer", 9081)
    assert not [one for one in rendered if one["metadata"]["name"] == "muster-webhook"]


def test_defaults_are_a_config_map_of_yunikorns_name_with_numbers_as_they_were_written(rendered: list[Json]) -> None:
    data = named(rendered, "ConfigMap", "yunikorn-defaults")["data"]
    assert data == {"service.clusterId": "ours", "event.ringBufferCapacity": "1000000", "log.level": "DEBUG"}


def rejection(values: Json) -> str:
    with pytest.raises(subprocess.CalledProcessError) as refused:
        render(values)
    text: str = refused.value.stderr
    return text


def test_all_other_values_are_rejected_in_one_error_with_their_replacements() -> None:
    mapping: dict[str, str] = yaml.safe_load(REJECTED.read_text())
    assert set(mapping) == OTHERS
    given: Json = {name: {"some": "value"} for name in OTHERS if "." not in name} | {
        "service": {"portWeb": 9889},
        "image": {"registry": "registry.example.com"},
    }
    error = rejection(given)
    assert [f"  {name}: {instead}" for name, instead in mapping.items() if f"  {name}: {instead}" not in error] == []
    assert "  goGC: remove it" in rejection({"goGC": 0})
    assert "web" not in rejection({"resources": {}}).partition("does not have:")[2]


def test_a_value_that_is_null_is_not_given() -> None:
    """YuniKorn's chart has null as the default of deprecated values."""
    assert render({"configuration": None, "operatorPlugins": None})


def test_a_service_of_yunikorns_name_selects_the_same_pods_if_it_is_enabled(rendered: list[Json]) -> None:
    services = [one["metadata"]["name"] for one in rendered if one["kind"] == "Service"]
    assert "yunikorn-service" not in services
    for values in ({}, {"split": {"enabled": True, "tls": TLS}}):
        enabled = render(values | {"yunikornService": {"enabled": True}})
        ours, theirs = (named(enabled, "Service", name)["spec"] for name in ("muster", "yunikorn-service"))
        assert theirs["selector"] == ours["selector"]
        assert theirs["ports"] == [{"name": "yunikorn-core", "port": 9080, "targetPort": "rest"}]
    renamed = render({"yunikornService": {"enabled": True, "name": "scheduler"}, "service": {"port": 9081}})
    assert named(renamed, "Service", "scheduler")["spec"]["ports"][0]["port"] == 9081


def test_the_page_about_migration_has_each_of_them() -> None:
    coming = PAGE.read_text().partition("## Helm values")[2].partition("\n## ")[0]
    documented = set(re.findall(r"`([A-Za-z]+)[.`]", coming))
    assert {name.partition(".")[0] for name in OTHERS | set(SAME)} <= documented
