"""Table of the routes. The server and the OpenAPI document are built from it.

`row`: number of the endpoint among those of YuniKorn; 0 = not in YuniKorn.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import Enum
from typing import Final

from aiohttp import web

from muster_core.rest import diagnostics, endpoints, schemas, what_if
from muster_core.rest.auth import AccessLevel
from muster_core.rest.http import Pieces, RequestContext, RestContext

View = Callable[[RequestContext], Pieces]
Endpoint = Callable[[RestContext, web.Request], Awaitable[web.StreamResponse]]


class Media(Enum):
    """Content type of a body that is not one of the JSON objects in `schemas`."""

    TEXT = "text/plain"
    YAML = "application/x-yaml"
    JSON = "application/json"


@dataclass(frozen=True, slots=True)
class Query:
    """A query parameter."""

    name: str
    about: str
    form: str = "string"
    least: int = 0
    choices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Route:
    """A method and path with its endpoint. `shape`: the body of a response with status 200."""

    method: str
    path: str
    row: int
    about: str
    endpoint: Endpoint
    shape: object = Media.TEXT
    query: tuple[Query, ...] = ()
    failures: tuple[int, ...] = ()
    access: AccessLevel = AccessLevel.READ
    #: Body of the request: a model, or text.
    takes: object = None
    #: What a view shows of a state.
    view: View | None = None

    @property
    def has_past(self) -> bool:
        """Whether an earlier state can be shown."""
        return _AT in self.query


#: Statuses when a question, such as one about an earlier time, has no answer.
_UNANSWERED: Final = (400, 404, 429, 501, 503)
_AT: Final = Query("at", "an earlier time, milliseconds since the epoch; needs a journal; Muster extension", "integer")


def _view(
    path: str, row: int, about: str, shape: object, view: View, *query: Query, failures: tuple[int, ...] = ()
) -> Route:
    """The route of a view of the state, which earlier states have, too."""
    statuses = tuple(sorted({*_UNANSWERED, *failures}))
    return Route("GET", path, row, about, _shown(view, path), shape, query=(*query, _AT), failures=statuses, view=view)


def _shown(view: View, path: str = "") -> Endpoint:
    """Returns the endpoint that writes the pieces of a view. `path`: for a view that earlier states have, too."""

    def pieces(context: RequestContext) -> Pieces:
        yield from view(context)  # only when its turn has come, because a view can read many objects first

    async def answer(rest_context: RestContext, request: web.Request) -> web.StreamResponse:
        if path and "at" in request.query:
            return await what_if.earlier(rest_context, request, path)
        context = RequestContext(rest_context, request.match_info, request.query, rest_context.now_ns())
        return await rest_context.writer.write(request, pieces(context))

    return answer


_WS: Final = "/ws/v1"
_P: Final = f"{_WS}/partition/{{partition}}"

_STATUS: Final = Query(
    "status",
    "only applications in this state",
    choices=("new", "accepted", "running", "completing", "failing", "resuming"),
)

_OFFSET: Final = Query("offset", "number of entries to skip; Muster extension", "integer")
_LIMIT: Final = Query("limit", "maximum number of entries; Muster extension", "integer")
_SUBTREE: Final = Query("subtree", "include all queues below, whatever the value")
_START: Final = Query("start", "number of the first event", "integer")
_COUNT: Final = Query("count", "maximum number of events in the response", "integer", least=1)
_PAST: Final = Query("count", "number of past events to send first", "integer")
_MANAGER: Final = Query("rmId", "ID of the resource manager; Muster extension")
_INVARIANTS: Final = Query(
    "invariants",
    "check the invariants of a state of any size; null while an event is being applied in parts; Muster extension",
    choices=("1", "true"),
)
_NAMESPACE: Final = Query("namespace", "namespace of the application, if several have this ID; Muster extension")
_SECONDS: Final = Query("seconds", "duration of the measurement", "integer")

_READING: Final = (
    Route(
        "GET",
        f"{_WS}/clusters",
        1,
        "Partitions with their scheduler and resource manager.",
        _shown(endpoints.all_clusters),
        list[schemas.ClusterInfo],
    ),
    _view(f"{_WS}/partitions", 5, "Totals of all partitions.", list[schemas.PartitionInfo], endpoints.all_partitions),
    _view(f"{_P}/placementrules", 6, "Active placement rules.", list[schemas.RuleInfo], endpoints.placement_rules),
    _view(f"{_P}/queues", 7, "The queue tree.", schemas.QueueInfo, endpoints.queue_tree),
    _view(f"{_P}/queue/{{queue}}", 8, "One queue.", schemas.QueueInfo, endpoints.one_queue, _SUBTREE),
    _view(
        f"{_P}/applications/{{state}}",
        9,
        "Applications that are active, rejected or completed.",
        list[schemas.ApplicationInfo],
        endpoints.applications_of_partition,
        *(_STATUS, _OFFSET, _LIMIT),
    ),
    _view(
        f"{_P}/queue/{{queue}}/applications",
        10,
        "Live applications of a leaf.",
        list[schemas.ApplicationInfo],
        endpoints.applications_of_queue,
        *(_OFFSET, _LIMIT),
    ),
    _view(
        f"{_P}/queue/{{queue}}/applications/{{state}}",
        11,
        "Live applications of a leaf; the only state is active.",
        list[schemas.ApplicationInfo],
        endpoints.applications_of_queue_by_state,
        *(_STATUS, _OFFSET, _LIMIT),
    ),
    _view(
        f"{_P}/application/{{application}}",
        12,
        "One application.",
        schemas.ApplicationInfo,
        endpoints.one_application,
        _NAMESPACE,
    ),
    Route(
        "GET",
        f"{_P}/application/{{application}}/events",
        0,
        "What happened to an application and its requests, oldest first. Muster extension.",
        _shown(endpoints.application_events),
        list[schemas.EventRecord],
        query=(_NAMESPACE, _COUNT),
        failures=(400, 404, 500),
    ),
    _view(
        f"{_P}/queue/{{queue}}/application/{{application}}",
        13,
        "One application of a leaf.",
        schemas.ApplicationInfo,
        endpoints.application_of_queue,
        _NAMESPACE,
    ),
    _view(
        f"{_P}/nodes", 14, "Nodes with their allocations.", list[schemas.NodeInfo], endpoints.all_nodes, _OFFSET, _LIMIT
    ),
    _view(f"{_P}/node/{{node}}", 15, "One node.", schemas.NodeInfo, endpoints.one_node),
    _view(
        f"{_WS}/scheduler/node-utilizations",
        16,
        "Nodes by usage in steps of 10 %.",
        list[schemas.ClusterUtilization],
        endpoints.node_utilizations,
    ),
    _view(
        f"{_P}/usage/users", 17, "Usage of all users.", list[schemas.UserUsage], endpoints.all_users, _OFFSET, _LIMIT
    ),
    _view(f"{_P}/usage/user/{{user}}", 18, "Usage of one user.", schemas.UserUsage, endpoints.one_user),
    _view(
        f"{_P}/usage/groups",
        19,
        "Usage of all groups.",
        list[schemas.GroupUsage],
        endpoints.all_groups,
        _OFFSET,
        _LIMIT,
    ),
    _view(f"{_P}/usage/group/{{group}}", 20, "Usage of one group.", schemas.GroupUsage, endpoints.one_group),
    Route(
        "GET",
        f"{_WS}/history/apps",
        21,
        "Number of running applications per minute.",
        _shown(endpoints.application_history),
        list[schemas.ApplicationCount],
    ),
    Route(
        "GET",
        f"{_WS}/history/containers",
        22,
        "Number of allocations per minute.",
        _shown(endpoints.container_history),
        list[schemas.ContainerCount],
    ),
    Route(
        "GET",
        f"{_WS}/scheduler/healthcheck",
        23,
        "Result of the last health checks.",
        _shown(endpoints.health),
        schemas.Health,
        failures=(404,),
    ),
    Route(
        "GET",
        f"{_WS}/events/batch",
        24,
        "Events by number.",
        _shown(endpoints.event_batch),
        schemas.EventBatch,
        query=(_START, _COUNT),
        failures=(400, 500),
    ),
    _view(
        f"{_P}/autoscaling",
        0,
        "Pending requests that more nodes could help.",
        list[schemas.OutstandingInfo],
        endpoints.autoscaling,
    ),
    _view(
        f"{_P}/applications/{{state}}/summary",
        0,
        "Applications that are active, rejected or completed, without requests and allocations.",
        list[schemas.ApplicationSummary],
        endpoints.application_summaries,
        *(_STATUS, _OFFSET, _LIMIT),
    ),
    _view(
        f"{_P}/nodes/summary",
        0,
        "Nodes without their allocations.",
        list[schemas.NodeSummary],
        endpoints.node_summaries,
        *(_OFFSET, _LIMIT),
    ),
    _view(
        f"{_P}/waiting",
        0,
        "Waiting requests by reason, the reason of most requests first.",
        list[schemas.WaitingSummary],
        endpoints.waiting_by_reason,
    ),
    _view(
        f"{_P}/queue/{{queue}}/waiting",
        0,
        "Waiting applications of a leaf in scheduling order.",
        list[schemas.Waiting],
        endpoints.waiting_in_queue,
        *(_OFFSET, _LIMIT),
    ),
)

_OTHERS: Final = (
    Route("GET", "/livez", 0, "Whether the process is alive.", endpoints.liveness, access=AccessLevel.OPEN),
    Route(
        "GET", "/readyz", 0, "Whether scheduling runs.", endpoints.readiness, failures=(503,), access=AccessLevel.OPEN
    ),
    Route("GET", f"{_WS}/metrics", 2, "Metrics for Prometheus.", endpoints.metrics),
    Route(
        "GET",
        f"{_WS}/config",
        3,
        "The active configuration; JSON if the Accept header is exactly application/json.",
        endpoints.config,
        schemas.Config,
        query=(_MANAGER,),
        failures=(404,),
    ),
    Route(
        "POST",
        f"{_WS}/validate-conf",
        4,
        "Validates a queues.yaml.",
        endpoints.validate_conf,
        schemas.ValidationInfo,
        failures=(408, 413),
        takes=Media.YAML,
    ),
    Route(
        "GET",
        f"{_WS}/events/stream",
        25,
        "Stream of events as JSON lines, the instance first.",
        endpoints.event_stream,
        Media.JSON,
        query=(_PAST,),
        failures=(400, 500, 503),
    ),
    Route(
        "GET",
        "/debug/fullstatedump",
        26,
        "Complete state of the core.",
        diagnostics.full_state_dump,
        Media.JSON,
        query=(_INVARIANTS,),
        access=AccessLevel.COMPATIBLE,
    ),
    Route("GET", "/debug/stack", 27, "Stacks of tasks and threads.", diagnostics.stack, access=AccessLevel.GUARDED),
    Route("GET", "/debug/pprof/", 28, "List of profiles.", diagnostics.index, access=AccessLevel.GUARDED),
    Route(
        "GET",
        "/debug/pprof/{name}",
        28,
        "One profile.",
        diagnostics.profile,
        query=(_SECONDS,),
        failures=(400, 404, 409, 501),
        access=AccessLevel.GUARDED,
    ),
    Route(
        "GET",
        f"{_WS}/scheduler/log-level",
        0,
        "The log level.",
        endpoints.get_log_level,
        schemas.LogLevelInfo,
        failures=(501,),
    ),
    Route(
        "PUT",
        f"{_WS}/scheduler/log-level",
        0,
        "Changes the log level.",
        endpoints.set_log_level,
        schemas.LogLevelInfo,
        failures=(400, 501),
        access=AccessLevel.COMPATIBLE,
        takes=endpoints.LogLevelRequest,
    ),
)

_WITHIN: Final = Query("within", "seconds of virtual time after the configuration is applied", "integer", least=1)
_NEW_NAMESPACE: Final = Query("namespace", "namespace of objects without one")
_USER: Final = Query("user", "user of the pods; otherwise from their annotation")
_GROUP: Final = Query("group", "group of the user; may be repeated")

#: What would happen. The answers are those of the command line in JSON.
_WHAT_IF: Final = (
    Route(
        "GET",
        f"{_P}/application/{{application}}/changes",
        0,
        "The smallest changes that would start an application. Muster extension.",
        what_if.changes,
        Media.JSON,
        query=(_NAMESPACE,),
        failures=_UNANSWERED,
    ),
    Route(
        "GET",
        f"{_P}/application/{{application}}/estimate",
        0,
        "When an application is expected to start. Muster extension.",
        what_if.estimate,
        Media.JSON,
        query=(_NAMESPACE,),
        failures=_UNANSWERED,
    ),
    Route(
        "POST",
        f"{_P}/dry-run",
        0,
        "Whether the manifests in the body would start now, and what would be preempted. Muster extension.",
        what_if.dry_run,
        Media.JSON,
        query=(_NEW_NAMESPACE, _USER, _GROUP),
        failures=(*_UNANSWERED, 408, 413),
        takes=Media.YAML,
    ),
    Route(
        "POST",
        f"{_P}/plan",
        0,
        "What the queue configuration in the body would change. Muster extension.",
        what_if.plan,
        Media.JSON,
        query=(_WITHIN,),
        failures=(*_UNANSWERED, 408, 413),
        takes=Media.YAML,
    ),
)

ROUTES: Final[tuple[Route, ...]] = (*_READING, *_OTHERS, *_WHAT_IF)

#: Former paths, answered with status 301 as in YuniKorn.
MOVED: Final = {f"{_WS}/fullstatedump": "/debug/fullstatedump", f"{_WS}/stack": "/debug/stack"}
