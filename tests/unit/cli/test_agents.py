"""`muster mcp`, asked by the client of the protocol's package over standard input and output."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp.client.stdio import StdioServerParameters

from tests.unit.cli.api_server import ApiServer, Json
from tests.unit.cli.conftest import Served, core_thread
from tests.unit.cli.test_plan import PRESENT, leaf, queues
from tests.unit.cli.test_plan import cluster as cluster  # noqa: PLC0414  # a fixture
from tests.unit.repo.tree import ROOT


@pytest.fixture
def served() -> Iterator[Served]:
    with core_thread(None, queues=PRESENT) as served:
        yield served


@asynccontextmanager
async def agent(served: Served) -> AsyncIterator[Client]:
    line = ["-m", "muster", "mcp", "--server", served.url]
    environment = {"KUBECONFIG": os.environ["KUBECONFIG"]}
    async with Client(StdioServerParameters(command=sys.executable, args=line, env=environment)) as client:
        yield client


async def ask(client: Client, tool: str, **arguments: Any) -> Json:
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result.content
    found = result.structured_content
    assert isinstance(found, dict)
    return found


async def problem(client: Client, tool: str, **arguments: Any) -> str:
    result = await client.call_tool(tool, arguments)
    assert result.is_error
    return str(result.content)


def test_ctrl_c_ends_it_while_it_waits_for_standard_input(served: Served) -> None:
    line = [sys.executable, "-m", "muster", "mcp", "--server", served.url]
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    with subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdin
        assert process.stdout
        request = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}
        process.stdin.write(json.dumps(request).encode() + b"\n")
        process.stdin.flush()
        assert b'"result"' in process.stdout.readline()
        process.send_signal(signal.SIGINT)
        try:
            assert process.wait(timeout=60) == 130
        finally:
            process.kill()


POD = """
kind: Pod
metadata: {name: new, labels: {applicationId: new, queue: root.b}}
spec: {schedulerName: muster, containers: [{name: main, resources: {requests: {cpu: 1}}}]}
"""


@pytest.fixture
def edited(tmp_path: Path) -> str:
    """A configuration with which the application `wide` would start."""
    return Path(queues(tmp_path, leaf("a", "7"), leaf("b"))).read_text()


async def test_every_tool_answers_and_only_reads(served: Served, cluster: ApiServer, edited: str) -> None:
    async with agent(served) as client:
        listed = await client.list_tools()
        assert [tool.name for tool in listed.tools] == ["status", "queues", "explain", "dry_run", "plan"]
        assert all(tool.description for tool in listed.tools)
        assert (await ask(client, "status"))["ready"]["ready"]
        assert (await ask(client, "queues", queue="root.a"))["queuename"] == "root.a"
        [started] = (await ask(client, "dry_run", manifests=POD))["applications"]
        assert (started["result"], started["namespace"]) == ("starts", "default")
        changes = (await ask(client, "plan", queues_yaml=edited))["differences"]
        assert [one["application"] for one in changes if one["change"] == "starts"] == ["wide"]
        assert (await ask(client, "explain", subject="wide"))["core"] == "has not received the pods"
        assert "no application or pod nosuch found" in await problem(client, "explain", subject="nosuch")
    assert {method for method, _, _ in cluster.requests} == {"GET"}


async def test_arguments_are_never_options_and_are_bounded(served: Served, cluster: ApiServer) -> None:
    async with agent(served) as client:
        for hostile in ("--server=http://127.0.0.1:1", "--kubeconfig=/etc/passwd", "--help"):
            assert "no application or pod" in await problem(client, "explain", subject=hostile)
            assert "queue" in await problem(client, "queues", queue=hostile)
        assert "more than 1024" in await problem(client, "explain", subject="x" * 2000)
        assert "more than 4194304 bytes" in await problem(client, "plan", queues_yaml="x" * 5_000_000)
        assert "is not" in await problem(client, "plan", queues_yaml="[")


def test_the_adapter_is_small() -> None:
    assert len((ROOT / "cli" / "muster" / "agents.py").read_text().splitlines()) <= 250
