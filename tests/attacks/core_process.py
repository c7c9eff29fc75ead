"""A process with a core, REST, many waiting applications and a full event ring.

Arguments: number of waiting applications, and optionally a file with a token, which closes reads (empty = none), and
a file for the journal. It prints the port,
and then answers how long its loop was paused (`pauses.questions`). For the line `gang` it submits a gang, and answers
when the gang runs.
"""

import asyncio
import gc
import logging
import sys
from itertools import count
from pathlib import Path
from typing import BinaryIO

import structlog
import uvloop

from muster_core.model.ids import ApplicationId
from muster_core.model.records import Change, EventRecorded, Notice
from muster_core.rest.auth import OPEN_READS, AccessSettings
from muster_core.si.events import RING_CAPACITY
from tests.attacks import pauses
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
        await asyncio.sleep(pauses.BEAT_S)
    await live.end(name)
    pauses.answer(name)


async def serve(applications: int, token: Path | None, journal: BinaryIO | None) -> None:
    """Serve until the standard input is closed."""
    access = AccessSettings(token_file=token, closed=True) if token else OPEN_READS
    gangs, running = (f"gang-{number}" for number in count()), set[asyncio.Task[None]]()
    async with live_core.running(access, journal=journal) as live:
        await fill(live, applications)
        gc.collect()
        gc.freeze()  # as the core does after its recovery
        pauses.answer(live.port)
        async for _ in pauses.questions():
            running.add(asyncio.create_task(gang_runs(live, next(gangs))))


if __name__ == "__main__":
    structlog.configure(
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING),
    )
    _, count_text, token_file, journal_file = (*sys.argv, "", "")[:4]
    written = Path(journal_file).open("wb") if journal_file else None  # noqa: SIM115  # until the process ends
    uvloop.run(serve(int(count_text), Path(token_file) if token_file else None, written))
