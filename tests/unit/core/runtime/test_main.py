"""The core as a process: it listens, responds, stops on a signal, and reports in one line why it cannot start."""

import asyncio
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import aiohttp
import pytest

from muster_core.main import Options, StartError, rest_tls, serve, tls_files
from muster_core.rest.auth import AccessSettings, ServerTls
from muster_si import muster_pb2, si_pb2
from muster_si.transport.credentials import TlsFiles
from muster_si.transport.grpc_client import GrpcClient
from tests.unit.core.conftest import Notebook


@asynccontextmanager
async def a_process(*arguments: str) -> AsyncIterator[asyncio.subprocess.Process]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "muster_core", *arguments, stderr=asyncio.subprocess.PIPE
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def last_log_lines(*arguments: str) -> tuple[int | None, list[str]]:
    """The exit code of a process that cannot start, and its output in addition to the log."""
    async with a_process(*arguments) as process:
        _, effects = await process.communicate()
        return process.returncode, [line for line in effects.decode().splitlines() if not line.startswith("{")]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


async def test_the_process_serves_grpc_and_rest_and_stops_on_sigterm(tmp_path: Path) -> None:
    listen, port = f"unix://{tmp_path}/core.sock", free_port()
    async with a_process("--listen", listen, "--rest-port", str(port)) as process:
        assert process.stderr is not None
        while b"the core listens" not in (line := await process.stderr.readline()):
            assert line, "the process has ended"
        client, rm = GrpcClient(listen), Notebook()
        await client.register_resource_manager(si_pb2.RegisterResourceManagerRequest(rmID="rm", version="1.0.0"), rm)
        await client.barrier(muster_pb2.BarrierRequest(rmID="rm"))
        async with aiohttp.ClientSession() as session, session.get(f"http://127.0.0.1:{port}/readyz") as answer:
            assert answer.status == 200
        process.terminate()
        await rm.until(lambda: bool(rm.ends))
        assert await process.wait() == 0
        await client.aclose()
    assert not (tmp_path / "core.sock").exists()


@pytest.mark.parametrize(
    "options, reason",
    [
        (Options(listen="unix:///nowhere/a.sock"), "the folder /nowhere does not exist"),
        (Options(listen="somewhere"), "neither unix:///path nor host:port"),
        (Options(listen="0.0.0.0:0"), "mutual TLS"),
        (Options(tls=TlsFiles(Path("/no/cert"), Path("/no/key"), Path("/no/ca"))), "/no/cert does not exist"),
        (Options(tls=TlsFiles(Path(__file__), Path(__file__), Path(__file__))), "are not a certificate and its key"),
    ],
)
async def test_a_core_that_cannot_listen_reports_why(options: Options, reason: str) -> None:
    with pytest.raises(StartError, match=reason):
        await serve(replace(options, rest_port=None))


async def test_a_rest_port_in_use_is_logged_in_one_line_and_exits_the_process(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        code, [line] = await last_log_lines("--listen", f"unix://{tmp_path}/a.sock", "--rest-port", port)
    assert code == 1
    assert line.startswith(f"muster core cannot start: REST on 127.0.0.1:{port}: ")
    assert line.endswith("choose another with --rest-port")


def test_tls_files_go_together() -> None:
    with pytest.raises(StartError, match="must be set together"):
        tls_files(Path("cert"), None, None)
    assert tls_files(None, None, None) is None


@pytest.mark.parametrize(
    "options, reason",
    [
        (Options(rest_access=AccessSettings(Path("/no/token"))), "REST on 127.0.0.1:0: token file /no/token"),
        (Options(rest_tls=ServerTls(Path("/no/cert"), Path("/no/key"))), "REST on 127.0.0.1:0: TLS: /no/cert"),
    ],
)
async def test_a_core_that_cannot_serve_rest_reports_why(options: Options, reason: str) -> None:
    with pytest.raises(StartError, match=reason):
        await serve(replace(options, rest_port=0))


def test_the_tls_files_of_rest_go_together() -> None:
    with pytest.raises(StartError, match="must be set together"):
        rest_tls(Path("cert"), None)
    assert rest_tls(None, None) is None


# -- The core does not load at start what only some installations use.

PROGRAM = """
import sys
import muster_core.main
from muster_core.rest.schemas import Build
slow = {"ldap3", "pyasn1", "kopf", "kubernetes", "requests", "muster_operator"}
assert not (slow & {name.partition(".")[0] for name in sys.modules}), slow & sys.modules.keys()
assert not Build.__pydantic_complete__, "a class of REST is built before its first use"
from muster_core.runtime.user_groups import LdapDirectory
assert "settings" in LdapDirectory()("ann").problem
assert "ldap3" in sys.modules
"""
SLOW = """
import asyncio, sys, time
from pathlib import Path
from muster_core.model.config import GroupResolver
from muster_core.runtime.user_groups import Groups, LdapDirectory

class SlowImport:
    def find_spec(self, name, path=None, target=None):
        if name == "ldap3":
            time.sleep(2)

sys.meta_path.insert(0, SlowImport())
groups = Groups({GroupResolver.LDAP: LdapDirectory(Path("/gone"))}, timeout_s=1)
[answer] = asyncio.run(groups.look_up(GroupResolver.LDAP, ["ann"])).values()
assert "settings" in answer.problem, answer
"""


def test_ldap_and_the_classes_of_rest_are_loaded_at_their_first_use() -> None:
    run(PROGRAM)


def test_the_time_to_load_ldap_does_not_count_in_the_timeout_of_the_first_lookup() -> None:
    run(SLOW)


def run(program: str) -> None:
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
