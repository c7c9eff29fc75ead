"""A real Ray cluster of KubeRay's operator: head, two workers and the submitter are a gang, and the workers train."""

import asyncio
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
import yaml

from devcluster import binaries, frameworks, programs
from devcluster.api import Json
from tests.frameworks.test_kuberay import KUBERAY
from tests.kind.cluster import Kind, output_of
from tests.kind.gangs import reserved_first
from tests.kind.images import loaded
from tests.kind.namespace import Namespace
from tests.kind.pages import typed
from tests.kind.release import Release

OPERATOR = "deployment/kuberay-operator"
GANG = {"headgroup": 1, "small-group": 2, "submittergroup": 1}


def manifests(image: str) -> list[Json]:
    """The objects of KubeRay's own manifests, with this image and the option for YuniKorn."""
    folder = frameworks.module_folder(KUBERAY) / KUBERAY.kustomization
    rendered = subprocess.run(["kubectl", "kustomize", str(folder)], check=True, capture_output=True, text=True).stdout
    objects: list[Json] = [one for one in yaml.safe_load_all(rendered) if one]
    (deployment,) = (one for one in objects if one["kind"] == "Deployment")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    container |= {"image": image, "args": ["--batch-scheduler=yunikorn"]}
    return objects


@pytest_asyncio.fixture(loop_scope="session")
async def kuberay(kind: Kind, release: Release, tmp_path: Path) -> AsyncIterator[None]:
    """KubeRay's operator runs in the cluster."""
    del release  # installed before
    program = (await asyncio.to_thread(binaries.ensure, [programs.KUBERAY]))[programs.KUBERAY.name]
    file = tmp_path / "kuberay.yaml"
    async with loaded(kind, "kuberay", program.parent) as image:
        file.write_text(yaml.safe_dump_all(await asyncio.to_thread(manifests, image)))
        try:
            await output_of("kubectl", "apply", "--server-side", "-f", file)
            await output_of("kubectl", "rollout", "status", "-n", KUBERAY.account[0], OPERATOR, "--timeout=180s")
            yield
        finally:
            # KubeRay's operator removes the finalizers of its objects, so they are deleted before it.
            await output_of("kubectl", "delete", "rayjobs,rayclusters", "--all", "--all-namespaces", "--timeout=120s")
            await output_of("kubectl", "delete", "--ignore-not-found", "-f", file)


@pytest.mark.timeout(1800)
@pytest.mark.usefixtures("webhook", "kuberay")
async def test_a_ray_job_trains_on_two_workers(kind: Kind, namespace: Namespace, tmp_path: Path) -> None:
    async with loaded(kind, "ray") as image:
        await typed(namespace, "ray.md", {"rayproject/ray:2.46.0": image}, tmp_path)
    assert len(await reserved_first(namespace, "rayjob-train", GANG, scheduler="yunikorn")) == sum(GANG.values())
