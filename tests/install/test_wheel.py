"""The wheel that `pipx install .` and `uvx --from .` build has the commands, and they run from it."""

import subprocess
import sys
from pathlib import Path

UV = Path(__file__).parents[2] / ".uv" / "bin" / "uv"


def test_the_commands_of_the_built_wheel_run(tmp_path: Path) -> None:
    root = Path(__file__).parents[2]
    subprocess.run([UV, "build", "--quiet", "--wheel", "--out-dir", tmp_path, root], check=True)
    [wheel] = tmp_path.glob("*.whl")
    target = tmp_path / "installed"
    into = ["--no-deps", "--python", sys.executable, "--target", str(target)]
    subprocess.run([UV, "pip", "install", "--quiet", *into, wheel], check=True)
    for name in ("muster", "kubectl-muster"):
        run = subprocess.run(
            [sys.executable, target / "bin" / name, "--version"],
            env={"PYTHONPATH": str(target)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert run.stdout.startswith("muster 0."), run.stderr
