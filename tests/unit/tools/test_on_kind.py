"""`make e2e-kind` reports missing programs in one line, and is part of no other target."""

import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.unit.repo.tree import ROOT
from tools import on_kind


def attempt(folder: Path, **programs: str) -> subprocess.CompletedProcess[str]:
    """`make e2e-kind` where there are only these programs, each a line of shell."""
    for name, line in programs.items():
        (folder / name).write_text(f"#!/bin/sh\n{line}\n")
        (folder / name).chmod(0o755)
    command = [sys.executable, "-m", "tools.on_kind"]
    return subprocess.run(command, cwd=ROOT, env={"PATH": str(folder)}, capture_output=True, text=True, check=False)


def test_missing_programs_are_named_in_one_line(tmp_path: Path) -> None:
    run = attempt(tmp_path, docker="exit 0", kubectl="exit 0")
    assert run.returncode == 1
    assert run.stderr == ("make e2e-kind: docker, kind, kubectl, helm must be on PATH; missing: kind, helm\n")


def test_the_error_of_an_unavailable_docker_daemon_is_reported(tmp_path: Path) -> None:
    run = attempt(tmp_path, docker="echo no daemon here >&2; exit 1", kind="exit 0", kubectl="exit 0", helm="exit 0")
    assert (run.returncode, run.stderr) == (1, "make e2e-kind: no daemon here\n")


def test_an_existing_cluster_is_kept_and_a_created_one_is_deleted_after_a_failure(tmp_path: Path) -> None:
    log = tmp_path / "log"
    programs = {"docker": "exit 0", "kubectl": "exit 0", "helm": "exit 0", "make": f"echo make >> {log}; exit 1"}
    script = f'echo "$1 $2" >> {log}'
    there = attempt(tmp_path, **programs, kind=f'{script}; [ "$2" = clusters ] && echo {on_kind.NAME}; exit 0')
    assert (there.returncode, there.stderr) == (1, "make e2e-kind: make image IMAGE=muster:0.1.0 failed\n")
    assert log.read_text().splitlines() == ["get clusters", "export kubeconfig", "make"]
    log.write_text("")
    made = attempt(tmp_path, **programs, kind=f"{script}; exit 0")
    assert made.returncode == 1
    assert log.read_text().splitlines() == ["get clusters", "create cluster", "make", "delete cluster"]


def test_no_other_target_runs_the_tests_on_kind() -> None:
    makefile = (ROOT / "Makefile").read_text()
    assert "tests/kind" not in makefile
    assert on_kind.TESTS not in (ROOT / "pyproject.toml").read_text().partition("testpaths")[2].splitlines()[0]


def test_the_image_is_the_default_image_of_the_chart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("IMAGE", raising=False)
    chart = yaml.safe_load((ROOT / "charts/muster/Chart.yaml").read_text())
    values = yaml.safe_load((ROOT / "charts/muster/values.yaml").read_text())
    assert on_kind.image() == f"{values['image']['repository']}:{values['image']['tag'] or chart['appVersion']}"


def test_the_cluster_has_two_workers() -> None:
    nodes = yaml.safe_load(on_kind.CONFIG.read_text())["nodes"]
    assert [node["role"] for node in nodes] == ["control-plane", "worker", "worker"]
