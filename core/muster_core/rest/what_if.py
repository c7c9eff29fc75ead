"""Endpoints about what would happen: changes that start an application, its estimated start, a dry run, and a plan.

Nothing is changed. A process of its own answers (`answers`), one question at a time; clients have their turn by
address. It receives the state in parts of a few milliseconds, between the cycles of the core.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import suppress
from typing import Final

import orjson
from aiohttp import web

from muster_core.foresight.present import PresentState, written
from muster_core.model.ids import partition_name
from muster_core.rest.answers import SIMULATION_S, NoAnswer, StateParts
from muster_core.rest.endpoints import settings_of
from muster_core.rest.http import Pieces, RequestContext, RestContext, RestFailure, bad_request, source_of
from muster_core.state.scheduler_state import Partition
from muster_si import keys
from muster_si.fair_seats import TooManyRequests

#: A question with its arguments (`muster.what_if`).
_Question = Mapping[str, object]

#: Bytes of an answer that are compressed at once.
_PART: Final = 64 * 1024

#: Virtual seconds of a plan, the default of `muster plan` and its maximum, and groups of a user.
_WITHIN_S: Final = 60
_MOST_WITHIN_S: Final = 86_400
_MOST_GROUPS: Final = 100
_MILLISECOND: Final = 1_000_000

#: What a user can do about a limit.
_COMMAND: Final = "the command muster {} computes on your machine, without this limit"
_LATER: Final = "without the parameter at, this path shows the present"


async def changes(rest_context: RestContext, request: web.Request) -> web.StreamResponse:
    """Returns the smallest sets of changes that would start an application, as `muster explain --changes`."""
    return await _about_application(rest_context, request, "changes")


async def estimate(rest_context: RestContext, request: web.Request) -> web.StreamResponse:
    """Returns when an application is expected to start, as `muster explain --estimate`."""
    return await _about_application(rest_context, request, "estimate")


async def dry_run(rest_context: RestContext, request: web.Request) -> web.StreamResponse:
    """Returns what would become of the manifests in the body, as `muster apply --dry-run=server`."""
    query = request.query
    groups = query.getall("group", [])
    if len(groups) > _MOST_GROUPS:
        raise bad_request(f"at most {_MOST_GROUPS} groups are allowed")
    arguments = {"namespace": query.get("namespace") or "default", "user": query.get("user", ""), "groups": groups}

    async def question(context: RequestContext) -> _Question:
        return {"question": "dry-run", "text": await _text(rest_context, request), **arguments}

    return await _answered(rest_context, request, question, _COMMAND.format("apply --dry-run=server"))


async def plan(rest_context: RestContext, request: web.Request) -> web.StreamResponse:
    """Returns what the queue configuration in the body would change, as `muster plan`."""

    async def question(context: RequestContext) -> _Question:
        within_s = context.number("within", _WITHIN_S)
        if not 1 <= within_s <= _MOST_WITHIN_S:
            raise bad_request(f"within must be from 1 to {_MOST_WITHIN_S} seconds")
        return {"question": "plan", "text": await _text(rest_context, request), "within": within_s}

    return await _answered(rest_context, request, question, _COMMAND.format("plan"))


async def earlier(rest_context: RestContext, request: web.Request, path: str) -> web.StreamResponse:
    """Returns a view, by its path in the table of routes, of the state at the time of the query parameter `at`."""
    journal = rest_context.journal
    if journal is None:
        raise RestFailure(404, "the core keeps no journal: start it with --journal FILE to see earlier states")

    async def question(context: RequestContext) -> _Question:
        at_ns = (context.number("at", 0) + 1) * _MILLISECOND - 1
        with suppress(OSError):  # the disk is full: what is written is shown
            journal.flush()
        asked = {"route": path, "path": dict(request.match_info), "query": dict(request.query)}
        return {"question": "earlier", "journal": journal.name, "at_ns": at_ns, **asked}

    return await _answered(rest_context, request, question, _LATER, is_about_now=False)


async def _about_application(rest_context: RestContext, request: web.Request, kind: str) -> web.StreamResponse:
    async def question(context: RequestContext) -> _Question:
        app = context.application()
        return {"question": kind, "app": {"applicationID": app.name, "namespace": app.spec.namespace}}

    return await _answered(rest_context, request, question, _COMMAND.format(f"explain --{kind}"))


async def _text(rest_context: RestContext, request: web.Request) -> str:
    """The body. Its seat is that of the question."""
    rest_context.connections.read(request)
    try:
        body = await rest_context.questions.in_time(request.read())
        return body.decode()
    except TimeoutError as error:
        raise RestFailure(408, "the body did not arrive in time; send it again") from error
    except UnicodeDecodeError as error:
        raise bad_request(f"the text is not UTF-8: {error.reason}") from error


async def _answered(
    rest_context: RestContext,
    request: web.Request,
    question: Callable[[RequestContext], Awaitable[_Question]],
    otherwise: str,
    *,
    is_about_now: bool = True,
) -> web.StreamResponse:
    """Asks when it is the turn of the client, which also receives the answer in its turn.

    `otherwise`: what the client can do if a limit is reached.
    """

    async def collected() -> Pieces:
        context = RequestContext(rest_context, request.match_info, request.query, rest_context.now_ns())
        partition = context.partition() if is_about_now else None
        state = _state_parts(rest_context, request, partition) if partition is not None else None
        subject = partition.id if partition is not None else None
        asked = {**await question(context), "real_s": SIMULATION_S}
        try:
            status, body = await rest_context.answers.ask(state, asked, subject, rest_context.core.loop.changes)
        except NoAnswer as error:
            advice = "" if error.is_off else f"; {otherwise}"
            raise RestFailure(501 if error.is_off else 503, f"{error}{advice}") from error
        if status != 200:
            raise RestFailure(status, str(orjson.loads(body)))
        return (body[start : start + _PART] for start in range(0, len(body), _PART))

    try:
        return await rest_context.writer.write(request, collected, seats=rest_context.questions)
    except TooManyRequests as error:
        raise RestFailure(429, "this address has asked too many questions at once; try again later") from error


def _state_parts(rest_context: RestContext, request: web.Request, partition: Partition) -> StateParts:
    if partition_name(partition.id) != keys.DEFAULT_PARTITION:
        raise bad_request(f"only the partition {keys.DEFAULT_PARTITION} can be simulated")

    async def parts() -> AsyncIterator[bytes]:
        async for part in rest_context.writer.parts(source_of(request), _state(rest_context, partition)):
            yield part

    return parts


def _state(rest_context: RestContext, partition: Partition) -> Iterator[bytes]:
    configuration = rest_context.core.loop.scheduler_state.managers[partition.rm].configuration
    session = rest_context.core.dispatcher.sessions.get(partition.rm)
    extra = settings_of(session.loaded.extra) if session else {}
    return written(PresentState(partition.id, configuration, extra, rest_context.now_ns()), partition)
