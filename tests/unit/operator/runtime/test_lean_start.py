"""The operator loads kopf without the official Kubernetes client, which can still be imported when it is needed."""

from __future__ import annotations

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
assert "kopf" in sys.modules
slow = {{"kubernetes", "requests", "oauthlib", "numpy", "muster_core", "opentelemetry"}}
assert not (slow & {{name.partition(".")[0] for name in sys.modules}}), slow & sys.modules.keys()
from kopf._core.intents import piggybacking
assert piggybacking.has_sync_client(), "a plug-in's credentials could not be got"
import kubernetes.config
"""


@pytest.mark.parametrize(
    "start",
    [
        "import muster_operator.__main__",
        "from muster_operator.main import app; app()",
        "import muster_operator.handlers.framework",
        "import muster_operator.kube.watch",
    ],
)
def test_the_official_client_is_imported_only_when_needed(start: str) -> None:
    program = PROGRAM.format(start=start)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
