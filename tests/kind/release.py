"""Muster as Helm installs it in the cluster, and its pods."""

import os
import shlex
from pathlib import Path

from devcluster.api import Json
from devcluster.errors import ApiError
from devcluster.waiting import until
from tests.kind.cluster import Kind, is_ready, output_of

CHART = Path(__file__).parents[2] / "charts" / "muster"
NAME = NAMESPACE = "muster"
TIMEOUT = "5m"
SELECTOR = "app=muster,component=scheduler"


class Release:
    """The release `muster` in the namespace `muster`."""

    def __init__(self, kind: Kind) -> None:
        self.kind = kind

    async def install(self) -> None:
        """Install with the documented command and default values, or with HELM_ARGS."""
        repository, _, tag = self.kind.image.rpartition(":")
        image = _sets((f"image.repository={repository}", f"image.tag={tag}"))
        more = [*([] if repository == NAME else image), *shlex.split(os.environ.get("HELM_ARGS", ""))]
        await self._helm("install", NAME, CHART, "--create-namespace", "--wait", *more)

    async def upgrade(self, *values: str) -> None:
        """Upgrade with the current values and these, and wait until the new pods are ready."""
        await self._helm("upgrade", NAME, CHART, "--reuse-values", "--wait", *_sets(values))

    async def rollback(self) -> None:
        """Roll back the last upgrade."""
        await self._helm("rollback", NAME, "--wait")

    async def test(self) -> str:
        """Run `helm test` and return its output. Helm deletes the test pod if it succeeds."""
        return await self._helm("test", NAME)

    async def uninstall(self) -> None:
        """Uninstall and wait until all objects are deleted."""
        await self._helm("uninstall", NAME, "--wait")

    async def is_installed(self) -> bool:
        """Whether Helm lists the release."""
        return NAME in (await output_of("helm", "list", "--namespace", NAMESPACE, "--short", "--all")).split()

    async def pods(self) -> list[Json]:
        """Return the pods of Muster that are not terminating."""
        found = await self.kind.api.find("pods", NAMESPACE, labelSelector=SELECTOR)
        return [pod for pod in found if "deletionTimestamp" not in pod["metadata"]]

    async def ready(self, pods: int = 1) -> list[Json]:
        """Wait until exactly this number of pods exists and all are ready, and return them."""

        async def are_ready() -> list[Json]:
            found = await self.pods()
            return found if len(found) == pods and all(map(is_ready, found)) else []

        return await until(f"{pods} pods of Muster are ready", are_ready, 180, every_s=0.5, tolerate=(ApiError,))

    async def logs(self, lines: int = 60) -> str:
        """Return the last log lines of its containers, for the report of a failure."""
        try:
            arguments = ("logs", "-n", NAMESPACE, "-l", SELECTOR, "--all-containers", "--prefix", f"--tail={lines}")
            return await output_of("kubectl", *arguments)
        except AssertionError as error:
            return str(error)

    async def _helm(self, verb: str, *arguments: object) -> str:
        return await output_of("helm", verb, *arguments, "--namespace", NAMESPACE, "--timeout", TIMEOUT)


def _sets(values: tuple[str, ...]) -> list[str]:
    return [argument for value in values for argument in ("--set", value)]
