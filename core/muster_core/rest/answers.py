"""The process that answers questions about the state (`muster.what_if`), and its limits.

It is started at the first question and ends when nobody has asked for a while, or when an answer takes too long. It
runs no code of this process: a fork would copy the threads of gRPC in an unknown state. Its memory, its time and its
answers are bounded, and its niceness is higher than that of the core.
"""

from __future__ import annotations

import asyncio
import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Hashable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from muster_core.foresight.present import ENDED, NEW_STATE, dumped

#: The module is named, not imported, because the core does not depend on the command line.
_MODULE: Final = "muster.what_if"

#: Memory of the process by default, in MiB. A copy of its own that tries a change may use as much again. It gets less
#: if the container has less left: when a container exceeds its limit, Kubernetes ends all its processes, the core too.
MOST_MIB: Final = 384

#: MiB that the process needs at least, and bytes that stay for the core.
LEAST_MIB: Final = 128
_RESERVE_BYTES: Final = 160 << 20

#: The files of the container's control group (version 2).
CONTROL_GROUP: Final = Path("/sys/fs/cgroup")

#: Seconds until an answer, with the start of the process and the transfer of the state, and for the simulation alone.
LONGEST_S: Final = 45.0
SIMULATION_S: Final = 15.0

#: Bytes of an answer.
_MOST_ANSWER: Final = 4 << 20

#: Seconds after its first answer for which a state is used again although the core has changed, and after which an
#: unused process ends.
_FRESH_S: Final = 5.0
_KEPT_S: Final = 60.0

#: The state in parts, read while the core continues.
StateParts = Callable[[], AsyncIterator[bytes]]


class NoAnswer(Exception):
    """There is no answer; the message says why. `is_off`: there never is one."""

    def __init__(self, message: str, *, is_off: bool = False) -> None:
        super().__init__(message)
        self.is_off = is_off


class AnswerProcess:
    """Answers one question at a time. `most_mib`: 0 = it answers none."""

    def __init__(
        self, most_mib: int = MOST_MIB, longest_s: float = LONGEST_S, control_group: Path = CONTROL_GROUP
    ) -> None:
        self._most_mib = most_mib
        self._control_group = control_group
        self._longest_s = longest_s
        self._is_closed = False
        self._asked: asyncio.Task[tuple[int, bytes]] | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._subject: Hashable = None
        self._version = 0
        self._first_s = -math.inf
        self._expiry: asyncio.TimerHandle | None = None
        self._ending: asyncio.Future[None] | None = None

    @property
    def pid(self) -> int | None:
        """The process, while there is one."""
        return self._process.pid if self._process else None

    async def ask(
        self, state: StateParts | None, question: Mapping[str, object], subject: Hashable = None, version: int = 0
    ) -> tuple[int, bytes]:
        """Returns the status and the JSON of the answer. `state`: None = the question needs none; `subject`: of what.

        `version`: of the state, which is used again as long as it is the same, or for a few seconds.
        A question whose client leaves is answered to its end, so that its work is not lost for the next one.

        Raises:
            NoAnswer: a limit was reached, or the process has ended.
        """
        if not self._most_mib:
            raise NoAnswer("such questions are turned off (--rest-simulation-mib 0)", is_off=True)
        while self._asked is not None and not self._asked.done():
            await asyncio.wait((self._asked,))
        if self._is_closed:
            raise NoAnswer("the core is stopping")
        self._asked = asyncio.create_task(self._ask(state, question, subject, version))
        self._asked.add_done_callback(_retrieve)
        return await asyncio.shield(self._asked)

    async def _ask(
        self, state: StateParts | None, question: Mapping[str, object], subject: Hashable, version: int
    ) -> tuple[int, bytes]:
        is_over = False
        if self._expiry is not None:
            self._expiry.cancel()
        try:
            async with asyncio.timeout(self._longest_s):
                answer = await self._answer(state, question, subject, version)
            is_over = True
        except TimeoutError as error:
            raise NoAnswer(f"the answer needs more than {self._longest_s:g} s") from error
        except OSError as error:
            raise NoAnswer("the process that answers has ended") from error
        finally:
            if is_over:
                self._expiry = asyncio.get_running_loop().call_later(_KEPT_S, self.stop)
            else:
                self.stop()
        return answer

    async def _answer(
        self, state: StateParts | None, question: Mapping[str, object], subject: Hashable, version: int
    ) -> tuple[int, bytes]:
        if self._process is not None and self._process.poll() is not None:
            self.stop()
        if self._ending is not None:
            await asyncio.shield(self._ending)  # a client that leaves must not cancel it for the others
        process = self._process or self._start()
        assert process.stdin and process.stdout  # noqa: S101, PT018 # they are pipes
        most_s = _KEPT_S if version == self._version else _FRESH_S
        is_old = subject != self._subject or time.monotonic() - self._first_s > most_s
        if state is not None and is_old:
            await asyncio.to_thread(process.stdin.write, dumped(NEW_STATE))
            async for part in state():
                await asyncio.to_thread(process.stdin.write, part)
            self._subject, self._version = subject, version
        await asyncio.to_thread(_send, process, dumped(question))
        line = await asyncio.to_thread(process.stdout.readline, _MOST_ANSWER + 1)
        if state is not None and is_old:
            self._first_s = time.monotonic()
        if len(line) > _MOST_ANSWER:
            raise NoAnswer(f"the answer has more than {_MOST_ANSWER >> 20} MiB")
        status, _, body = line.partition(b" ")
        if not body:
            raise BrokenPipeError
        if int(status) == ENDED:
            self.stop()
            return 503, body.rstrip()
        return int(status), body.rstrip()

    def _start(self) -> subprocess.Popen[bytes]:
        """Starts the process in a few milliseconds: it is not a copy of this one (vfork)."""
        share = (memory_left(self._control_group) - _RESERVE_BYTES) / 2
        if share < LEAST_MIB << 20:
            raise NoAnswer("the container of the scheduler has too little memory left")
        limits = int(min(share, self._most_mib << 20)), int(self._longest_s) + 1
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", _MODULE, *map(str, limits)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
            start_new_session=True,  # its copies end with it
        )
        return self._process

    def close(self) -> None:
        """Ends the process, and all questions."""
        self._is_closed = True
        if self._asked is not None:
            self._asked.cancel()
        self.stop()

    def stop(self) -> None:
        """Ends the process, if there is one."""
        process, self._process, self._first_s = self._process, None, -math.inf
        if process is not None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            self._ending = asyncio.get_running_loop().run_in_executor(None, _clean_up, process)


def memory_left(control_group: Path = CONTROL_GROUP) -> float:
    """The bytes that the container may still use, as Kubernetes counts them; infinite without a limit."""
    try:
        most, used, stat = ((control_group / f"memory.{name}").read_text() for name in ("max", "current", "stat"))
    except OSError:  # not a container
        return math.inf
    cached = dict(line.split() for line in stat.splitlines()).get("inactive_file", "0")
    return math.inf if most.strip() == "max" else int(most) - int(used) + int(cached)


def _retrieve(asked: asyncio.Task[tuple[int, bytes]]) -> None:
    """Its exception is that of a client, which may have left."""
    if not asked.cancelled():
        asked.exception()


def _send(process: subprocess.Popen[bytes], data: bytes) -> None:
    assert process.stdin  # noqa: S101 # it is a pipe
    process.stdin.write(data)
    process.stdin.flush()


def _clean_up(process: subprocess.Popen[bytes]) -> None:
    process.wait()
    with suppress(ChildProcessError):  # its copies are children of this process if that is the first of a container
        while True:
            os.waitpid(-process.pid, 0)
    for pipe in (process.stdin, process.stdout):
        with suppress(OSError):  # bytes that it has not read
            if pipe is not None:
                pipe.close()
