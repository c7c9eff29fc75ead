"""A real `torch.distributed` job with the backend gloo: two ranks, each a pod, compute a sum together."""

from pathlib import Path

import pytest

from tests.kind.cluster import Kind
from tests.kind.gangs import reserved_first
from tests.kind.images import loaded
from tests.kind.namespace import Namespace
from tests.kind.pages import typed

PUBLISHED = "pytorch/pytorch:2.6.0-cuda12.4-cudnn9-runtime"


@pytest.mark.timeout(1800)
@pytest.mark.usefixtures("webhook")
async def test_two_ranks_compute_the_same_sum(kind: Kind, namespace: Namespace, tmp_path: Path) -> None:
    async with loaded(kind, "pytorch") as image:
        await typed(namespace, "pytorch.md", {PUBLISHED: image}, tmp_path)
    assert len(await reserved_first(namespace, "allreduce", {"rank": 2})) == 2
