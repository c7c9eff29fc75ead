"""`muster mcp`: the questions of this command line for agents, by the Model Context Protocol over standard input.

An adapter: each tool runs one read-only command of `muster` with `-o json` in a process of its own, which has the
connection of this command, the permissions of its user, and limits of time and bytes. Nothing that an agent writes
becomes an option, a file name or a program. Needs the package `mcp` (`pip install muster-scheduler[mcp]`).
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Sequence
from importlib.metadata import version as installed_version
from typing import Any, Final

import orjson

from muster.errors import INTERRUPTED, BadUsage
from muster.main import DISTRIBUTION
from muster.options import Target, connected

EXAMPLES: Final = ("muster mcp", "muster mcp --server http://127.0.0.1:9080")

#: Seconds of one tool, and bytes of its output, of a text argument, and of another argument.
_LONGEST_S: Final = 120.0
_MOST_OUTPUT: Final = 8 << 20
_MOST_TEXT: Final = 4 << 20
_MOST_NAME: Final = 1024
#: Tools that run at once. Others wait.
_AT_ONCE: Final = 2

_ABOUT: Final = (
    "Read-only questions about Muster, a gang scheduler for Kubernetes: its health, its queues, why an application"
    " waits, and what would happen if manifests were submitted or queues.yaml were edited. Nothing is changed."
)


@connected
def command(target: Target) -> None:
    """Answer questions of agents on standard input and output (Model Context Protocol).

    The tools are status, queues, explain, dry_run and plan. Nothing is changed.
    """
    try:
        from mcp.server import MCPServer  # noqa: PLC0415  # an optional package
    except ImportError as error:
        raise BadUsage(f"the package mcp is missing; install {DISTRIBUTION}[mcp]") from error
    server = MCPServer("muster", instructions=_ABOUT, version=installed_version(DISTRIBUTION), log_level="WARNING")
    tools = Tools(connection(target))
    for tool in (tools.status, tools.queues, tools.explain, tools.dry_run, tools.plan):
        server.tool()(tool)
    # The server reads standard input in a thread, which cancellation does not end.
    signal.signal(signal.SIGINT, lambda *_: os._exit(INTERRUPTED))
    server.run("stdio")


def connection(target: Target) -> list[str]:
    """The options that give another command the same connection."""
    values = {
        "server": target.server,
        "token-file": target.token_file,
        "certificate-authority": target.authority,
        "kubeconfig": target.kubeconfig,
        "context": target.context,
        "muster-namespace": target.muster_namespace,
    }
    found = [f"--{name}={value}" for name, value in values.items() if value]
    return [*found, "--insecure-skip-tls-verify"] if target.skips_verification else found


class Tools:
    """The tools. Their docstrings are what an agent reads."""

    def __init__(self, options: Sequence[str]) -> None:
        self._options = options
        self._slots = asyncio.Semaphore(_AT_ONCE)

    async def status(self) -> dict[str, Any]:
        """Health of the scheduler, partitions with their usage, and pending requests that fit no node."""
        return await self._run("status")

    async def queues(self, queue: str = "root") -> dict[str, Any]:
        """A queue with its children: maximum, guaranteed, used and pending resources, applications and limits.

        Amounts are in the units of REST: vcore in millicores, memory in bytes.
        """
        return await self._run("queues", queue)

    async def explain(
        self,
        subject: str,
        namespace: str = "",
        changes: bool = False,  # noqa: FBT001, FBT002 # an agent names it
        estimate: bool = False,  # noqa: FBT001, FBT002 # an agent names it
    ) -> dict[str, Any]:
        """Why an application or pod waits: status, reasons with suggestions, and the applications ahead.

        subject: ID of an application, or name of a pod. namespace: empty = all namespaces. changes: also the smallest
        changes that would start it. estimate: also when it is expected to start, with range and basis. Both read all
        nodes and pods and can take a minute.
        """
        wanted = [f"--namespace={_short(namespace)}"] if namespace else ["--all-namespaces"]
        wanted += ["--changes"] if changes else []
        wanted += ["--estimate"] if estimate else []
        return await self._run("explain", subject, options=wanted)

    async def dry_run(
        self, manifests: str, namespace: str = "default", user: str = "", groups: Sequence[str] = ()
    ) -> dict[str, Any]:
        """Whether manifests (YAML or JSON of pods and controllers) would start now.

        Tells nodes, preempted pods, queue and limits. namespace: of objects without one. user, groups: of the pods.
        """
        wanted = [f"--namespace={_short(namespace)}"]
        wanted += [f"--user={_short(user)}"] if user else []
        wanted += [f"--group={_short(group)}" for group in groups[:_MOST_NAME]]
        return await self._run("apply", options=["--dry-run=server", "--filename=-", *wanted], text=manifests)

    async def plan(self, queues_yaml: str, within_seconds: int = 60) -> dict[str, Any]:
        """What an edited queues.yaml, or the manifest of a ConfigMap with it, would change in the cluster as it is now.

        Applications that would start, no longer start, be preempted or rejected, and usage above a new maximum.
        """
        return await self._run("plan", "-", options=[f"--within={within_seconds}"], text=queues_yaml)

    async def _run(
        self, name: str, *arguments: str, options: Sequence[str] = (), text: str | None = None
    ) -> dict[str, Any]:
        """The output of a command. Raises ToolError with its error message."""
        from mcp.server.mcpserver.exceptions import ToolError  # noqa: PLC0415  # an optional package

        given = b"" if text is None else text.encode(errors="replace")
        if len(given) > _MOST_TEXT:
            raise ToolError(f"the text has more than {_MOST_TEXT} bytes")
        line = [name, *options, "--output=json", *self._options, "--", *map(_short, arguments)]
        async with self._slots:
            code, out, error = await _output(line, given)
        if code is None:
            raise ToolError(error)
        try:
            found = orjson.loads(out)
        except orjson.JSONDecodeError:
            raise ToolError(error or f"muster {name} ended with {code}") from None
        return found if isinstance(found, dict) else {"items": found}


def _short(name: str) -> str:
    """Raises ToolError."""
    from mcp.server.mcpserver.exceptions import ToolError  # noqa: PLC0415  # an optional package

    if len(name) > _MOST_NAME or "\0" in name:
        raise ToolError(f"a name has more than {_MOST_NAME} characters, or a null character")
    return name


async def _output(arguments: Sequence[str], given: bytes) -> tuple[int | None, bytes, str]:
    """Exit code, output and error of a command. None = it was stopped, because it reached a limit."""
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "muster", *arguments, stdin=pipe, stdout=pipe, stderr=pipe, limit=_MOST_OUTPUT
    )
    assert process.stdin and process.stdout and process.stderr  # noqa: S101, PT018 # they are pipes
    try:
        async with asyncio.timeout(_LONGEST_S):
            with contextlib.suppress(ConnectionError):
                process.stdin.write(given)
                await process.stdin.drain()
            process.stdin.close()
            out, error = await asyncio.gather(_at_most(process.stdout), _at_most(process.stderr))
            if len(out) > _MOST_OUTPUT:
                return None, b"", f"the output has more than {_MOST_OUTPUT} bytes"
            return await process.wait(), out, error.decode(errors="replace").strip()
    except TimeoutError:
        return None, b"", f"not finished in {_LONGEST_S:g} seconds"
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()


async def _at_most(stream: asyncio.StreamReader) -> bytes:
    """What the stream has, up to one byte more than the limit."""
    parts, left = list[bytes](), _MOST_OUTPUT + 1
    while left and (part := await stream.read(min(left, 1 << 16))):
        parts.append(part)
        left -= len(part)
    return b"".join(parts)
