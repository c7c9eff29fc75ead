"""`make e2e-kind`: builds the image, loads it into a kind cluster and runs tests/kind against it.

KIND_CLUSTER_NAME: name of the cluster. An existing one is used and not deleted; a new one is deleted afterwards unless
KEEP=1. KIND_NODE_IMAGE: node image of a new cluster. BASE, IMAGE: as for `make image`. HELM_ARGS: arguments of
`helm install`. Arguments on the command line are passed to pytest.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CONFIG = ROOT / "tests" / "kind" / "cluster.yaml"
TESTS = "tests/kind"

PROGRAMS = ("docker", "kind", "kubectl", "helm")
NAME = "muster-e2e"
NEXT = "next"
"""Second tag of the image, which the upgrade test installs."""
READY = "180s"


class Unable(Exception):
    """The tests cannot run on this machine; has the reason in one line."""


def image() -> str:
    """Return IMAGE, else the chart's default image."""
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    return os.environ.get("IMAGE") or f"muster:{version}"


def check() -> None:
    """Raise Unable if a program is missing or no Docker daemon answers."""
    missing = [program for program in PROGRAMS if shutil.which(program) is None]
    if missing:
        raise Unable(f"{', '.join(PROGRAMS)} must be on PATH; missing: {', '.join(missing)}")
    answer = subprocess.run(["docker", "info"], capture_output=True, text=True, check=False)
    if answer.returncode != 0:
        words = answer.stderr.strip().splitlines() or ["no Docker daemon answers"]
        raise Unable(words[-1])


@contextmanager
def step(what: str) -> Iterator[None]:
    """Print a step and its duration."""
    print(f"==> {what}", flush=True)
    began = time.perf_counter()
    yield
    print(f"    {time.perf_counter() - began:.0f} s", flush=True)


def run(*command: object, env: dict[str, str] | None = None) -> None:
    """Run a program with visible output. Raises Unable if it fails."""
    words = [str(word) for word in command]
    if subprocess.run(words, cwd=ROOT, env=env, check=False).returncode != 0:
        raise Unable(f"{' '.join(words[:3])} failed")


def clusters() -> list[str]:
    """Return the kind clusters of this machine."""
    listed = subprocess.run(["kind", "get", "clusters"], capture_output=True, text=True, check=False)
    return listed.stdout.split()


def ensure(name: str, kubeconfig: Path, stack: ExitStack) -> None:
    """Create the cluster if it does not exist. The stack deletes a created one unless KEEP=1."""
    if name in clusters():
        print(f"==> using the existing cluster {name}; it is not deleted", flush=True)
        run("kind", "export", "kubeconfig", "--name", name, "--kubeconfig", kubeconfig)
        return
    node_image = os.environ.get("KIND_NODE_IMAGE")
    if os.environ.get("KEEP"):
        print(f"    to delete it: kind delete cluster --name {name}", flush=True)
    else:
        stack.callback(run, "kind", "delete", "cluster", "--name", name, "--kubeconfig", kubeconfig)
    with step(f"creating cluster {name}"):
        extra = ["--image", node_image] if node_image else []
        create = ("kind", "create", "cluster", "--name", name, "--config", CONFIG, "--kubeconfig", kubeconfig)
        run(*create, "--wait", READY, *extra)


def load(name: str) -> None:
    """Build the image and load it into the nodes with its own tag and the tag of the upgrade test."""
    with step(f"building {image()}"):
        run("make", "image", f"IMAGE={image()}")
    again = f"{image().rpartition(':')[0]}:{NEXT}"
    run("docker", "tag", image(), again)
    with step(f"loading the image into {name}"):
        run("kind", "load", "docker-image", image(), again, "--name", name)
    run("docker", "image", "rm", again)


def tests(name: str, kubeconfig: Path, words: Sequence[str]) -> int:
    """Run tests/kind and return pytest's exit code."""
    env = {**os.environ, "KUBECONFIG": str(kubeconfig), "MUSTER_KIND": name, "MUSTER_IMAGE": image()}
    chosen = [] if any(word.startswith(TESTS) for word in words) else [TESTS]
    command = [sys.executable, "-m", "pytest", "-v", *chosen, *words]
    return subprocess.run(command, cwd=ROOT, env=env, check=False).returncode


def main(words: Sequence[str]) -> int:
    """Return pytest's exit code, or 1 if the tests could not run."""
    name = os.environ.get("KIND_CLUSTER_NAME") or NAME
    try:
        check()
        with ExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="muster-kind-")))
            kubeconfig = folder / "kubeconfig"
            ensure(name, kubeconfig, stack)
            load(name)
            return tests(name, kubeconfig, words)
    except Unable as reason:
        print(f"make e2e-kind: {reason}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
