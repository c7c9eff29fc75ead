"""The kubectl plug-in for krew: what krew would unpack runs, and its manifest names what the archive has."""

import hashlib
import os
import subprocess
import sys
import tarfile
from pathlib import Path

import yaml

from tools.krew.__main__ import ARCHIVE, ROOT, package


def run(plugin: Path, *folders: Path | str) -> subprocess.CompletedProcess[str]:
    path = ":".join(map(str, (*folders, "/usr/bin", "/bin")))
    env = {**os.environ, "PATH": path, "UV_PYTHON": sys.executable}
    return subprocess.run([plugin, "--version"], env=env, capture_output=True, text=True, check=False)


def test_the_plugin_of_the_archive_runs_and_says_what_it_needs(tmp_path: Path) -> None:
    written = package(tmp_path / "made", "https://example.com/v1")
    spec = yaml.safe_load(written.read_text())["spec"]
    archive = written.parent / ARCHIVE
    [platform] = spec["platforms"]
    assert platform["uri"] == f"https://example.com/v1/{ARCHIVE}"
    assert platform["sha256"] == hashlib.sha256(archive.read_bytes()).hexdigest()
    with tarfile.open(archive) as opened:
        opened.extractall(tmp_path / "store", filter="data")
    (tmp_path / "bin").mkdir()
    plugin = tmp_path / "bin" / "kubectl-muster"  # krew links to the unpacked file
    plugin.symlink_to(tmp_path / "store" / platform["bin"])
    shown = run(plugin, ROOT / ".uv" / "bin")
    assert shown.stdout.strip() == f"muster {spec['version'].removeprefix('v')}", shown.stderr
    refused = run(plugin)
    assert refused.returncode == 1
    assert "needs uv or pipx on the PATH" in refused.stderr
