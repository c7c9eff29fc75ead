"""The operator loads kopf without the official Kubernetes client, which can still be imported when it is needed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.operator.kube.test_credentials import write

PROGRAM = """
import sys
sys.argv = ["operator", "--help"]
try:
    {start}
except SystemExit as ended:
    assert not ended.code, ended
assert "kopf" in sys.modules
slow = {{"kubernetes", "requests", "oauthlib", "numpy", "muster_core", "opentelemetry"}}
assert not (slow & {{name.partition(".")[0] for name in sys.modules}}), slow & sys.modules.keys()
import logging, kopf
found = kopf.login_via_client(logger=logging.getLogger(), settings=kopf.OperatorSettings())
assert found is not None, "a plug-in's credentials could not be got"
"""


@pytest.mark.parametrize(
    "start",
    [
        "import muster_operator.__main__",
        "from muster_operator.main import app; app()",
        "import muster_operator.handlers.kopf_operator",
        "import muster_operator.kube.watch",
    ],
)
def test_the_official_client_is_imported_only_when_needed(start: str, tmp_path: Path) -> None:
    write(tmp_path / "config", {"token": "abc"})
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(start=start)],
        env={**os.environ, "KUBECONFIG": str(tmp_path / "config")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
