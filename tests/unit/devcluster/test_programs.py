"""A cached program is found again, and a changed version never uses an old one."""

import fcntl
import io
import os
import re
from pathlib import Path

import pytest
import yaml
from rich.console import Console

from devcluster import binaries, envtest, programs
from devcluster.build import build, progress
from devcluster.kube_scheduler import ACCOUNT, NAMESPACE, ROLES, configuration, manifests


def copy_of(modules: Path, into: Path) -> Path:
    for family in ("controlplane", "install"):
        (into / family).mkdir(parents=True)
        for file in ("go.mod", "go.sum"):
            (into / family / file).write_bytes((modules / family / file).read_bytes())
    return into


def test_the_hash_follows_the_pins_of_its_own_family_only(tmp_path: Path) -> None:
    modules = copy_of(programs.MODULES, tmp_path)
    before = {family: programs.family_hash(family, modules) for family in ("controlplane", "install")}
    assert before == {family: programs.family_hash(family) for family in before}
    with (modules / "install" / "go.mod").open("a") as file:
        file.write("// another pin\n")
    assert programs.family_hash("install", modules) != before["install"]
    assert programs.family_hash("controlplane", modules) == before["controlplane"]


def test_the_hash_follows_sources_of_our_own(tmp_path: Path) -> None:
    modules = copy_of(programs.MODULES, tmp_path)
    before = programs.family_hash("install", modules)
    (modules / "install" / "main.go").write_text("package main")
    assert programs.family_hash("install", modules) != before


def test_every_program_is_a_tool_of_its_module() -> None:
    for program in (*programs.ALL, *programs.FRAMEWORKS):
        assert program.package in (programs.MODULES / program.family / "go.mod").read_text()


def test_the_stamped_version_is_the_pinned_one() -> None:
    pin = f"k8s.io/kubernetes {programs.KUBERNETES_VERSION} "
    assert pin in (programs.MODULES / "controlplane" / "go.mod").read_text()


def test_programs_of_the_tests_share_the_compiled_packages_of_the_control_plane() -> None:
    shared = versions("controlplane")
    for family in (programs.CONFORMANCE.family, programs.DECODING.family):
        assert {
            module: version for module, version in versions(family).items() if shared.get(module, version) != version
        } == {}


def versions(family: str) -> dict[str, str]:
    text = (programs.MODULES / family / "go.mod").read_text()
    return dict(re.findall(r"^\t?(?:require )?(\S+\.\S+) (v\S+)(?: // indirect)?$", text, re.MULTILINE))


def test_cached_programs_do_not_wait_for_another_builder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    own = programs.cached_path(programs.KWOK)
    own.parent.mkdir(parents=True)
    own.touch(mode=0o755)
    text = io.StringIO()
    with (programs.cache_root() / "build.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        build([programs.KWOK], Console(file=text))
    assert not text.getvalue()


def test_the_assets_of_envtest_come_before_our_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache, assets = tmp_path / "cache", tmp_path / "assets"
    assets.mkdir()
    for name in ("etcd", "kube-apiserver"):
        (assets / name).touch(mode=0o755)
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    monkeypatch.setenv("PATH", "/bin:/usr/bin")
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(assets))
    own = programs.cached_path(programs.KWOK)
    own.parent.mkdir(parents=True)
    own.touch(mode=0o755)
    assert binaries.find(programs.ETCD) == assets / "etcd"
    assert binaries.find(programs.KWOK) == own
    assert binaries.find(programs.CONTROLLERS) is None


def script(folder: Path, name: str, text: str) -> Path:
    """A program of that name that runs these lines of shell."""
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def console(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Console:
    """An empty cache, no program on PATH but those of a test, and where messages go."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", f"{tmp_path / 'path'}:/bin:/usr/bin")
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    return Console(file=io.StringIO(), width=200)


def printed(console: Console) -> list[str]:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue().splitlines()


@pytest.mark.parametrize("offset, outcome", [(0, "used"), (-1, "not used")])
def test_a_program_on_path_is_used_if_its_minor_version_is_the_pinned_one(
    offset: int, outcome: str, tmp_path: Path, console: Console
) -> None:
    major, minor, _ = programs.pinned_version(programs.APISERVER).split(".")
    version = f"{major}.{int(minor) + offset}.99"
    path = script(tmp_path / "path", "kube-apiserver", f"echo Kubernetes v{version}")
    assert binaries.find(programs.APISERVER, console) == (path if outcome == "used" else None)
    pinned = programs.pinned_version(programs.APISERVER)
    assert printed(console) == [f"{path} has version {version}, not {pinned}: {outcome}"]
    assert binaries.find(programs.APISERVER, console, exact=True) is None


def test_assets_of_another_version_are_used_and_reported(
    tmp_path: Path, console: Console, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = script(tmp_path / "assets", "etcd", "echo etcd Version: 3.1.4")
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(path.parent))
    assert binaries.find(programs.ETCD, console, exact=True) == path
    assert printed(console) == [f"{path} has version 3.1.4, not {programs.pinned_version(programs.ETCD)}: used"]


def test_the_archive_of_envtest_comes_before_path_and_after_the_cache(tmp_path: Path, console: Console) -> None:
    minor = programs.KUBERNETES_MINOR
    script(tmp_path / "path", "etcd", f"echo {programs.pinned_version(programs.ETCD)}")
    lines = f'for patch in 2 10; do mkdir -p "$4/k8s/{minor}.$patch-x"; touch "$4/k8s/{minor}.$patch-x/etcd"; done'
    script(tmp_path / "path", "setup-envtest", lines)
    (index := tmp_path / "index.yaml").touch()
    envtest.fetch(lambda: Path(os.devnull), console, index.as_uri())
    assert printed(console) == ["downloading etcd and kube-apiserver with setup-envtest"]
    newest = tmp_path / "cache" / "muster" / "devcluster" / "envtest" / "k8s" / f"{minor}.10-x" / "etcd"
    assert binaries.find(programs.ETCD) == newest
    own = programs.cached_path(programs.ETCD)
    own.parent.mkdir(parents=True)
    assert script(own.parent, own.name, "") == binaries.find(programs.ETCD)


def test_an_archive_that_cannot_be_downloaded_is_one_line(tmp_path: Path, console: Console) -> None:
    def unused() -> Path:
        raise AssertionError("setup-envtest is built although nothing can be downloaded")

    envtest.fetch(unused, console, (tmp_path / "missing").as_uri())
    (index := tmp_path / "index.yaml").touch()
    script(tmp_path / "path", "setup-envtest", "echo first >&2; echo unable to find a version >&2; exit 1")
    envtest.fetch(unused, console, index.as_uri())
    unreachable, _, failed = printed(console)
    assert "is not usable" in unreachable
    assert failed == "setup-envtest is not usable (unable to find a version): etcd and kube-apiserver are built instead"


def test_the_progress_of_a_build_has_an_estimate_once_there_is_something_to_estimate_from() -> None:
    assert progress(7, 0, 3.0) == "7 packages compiled, 3 s"
    assert progress(9, 100, 20.0) == "9 of 100 packages compiled, 20 s"
    assert progress(20, 100, 60.0) == "20 of 100 packages compiled, 60 s, about 4 min left"
    assert progress(90, 100, 90.0) == "90 of 100 packages compiled, 90 s, less than 1 min left"
    assert progress(102, 100, 99.0) == "100 packages compiled, 99 s, linking the programs"


# -- kube-scheduler runs with its defaults except for rate limits, and with its own permissions.


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
