"""A running YuniKorn that may bind pods keeps its scheduler name; other pods with its labels are ignored."""

from functools import partial
from typing import Any

import pytest

from muster_operator.kube.lists import PAGE
from muster_operator.model import limits
from muster_operator.model.errors import StartupRefused, Uncertain
from muster_operator.runtime import conflicts
from muster_operator.runtime.conflicts import allowed_names
from tests.unit.operator.kube.apiserver import ApiServer, reply, status
from tests.unit.operator.runtime.test_probes import a_session

DEPLOYMENTS, PODS = "GET /apis/apps/v1/deployments", "GET /api/v1/pods"
REVIEWS = "POST /apis/authorization.k8s.io/v1/subjectaccessreviews"
BOTH, MUSTER, YUNIKORN = frozenset({"muster", "yunikorn"}), frozenset({"muster"}), frozenset({"yunikorn"})
NAME = "yunikorn-scheduler"


def a_deployment(wanted: int, running: int = 0) -> dict[str, Any]:
    template = {"spec": {"serviceAccountName": "yunikorn-admin"}}
    metadata = {"namespace": "yk", "name": NAME}
    return {
        "metadata": metadata,
        "spec": {"replicas": wanted, "template": template},
        "status": {"replicas": running},
    }


def a_pod(phase: str) -> dict[str, Any]:
    return {"metadata": {"namespace": "yk", "name": "y-0"}, "spec": {}, "status": {"phase": phase}}


def a_cluster(*, deployments: Any = (), pods: Any = (), may_bind: bool = True) -> ApiServer:
    server = ApiServer()
    server.plan(DEPLOYMENTS, lambda: reply(200, {"items": [*deployments]}))
    server.plan(PODS, lambda: reply(200, {"items": [*pods]}))
    server.plan(REVIEWS, *[lambda: reply(201, {"status": {"allowed": may_bind}})] * 10)
    return server


async def allowed(server: ApiServer, names: frozenset[str], *, are_chosen: bool = False) -> frozenset[str]:
    async with a_session(server) as session:
        return await allowed_names(session, names, are_chosen=are_chosen)


@pytest.mark.parametrize("wanted,running", [(1, 0), (0, 1)])
async def test_an_explicit_scheduler_name_yunikorn_is_rejected_next_to_a_running_yunikorn(
    wanted: int, running: int
) -> None:
    server = a_cluster(deployments=[a_deployment(wanted, running)])
    with pytest.raises(StartupRefused, match=r"yk/yunikorn-scheduler is running.*service\.schedulerNames: muster"):
        await allowed(server, BOTH, are_chosen=True)


async def test_startup_is_rejected_if_yunikorn_is_the_only_name_next_to_a_running_yunikorn() -> None:
    with pytest.raises(StartupRefused):
        await allowed(a_cluster(deployments=[a_deployment(1)]), YUNIKORN)


async def test_the_default_names_except_yunikorn_are_served_next_to_a_running_yunikorn() -> None:
    assert await allowed(a_cluster(deployments=[a_deployment(1)]), BOTH) == MUSTER


async def test_a_yunikorn_without_its_deployment_is_found_by_its_pods() -> None:
    assert await allowed(a_cluster(pods=[a_pod("Running")]), BOTH) == MUSTER


async def test_a_stopped_yunikorn_is_ignored() -> None:
    assert await allowed(a_cluster(deployments=[a_deployment(0)], pods=[a_pod("Succeeded")]), BOTH) == BOTH


async def test_a_yunikorn_deployment_without_permission_to_bind_pods_is_ignored() -> None:
    """Else any user could keep us from starting."""
    server = a_cluster(deployments=[a_deployment(1)], may_bind=False)
    assert await allowed(server, BOTH, are_chosen=True) == BOTH
    [review] = server.requests("POST")
    assert review.body["spec"]["user"] == "system:serviceaccount:yk:yunikorn-admin"
    assert review.body["spec"]["resourceAttributes"] == {
        "verb": "create",
        "resource": "pods",
        "subresource": "binding",
    }


@pytest.mark.parametrize("code", [403, 429, 500])
@pytest.mark.parametrize("are_chosen", [True, False])
async def test_a_failed_review_is_uncertain(code: int, *, are_chosen: bool) -> None:
    """The name is not served and no process ends, also if a user configured the name."""
    server = ApiServer()
    server.plan(DEPLOYMENTS, lambda: reply(200, {"items": [a_deployment(1)]}))
    server.plan(REVIEWS, lambda: status(code, "Refused"))
    assert await allowed(server, BOTH, are_chosen=are_chosen) == MUSTER


async def test_a_failed_list_is_uncertain() -> None:
    server = ApiServer()
    for _ in range(2):
        server.plan(DEPLOYMENTS, lambda: status(500, "InternalError"))
    assert await allowed(server, BOTH, are_chosen=True) == MUSTER
    with pytest.raises(Uncertain):
        await allowed(server, YUNIKORN)


async def test_each_account_is_reviewed_once_for_any_number_of_yunikorn_pods() -> None:
    server = a_cluster(pods=[a_pod("Running") for _ in range(100)], may_bind=False)
    assert await allowed(server, BOTH) == BOTH
    assert len(server.requests("POST")) == 1


async def test_no_detection_runs_if_only_the_name_muster_is_served() -> None:
    server = ApiServer()
    assert await allowed(server, MUSTER) == MUSTER
    assert server.seen == []


async def test_forbidden_lists_are_uncertain() -> None:
    """What cannot be seen is not "none": the name is not served."""
    server = ApiServer()
    server.plan(DEPLOYMENTS, lambda: status(403, "Forbidden"))
    server.plan(PODS, lambda: status(403, "Forbidden"))
    assert await allowed(server, BOTH) == MUSTER


def pods_of(namespace: str, accounts: int) -> list[dict[str, Any]]:
    """Running pods with the labels of a YuniKorn, each with a separate account."""
    return [
        {
            "metadata": {"namespace": namespace, "name": f"pod-{number}"},
            "spec": {"serviceAccountName": f"account-{number}"},
            "status": {"phase": "Running"},
        }
        for number in range(accounts)
    ]


def reviewed(server: ApiServer) -> list[str]:
    return [request.body["spec"]["user"] for request in server.requests("POST")]


async def test_a_namespace_with_many_accounts_gets_few_reviews_and_delays_no_other_namespace() -> None:
    server = a_cluster(pods=pods_of("attacker", 500) + pods_of("other", 1), may_bind=False)
    assert await allowed(server, BOTH) == BOTH
    users = reviewed(server)
    assert len(users) == limits.YUNIKORN_ACCOUNTS_PER_NAMESPACE + 1
    assert "system:serviceaccount:other:account-0" in users[: conflicts.AT_ONCE]


async def test_more_accounts_than_the_review_limit_are_uncertain() -> None:
    namespaces = limits.YUNIKORN_ACCOUNTS + 1
    server = a_cluster(pods=[pod for n in range(namespaces) for pod in pods_of(f"ns-{n}", 1)], may_bind=False)
    server.planned[REVIEWS] *= limits.YUNIKORN_ACCOUNTS
    assert await allowed(server, BOTH, are_chosen=True) == MUSTER
    assert len(reviewed(server)) == limits.YUNIKORN_ACCOUNTS


async def test_only_denied_bind_reviews_are_cached_and_they_expire() -> None:
    server, now = ApiServer(), [0.0]
    answers = [False, False, True, True]
    server.plan(REVIEWS, *(partial(reply, 201, {"status": {"allowed": allowed}}) for allowed in answers))
    account = conflicts.Account("yk", "yunikorn-admin")
    async with a_session(server) as session:
        reviews = conflicts.Reviews(session, lambda: now[0])
        for moment, expected in (
            (0.0, None), (conflicts.REVIEW_S - 1, None), (conflicts.REVIEW_S, None),
            (2 * conflicts.REVIEW_S, account), (2 * conflicts.REVIEW_S, account),
        ):  # fmt: skip
            now[0] = moment
            assert await reviews.first_that_may_bind([account]) == expected
    assert len(server.requests("POST")) == len(answers)


async def test_lists_are_read_page_by_page() -> None:
    server = ApiServer()
    for what, page in ((DEPLOYMENTS, []), (PODS, [a_pod("Running")])):
        first = {"metadata": {"continue": "more&"}, "items": [a_pod("Failed")]}
        server.plan(what, partial(reply, 200, first), partial(reply, 200, {"metadata": {}, "items": page}))
    server.plan(REVIEWS, lambda: reply(201, {"status": {"allowed": True}}))
    assert await allowed(server, BOTH) == MUSTER
    queries = [request.query for request in server.requests("GET")]
    assert len(queries) == 4
    assert all(f"limit={PAGE}" in query for query in queries)
    assert ["continue=more%26" in query for query in queries] == [False, True, False, True]


@pytest.mark.parametrize("pages", [1, 3])
async def test_lists_over_the_byte_limit_are_uncertain(pages: int, monkeypatch: pytest.MonkeyPatch) -> None:
    pod = a_pod("Failed") | {"padding": "x" * 1000}
    monkeypatch.setattr(limits, "YUNIKORN_LIST_BYTES", 2000)
    server = a_cluster()
    items = [pod] * (3 // pages)
    answers = [reply_of(items, "more")] * (pages - 1) + [reply_of(items, "")]
    server.plan(PODS, *answers)
    server.planned[PODS] = server.planned[PODS][1:]
    assert await allowed(server, BOTH, are_chosen=True) == MUSTER
    assert len(server.requests("GET")) <= 3


def reply_of(items: list[dict[str, Any]], token: str) -> Any:
    return lambda: reply(200, {"metadata": {"continue": token}, "items": items})


async def test_a_detection_that_takes_too_long_is_uncertain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conflicts, "DETECTION_S", 0.1)
    server = ApiServer()
    server.plan(DEPLOYMENTS, 60.0)
    assert await allowed(server, BOTH, are_chosen=True) == MUSTER
    server.plan(DEPLOYMENTS, 60.0)
    with pytest.raises(Uncertain, match="took more than"):
        await allowed(server, YUNIKORN)
