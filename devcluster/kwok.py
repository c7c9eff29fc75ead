"""Runs KWOK, which simulates the kubelets of nodes with the annotation ``kwok.x-k8s.io/node: fake``."""

from __future__ import annotations

from pathlib import Path

from devcluster.process import Process

STAGES = Path(__file__).with_name("stages.yaml")
FAKE_ANNOTATION = ("kwok.x-k8s.io/node", "fake")


def process(program: Path, kubeconfig: Path, log: Path, *, tethered: bool = True) -> Process:
    """Return KWOK as a child process that is not started. It needs a ready API server."""
    argv = [
        str(program),
        f"--kubeconfig={kubeconfig}",
        f"--config={STAGES}",
        "--manage-all-nodes=false",
        f"--manage-nodes-with-annotation-selector={'='.join(FAKE_ANNOTATION)}",
        "--node-lease-duration-seconds=40",
        "--cidr=10.0.0.1/24",
        "--node-ip=10.0.0.1",
    ]
    return Process("kwok", argv, log, tethered=tethered)
