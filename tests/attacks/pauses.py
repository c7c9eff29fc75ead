"""Questions to a process under attack, among them how long its loop was paused. `measured` is the other side."""

import asyncio
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path

BEAT_S = 0.005


def waited_s() -> float:
    """How long the threads of this process have waited for a processor, because others used it."""
    stats = (file.read_text() for file in Path("/proc/self/task").glob("*/schedstat"))
    return sum(int(text.split()[1]) for text in stats) / 1e9


def answer(value: object) -> None:
    """Write an answer, or the port, as a line."""
    print(value, flush=True)  # noqa: T201 - the parent reads it


async def questions() -> AsyncIterator[str]:
    """The lines of the standard input, until it is closed. Answers `pause` itself.

    The answer is the longest pause of the loop since the last one, without the time for which the process waited for a
    processor.
    """
    lines: asyncio.Queue[str] = asyncio.Queue()
    asyncio.get_running_loop().add_reader(sys.stdin, lambda: lines.put_nowait(sys.stdin.readline()))
    longest_s = 0.0
    while True:
        began, waited = time.perf_counter(), waited_s()  # noqa: TID251 - pauses of a real loop
        await asyncio.sleep(BEAT_S)  # a beat, whose delay is measured
        pause_s = time.perf_counter() - began - BEAT_S  # noqa: TID251
        longest_s = max(longest_s, pause_s - (waited_s() - waited))
        if lines.empty():
            continue
        line = lines.get_nowait()
        if not line:
            return
        if line == "pause\n":
            answer(longest_s)
            longest_s = 0.0
        else:
            yield line.strip()
