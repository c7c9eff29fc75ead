"""Questions to a resource manager that it answers when it can: its part of a state dump.

Asked by rest/; the answer arrives at scheduler.py, which finds the question
by its number in the session.
"""

from __future__ import annotations

import asyncio
from itertools import count

from muster_core.edge import si_encode
from muster_core.edge.session import Session

_numbers = count(1)


async def state_dump(session: Session, deadline_s: float) -> str:
    """The resource manager's own state as one JSON document (GetStateDump, semantics 7).
    Raises SessionLost, TimeoutError, and LookupError where it has none to give.
    """
    session.require_open()
    if not session.attendance.stateDump:
        raise LookupError("the resource manager does not declare a state dump")
    number = next(_numbers)
    asked = session.questions[number] = asyncio.get_running_loop().create_future()
    session.callback.call_back(si_encode.state_dump_question(number))
    try:
        answer = await asyncio.wait_for(asked, deadline_s)
    finally:
        session.questions.pop(number, None)
    if answer.error:
        raise LookupError(answer.error)
    return str(answer.json)
