"""A response about many objects is built in small parts, so that the scheduler runs in between. Calls are counted."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import cache

import orjson
import pytest

from muster_core.model.events import ApplicationAdded, AskAdded, NodeAdded
from muster_core.placement.autoscaling import outstanding_in_steps
from muster_core.rest import endpoints, schemas
from muster_core.rest.diagnostics import state_dump_pieces
from muster_core.rest.http import Pieces, RequestContext, RestContext
from muster_core.runtime.service import Scheduler
from tests.unit.builders import a_configuration, a_limit, a_node, a_queue, an_application, an_ask
from tests.unit.core.function_calls import MOST_CALLS, most_calls
from tests.unit.core.scheduling.scenario import UncheckedScenario

#: Objects of each kind.
MANY = 3_000


@cache
def large() -> UncheckedScenario:
    """One application with many allocations and requests, many that wait in one leaf, and many leaves.

    All of them belong to one user and one group.
    """
    limit = a_limit(users=("kim",), groups=("dev",), vcore=10**9)
    leaves = (a_queue(f"q{index}") for index in range(MANY))
    scenario = UncheckedScenario(a_configuration(a_queue("a", limits=(limit,)), a_queue("p", *leaves)))
    applications = [
        ApplicationAdded(an_application("app", user="kim", groups=("dev",))),
        *(ApplicationAdded(an_application(f"w{i}", user="kim", groups=("dev",))) for i in range(MANY)),
        *(ApplicationAdded(an_application(f"q{i}", user="kim", queue=f"root.p.q{i}")) for i in range(MANY)),
    ]
    scenario.send(*(NodeAdded(a_node(f"n{index}", vcore=100_000)) for index in range(MANY // 100)), *applications)
    scenario.send(
        *(AskAdded(an_ask(f"k{index}", vcore=1000)) for index in range(MANY)),
        *(AskAdded(an_ask(f"p{index}", vcore=200_000)) for index in range(MANY)),
        *(AskAdded(an_ask(f"w{i}", app=f"w{i}", vcore=200_000 + i)) for i in range(MANY)),
        *(AskAdded(an_ask(f"q{i}", app=f"q{i}", vcore=200_000)) for i in range(MANY)),
    )
    return scenario


def context(path: Mapping[str, str], **query: str) -> RequestContext:
    core = Scheduler()
    core.loop.scheduler_state = large().scheduler_state
    core.events.add(large().records, large().now_ns)
    return RequestContext(RestContext(core), {"partition": "default", **path}, query, large().now_ns)


VIEWS: dict[Callable[[RequestContext], Pieces], dict[str, str]] = {
    endpoints.all_clusters: {},
    endpoints.all_partitions: {},
    endpoints.placement_rules: {},
    endpoints.queue_tree: {},
    endpoints.one_queue: {"queue": "root.a"},
    endpoints.applications_of_partition: {"state": "active"},
    endpoints.application_summaries: {"state": "active"},
    endpoints.applications_of_queue: {"queue": "root.a"},
    endpoints.applications_of_queue_by_state: {"queue": "root.a", "state": "active"},
    endpoints.waiting_in_queue: {"queue": "root.a"},
    endpoints.one_application: {"application": "app"},
    endpoints.application_events: {"application": "app"},
    endpoints.application_of_queue: {"queue": "root.a", "application": "app"},
    endpoints.waiting_by_reason: {},
    endpoints.all_nodes: {},
    endpoints.node_summaries: {},
    endpoints.one_node: {"node": "n1"},
    endpoints.node_utilizations: {},
    endpoints.all_users: {},
    endpoints.one_user: {"user": "kim"},
    endpoints.all_groups: {},
    endpoints.one_group: {"group": "dev"},
    endpoints.autoscaling: {},
    endpoints.application_history: {},
    endpoints.container_history: {},
}

#: They depend on nothing large.
OTHERS = {endpoints.health, endpoints.event_batch}


def test_every_view_is_listed() -> None:
    views_here = {
        function
        for _, function in inspect.getmembers(endpoints, inspect.isfunction)
        if function.__annotations__ == {"context": "RequestContext", "return": "Pieces"}
    }
    assert views_here == VIEWS.keys() | OTHERS


@pytest.mark.parametrize("view", VIEWS, ids=lambda view: view.__name__)
def test_d14_no_part_of_a_response_takes_long(view: Callable[[RequestContext], Pieces]) -> None:
    calls, parts = most_calls(view(context(VIEWS[view])))
    assert calls <= MOST_CALLS
    orjson.loads(b"".join(part for part in parts if isinstance(part, bytes)))


def test_d14_no_part_of_a_state_dump_takes_long() -> None:
    calls, parts = most_calls(state_dump_pieces(large().scheduler_state, 1, []))
    assert calls <= MOST_CALLS
    found = orjson.loads(b"".join(part for part in parts if isinstance(part, bytes)))
    assert found["ledgers"]["allocations"] == MANY
    assert len(found["ledgers"]["queues"]) == MANY + 3


def test_d14_no_step_of_the_outstanding_requests_takes_long() -> None:
    calls, _ = most_calls(outstanding_in_steps(large().partition))
    assert calls <= MOST_CALLS


def test_d14_a_page_of_waiting_applications_builds_only_its_entries(monkeypatch: pytest.MonkeyPatch) -> None:
    built: list[str] = []

    class Counted(schemas.Waiting):
        def model_post_init(self, context: object, /) -> None:
            built.append(self.applicationID)

    monkeypatch.setattr(schemas, "Waiting", Counted)
    page = b"".join(endpoints.waiting_in_queue(context({"queue": "root.a"}, offset="1000", limit="3")))
    everything = orjson.loads(b"".join(endpoints.waiting_in_queue(context({"queue": "root.a"}))))
    assert orjson.loads(page) == everything[1000:1003]
    assert len(everything) == MANY + 1
    assert built[:3] == [entry["applicationID"] for entry in everything[1000:1003]]
    assert len(built) == MANY + 1 + 3
