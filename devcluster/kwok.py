"""The process that plays kubelet for every node that carries our annotation, and for no other."""

from __future__ import annotations

from pathlib import Path

from devcluster.process import Process

STAGES = Path(__file__).with_name("stages.yaml")
FAKE_ANNOTATION = ("kwok.x-k8s.io/node", "fake")


def process(program: Path, kubeconfig: Path, log: Path, *, tethered: bool = True) -> Process:
    """KWOK as a child, not started yet. It needs the API server to be ready."""
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
