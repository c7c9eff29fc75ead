"""Dashboard, alert rules and ServiceMonitor are valid for Grafana, Prometheus and the Prometheus operator."""

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
import yaml

from devcluster.api import Json
from devcluster.binaries import ensure
from devcluster.cluster import Cluster
from devcluster.errors import ApiError
from devcluster.frameworks import WAIT_S, go_module
from devcluster.programs import MONITORING
from devcluster.waiting import until
from tests.install.choices import CHOICES
from tools.manifests import render

FOLDER = Path(__file__).parents[2] / "deploy" / "monitoring"
OPERATOR = "github.com/prometheus-operator/prometheus-operator"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
GROUP = "/apis/monitoring.coreos.com/v1/namespaces/default"
PLURALS = {"ServiceMonitor": "servicemonitors", "PrometheusRule": "prometheusrules"}


def problems(*files: Path) -> str:
    """What Grafana's types and Prometheus' parsers report."""
    command: Sequence[str | Path] = [ensure([MONITORING])["monitoring"], *files]
    checked = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (checked.returncode != 0) == bool(checked.stdout), checked.stderr
    return checked.stdout


def rules_file(folder: Path, spec: Json) -> Path:
    """The rules as Prometheus reads them, without the object around them."""
    file = folder / "rules.yaml"
    file.write_text(yaml.safe_dump({"groups": spec["groups"]}))
    return file


def test_the_dashboard_and_the_rules_have_no_problem(tmp_path: Path) -> None:
    rules = yaml.safe_load((FOLDER / "alerts.yaml").read_text())["spec"]
    assert problems(FOLDER / "dashboard.json", rules_file(tmp_path, rules)) == ""


def test_problems_are_found(tmp_path: Path) -> None:
    dashboard = json.loads((FOLDER / "dashboard.json").read_text())
    panels = [panel for panel in dashboard["panels"] if panel["type"] == "timeseries"]
    panels[0]["options"]["legend"]["colour"] = "red"
    panels[1]["gridPos"]["w"] = "wide"
    panels[2]["targets"][0]["expr"] = "sum by (("
    (broken := tmp_path / "dashboard.json").write_text(json.dumps(dashboard))
    found = problems(broken)
    assert [part for part in ("colour", "gridPos", panels[2]["title"]) if part not in found] == []
    rules = yaml.safe_load((FOLDER / "alerts.yaml").read_text())["spec"]
    rules["groups"][0]["rules"][0]["expr"] = "absent("
    assert "MusterCoreDown" in problems(rules_file(tmp_path, rules))


@pytest.mark.parametrize("choice", ["monitoring", "monitoring of closed REST", "runbooks"])
async def test_the_definitions_of_the_prometheus_operator_admit_the_objects_of_the_chart(
    home: Cluster, choice: str
) -> None:
    objects = [one for one in render(CHOICES[choice]) if one["kind"] in PLURALS]
    assert objects
    folder = go_module(MONITORING.family, OPERATOR) / "example" / "prometheus-operator-crd"
    for plural in PLURALS.values():
        await install(home, yaml.safe_load((folder / f"monitoring.coreos.com_{plural}.yaml").read_text()))
    for one in objects:
        await admit(home, one)
        with pytest.raises(ApiError, match="colour"):
            await admit(home, one | {"spec": one["spec"] | {"colour": "red"}})


async def install(cluster: Cluster, definition: Json) -> None:
    """Create the definition, unless it exists, and wait until the API server serves it."""
    try:
        await cluster.admin.request("POST", DEFINITIONS, definition)
    except ApiError as error:
        if error.status != 409:
            raise

    async def is_served() -> bool:
        await cluster.admin.request("GET", f"{GROUP}/{definition['spec']['names']['plural']}")
        return True

    await until(f"{definition['metadata']['name']} is served", is_served, WAIT_S, tolerate=(ApiError,))


async def admit(cluster: Cluster, thing: Json) -> None:
    """Raise ApiError if the API server does not admit the object, or it has an unknown field."""
    named = {**thing, "metadata": {**thing["metadata"], "namespace": "default"}}
    options = {"dryRun": "All", "fieldValidation": "Strict"}
    await cluster.admin.request("POST", f"{GROUP}/{PLURALS[thing['kind']]}", named, options)
