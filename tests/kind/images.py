"""Images of the frameworks, built from the Dockerfiles in `images/` and loaded into the nodes that run pods."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from tests.kind.cluster import Kind, output_of

DOCKERFILES = Path(__file__).parent / "images"
DEFAULT_BASE = "python:3.12-slim"


@asynccontextmanager
async def loaded(kind: Kind, name: str, context: Path | None = None) -> AsyncIterator[str]:
    """Build an image, load it into the nodes, and remove it from them at the end. Yields its tag.

    Docker keeps the image, so that a second run builds nothing; on the nodes, all images together would need 10 GB.
    ``context``: the folder that the Dockerfile copies from, by default its own. Raises AssertionError with Docker's
    output, for example when a package cannot be downloaded.
    """
    folder, tag = DOCKERFILES / name, f"muster-kind-{name}:e2e"
    base = os.environ.get("BASE") or DEFAULT_BASE
    build = ("docker", "build", "--quiet", "--build-arg", f"BASE={base}", "--tag", tag)
    await output_of(*build, "--file", folder / "Dockerfile", context or folder)
    nodes = sorted(await kind.free_cpu())
    await output_of("kind", "load", "docker-image", tag, "--name", kind.name, "--nodes", ",".join(nodes))
    image_id = (await output_of("docker", "image", "inspect", "--format", "{{.Id}}", tag)).strip()
    try:
        yield tag
    finally:
        for node in nodes:  # the kubelet's interface adds the ID as a second name
            remove = ("ctr", "--namespace", "k8s.io", "images", "rm")
            await kind.in_node(node, *remove, f"docker.io/library/{tag}", image_id)
