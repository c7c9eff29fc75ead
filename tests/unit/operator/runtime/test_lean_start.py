"""The process of the operator loads kopf without the official Kubernetes client, which can be had when it is wanted."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import sys
sys.argv = ["operator", "--help"]
try:
    import muster_operator.__main__
except SystemExit as ended:
    assert not ended.code, ended
assert "kopf" in sys.modules
assert not [name for name in sys.modules if name.partition(".")[0] == "kubernetes"], "the client was loaded"
from kopf._core.intents import piggybacking
assert piggybacking.has_sync_client(), "a plug-in's credentials could not be got"
import kubernetes.config
"""


def test_the_official_client_is_loaded_when_it_is_wanted_and_not_before() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
