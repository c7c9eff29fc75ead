"""A process of which an attack is measured: its memory, and the pauses of its loop.

The process prints its port, and answers lines on its standard input (`pauses.questions`).
"""

import asyncio
import resource
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TypeVar

from tests.attacks.attack import FULL

MIB = 2**20
#: Above the memory of the idle process.
MOST_BYTES = 150 * MIB
LONGEST_PAUSE_S = 0.1


@dataclass
class Measured:
    """The process, and where it serves."""

    process: asyncio.subprocess.Process
    port: int
    idle_bytes: int = 0

    def memory(self, field: str) -> int:
        """VmRSS or VmHWM, bytes."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return next(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith(field))

    def forget_peak(self) -> None:
        """Let VmHWM begin with the present memory."""
        Path(f"/proc/{self.process.pid}/clear_refs").write_text("5")

    def open_sockets(self) -> int:
        """Number of its sockets, of which one listens. Pipes to processes of its own do not count."""

        def is_a_socket(file: Path) -> bool:
            with suppress(FileNotFoundError):  # closed meanwhile
                return str(file.readlink()).startswith("socket:")
            return False

        return sum(map(is_a_socket, Path(f"/proc/{self.process.pid}/fd").iterdir()))

    async def ask(self, what: str) -> str:
        """Send a line to the process, and return the line that answers it."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{what}\n".encode())
        return (await self.process.stdout.readline()).decode().strip()

    async def withstands(self, what: str, attack: Callable[[], Awaitable[None]]) -> None:
        """Check the peak memory of an attack, and in the complete run the longest pause.

        Other processes on the machine can cause a pause, so the complete run takes the median of three attacks.
        """
        pauses_s: list[float] = []
        self.forget_peak()
        for _ in range(3 if FULL else 1):
            await self.ask("pause")
            await attack()
            pauses_s.append(float(await self.ask("pause")))
            grown = self.memory("VmHWM") - self.idle_bytes
            print(f"{what}: peak {grown / MIB:.0f} MiB above idle, pause {pauses_s[-1] * 1000:.0f} ms")  # noqa: T201 - -rP
            assert grown < MOST_BYTES
        assert not FULL or median(pauses_s) < LONGEST_PAUSE_S, f"{what}: {pauses_s}"


M = TypeVar("M", bound=Measured)


@asynccontextmanager
async def running(kind: type[M], module: str, *arguments: str) -> AsyncIterator[M]:
    """The process of a module, until the end of the block."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", module, *arguments, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stdin is not None
    yield kind(process, int(await process.stdout.readline()))
    process.stdin.close()
    await process.wait()


@contextmanager
def many_open_files() -> Iterator[None]:
    """As many open files as the system allows, for thousands of connections."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit[1], limit[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, limit)
