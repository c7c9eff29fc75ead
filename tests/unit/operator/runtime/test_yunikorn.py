"""A running YuniKorn that may bind pods keeps its scheduler name; other pods with its labels are ignored."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest

from muster_operator.kube.leases import Lease, body
from muster_operator.kube.lists import PAGE
from muster_operator.model import limits
from muster_operator.model.errors import PartEnded, StartupRefused, Uncertain
from muster_operator.runtime import conflicts
from muster_operator.runtime.conflicts import ConflictDetector, NameLeases, allowed_names, leases_of
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


# -- Only one Muster serves a scheduler name: the holder of its Lease in kube-system.

LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
LEASE = f"{LEASES}/muster-scheduler-muster"
OURS, US, THEY = ("ours", "muster"), "ours/muster", "theirs/muster"
NAMES = frozenset({"muster"})


def a_lease(holder: str, renewed: str = "a", lasts_s: int = 1) -> dict[str, Any]:
    lease = Lease(holder, lasts_s, "t", renewed, 0, "1")
    return body("kube-system", "muster-scheduler-muster", lease)


def a_server(*shown: dict[str, Any] | None) -> ApiServer:
    """The Lease as it is each time it is read; None = there is none."""
    server = ApiServer()
    for lease in shown:
        server.plan(f"GET {LEASE}", partial(status, 404, "NotFound") if lease is None else partial(reply, 200, lease))
    server.plan(f"PUT {LEASE}", lambda: reply(200, a_lease(US)))
    server.plan(f"POST {LEASES}", lambda: reply(201, a_lease(US)))
    return server


@asynccontextmanager
async def names_of(server: ApiServer, max_wait_s: float = 0.1) -> AsyncIterator[NameLeases]:
    async with a_session(server) as session:
        yield NameLeases(leases_of(session, NAMES, OURS, max_wait_s))


def holders(server: ApiServer) -> list[str]:
    """The holder of the Lease after each write."""
    writes = [*server.requests("PUT"), *server.requests("POST")]
    return [write.body["spec"]["holderIdentity"] for write in writes]


async def holders_after_taking(server: ApiServer) -> list[str]:
    """Wait until the Lease is free, then take it. Returns the holder after each write."""
    async with names_of(server) as names:
        await names.until_free()
        await names.acquire_or_renew()
        assert names.are_all_held is bool(holders(server))
    return holders(server)


async def test_another_muster_that_renews_a_scheduler_name_lease_keeps_it() -> None:
    async with names_of(a_server(a_lease(THEY, "a"), a_lease(THEY, "b"))) as names:
        with pytest.raises(StartupRefused, match=r"lease theirs/muster\) serves the scheduler name muster"):
            await names.until_free()


async def test_another_muster_that_takes_a_free_scheduler_name_lease_concurrently_keeps_it() -> None:
    """Two that start together: both see a free Lease, one of them is faster."""
    async with names_of(a_server(None, a_lease(THEY))) as names:
        await names.until_free()
        with pytest.raises(StartupRefused, match="theirs/muster"):
            await names.acquire_or_renew()
        assert not names.held.is_set()


async def test_the_next_name_is_not_taken_while_another_muster_holds_the_first() -> None:
    """Of two that start together one takes all names; with one name each both would give way."""
    server = ApiServer()
    server.plan(f"GET {LEASE}", lambda: status(404, "NotFound"))
    server.plan(f"POST {LEASES}", lambda: status(409, "AlreadyExists"))
    async with a_session(server) as session:
        await NameLeases(leases_of(session, frozenset({"yunikorn", "muster"}), OURS, 0.1)).acquire_or_renew()
    assert {request.path for request in [*server.requests("GET"), *server.requests("POST")]} == {LEASE, LEASES}
    assert len(server.requests("POST")) == 1


async def test_a_lease_written_first_by_another_muster_is_not_held() -> None:
    server = ApiServer()
    server.plan(f"GET {LEASE}", lambda: status(404, "NotFound"), lambda: reply(200, a_lease(THEY)))
    server.plan(f"POST {LEASES}", lambda: status(409, "AlreadyExists"))
    async with names_of(server) as names:
        await names.acquire_or_renew()
        assert not names.are_all_held
        assert not names.held.is_set()
        assert not names.are_lost
        with pytest.raises(StartupRefused):
            await names.acquire_or_renew()


async def test_an_expired_lease_is_taken() -> None:
    dead = a_lease(THEY)
    assert await holders_after_taking(a_server(*[dead] * 9)) == [US]


async def test_a_free_lease_is_taken_and_our_lease_is_renewed() -> None:
    assert await holders_after_taking(a_server(None, None)) == [US]
    assert await holders_after_taking(a_server(a_lease(US), a_lease(US))) == [US]
    assert await holders_after_taking(a_server(a_lease(""), a_lease(""))) == [US]


async def test_no_lease_is_written_before_leading() -> None:
    server = a_server(None)
    async with names_of(server) as names:
        await names.until_free()
    assert holders(server) == []


async def test_only_the_scheduler_name_leases_are_read() -> None:
    """Otherwise a user who can write Leases in a namespace could prevent the start of Muster."""
    server = a_server(None)
    async with names_of(server) as names:
        await names.until_free()
    assert [request.path for request in server.requests("GET")] == [LEASE]


async def test_a_lease_with_a_very_long_duration_is_not_waited_for() -> None:
    long = a_lease(THEY, lasts_s=2**31 - 1)
    async with asyncio.timeout(20):
        assert await holders_after_taking(a_server(*[long] * 9)) == [US]


async def test_without_permission_to_read_the_lease_no_name_is_held() -> None:
    server = ApiServer()
    for _ in range(2):
        server.plan(f"GET {LEASE}", lambda: status(403, "Forbidden"))
    async with names_of(server) as names:
        await names.until_free()
        await names.acquire_or_renew()
        assert not names.held.is_set()
        assert names.missing == "muster (the lease: 403 Forbidden)"


async def test_a_name_whose_lease_was_not_renewed_in_time_is_lost_until_the_next_renewal() -> None:
    now, wakes = [0.0], list[float]()
    server = a_server(a_lease(""), a_lease(US), a_lease(US))
    server.plan(f"PUT {LEASE}", lambda: status(500, "InternalError"), lambda: reply(200, a_lease(US)))
    async with a_session(server) as session:
        lease = conflicts.NameLease(session, "muster", US, clock=lambda: now[0])
        names = NameLeases((lease,), on_held=lambda: wakes.append(now[0]))
        await names.acquire_or_renew()
        now[0] = conflicts.DURATION_S * conflicts.DECIDES + 1
        await names.acquire_or_renew()
        assert names.missing.startswith("muster")
        assert names.are_lost
        await names.acquire_or_renew()
        assert names.missing == ""
    assert wakes == [0.0, now[0]]


async def test_the_lease_is_released_at_shutdown() -> None:
    server = a_server(None)
    async with names_of(server) as names:
        await names.acquire_or_renew()
        await names.give_back()
    assert holders(server) == ["", US]
    assert not names.are_all_held


async def test_a_lease_renewed_by_the_next_leader_of_the_installation_is_not_released() -> None:
    """The version of our last write is what is given back, and not what is there by now."""
    server = a_server(None)
    server.planned[f"POST {LEASES}"] = [lambda: reply(201, a_lease(US) | {"metadata": {"resourceVersion": "7"}})]
    server.planned[f"PUT {LEASE}"] = [lambda: status(409, "Conflict")]
    async with names_of(server) as names:
        await names.acquire_or_renew()
        await names.give_back()
    [given_back] = server.requests("PUT")
    assert given_back.body["metadata"]["resourceVersion"] == "7"
    assert [request.path for request in server.requests("GET")] == [LEASE]


async def a_yunikorn_check(names: set[str], withheld: set[str], deployments: Any) -> None:
    server = a_server(None)
    server.plan(DEPLOYMENTS, deployments)
    server.plan(PODS, lambda: reply(200, {"items": []}))
    async with a_session(server) as session:
        await ConflictDetector(session, frozenset(names), frozenset(withheld)).check()


async def test_a_failed_yunikorn_check_keeps_the_last_certain_result() -> None:
    await a_yunikorn_check({"muster"}, {"yunikorn"}, lambda: status(500, "InternalError"))


async def test_a_withheld_name_is_served_once_no_yunikorn_is_running() -> None:
    with pytest.raises(PartEnded, match="restarting to serve the scheduler name yunikorn"):
        await a_yunikorn_check({"muster"}, {"yunikorn"}, lambda: reply(200, {"items": []}))
