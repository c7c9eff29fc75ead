"""The operator starts without packages that are slow to import."""

import subprocess
import sys

import pytest

PROGRAM = """
import sys
sys.argv = ["operator", "--help"]
try:
    {start}
except SystemExit as ended:
    assert not ended.code, ended
slow = {{"kubernetes", "requests", "numpy", "muster_core", "opentelemetry"}}
assert not (slow & {{name.partition(".")[0] for name in sys.modules}}), slow & sys.modules.keys()
"""


@pytest.mark.parametrize("start", ["import muster_operator.__main__", "from muster_operator.main import app; app()"])
def test_the_operator_starts_without_packages_that_are_slow_to_import(start: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(start=start)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
