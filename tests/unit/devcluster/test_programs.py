"""A cached program is found again, and a changed pin never finds an old one."""

from pathlib import Path

import pytest

from devcluster import binaries, programs


def copy_of(modules: Path, into: Path) -> Path:
    for family in ("kubernetes", "etcd", "kwok"):
        (into / family).mkdir(parents=True)
        for file in ("go.mod", "go.sum"):
            (into / family / file).write_bytes((modules / family / file).read_bytes())
    return into


def test_the_hash_follows_the_pins_of_its_own_family_only(tmp_path: Path) -> None:
    modules = copy_of(programs.MODULES, tmp_path)
    before = {family: programs.family_hash(family, modules) for family in ("kubernetes", "etcd", "kwok")}
    assert before == {family: programs.family_hash(family) for family in before}
    with (modules / "etcd" / "go.mod").open("a") as file:
        file.write("// another pin\n")
    assert programs.family_hash("etcd", modules) != before["etcd"]
    assert programs.family_hash("kwok", modules) == before["kwok"]


def test_the_hash_follows_sources_of_our_own(tmp_path: Path) -> None:
    modules = copy_of(programs.MODULES, tmp_path)
    before = programs.family_hash("kwok", modules)
    (modules / "kwok" / "main.go").write_text("package main")
    assert programs.family_hash("kwok", modules) != before


def test_every_program_is_a_tool_of_its_module() -> None:
    for program in programs.ALL:
        assert program.package in (programs.MODULES / program.family / "go.mod").read_text()


def test_the_stamped_version_is_the_pinned_one() -> None:
    pin = f"k8s.io/kubernetes {programs.KUBERNETES_VERSION} "
    assert pin in (programs.MODULES / "kubernetes" / "go.mod").read_text()


def test_the_assets_of_envtest_come_before_our_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache, assets = tmp_path / "cache", tmp_path / "assets"
    assets.mkdir()
    for name in ("etcd", "kube-apiserver"):
        (assets / name).touch(mode=0o755)
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(assets))
    own = programs.cached_path(programs.KWOK)
    own.parent.mkdir(parents=True)
    own.touch(mode=0o755)
    assert binaries.find(programs.ETCD) == assets / "etcd"
    assert binaries.find(programs.KWOK) == own
    assert binaries.find(programs.CONTROLLERS) is None
