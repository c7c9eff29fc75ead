"""Endpoints: state, configuration, events, log level and probes.

The table in `routes` maps paths to these functions. They run on the event loop between two cycles of the scheduler
task. Endpoints other than `set_log_level` change nothing.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

import orjson
import yaml
from aiohttp import hdrs, web
from prometheus_client import CONTENT_TYPE_LATEST
from pydantic import BaseModel, ConfigDict, ValidationError

from muster_core.config import document
from muster_core.config.load import DEFAULT_TEXT, checksum, validate
from muster_core.model.limits import LONGEST_STALL_S
from muster_core.model.states import ManagerState
from muster_core.rest import schemas, summaries, views
from muster_core.rest.http import (
    JSON_TYPE,
    NO_GROUP,
    NO_USER,
    Pieces,
    RequestContext,
    RestContext,
    RestFailure,
    array,
    bad_request,
    body_of,
    not_found,
    one,
    source_of,
)
from muster_core.rest.schemas import Config, ValidationInfo
from muster_core.runtime.log_level import LevelControl, LogLevel
from muster_core.runtime.sessions import Session
from muster_core.si.events import Batch, Record, TooManyStreams, as_json
from muster_core.state.applications import Application
from muster_si import keys

_STATES: Final = ("active", "rejected", "completed")


def all_clusters(context: RequestContext) -> Pieces:
    """Returns one cluster entry per partition."""
    sessions = list(context.rest_context.core.dispatcher.sessions.values())
    partitions = list(context.scheduler_state.partitions.values())
    return array(views.cluster(item, sessions, context.rest_context.started_ns) for item in partitions)


def all_partitions(context: RequestContext) -> Pieces:
    """Returns the totals of all partitions."""
    partitions = list(context.scheduler_state.partitions.values())
    return array(found for item in partitions for found in views.partition(item))


def placement_rules(context: RequestContext) -> Pieces:
    """Returns the active placement rules."""
    return array(views.rules(context.partition()))


def queue_tree(context: RequestContext) -> Pieces:
    """Returns root with all queues below it."""
    partition = context.partition()
    return views.tree(partition.queues.root, partition)


def one_queue(context: RequestContext) -> Pieces:
    """Returns one queue; with the query parameter `subtree`, whatever its value, all queues below it too."""
    queue, partition = context.queue(), context.partition()
    return views.tree(queue, partition) if "subtree" in context.query else one(views.queue(queue, partition))


def applications_of_partition(context: RequestContext) -> Pieces:
    """Returns the applications of a partition in one state."""
    found = _in_state(context)
    return array(views.all_of(context.portion(found), context.partition(), context.now_ns))


def application_summaries(context: RequestContext) -> Pieces:
    """Returns the applications of a partition in one state, without requests and allocations. Not in YuniKorn."""
    found = _in_state(context)
    return array(summaries.applications(context.portion(found), context.partition()))


def _in_state(context: RequestContext) -> list[Application]:
    partition, state = context.partition(), context.path["state"].lower()
    if state not in _STATES:
        raise bad_request(f"Only following application states are allowed: {', '.join(_STATES)}")
    found = views.with_state(partition, state)
    return context.with_status(found) if state == "active" else found


def waiting_by_reason(context: RequestContext) -> Pieces:
    """Returns the waiting requests of a partition by reason. Not in YuniKorn."""
    return array(summaries.waiting_by_reason(context.partition()))


def applications_of_queue(context: RequestContext) -> Pieces:
    """Returns the live applications of a leaf."""
    found = _in_queue(context)
    return array(views.all_of(context.portion(found), context.partition(), context.now_ns))


def applications_of_queue_by_state(context: RequestContext) -> Pieces:
    """Returns the live applications of a leaf; the only state is `active`."""
    found = _in_queue(context)
    if context.path["state"].lower() != "active":
        raise bad_request("Only following application states are allowed: active")
    return array(views.all_of(context.portion(context.with_status(found)), context.partition(), context.now_ns))


def waiting_in_queue(context: RequestContext) -> Pieces:
    """Returns the waiting applications of a leaf in scheduling order. Not in YuniKorn."""
    queue = context.queue()
    return array(views.waiting(queue, context.portion(views.in_scheduling_order(queue, context.partition()))))


def one_application(context: RequestContext) -> Pieces:
    """Returns one application."""
    return views.application(context.application(), context.partition(), context.now_ns)


def application_of_queue(context: RequestContext) -> Pieces:
    """Returns one application of a leaf."""
    queue = context.queue()
    return views.application(context.application(queue), context.partition(), context.now_ns)


def all_nodes(context: RequestContext) -> Pieces:
    """Returns the nodes of a partition."""
    return array(views.all_nodes(context.partition(), context.portion))


def node_summaries(context: RequestContext) -> Pieces:
    """Returns the nodes of a partition without their allocations. Not in YuniKorn."""
    partition = context.partition()
    return array(summaries.nodes(partition, context.portion(list(partition.nodes))))


def one_node(context: RequestContext) -> Pieces:
    """Returns one node."""
    return one(views.node(context.partition(), context.node()))


def node_utilizations(context: RequestContext) -> Pieces:
    """Returns the nodes of all partitions by usage."""
    return array(found for item in list(context.scheduler_state.partitions.values()) for found in views.by_use(item))


def all_users(context: RequestContext) -> Pieces:
    """Yields the usage of all users."""
    partition = context.partition()
    found = yield from views.by_user(partition)
    yield from array(views.user(partition, name, apps) for name, apps in context.portion(found.items()))


def one_user(context: RequestContext) -> Pieces:
    """Yields the usage of one user."""
    name, partition = context.user(), context.partition()
    found = yield from views.by_user(partition)
    if name not in found:
        raise not_found(NO_USER)
    yield from views.user(partition, name, found[name])


def all_groups(context: RequestContext) -> Pieces:
    """Yields the usage of all groups that have a limit."""
    found = yield from views.by_group(context.partition())
    yield from array(views.group(name, apps) for name, apps in context.portion(found.items()))


def one_group(context: RequestContext) -> Pieces:
    """Yields the usage of one group."""
    name = context.group()
    found = yield from views.by_group(context.partition())
    if name not in found:
        raise not_found(NO_GROUP)
    yield from views.group(name, found[name])


def application_history(context: RequestContext) -> Pieces:
    """Returns the number of running applications per minute."""
    return array(context.rest_context.history.applications())


def container_history(context: RequestContext) -> Pieces:
    """Returns the number of allocations per minute."""
    return array(context.rest_context.history.containers())


def health(context: RequestContext) -> Pieces:
    """Returns the result of the last health checks."""
    if context.rest_context.health is None:
        raise not_found("Health check is not available")
    return one(context.rest_context.health)


def autoscaling(context: RequestContext) -> Pieces:
    """Returns the pending requests that more nodes could help. Not in YuniKorn."""
    return array(views.outstanding(context.partition()))


def _in_queue(context: RequestContext) -> list[Application]:
    queue, partition = context.queue(), context.partition()
    return [partition.applications[name] for name in queue.applications]


_JSON: Final = "application/json"
_FILE_SUFFIX: Final = ".yaml"

#: Names of these keys in YuniKorn's JSON. All other keys only get a capital first letter.
_NAMES: Final = {
    "placementrules": "PlacementRules",
    "quotapreemptionenabled": "QuotaPreemptionEnabled",
    "nodesortpolicy": "NodeSortPolicy",
    "resourceweights": "ResourceWeights",
    "usergroupresolver": "UserGroupResolver",
    "maxapplications": "MaxApplications",
    "maxresources": "MaxResources",
    "adminacl": "AdminACL",
    "submitacl": "SubmitACL",
    "childtemplate": "ChildTemplate",
}

#: Keys below these are names chosen by users.
_OWN_NAMES: Final = frozenset({"properties", "guaranteed", "max", "resourceweights", "maxresources"})
_FLAGS: Final = frozenset({"parent", "create", "enabled", "quotapreemptionenabled"})


async def config(rest_context: RestContext, request: web.Request) -> web.StreamResponse:
    """Returns the active configuration: JSON if the Accept header is exactly `application/json`, else YAML."""
    session, source = _session(rest_context, request.query.get("rmId", "")), source_of(request)
    if request.headers.get(hdrs.ACCEPT) == _JSON:
        return await rest_context.writer.write(request, one(await active_config(rest_context, source, session)))
    text = _config_text(session)
    shown = {
        "partitions": await _partitions_in(rest_context, source, text, str),
        "checksum": checksum(text),
        "extra": settings_of(session.loaded.extra if session else {}),
        "deadlockdetectionenabled": False,
        "deadlocktimeoutseconds": 0,
    }
    async with rest_context.checking.taken(source):
        body = await asyncio.to_thread(_yaml, shown)
    return await rest_context.writer.write(request, iter((body.encode(),)), "application/x-yaml; charset=utf-8")


async def active_config(rest_context: RestContext, source: str, session: Session | None = None) -> Config:
    """Returns the active configuration of a session, or else of the first one, in YuniKorn's JSON, to an address."""
    session = session or _session(rest_context, "")
    text = _config_text(session)
    partitions = await _partitions_in(rest_context, source, text, _go_name)
    return Config(
        Partitions=partitions if isinstance(partitions, list) else [],
        Checksum=checksum(text),
        Extra=settings_of(session.loaded.extra if session else {}),
        DeadlockDetectionEnabled=False,
        DeadlockTimeoutSeconds=0,
    )


def _config_text(session: Session | None) -> str:
    return session.loaded.text if session else DEFAULT_TEXT


async def _partitions_in(rest_context: RestContext, source: str, text: str, name_of: Callable[[str], str]) -> object:
    async with rest_context.checking.taken(source):
        return await asyncio.to_thread(_read_partitions, text, name_of)


def _read_partitions(text: str, name_of: Callable[[str], str]) -> object:
    data = document.read(text)
    return _typed(data.get("partitions") if isinstance(data, dict) else None, name_of)


async def validate_conf(rest_context: RestContext, request: web.Request) -> web.StreamResponse:
    """Validates a queues.yaml. The status is 200 for invalid text too; the body has the reason."""
    async with body_of(rest_context, request) as body:
        try:
            text = body.decode()
        except UnicodeDecodeError as error:
            reason = f"the text is not UTF-8: {error.reason}"
            return await rest_context.writer.write(request, one(ValidationInfo(allowed=False, reason=reason)))
        async with rest_context.checking.taken(source_of(request)):
            found = await asyncio.to_thread(validate, text)
    shape = ValidationInfo(
        allowed=found.allowed,
        reason=found.reason or None,
        checksum=found.checksum,
        checksumMatch=found.checksum_match,
    )
    return await rest_context.writer.write(request, one(shape))


def _yaml(shown: object) -> str:
    return str(yaml.dump(shown, Dumper=yaml.CSafeDumper, sort_keys=False))


def _session(rest_context: RestContext, wanted: str) -> Session | None:
    sessions = rest_context.core.dispatcher.sessions
    if wanted:
        named = next((session for rm, session in sessions.items() if rm == wanted), None)
        if named is None:
            raise not_found("Resource manager not found")
        return named
    return min(sessions.values(), key=lambda session: (not session.is_open, session.rm), default=None)


def settings_of(extra: Mapping[str, str]) -> dict[str, str]:
    """Returns the settings of the ConfigMaps, without files and the options of the registration."""
    return {
        key: value
        for key, value in sorted(extra.items())
        if not key.endswith(_FILE_SUFFIX) and key not in (keys.EXTRA_BARRIER, keys.EXTRA_REJECTED)
    }


def _typed(data: object, name_of: Callable[[str], str], key: str = "") -> object:
    """Returns the data with keys renamed by `name_of`, and with flags and counts converted from text."""
    if isinstance(data, list):
        return [_typed(item, name_of, key) for item in data]
    if isinstance(data, dict):
        if key in _OWN_NAMES:
            return {name: _number(value) if key == "resourceweights" else value for name, value in data.items()}
        return {name_of(name): _typed(value, name_of, name) for name, value in data.items()}
    if key in _FLAGS and isinstance(data, str):
        return data.lower() in {"true", "yes", "on"}
    return int(data) if key == "maxapplications" and isinstance(data, str) else data


def _go_name(name: str) -> str:
    return _NAMES.get(name, name.capitalize())


def _number(value: object) -> object:
    return float(value) if isinstance(value, str) else value


#: A reader that accepts no data for this time is disconnected.
_WRITE_S: Final = 5.0


def event_batch(context: RequestContext) -> Pieces:
    """Returns events by number."""
    return _pieces(context.rest_context.core.events.batch(context.number("start", 0), _event_count(context)))


def application_events(context: RequestContext) -> Pieces:
    """Returns the newest events of an application and its requests, oldest first. Not in YuniKorn."""
    newest: deque[Record] = deque(maxlen=_event_count(context))
    app = context.application()
    for record in context.rest_context.core.events.story(app.id):
        yield b""
        if record is not None:
            newest.append(record)
    yield from _array(newest)


def _event_count(context: RequestContext) -> int:
    """Returns the maximum number of events in the response."""
    _require_tracking(context.rest_context)
    most = context.rest_context.core.dispatcher.settings.response_size
    count = context.number("count", most)
    if not count:
        raise bad_request('0 is not a valid value for "count"')
    return min(count, most)


async def event_stream(rest_context: RestContext, request: web.Request) -> web.StreamResponse:
    """Streams events as JSON lines, the instance first, until one side closes the connection.

    Differs: the streams of a client are counted by its address, not by the header Host, which it chooses.
    """
    _require_tracking(rest_context)
    context = RequestContext(rest_context, request.match_info, request.query, rest_context.now_ns())
    try:
        source = request.remote or ""
        records = rest_context.core.events.subscribe(source, context.number("count", 0), context.now_ns)
    except TooManyStreams as error:
        raise RestFailure(503, str(error)) from error
    response = web.StreamResponse(headers={hdrs.CONTENT_TYPE: JSON_TYPE})
    try:
        await response.prepare(request)
        await _write(response, orjson.dumps({"InstanceUUID": rest_context.core.events.instance}) + b"\n")
        async for portion in records:
            await _write(response, _lines(portion))
    except (TimeoutError, ConnectionError):
        if request.transport is not None:
            request.transport.abort()  # the reader accepts no data, and closing would wait for it
    finally:
        records.close()
    return response


async def _write(response: web.StreamResponse, lines: bytes) -> None:
    await asyncio.wait_for(response.write(lines), _WRITE_S)


def _lines(records: Sequence[Record]) -> bytes:
    return b"".join(orjson.dumps(as_json(record)) + b"\n" for record in records)


def _require_tracking(rest_context: RestContext) -> None:
    if not rest_context.core.events.tracking:
        raise RestFailure(500, "Event tracking is disabled")


def _pieces(found: Batch) -> Pieces:
    head = {"InstanceUUID": found.instance, "LowestID": found.lowest_id, "HighestID": found.highest_id}
    yield orjson.dumps(head)[:-1] + b',"EventRecords":'
    if found.records is None:
        yield b"null}"
        return
    yield from _array(found.records)
    yield b"}"


def _array(records: Iterable[Record]) -> Pieces:
    before = b"["
    for record in records:
        yield before + orjson.dumps(as_json(record))
        before = b","
    yield b"[]" if before == b"[" else b"]"


class LogLevelRequest(BaseModel):
    """Body of a request to change the log level."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    level: LogLevel


async def get_log_level(rest_context: RestContext, request: web.Request) -> web.StreamResponse:
    """Returns the log level."""
    return await rest_context.writer.write(request, one(schemas.LogLevelInfo(level=_control(rest_context).level.value)))


async def set_log_level(rest_context: RestContext, request: web.Request) -> web.StreamResponse:
    """Changes the log level until the next change or restart."""
    control = _control(rest_context)
    try:
        async with body_of(rest_context, request) as body:
            wanted = LogLevelRequest.model_validate_json(body)
    except ValidationError as error:
        raise bad_request('invalid body: write {"level": "debug"}, or info, warning or error') from error
    control.set(wanted.level)
    return await rest_context.writer.write(request, one(schemas.LogLevelInfo(level=control.level.value)))


def _control(rest_context: RestContext) -> LevelControl:
    if rest_context.levels is None:
        raise RestFailure(501, "the process that embeds this core controls the log level")
    return rest_context.levels


async def liveness(rest_context: RestContext, request: web.Request) -> web.StreamResponse:
    """Liveness: the loop runs and completes its iterations. A loop that waits for work is alive."""
    loop = rest_context.core.loop
    if not loop.is_running:
        return web.Response(text="the scheduling loop is not running", status=503)
    stalled_s = loop.stalled_s()
    if stalled_s > LONGEST_STALL_S:
        text = f"the scheduling loop has work but stalled for {stalled_s:.0f} s (limit {LONGEST_STALL_S} s)"
        return web.Response(text=text, status=503)
    return web.Response(text="ok")


async def readiness(rest_context: RestContext, request: web.Request) -> web.StreamResponse:
    """Whether scheduling runs: the loop runs, and every registered resource manager has sent its existing objects."""
    if not rest_context.core.loop.is_running:
        return web.Response(text="the scheduling loop is not running", status=503)
    managers = rest_context.core.loop.scheduler_state.managers.values()
    recovering = sorted(item.id for item in managers if item.is_recovering and item.state is ManagerState.RUNNING)
    if recovering:
        return web.Response(text=f"receiving the existing objects from {', '.join(recovering)}", status=503)
    return web.Response(text="ok")


async def metrics(rest_context: RestContext, request: web.Request) -> web.StreamResponse:
    """Returns the metrics in the text format of Prometheus."""
    return await rest_context.metrics_writer.write(request, rest_context.core.metrics.pieces(), CONTENT_TYPE_LATEST)
