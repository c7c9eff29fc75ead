"""Muster as Helm installs it in the cluster, and its pods."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

from devcluster.api import Json
from devcluster.errors import ApiError
from devcluster.waiting import until
from tests.kind.cluster import Kind, is_ready, said

CHART = Path(__file__).parents[2] / "charts" / "muster"
NAME = NAMESPACE = "muster"
TIMEOUT = "5m"
SELECTOR = "app=muster,component=scheduler"


class Release:
    """The release `muster` in the namespace `muster`."""

    def __init__(self, kind: Kind) -> None:
        self.kind = kind

    async def install(self) -> None:
        """As the documents say it, with defaults where HELM_ARGS says nothing else."""
        repository, _, tag = self.kind.image.rpartition(":")
        image = _sets((f"image.repository={repository}", f"image.tag={tag}"))
        more = [*([] if repository == NAME else image), *shlex.split(os.environ.get("HELM_ARGS", ""))]
        await self._helm("install", NAME, CHART, "--create-namespace", "--wait", *more)

    async def upgrade(self, *values: str) -> None:
        """The values that are in force, and these; returns when the new pods are ready."""
        await self._helm("upgrade", NAME, CHART, "--reuse-values", "--wait", *_sets(values))

    async def rollback(self) -> None:
        """To what was before the last upgrade."""
        await self._helm("rollback", NAME, "--wait")

    async def test(self) -> str:
        """`helm test`, as the documents say it; its pod goes where it succeeds."""
        return await self._helm("test", NAME)

    async def uninstall(self) -> None:
        """Afterwards nothing is there any more."""
        await self._helm("uninstall", NAME, "--wait")

    async def is_installed(self) -> bool:
        """Whether Helm knows of it."""
        return NAME in (await said("helm", "list", "--namespace", NAMESPACE, "--short", "--all")).split()

    async def pods(self) -> list[Json]:
        """Those of Muster that are not on their way out."""
        found = await self.kind.api.find("pods", NAMESPACE, labelSelector=SELECTOR)
        return [pod for pod in found if "deletionTimestamp" not in pod["metadata"]]

    async def ready(self, pods: int = 1) -> list[Json]:
        """Wait until exactly so many are ready, and nothing else of it is there."""

        async def are_ready() -> list[Json]:
            found = await self.pods()
            return found if len(found) == pods and all(map(is_ready, found)) else []

        return await until(f"{pods} pods of Muster are ready", are_ready, 180, every_s=0.5, tolerate=(ApiError,))

    async def logs(self, lines: int = 60) -> str:
        """The ends of what its containers wrote, for a failure's report."""
        try:
            words = ("logs", "-n", NAMESPACE, "-l", SELECTOR, "--all-containers", "--prefix", f"--tail={lines}")
            return await said("kubectl", *words)
        except AssertionError as error:
            return str(error)

    async def _helm(self, verb: str, *words: object) -> str:
        return await said("helm", verb, *words, "--namespace", NAMESPACE, "--timeout", TIMEOUT)


def _sets(values: tuple[str, ...]) -> list[str]:
    return [word for value in values for word in ("--set", value)]
