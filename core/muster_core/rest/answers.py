"""The process that answers questions about the state (`muster.what_if`), and its limits.

It is started at the first question and ends when nobody has asked for a while, or when an answer takes too long. It
runs no code of this process: a fork would copy the threads of gRPC in an unknown state. Its memory, its time and its
answers are bounded, and its niceness is higher, so that it does not delay the core.
"""

from __future__ import annotations

import asyncio
import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import suppress
from typing import Final

from muster_core.foresight.present import NEW_STATE, dumped

#: The module is named, not imported, because the core does not depend on the command line.
_MODULE: Final = "muster.what_if"

#: Memory of the process. A copy of its own that tries a change may use as much again.
MOST_BYTES: Final = 384 << 20

#: Seconds until an answer, with the start of the process and the transfer of the state, and for the simulation alone.
LONGEST_S: Final = 45.0
SIMULATION_S: Final = 15.0

#: Bytes of an answer.
_MOST_ANSWER: Final = 4 << 20

#: Seconds for which a state is used again, and after which an unused process ends.
_FRESH_S: Final = 5.0
_KEPT_S: Final = 60.0

#: The state in parts, read while the core continues.
StateParts = Callable[[], AsyncIterator[bytes]]


class NoAnswer(Exception):
    """There is no answer; the message says why."""


class AnswerProcess:
    """Answers one question at a time: the caller sees to that."""

    def __init__(self, memory_bytes: int = MOST_BYTES, longest_s: float = LONGEST_S) -> None:
        self._memory_bytes = memory_bytes
        self._longest_s = longest_s
        self._process: subprocess.Popen[bytes] | None = None
        self._read_s = -math.inf
        self._expiry: asyncio.TimerHandle | None = None
        self._ending: asyncio.Future[None] | None = None

    @property
    def pid(self) -> int | None:
        """The process, while there is one."""
        return self._process.pid if self._process else None

    async def ask(self, state: StateParts | None, question: Mapping[str, object]) -> tuple[int, bytes]:
        """Returns the status and the JSON of the answer. `state`: None = the question needs none. Raises NoAnswer."""
        is_over = False
        if self._expiry is not None:
            self._expiry.cancel()
        try:
            async with asyncio.timeout(self._longest_s):
                answer = await self._answer(state, question)
            is_over = True
        except TimeoutError as error:
            raise NoAnswer(f"the answer needs more than {self._longest_s:g} s; {_OTHER_WAY}") from error
        except OSError as error:
            raise NoAnswer(f"the process that answers has ended; {_OTHER_WAY}") from error
        finally:
            if is_over:
                self._expiry = asyncio.get_running_loop().call_later(_KEPT_S, self.stop)
            else:
                self.stop()
        return answer

    async def _answer(self, state: StateParts | None, question: Mapping[str, object]) -> tuple[int, bytes]:
        if self._ending is not None:
            await self._ending
        process = self._process or self._start()
        assert process.stdin and process.stdout  # noqa: S101, PT018 # they are pipes
        now_s = time.monotonic()
        if state is not None and now_s - self._read_s > _FRESH_S:
            await asyncio.to_thread(process.stdin.write, dumped(NEW_STATE))
            async for part in state():
                await asyncio.to_thread(process.stdin.write, part)
            self._read_s = now_s
        await asyncio.to_thread(_send, process, dumped(question))
        line = await asyncio.to_thread(process.stdout.readline, _MOST_ANSWER + 1)
        if len(line) > _MOST_ANSWER:
            raise NoAnswer(f"the answer has more than {_MOST_ANSWER >> 20} MiB; {_OTHER_WAY}")
        status, _, body = line.partition(b" ")
        if not body:
            raise BrokenPipeError
        return int(status), body.rstrip()

    def _start(self) -> subprocess.Popen[bytes]:
        """Starts the process in a few milliseconds: it is not a copy of this one (vfork)."""
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", _MODULE, str(self._memory_bytes), str(int(self._longest_s) + 1)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
            start_new_session=True,  # its copies end with it
        )
        return self._process

    def stop(self) -> None:
        """Ends the process, if there is one."""
        process, self._process, self._read_s = self._process, None, -math.inf
        if process is not None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            self._ending = asyncio.get_running_loop().run_in_executor(None, _clean_up, process)


#: What a user can do about an answer that exceeds a limit.
_OTHER_WAY: Final = "the commands muster plan, apply --dry-run and explain compute on your machine, without this limit"


def _send(process: subprocess.Popen[bytes], data: bytes) -> None:
    assert process.stdin  # noqa: S101 # it is a pipe
    process.stdin.write(data)
    process.stdin.flush()


def _clean_up(process: subprocess.Popen[bytes]) -> None:
    process.wait()
    for pipe in (process.stdin, process.stdout):
        with suppress(OSError):  # bytes that it has not read
            if pipe is not None:
                pipe.close()
