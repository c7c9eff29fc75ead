"""The core is found by the Leases in kube-system, and a token is sent to no pod of another namespace."""

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from muster import leases
from muster.clients import installations, port_forward
from muster.clients.kubernetes import connect
from muster.errors import BadUsage
from muster_operator.kube import leases as operators
from muster_operator.runtime import conflicts
from tests.unit.cli.api_server import NOW, Json, api_server
from tests.unit.cli.conftest import run

LABELS = {"app": "muster", "component": "scheduler"}


def a_pod(namespace: str, name: str, uid: str = "", **more: Any) -> Json:
    """A running pod with the labels of Muster and a port named `rest`."""
    metadata = {"namespace": namespace, "name": name, "uid": uid or f"{name}-uid", "labels": LABELS}
    container = {"name": "core", "ports": [{"name": "rest", "containerPort": 9080}]}
    return {"kind": "Pod", "metadata": metadata, "spec": {"containers": [container], **more}}


def a_lease(namespace: str, name: str, holder: str, *, ago_s: float = 1) -> Json:
    """A Lease as the operator writes it."""
    renewed = (NOW - timedelta(seconds=ago_s)).isoformat().replace("+00:00", "Z")
    found = operators.body(namespace, name, operators.Lease(holder, 10, renewed, renewed), frozenset({"muster"}))
    found["metadata"]["uid"], found["metadata"]["resourceVersion"] = f"{name}-uid", "7"
    return found


def name_lease(name: str, holder: str, *, ago_s: float = 1) -> Json:
    """The Lease of a scheduler name."""
    return a_lease("kube-system", f"muster-scheduler-{name}", holder, ago_s=ago_s)


FORGED = (
    a_pod("eve", "a"),
    a_lease("eve", "muster-scheduler-muster", "eve/muster"),
    a_lease("eve", "muster", "a_a-uid"),
)
LEASES = (name_lease("muster", "team/muster"), a_lease("team", "muster", "m-2_m-2-uid"))


def tried(tmp_path: Path, *objects: Json, namespace: str = "") -> list[str]:
    """The pods to which `muster status` tried to open a port-forward with a token."""
    (tmp_path / "token").write_text("a-token-of-an-administrator")
    with api_server(*objects) as api:
        options = [f"--muster-namespace={namespace}"] if namespace else []
        files = ["--kubeconfig", api.kubeconfig(tmp_path), "--token-file", str(tmp_path / "token")]
        result = run("status", *files, *options)
        assert result.exit_code == 3, result.output
        return [path.split("/")[4] + "/" + path.split("/")[6] for _, path, _ in api.requests if "portforward" in path]


def test_a_pod_of_another_namespace_with_the_labels_of_muster_receives_no_token(tmp_path: Path) -> None:
    assert tried(tmp_path, *FORGED, *LEASES, a_pod("team", "m-1"), a_pod("team", "m-2")) == ["team/m-2"]


def test_without_leases_the_core_is_searched_in_namespace_muster_only(tmp_path: Path) -> None:
    assert tried(tmp_path, *FORGED) == []
    assert tried(tmp_path, *FORGED, a_pod("muster", "m-1")) == ["muster/m-1"]
    assert tried(tmp_path, *FORGED, a_pod("batch", "b-1"), namespace="batch") == ["batch/b-1"]


def test_a_pod_that_only_has_the_name_of_the_leader_is_not_the_leader(tmp_path: Path) -> None:
    assert tried(tmp_path, *LEASES, a_pod("team", "m-1"), a_pod("team", "m-2", uid="newer")) == ["team/m-1", "team/m-2"]
    with api_server(*LEASES, a_pod("team", "m-2", uid="newer")) as api:
        cluster = connect(api.kubeconfig(tmp_path), "")
        assert installations.leader(cluster, "team", "muster") is None
        cluster.http.close()


def test_the_core_of_an_operator_without_one_is_in_another_pod_of_its_namespace(tmp_path: Path) -> None:
    operator = a_pod("team", "m-2", containers=[{"name": "operator"}])
    assert tried(tmp_path, *LEASES, *FORGED, operator, a_pod("team", "core-0")) == ["team/core-0"]


def test_several_installations_have_to_be_named_unless_one_is_in_namespace_muster() -> None:
    both = [name_lease("batch", "batch/muster"), name_lease("spark", "spark/muster")]
    with pytest.raises(BadUsage, match="namespaces batch, spark; set --muster-namespace"):
        leases.installation(both, "", NOW)
    assert leases.installation(both, "spark", NOW) == ("spark", "muster")
    assert leases.installation([*both, name_lease("muster", "muster/two")], "", NOW) == ("muster", "two")
    assert leases.installation([name_lease("muster", "")], "", NOW) == ("muster", "")


def test_a_living_installation_is_chosen_before_one_whose_leases_have_expired() -> None:
    stale, living = name_lease("muster", "muster/muster", ago_s=3600), name_lease("batch", "batch/muster")
    assert leases.installation([stale, living], "", NOW) == ("batch", "muster")
    assert leases.installation([stale, living], "muster", NOW) == ("muster", "muster")
    assert leases.installation([stale], "", NOW) == ("muster", "muster")
    renamed = [name_lease("a", "batch/new"), name_lease("b", "batch/old", ago_s=3600)]
    assert leases.installation(renamed, "", NOW) == ("batch", "new")


@pytest.mark.parametrize("status", [403, 500, 504])
def test_a_token_is_sent_to_no_pod_of_namespace_muster_if_the_leases_cannot_be_listed(
    tmp_path: Path, status: int
) -> None:
    (tmp_path / "token").write_text("a-token-of-an-administrator")
    with api_server(*FORGED, a_pod("muster", "m-1")) as api:
        api.failing[leases.path("kube-system")] = status
        without_token = ["status", "--kubeconfig", api.kubeconfig(tmp_path)]
        with_token = [*without_token, "--token-file", str(tmp_path / "token")]
        result = run(*with_token)
        assert result.exit_code == 3
        assert f"cannot be listed (request to the API server {api.url} failed: {status}" in result.stderr
        assert "set --muster-namespace" in result.stderr
        assert not [path for _, path, _ in api.requests if "portforward" in path]
        for arguments in (without_token, [*with_token, "--muster-namespace=muster"]):
            api.requests.clear()
            assert run(*arguments).exit_code == 3
            assert [path for _, path, _ in api.requests if "m-1/portforward" in path]


def test_the_doctor_reads_leases_only_of_the_installation_that_kube_system_names(tmp_path: Path) -> None:
    with api_server(*FORGED, *LEASES) as api:
        result = run("doctor", "-o", "json", "--kubeconfig", api.kubeconfig(tmp_path))
        assert "m-2_m-2-uid leads" in result.stdout
        assert "a_a-uid" not in result.stdout
        assert not [path for _, path, _ in api.requests if "/namespaces/eve/" in path]


WRONG = {"queues.yaml": "partitions:\n  - queues:\n      - {name: a, propertees: {}}\n", "gang.waitTimeout": "soon"}


def a_config_map(namespace: str, data: Json) -> Json:
    return {"kind": "ConfigMap", "metadata": {"namespace": namespace, "name": "muster-configs"}, "data": data}


def test_the_doctor_reports_a_configuration_that_muster_rejects(tmp_path: Path) -> None:
    with api_server(*LEASES, a_config_map("team", WRONG | {"gang.placement": "Nowhere"})) as api:
        result = run("doctor", "-o", "json", "--kubeconfig", api.kubeconfig(tmp_path))
        found = [one for one in json.loads(result.stdout)["items"] if one["check"] == "configuration"]
        assert [one["level"] for one in found] == ["problem"] * 4
        texts = " ".join(one["message"] for one in found)
        assert texts.count("rejected") == 1
        assert "queues.yaml:3: partitions[0].queues[0].propertees" in texts
        assert "the previous one remains active" in texts
        assert "setting gang.waitTimeout: invalid value 'soon'" in texts
        assert "setting gang.placement: invalid value 'Nowhere'" in texts
        api.objects.update({path: a_config_map("team", {}) for path in api.objects if "configmaps" in path})
        result = run("doctor", "-o", "json", "--kubeconfig", api.kubeconfig(tmp_path))
        assert '"message": "valid"' in result.stdout


def test_config_show_reads_the_namespace_of_muster_and_checks_the_queues(tmp_path: Path) -> None:
    with api_server(*LEASES, a_config_map("team", WRONG)) as api:
        result = run("config", "show", "--kubeconfig", api.kubeconfig(tmp_path))
        assert result.exit_code == 1
        assert "muster: queues.yaml:3: partitions[0].queues[0].propertees" in result.stderr
        assert "muster: setting gang.waitTimeout: invalid value 'soon'" in result.stderr
        result = run("config", "show", "-n", "other", "--kubeconfig", api.kubeconfig(tmp_path))
        assert (result.exit_code, "in namespace other: the defaults apply" in result.stderr) == (0, True)


def test_the_doctor_does_not_take_leases_that_it_cannot_list_for_missing_ones(tmp_path: Path) -> None:
    with api_server(*LEASES) as api:
        api.failing[leases.path("kube-system")] = 403
        options = ["doctor", "-o", "json", "--kubeconfig", api.kubeconfig(tmp_path)]
        found = [finding for finding in json.loads(run(*options).stdout)["items"] if finding["check"] == "leader"]
        assert [finding["level"] for finding in found] == ["unknown"]
        assert "set --muster-namespace" in found[0]["message"]
        found = json.loads(run(*options, "--muster-namespace=team").stdout)["items"]
        of_leader = [(finding["level"], finding["message"]) for finding in found if finding["check"] == "leader"]
        assert of_leader[0] == ("ok", "m-2_m-2-uid leads, for muster")
        assert [level for level, _ in of_leader[1:]] == ["unknown"]
        levels = {finding["check"]: finding["level"] for finding in found}
        assert (levels["core"], levels["health"], levels["queues of pods"]) == ("problem", "unknown", "unknown")


def test_the_leases_of_names_are_those_that_the_operator_writes() -> None:
    assert (leases.NAMES_NAMESPACE, leases.PREFIX) == (conflicts.NAMESPACE, conflicts.PREFIX)
    assert ",".join(f"{key}={value}" for key, value in conflicts.LABELS.items()) == leases.NAMES_SELECTOR
    assert port_forward.SELECTOR.startswith("app=muster,")
