"""A user's shell: kubectl and muster on the PATH, and a kubeconfig with its namespace."""

import asyncio
import os
import sys
from dataclasses import dataclass
from pathlib import Path

import yaml

from devcluster.binaries import ensure
from devcluster.programs import KUBECTL
from tests.e2e.scenario import Scenario


@dataclass(frozen=True, slots=True)
class Shell:
    """Run commands as the cluster's administrator."""

    home: Path
    kubeconfig: Path
    server: str = ""
    """URL of the core's REST API where no pod of Muster exists for a port-forward."""
    exports: tuple[str, ...] = ()
    """If given, the only settings: what `make demo` printed, and a PATH without kubectl, the folder `bin` of `home`."""

    async def type(self, command: str, folder: Path) -> tuple[int, list[str]]:
        """Return the exit code and the lines of both output streams."""
        printed = {"PATH": str(self.home / "bin"), "HOME": str(self.home)}
        process = await asyncio.create_subprocess_exec(
            *("bash", "-c", "\n".join([*self.exports, command])),
            cwd=folder,
            env=printed
            if self.exports
            else {
                "PATH": f"{self.home}{os.pathsep}{os.environ['PATH']}",
                "HOME": str(self.home),  # where kubectl remembers what the API server has
                "KUBECONFIG": str(self.kubeconfig),
                **({"MUSTER_SERVER": self.server} if self.server else {}),
            },
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        output, _ = await process.communicate()
        return process.returncode or 0, output.decode().splitlines()


async def opened(scenario: Scenario) -> Shell:
    """A shell in the scenario's namespace."""
    home = scenario.cluster.folder / f"shell-{scenario.namespace}"
    home.mkdir()
    (home / "kubectl").symlink_to(ensure([KUBECTL])["kubectl"])
    muster = home / "muster"
    muster.write_text(f'#!/bin/sh\nexec {sys.executable} -m muster "$@"\n')
    muster.chmod(0o755)
    config = yaml.safe_load((await scenario.cluster.admin_kubeconfig()).read_text())
    for context in config["contexts"]:
        context["context"]["namespace"] = scenario.namespace
    kubeconfig = home / "config"
    kubeconfig.write_text(yaml.safe_dump(config))
    return Shell(home, kubeconfig, scenario.muster.rest_url)
