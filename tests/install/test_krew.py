"""The kubectl plug-in for krew: what krew would unpack runs, and its manifest names what the archive has."""

import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import yaml

from tools.krew.__main__ import ARCHIVE, ROOT, package


def run(plugin: Path, *folders: Path) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PATH": ":".join(map(str, folders)), "UV_PYTHON": sys.executable}
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
    system = tmp_path / "system"  # has neither uv nor pipx
    system.mkdir()
    for name in ("sh", "dirname", "readlink", "realpath"):
        (system / name).symlink_to(shutil.which(name) or name)
    shown = run(plugin, ROOT / ".uv" / "bin", system)
    assert shown.stdout.strip() == f"muster {spec['version'].removeprefix('v')}", shown.stderr
    refused = run(plugin, system)
    assert refused.returncode == 1
    assert "needs uv or pipx on the PATH" in refused.stderr
    again = package(tmp_path / "again", "https://example.com/v1")
    assert again.read_text() == written.read_text(), "the same commit has the same digest"
