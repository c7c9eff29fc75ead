"""A process with a core, REST, many waiting applications and a full event ring.

Arguments: number of waiting applications, and optionally a file with a token, which closes reads. It prints the port.
For each line `pause` on its standard input it prints the longest pause of its loop since the last one, without the time
for which the process waited for a processor. For `gang` it submits a gang and prints a line when the gang runs.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import time
from itertools import count
from pathlib import Path

import structlog
import uvloop

from muster_core.model.ids import ApplicationId
from muster_core.model.records import Change, EventRecorded, Notice
from muster_core.rest.auth import OPEN_READS, AccessSettings
from muster_core.si.events import RING_CAPACITY
from tests.attacks.webhook_process import BEAT_S, waited_s
from tests.browser import live_core
from tests.browser.live_core import LiveCore, an_application
from tests.unit.core.messages import RM

NODES, GANG = 200, 10
#: Requested by every waiting pod: no node has as much.
TOO_MUCH = {"vcore": 10**6}
#: What no answer without a token may contain.
SECRET = "tenant-secret"
QUEUES = """
partitions:
  - name: default
    queues:
      - name: root
        submitacl: "*"
        queues:
          - name: attacker
          - name: tenant
"""


async def fill(live: LiveCore, applications: int) -> None:
    """Make the applications wait, and fill the event ring with records about the first one."""
    await live.register(QUEUES)
    await live.nodes(NODES)
    await live.submit(
        [an_application(f"{SECRET}-{number}", "root.attacker", 1, TOO_MUCH) for number in range(applications)]
    )
    await live.idle()
    first = f"team-a/{SECRET}-0"
    records = [
        EventRecorded(RM, Notice.REQUEST, f"{number}", "waits", first if number % 4 else "another", Change.SET)
        for number in range(RING_CAPACITY)
    ]
    live.core.events.add(records, live.core.loop._now_ns())


async def gang_runs(live: LiveCore, name: str) -> None:
    """Submit a gang and wait until all its members have a node. Then end it."""
    await live.application(name, "root.tenant", GANG, gang=GANG)
    [partition] = live.core.loop.scheduler_state.partitions.values()
    while not (app := partition.applications.get(ApplicationId(f"team-a/{name}"))) or app.real_allocations < GANG:  # noqa: ASYNC110
        await asyncio.sleep(BEAT_S)
    await live.end(name)
    print(name, flush=True)  # noqa: T201 - the parent reads it


async def serve(applications: int, token: Path | None) -> None:
    """Serve until the standard input is closed."""
    access = AccessSettings(token_file=token, closed=True) if token else OPEN_READS
    lines: asyncio.Queue[str] = asyncio.Queue()
    gangs = (f"gang-{number}" for number in count())
    longest_s, running = 0.0, set[asyncio.Task[None]]()
    async with live_core.running(access) as live:
        await fill(live, applications)
        asyncio.get_running_loop().add_reader(sys.stdin, lambda: lines.put_nowait(sys.stdin.readline()))
        print(live.port, flush=True)  # noqa: T201 - the parent reads it
        while True:
            began, waited = time.perf_counter(), waited_s()  # noqa: TID251 - pauses of a real loop
            await asyncio.sleep(BEAT_S)
            pause_s = time.perf_counter() - began - BEAT_S  # noqa: TID251
            longest_s = max(longest_s, pause_s - (waited_s() - waited))
            if lines.empty():
                continue
            line = lines.get_nowait().strip()
            if not line:
                break
            if line == "gang":
                running.add(asyncio.create_task(gang_runs(live, next(gangs))))
            else:
                print(longest_s, flush=True)  # noqa: T201 - the parent reads it
                longest_s = 0.0


if __name__ == "__main__":
    structlog.configure(
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING),
    )
    uvloop.run(serve(int(sys.argv[1]), Path(sys.argv[2]) if len(sys.argv) > 2 else None))
