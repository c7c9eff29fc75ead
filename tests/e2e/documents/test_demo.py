"""`KEEP=1 make demo` as a newcomer runs it: what it prints is enough to use the cluster and to stop it."""

import asyncio
import os
import shutil
import sys
from pathlib import Path

import pytest

from devcluster.programs import cache_root
from tests.e2e.conftest import placement_of_run
from tests.e2e.documents.shell import Shell
from tests.e2e.documents.transcripts import follow

ROOT = Path(__file__).parents[3]
EXAMPLES = ROOT / "examples"


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The built programs, and no record of a kept cluster: the developer's own one keeps running."""
    mine = tmp_path / "cache" / "muster" / "devcluster"
    mine.mkdir(parents=True)
    for entry in cache_root().iterdir():
        if entry.name != "kept":
            (mine / entry.name).symlink_to(entry)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def tools(tmp_path: Path) -> str:
    """The PATH of a machine without kubectl."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("bash", "sh", "sed", "cat"):
        (folder / name).symlink_to(shutil.which(name) or name)
    return str(folder)


async def _run(*command: str, **env: str) -> tuple[int, str]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", *command),
        cwd=ROOT,
        env={**os.environ, "MUSTER_CLUSTER": "local", "COLUMNS": "80", **env},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    output, _ = await process.communicate()
    return process.returncode or 0, output.decode()


@pytest.mark.timeout(300)
@pytest.mark.usefixtures("cache")
@pytest.mark.skipif(placement_of_run() != "Auto", reason="the examples show the default placement")
async def test_what_the_demo_prints_leads_through_the_first_example_and_stops_the_cluster(
    tmp_path: Path, tools: str
) -> None:
    code, output = await _run("devcluster.demo", KEEP="1", PATH=tools)
    try:
        assert code == 0, output
        assert "All 7 members are bound" in output
        assert "Pending: its gang is not complete" in output
        assert "All 5 members are bound" in output
        assert "No pods or reservations are left over" in output
        shell = Shell(
            tmp_path, Path(), exports=tuple(line for line in output.splitlines() if line.startswith("export "))
        )
        assert len(shell.exports) == 3
        assert (await shell.type("muster status", ROOT))[0] == 0
        assert await follow(shell, EXAMPLES / "README.md", ROOT) == ""
        assert await follow(shell, EXAMPLES / "01-gang" / "README.md", EXAMPLES / "01-gang") == ""
    finally:
        code, stopped = await _run("devcluster", "down")
    assert (code, stopped.startswith("stopped ")) == (0, True), stopped
