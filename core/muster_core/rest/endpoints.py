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
from muster_core.config.load import DEFAULT_TEXT, checksum, examine
from muster_core.model.limits import LONGEST_STALL_S
from muster_core.model.states import ManagerState
from muster_core.rest import schemas, summaries, views
from muster_core.rest.auth import AccessLevel
from muster_core.rest.declarations import PARTITION, WS, Media, Query, RouteTable
from muster_core.rest.http import (
    JSON_TYPE,
    NO_GROUP,
    NO_USER,
    STATUSES,
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

ROUTES: Final = RouteTable()

_STATUS: Final = Query("status", "only applications in this state", choices=STATUSES)

_OFFSET: Final = Query("offset", "number of entries to skip; Muster extension", "integer")
_LIMIT: Final = Query("limit", "maximum number of entries; Muster extension", "integer")
_SUBTREE: Final = Query("subtree", "include all queues below, whatever the value")
_START: Final = Query("start", "number of the first event", "integer")
_COUNT: Final = Query("count", "maximum number of events in the response", "integer", least=1)
_PAST: Final = Query("count", "number of past events to send first", "integer")
_MANAGER: Final = Query("rmId", "ID of the resource manager; Muster extension")
NAMESPACE: Final = Query("namespace", "namespace of the application, if several have this ID; Muster extension")

_STATES: Final = ("active", "rejected", "completed")


@ROUTES.view(WS + "/clusters", list[schemas.ClusterInfo], row=1, has_past=False)
def all_clusters(context: RequestContext) -> Pieces:
    """Partitions with their scheduler and resource manager."""
    sessions = list(context.rest_context.core.dispatcher.sessions.values())
    partitions = list(context.scheduler_state.partitions.values())
    return array(views.cluster(item, sessions, context.rest_context.started_ns) for item in partitions)


@ROUTES.view(WS + "/partitions", list[schemas.PartitionInfo], row=5)
def all_partitions(context: RequestContext) -> Pieces:
    """Totals of all partitions."""
    partitions = list(context.scheduler_state.partitions.values())
    return array(found for item in partitions for found in views.partition(item))


@ROUTES.view(PARTITION + "/placementrules", list[schemas.RuleInfo], row=6)
def placement_rules(context: RequestContext) -> Pieces:
    """Active placement rules."""
    return array(views.rules(context.partition()))


@ROUTES.view(PARTITION + "/queues", schemas.QueueInfo, row=7)
def queue_tree(context: RequestContext) -> Pieces:
    """The queue tree."""
    partition = context.partition()
    return views.tree(partition.queues.root, partition)


@ROUTES.view(PARTITION + "/queue/{queue}", schemas.QueueInfo, _SUBTREE, row=8)
def one_queue(context: RequestContext) -> Pieces:
    """One queue.

    With the query parameter `subtree`, whatever its value, all queues below it too.
    """
    queue, partition = context.queue(), context.partition()
    return views.tree(queue, partition) if "subtree" in context.query else one(views.queue(queue, partition))


@ROUTES.view(PARTITION + "/applications/{state}", list[schemas.ApplicationInfo], _STATUS, _OFFSET, _LIMIT, row=9)
def applications_of_partition(context: RequestContext) -> Pieces:
    """Applications that are active, rejected or completed."""
    found = _in_state(context)
    return array(views.all_of(context.portion(found), context.partition(), context.now_ns))


@ROUTES.view(PARTITION + "/applications/{state}/summary", list[schemas.ApplicationSummary], _STATUS, _OFFSET, _LIMIT)
def application_summaries(context: RequestContext) -> Pieces:
    """Applications that are active, rejected or completed, without requests and allocations."""
    found = _in_state(context)
    return array(summaries.applications(context.portion(found), context.partition()))


def _in_state(context: RequestContext) -> list[Application]:
    partition, state = context.partition(), context.path["state"].lower()
    if state not in _STATES:
        raise bad_request(f"Only following application states are allowed: {', '.join(_STATES)}")
    found = views.with_state(partition, state)
    return context.with_status(found) if state == "active" else found


@ROUTES.view(PARTITION + "/waiting", list[schemas.WaitingSummary])
def waiting_by_reason(context: RequestContext) -> Pieces:
    """Waiting requests by reason, the reason of most requests first."""
    return array(summaries.waiting_by_reason(context.partition()))


@ROUTES.view(PARTITION + "/queue/{queue}/applications", list[schemas.ApplicationInfo], _OFFSET, _LIMIT, row=10)
def applications_of_queue(context: RequestContext) -> Pieces:
    """Live applications of a leaf."""
    found = _in_queue(context)
    return array(views.all_of(context.portion(found), context.partition(), context.now_ns))


@ROUTES.view(
    PARTITION + "/queue/{queue}/applications/{state}", list[schemas.ApplicationInfo], _STATUS, _OFFSET, _LIMIT, row=11
)
def applications_of_queue_by_state(context: RequestContext) -> Pieces:
    """Live applications of a leaf; the only state is active."""
    found = _in_queue(context)
    if context.path["state"].lower() != "active":
        raise bad_request("Only following application states are allowed: active")
    return array(views.all_of(context.portion(context.with_status(found)), context.partition(), context.now_ns))


@ROUTES.view(PARTITION + "/queue/{queue}/waiting", list[schemas.Waiting], _OFFSET, _LIMIT)
def waiting_in_queue(context: RequestContext) -> Pieces:
    """Waiting applications of a leaf in scheduling order."""
    queue = context.queue()
    return array(views.waiting(queue, context.portion(views.in_scheduling_order(queue, context.partition()))))


@ROUTES.view(PARTITION + "/application/{application}", schemas.ApplicationInfo, NAMESPACE, row=12)
def one_application(context: RequestContext) -> Pieces:
    """One application."""
    return views.application(context.application(), context.partition(), context.now_ns)


@ROUTES.view(PARTITION + "/queue/{queue}/application/{application}", schemas.ApplicationInfo, NAMESPACE, row=13)
def application_of_queue(context: RequestContext) -> Pieces:
    """One application of a leaf."""
    queue = context.queue()
    return views.application(context.application(queue), context.partition(), context.now_ns)


@ROUTES.view(PARTITION + "/nodes", list[schemas.NodeInfo], _OFFSET, _LIMIT, row=14)
def all_nodes(context: RequestContext) -> Pieces:
    """Nodes with their allocations."""
    return array(views.all_nodes(context.partition(), context.portion))


@ROUTES.view(PARTITION + "/nodes/summary", list[schemas.NodeSummary], _OFFSET, _LIMIT)
def node_summaries(context: RequestContext) -> Pieces:
    """Nodes without their allocations."""
    partition = context.partition()
    return array(summaries.nodes(partition, context.portion(list(partition.nodes))))


@ROUTES.view(PARTITION + "/node/{node}", schemas.NodeInfo, row=15)
def one_node(context: RequestContext) -> Pieces:
    """One node."""
    return one(views.node(context.partition(), context.node()))


@ROUTES.view(WS + "/scheduler/node-utilizations", list[schemas.ClusterUtilization], row=16)
def node_utilizations(context: RequestContext) -> Pieces:
    """Nodes by usage in steps of 10 %."""
    return array(found for item in list(context.scheduler_state.partitions.values()) for found in views.by_use(item))


@ROUTES.view(PARTITION + "/usage/users", list[schemas.UserUsage], _OFFSET, _LIMIT, row=17)
def all_users(context: RequestContext) -> Pieces:
    """Usage of all users."""
    partition = context.partition()
    found = yield from views.by_user(partition)
    yield from array(views.user(partition, name, apps) for name, apps in context.portion(found.items()))


@ROUTES.view(PARTITION + "/usage/user/{user}", schemas.UserUsage, row=18)
def one_user(context: RequestContext) -> Pieces:
    """Usage of one user."""
    name, partition = context.user(), context.partition()
    found = yield from views.by_user(partition)
    if name not in found:
        raise not_found(NO_USER)
    yield from views.user(partition, name, found[name])


@ROUTES.view(PARTITION + "/usage/groups", list[schemas.GroupUsage], _OFFSET, _LIMIT, row=19)
def all_groups(context: RequestContext) -> Pieces:
    """Usage of all groups.

    Only groups that have a limit are counted.
    """
    found = yield from views.by_group(context.partition())
    yield from array(views.group(name, apps) for name, apps in context.portion(found.items()))


@ROUTES.view(PARTITION + "/usage/group/{group}", schemas.GroupUsage, row=20)
def one_group(context: RequestContext) -> Pieces:
    """Usage of one group."""
    name = context.group()
    found = yield from views.by_group(context.partition())
    if name not in found:
        raise not_found(NO_GROUP)
    yield from views.group(name, found[name])


@ROUTES.view(WS + "/history/apps", list[schemas.ApplicationCount], row=21, has_past=False)
def application_history(context: RequestContext) -> Pieces:
    """Number of running applications per minute."""
    return array(context.rest_context.history.applications())


@ROUTES.view(WS + "/history/containers", list[schemas.ContainerCount], row=22, has_past=False)
def container_history(context: RequestContext) -> Pieces:
    """Number of allocations per minute."""
    return array(context.rest_context.history.containers())


@ROUTES.view(WS + "/scheduler/healthcheck", schemas.Health, row=23, failures=(404,), has_past=False)
def health(context: RequestContext) -> Pieces:
    """Result of the last health checks."""
    if context.rest_context.health is None:
        raise not_found("Health check is not available")
    return one(context.rest_context.health)


@ROUTES.view(PARTITION + "/autoscaling", list[schemas.OutstandingInfo])
def autoscaling(context: RequestContext) -> Pieces:
    """Pending requests that more nodes could help."""
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


@ROUTES.endpoint(WS + "/config", schemas.Config, _MANAGER, row=3, failures=(404,))
async def config(rest_context: RestContext, request: web.Request) -> web.StreamResponse:
    """The active configuration; JSON if the Accept header is exactly application/json."""
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


@ROUTES.endpoint(
    WS + "/validate-conf", schemas.ValidationInfo, row=4, method="POST", failures=(408, 413), takes=Media.YAML
)
async def validate_conf(rest_context: RestContext, request: web.Request) -> web.StreamResponse:
    """Validates a queues.yaml.

    The status is 200 for invalid text too; the body has the reason.
    """
    async with body_of(rest_context, request) as body:
        try:
            text = body.decode()
        except UnicodeDecodeError as error:
            reason = f"the text is not UTF-8: {error.reason}"
            return await rest_context.writer.write(request, one(ValidationInfo(allowed=False, reason=reason)))
        async with rest_context.checking.taken(source_of(request)):
            found = await asyncio.to_thread(examine, text)
    shape = ValidationInfo(
        allowed=not found.errors,
        reason=str(found.errors[0]) if found.errors else None,
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


@ROUTES.view(WS + "/events/batch", schemas.EventBatch, _START, _COUNT, row=24, failures=(400, 500), has_past=False)
def event_batch(context: RequestContext) -> Pieces:
    """Events by number."""
    return _pieces(context.rest_context.core.events.batch(context.number("start", 0), _event_count(context)))


@ROUTES.view(
    PARTITION + "/application/{application}/events",
    list[schemas.EventRecord],
    NAMESPACE,
    _COUNT,
    failures=(400, 404, 500),
    has_past=False,
)
def application_events(context: RequestContext) -> Pieces:
    """What happened to an application and its requests, oldest first. Muster extension."""
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


@ROUTES.endpoint(WS + "/events/stream", Media.JSON, _PAST, row=25, failures=(400, 500, 503))
async def event_stream(rest_context: RestContext, request: web.Request) -> web.StreamResponse:
    """Stream of events as JSON lines, the instance first.

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
    return array(iter((orjson.dumps(as_json(record)),)) for record in records)


class LogLevelRequest(BaseModel):
    """Body of a request to change the log level."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    level: LogLevel


@ROUTES.endpoint(WS + "/scheduler/log-level", schemas.LogLevelInfo, failures=(501,))
async def get_log_level(rest_context: RestContext, request: web.Request) -> web.StreamResponse:
    """The log level."""
    return await rest_context.writer.write(request, one(schemas.LogLevelInfo(level=_control(rest_context).level.value)))


@ROUTES.endpoint(
    WS + "/scheduler/log-level",
    schemas.LogLevelInfo,
    method="PUT",
    failures=(400, 501),
    access=AccessLevel.COMPATIBLE,
    takes=LogLevelRequest,
)
async def set_log_level(rest_context: RestContext, request: web.Request) -> web.StreamResponse:
    """Changes the log level.

    It stays until the next change or restart.
    """
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


@ROUTES.endpoint("/livez", access=AccessLevel.OPEN)
async def liveness(rest_context: RestContext, request: web.Request) -> web.StreamResponse:
    """Whether the process is alive.

    The loop runs and completes its iterations. A loop that waits for work is alive.
    """
    loop = rest_context.core.loop
    if not loop.is_running:
        return web.Response(text="the scheduling loop is not running", status=503)
    stalled_s = loop.stalled_s()
    if stalled_s > LONGEST_STALL_S:
        text = f"the scheduling loop has work but stalled for {stalled_s:.0f} s (limit {LONGEST_STALL_S} s)"
        return web.Response(text=text, status=503)
    return web.Response(text="ok")


@ROUTES.endpoint("/readyz", failures=(503,), access=AccessLevel.OPEN)
async def readiness(rest_context: RestContext, request: web.Request) -> web.StreamResponse:
    """Whether scheduling runs.

    The loop runs, and every registered resource manager has sent its existing objects.
    """
    if not rest_context.core.loop.is_running:
        return web.Response(text="the scheduling loop is not running", status=503)
    managers = rest_context.core.loop.scheduler_state.managers.values()
    recovering = sorted(item.id for item in managers if item.is_recovering and item.state is ManagerState.RUNNING)
    if recovering:
        return web.Response(text=f"receiving the existing objects from {', '.join(recovering)}", status=503)
    return web.Response(text="ok")


@ROUTES.endpoint(WS + "/metrics", row=2)
async def metrics(rest_context: RestContext, request: web.Request) -> web.StreamResponse:
    """Metrics for Prometheus."""
    return await rest_context.metrics_writer.write(request, rest_context.core.metrics.pieces(), CONTENT_TYPE_LATEST)
