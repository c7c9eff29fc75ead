"""actionlint accepts the GitHub workflows, and finds an error in a broken one."""

import subprocess
from pathlib import Path

from devcluster.binaries import ensure
from devcluster.programs import ACTIONLINT
from tools.workflows import FLAGS, ROOT

BROKEN = "on: push\njobs:\n  one:\n    runs-on: ubuntu-24.04\n    steps:\n      - run: echo ${{ matrix.none }}\n"


def linted(*paths: Path) -> subprocess.CompletedProcess[str]:
    command = [str(ensure([ACTIONLINT])["actionlint"]), *FLAGS, *map(str, paths)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def test_actionlint_accepts_the_workflows() -> None:
    done = linted()
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_actionlint_reports_an_error_in_a_broken_workflow(tmp_path: Path) -> None:
    path = tmp_path / "broken.yaml"
    path.write_text(BROKEN)
    assert 'property "none" is not defined' in linted(path).stdout
