"""The user's setting selects the cluster, and only the recorded processes of a kept cluster are stopped."""

import sys
from pathlib import Path

import psutil
import pytest

from devcluster import flavour, kept
from devcluster.errors import FlavourUnavailable
from devcluster.flavour import Flavour
from devcluster.foreign import OWN_FILE, kubeconfig_path
from devcluster.process import Process


@pytest.mark.parametrize(
    "word, expected", [("", "local"), ("local", "local"), (" Current ", "current"), ("KIND", "kind")]
)
def test_the_environment_variable_selects_the_flavour(
    word: str, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MUSTER_CLUSTER", word)
    assert flavour.choose() == Flavour(expected)


def test_an_unknown_flavour_is_rejected_with_the_valid_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MUSTER_CLUSTER", "minikube")
    with pytest.raises(FlavourUnavailable, match="local, current, kind"):
        flavour.choose()


def test_the_file_that_kind_wrote_for_this_run_comes_before_the_users(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", "first:second")
    assert kubeconfig_path(tmp_path) == Path("first")
    (tmp_path / OWN_FILE).touch()
    assert kubeconfig_path(tmp_path) == tmp_path / OWN_FILE


def test_a_kept_cluster_is_found_again_and_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert kept.load() is None
    folder = tmp_path / "cluster"
    folder.mkdir()
    argv = [sys.executable, "-c", "import time; time.sleep(60)"]
    processes = [Process(name, argv, folder / f"{name}.log", tethered=False) for name in ("first", "second")]
    for process in processes:
        process.start()
    kept.save(folder, folder / "kubeconfig", processes)
    noted = kept.load()
    assert noted is not None
    assert [process.name for process in noted.processes] == ["second", "first"]
    assert len(noted.alive()) == 2
    kept.stop(noted)
    assert not any(process.is_running() for process in processes)
    assert not folder.exists()
    assert kept.load() is None


def test_a_kept_cluster_of_another_clone_is_neither_found_nor_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    mine = kept.save(tmp_path / "mine", tmp_path / "kubeconfig", [])
    with monkeypatch.context() as elsewhere:
        elsewhere.setattr(kept, "CLONE", tmp_path / "another clone")
        assert kept.load() is None
        kept.stop(kept.save(tmp_path / "theirs", tmp_path / "kubeconfig", []))
    assert kept.load() == mine


def test_a_later_process_with_the_same_id_is_another_process(tmp_path: Path) -> None:
    me = psutil.Process()
    stranger = kept.Running("etcd", me.pid, me.create_time() - 100)
    assert kept.Kept(tmp_path, tmp_path, (stranger,)).alive() == []
