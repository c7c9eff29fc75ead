"""kube-scheduler runs with its defaults except for rate limits, and with its own permissions."""

from pathlib import Path

import yaml

from devcluster.kube_scheduler import ACCOUNT, NAMESPACE, ROLES, configuration, manifests


def test_its_configuration_has_high_limits_and_no_leader_election(tmp_path: Path) -> None:
    found = yaml.safe_load(configuration(tmp_path / "file", tmp_path / "kubeconfig").read_text())
    assert found["clientConnection"] == {"kubeconfig": str(tmp_path / "kubeconfig"), "qps": 5000, "burst": 10000}
    assert found["leaderElection"] == {"leaderElect": False}
    assert set(found) == {"apiVersion", "kind", "clientConnection", "leaderElection"}


def test_its_account_is_bound_to_the_roles_that_kubernetes_makes_for_it() -> None:
    account, *bindings = manifests()
    assert (account["metadata"]["name"], account["metadata"]["namespace"]) == (ACCOUNT, NAMESPACE)
    assert tuple(binding["roleRef"]["name"] for binding in bindings) == ROLES
    assert all(binding["subjects"] == [{"kind": "ServiceAccount", **account["metadata"]}] for binding in bindings)
