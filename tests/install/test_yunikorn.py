"""Values of YuniKorn's chart: equal values have the same effect; the others are rejected with their replacement."""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.install.choices import TLS, Json
from tests.install.test_chart import named
from tools.chart import REJECTED
from tools.manifests import render

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "helm-values.md"

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
    "extraVolumes": [{"name": "scratch", "emptyDir": {}}],
    "service": {"type": "LoadBalancer", "port": 9081},
    "embedAdmissionController": False,
    "yunikornDefaults": {"service.clusterId": "ours", "event.ringBufferCapacity": 1_000_000, "log.level": "DEBUG"},
}
"""All values with the same effect, each with a value other than the default."""

RELEASES: dict[str, Json] = yaml.safe_load(Path(__file__).with_name("yunikorn_values.yaml").read_text())
"""Complete values files of the releases of YuniKorn's chart."""


@pytest.fixture(scope="module")
def rendered() -> list[Json]:
    return render(SAME)


def test_values_about_the_pod_do_what_they_do_there(rendered: list[Json]) -> None:
    deployment = named(rendered, "Deployment", "muster")["spec"]
    metadata, pod = deployment["template"]["metadata"], deployment["template"]["spec"]
    rolling = {"maxSurge": 0, "maxUnavailable": 1}
    assert deployment["strategy"] == {"type": "RollingUpdate", "rollingUpdate": rolling}
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


MAPPING: dict[str, str] = yaml.safe_load(REJECTED.read_text())


def given(values: Json, path: str = "") -> Iterator[str]:
    """Yield the paths of the values of YuniKorn's chart that a file sets; groups of both charts are entered."""
    for key, value in values.items():
        if key in {"image", "service"}:
            yield from given(value, f"{key}.")
        elif value is not None:
            yield f"{path}{key}"


@pytest.mark.parametrize("release", RELEASES)
def test_a_complete_values_file_gives_one_error_with_the_replacement_of_each_unsupported_value(release: str) -> None:
    unsupported = [key for key in given(RELEASES[release]) if key.partition(".")[0] not in SAME or key in MAPPING]
    error = rejection(RELEASES[release])
    assert {key for key in unsupported if f"  {key}: {MAPPING[key]}\n" not in error} == set()
    assert {line.partition(":")[0] for line in error.splitlines() if line.startswith("  ")} == {
        f"  {key}" for key in unsupported
    }


@pytest.mark.parametrize("release", RELEASES)
def test_the_file_is_accepted_without_the_listed_values(release: str) -> None:
    supported = {key: value for key, value in RELEASES[release].items() if key in SAME}
    for group in ("image", "service"):
        supported[group] = {key: value for key, value in supported[group].items() if f"{group}.{key}" not in MAPPING}
    assert render(supported)


def test_values_of_every_kind_that_the_chart_cannot_use_are_listed_in_one_error() -> None:
    error = rejection(
        {
            "enableSchedulerPlugin": False,
            "yunikorn": {"embedAdmissionController": True},
            "replica": 2,
            "image": {"repository": "apache/yunikorn", "tag": "scheduler-1.6.0"},
            "queues": "partitions: []",
            "yunikornDefaults": {"queues": [{"name": "root"}]},
        }
    )
    assert error.partition("does not have:\n")[2].splitlines()[:6] == [
        "  enableSchedulerPlugin: remove it: no plugin mode",
        "  yunikorn: move the values below it to the top level: this chart reads no value below `yunikorn`",
        "  replica: unknown; docs/reference/helm-values.md lists the values of this chart",
        "  image: apache/yunikorn is YuniKorn's image; remove `image`, or write an image of Muster",
        "  queues: is not a mapping; if it is a text, remove the `|` behind `queues:`",
        (
            "  yunikornDefaults.queues: the entries of a ConfigMap are text; "
            "write `queues.yaml: |` and the partitions as text below it"
        ),
    ]


def test_every_listed_value_is_one_of_a_release_or_of_its_documentation() -> None:
    released = {key for values in RELEASES.values() for key in given(values)}
    assert set(MAPPING) - released == {"yunikorn", "placeholderImage"}
    assert "  goGC: remove it" in rejection({"goGC": 0})


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


def test_the_page_about_helm_values_has_each_of_them() -> None:
    coming = PAGE.read_text().partition("## Values of YuniKorn's chart")[2].partition("\n## ")[0]
    documented = set(re.findall(r"`([A-Za-z_]+)[.`]", coming))
    assert {name.partition(".")[0] for name in {*MAPPING, *SAME}} <= documented
