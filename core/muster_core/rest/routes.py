"""Table of the routes. The server and the OpenAPI document are built from it.

`row`: number of the endpoint among those of YuniKorn; 0 = not in YuniKorn.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import Enum
from typing import Final

from aiohttp import web

from muster_core.rest import diagnostics, endpoints, schemas
from muster_core.rest.auth import AccessLevel
from muster_core.rest.requests import RequestContext, RestContext
from muster_core.rest.responses import Pieces, write

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


def _view(
    path: str, row: int, about: str, shape: object, view: View, *query: Query, failures: tuple[int, ...] = ()
) -> Route:
    named = (400, 404) if "{" in path else ()
    asked = (400,) if query else ()
    return Route(
        "GET", path, row, about, _shown(view), shape, query=query, failures=tuple(sorted({*named, *asked, *failures}))
    )


def _shown(view: View) -> Endpoint:
    """Returns the endpoint that writes the pieces of a view."""

    async def answer(rest_context: RestContext, request: web.Request) -> web.StreamResponse:
        return await write(
            request, view(RequestContext(rest_context, request.match_info, request.query, rest_context.now_ns()))
        )

    return answer


_WS: Final = "/ws/v1"
_P: Final = f"{_WS}/partition/{{partition}}"

_STATUS: Final = Query(
    "status", "only those in this state", choices=("new", "accepted", "running", "completing", "failing", "resuming")
)

_OFFSET: Final = Query("offset", "leave out so many first ones; ours", "integer")
_LIMIT: Final = Query("limit", "no more than so many; ours", "integer")
_SUBTREE: Final = Query("subtree", "with all queues below it, whatever the value")
_START: Final = Query("start", "number of the first event", "integer")
_COUNT: Final = Query("count", "events in the answer at the most", "integer", least=1)
_PAST: Final = Query("count", "events of the past to begin with", "integer")
_MANAGER: Final = Query("rmId", "of this resource manager; ours")
_INVARIANTS: Final = Query("invariants", "check the ledgers, however long it takes; ours", choices=("1", "true"))
_NAMESPACE: Final = Query("namespace", "namespace of the application, if several have this ID; Muster extension")
_SECONDS: Final = Query("seconds", "how long to look", "integer")

_READING: Final = (
    _view(
        f"{_WS}/clusters",
        1,
        "What is scheduled, and who asked for it.",
        list[schemas.ClusterInfo],
        endpoints.all_clusters,
    ),
    _view(f"{_WS}/partitions", 5, "Partitions in numbers.", list[schemas.PartitionInfo], endpoints.all_partitions),
    _view(f"{_P}/placementrules", 6, "Rules in force.", list[schemas.RuleInfo], endpoints.placement_rules),
    _view(f"{_P}/queues", 7, "The tree of queues.", schemas.QueueInfo, endpoints.queue_tree),
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
        "Live applications of a leaf; the state is active.",
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
    _view(
        f"{_P}/queue/{{queue}}/application/{{application}}",
        13,
        "One application of a leaf.",
        schemas.ApplicationInfo,
        endpoints.application_of_queue,
        _NAMESPACE,
    ),
    _view(
        f"{_P}/nodes", 14, "Nodes and what runs on them.", list[schemas.NodeInfo], endpoints.all_nodes, _OFFSET, _LIMIT
    ),
    _view(f"{_P}/node/{{node}}", 15, "One node.", schemas.NodeInfo, endpoints.one_node),
    _view(
        f"{_WS}/scheduler/node-utilizations",
        16,
        "Nodes by tenths of use.",
        list[schemas.ClusterUtilization],
        endpoints.node_utilizations,
    ),
    _view(f"{_P}/usage/users", 17, "What users use.", list[schemas.UserUsage], endpoints.all_users, _OFFSET, _LIMIT),
    _view(f"{_P}/usage/user/{{user}}", 18, "What one user uses.", schemas.UserUsage, endpoints.one_user),
    _view(
        f"{_P}/usage/groups", 19, "What groups use.", list[schemas.GroupUsage], endpoints.all_groups, _OFFSET, _LIMIT
    ),
    _view(f"{_P}/usage/group/{{group}}", 20, "What one group uses.", schemas.GroupUsage, endpoints.one_group),
    _view(
        f"{_WS}/history/apps",
        21,
        "Applications that ran, minute by minute.",
        list[schemas.ApplicationCount],
        endpoints.application_history,
    ),
    _view(
        f"{_WS}/history/containers",
        22,
        "Allocations, minute by minute.",
        list[schemas.ContainerCount],
        endpoints.container_history,
    ),
    _view(
        f"{_WS}/scheduler/healthcheck",
        23,
        "What the last health checks found.",
        schemas.Health,
        endpoints.health,
        failures=(404,),
    ),
    _view(
        f"{_WS}/events/batch",
        24,
        "Events by number.",
        schemas.EventBatch,
        endpoints.event_batch,
        *(_START, _COUNT),
        failures=(500,),
    ),
    _view(
        f"{_P}/autoscaling",
        0,
        "Places that no node has room for.",
        list[schemas.OutstandingInfo],
        endpoints.autoscaling,
    ),
    _view(
        f"{_P}/queue/{{queue}}/waiting",
        0,
        "Applications of a leaf that wait for something, who is tried first comes first.",
        list[schemas.Waiting],
        endpoints.waiting_in_queue,
        *(_OFFSET, _LIMIT),
    ),
)

_OTHERS: Final = (
    Route("GET", "/livez", 0, "Whether the process is alive.", endpoints.liveness, access=AccessLevel.OPEN),
    Route("GET", "/readyz", 0, "Whether it schedules.", endpoints.readiness, failures=(503,), access=AccessLevel.OPEN),
    Route("GET", f"{_WS}/metrics", 2, "Metrics for Prometheus.", endpoints.metrics),
    Route(
        "GET",
        f"{_WS}/config",
        3,
        "The configuration in force; JSON where exactly application/json is accepted.",
        endpoints.config,
        schemas.Config,
        query=(_MANAGER,),
        failures=(404,),
    ),
    Route(
        "POST",
        f"{_WS}/validate-conf",
        4,
        "Whether a queues.yaml may be put in force.",
        endpoints.validate_conf,
        schemas.ValidationInfo,
        failures=(413,),
        takes=Media.YAML,
    ),
    Route(
        "GET",
        f"{_WS}/events/stream",
        25,
        "Events as they come, one JSON object a line, the instance first.",
        endpoints.event_stream,
        Media.JSON,
        query=(_PAST,),
        failures=(400, 500, 503),
    ),
    Route(
        "GET",
        "/debug/fullstatedump",
        26,
        "Everything the core knows.",
        diagnostics.full_state_dump,
        Media.JSON,
        query=(_INVARIANTS,),
        access=AccessLevel.GUARDED,
    ),
    Route("GET", "/debug/stack", 27, "Where tasks and threads are.", diagnostics.stack, access=AccessLevel.GUARDED),
    Route("GET", "/debug/pprof/", 28, "The profiles there are.", diagnostics.index, access=AccessLevel.GUARDED),
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
        "The level of the log.",
        endpoints.get_log_level,
        schemas.LogLevelInfo,
        failures=(501,),
    ),
    Route(
        "PUT",
        f"{_WS}/scheduler/log-level",
        0,
        "Another level of the log, from now on.",
        endpoints.set_log_level,
        schemas.LogLevelInfo,
        failures=(400, 501),
        access=AccessLevel.GUARDED,
        takes=endpoints.LogLevelRequest,
    ),
)

ROUTES: Final[tuple[Route, ...]] = (*_READING, *_OTHERS)

#: Former paths, answered with status 301 as in YuniKorn.
MOVED: Final = {f"{_WS}/fullstatedump": "/debug/fullstatedump", f"{_WS}/stack": "/debug/stack"}
