"""The server over real HTTPS: it answers valid reviews, and reports errors, in time and within limits."""

import asyncio
import base64
import gzip
import io
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import aiohttp
import orjson
import pytest

from muster_operator.model.errors import StartupRefused, Unreachable
from muster_operator.runtime.metrics import Metrics
from muster_operator.webhook.certificates import Leaf, issue, kept_or_made
from muster_operator.webhook.context import AdmissionAnswer, Review
from muster_operator.webhook.server import (
    BODY_LIMIT,
    HEADERS,
    ROOM,
    ROOM_OF_SOURCE,
    SMALL,
    AdmissionServer,
    Endpoint,
    ReviewMetrics,
    TlsContexts,
)
from tests.unit.operator.webhook.reviews import a_description

NOW = datetime.now(UTC)  # noqa: TID251 - a TLS client looks at the real clock
PAIR = kept_or_made((None, None), NOW)
TRUSTING = ssl.create_default_context(cadata=b"".join(one.pem for one in PAIR).decode())
Json = dict[str, Any]


def a_leaf() -> Leaf:
    return issue(PAIR, ["127.0.0.1"], NOW)


def a_question(**more: object) -> Json:
    """A review of a new pod, as an API server sends it."""
    request: Json = {
        "uid": "uid-1",
        "operation": "CREATE",
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "namespace": "dev",
        "userInfo": {"username": "ann", "groups": ["dev"]},
        "object": a_description(annotations={"a/b~c": "1"}),
        **more,
    }
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}


@dataclass
class Client:
    """A client of a running server."""

    url: str
    metrics: Metrics
    session: aiohttp.ClientSession
    missing: list[str] = field(default_factory=list)

    async def ask(self, question: object, path: str = "/mutate") -> tuple[int, Json]:
        async with self.session.post(self.url + path, data=io.BytesIO(orjson.dumps(question))) as answer:
            body = await answer.read()
            return answer.status, orjson.loads(body)["response"] if answer.status == 200 else {"text": body.decode()}

    def count(self, path: str, result: str) -> float:
        name = "muster_operator_admission_reviews_total"
        return self.metrics.registry.get_sample_value(name, {"path": path, "result": result}) or 0.0


@asynccontextmanager
async def a_server(
    answer: Callable[[Review], Awaitable[AdmissionAnswer]], within_s: float = 5.0, tls: TlsContexts | None = None
) -> AsyncIterator[Client]:
    """With an endpoint that is closed and one that is open, both with this answer."""
    contexts, metrics, missing = tls or TlsContexts(), Metrics(), list[str]()
    if tls is None:
        contexts.serve(a_leaf())
    endpoints = {
        "/mutate": Endpoint(answer, within_s, is_closed=True),
        "/mutate/others": Endpoint(answer, within_s, is_closed=False),
    }
    served = AdmissionServer(endpoints, lambda: "".join(missing), ReviewMetrics(metrics))
    port = await served.start(0, contexts)
    try:
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=TRUSTING, force_close=True)) as session:
            yield Client(f"https://127.0.0.1:{port}", metrics, session, missing)
    finally:
        await served.stop()


async def yes(_: Review) -> AdmissionAnswer:
    return AdmissionAnswer()


async def test_an_answer_contains_the_request_uid_and_the_changes_as_a_patch() -> None:
    reviews_received: list[Review] = []

    async def change(review: Review) -> AdmissionAnswer:
        reviews_received.append(review)
        metadata = {**review.object["metadata"], "annotations": {"a/b~c": "2"}, "labels": {"new": "x"}}
        return AdmissionAnswer(object={**review.object, "metadata": metadata}, warnings=("mind this",))

    async with a_server(change) as client:
        status, response = await client.ask(a_question())
        assert client.count("/mutate", "changed") == 1
    assert (status, response["uid"], response["allowed"]) == (200, "uid-1", True)
    assert response["warnings"] == ["mind this"]
    patch = orjson.loads(base64.b64decode(response["patch"]))
    assert {"op": "add", "path": "/metadata/annotations/a~1b~0c", "value": "2"} in patch
    assert {"op": "add", "path": "/metadata/labels/new", "value": "x"} in patch
    [review] = reviews_received
    assert (review.kind, review.namespace, review.submitter.name, review.submitter.groups) == (
        "Pod", "dev", "ann", ("dev",),
    )  # fmt: skip
    assert review.old is None


async def test_a_rejection_is_returned_to_the_user() -> None:
    async def no(_: Review) -> AdmissionAnswer:
        return AdmissionAnswer("user.info is not yours to write")

    async with a_server(no) as client:
        _, response = await client.ask(a_question(oldObject=a_description(), operation="UPDATE"))
        assert client.count("/mutate", "rejected") == 1
    assert not response["allowed"]
    assert response["status"] == {"code": 403, "reason": "Forbidden", "message": "user.info is not yours to write"}


@pytest.mark.parametrize("operation, thing", [("DELETE", None), ("CONNECT", {}), ("CREATE", None)])
async def test_other_operations_are_allowed(operation: str, thing: object) -> None:
    async def never(_: Review) -> AdmissionAnswer:
        raise AssertionError

    async with a_server(never) as client:
        _, response = await client.ask(a_question(operation=operation, object=thing))
    assert response["allowed"]


async def test_a_failed_review_is_rejected_on_the_own_path_and_an_error_on_the_others_path() -> None:
    async def late(_: Review) -> AdmissionAnswer:
        await asyncio.Event().wait()
        raise AssertionError

    async def cut_off(_: Review) -> AdmissionAnswer:
        raise Unreachable("GET /api/v1/namespaces", "connection refused")

    for answer, within_s, reason in ((late, 0.5, "no answer within 0.5 s"), (cut_off, 5.0, "connection refused")):
        async with a_server(answer, within_s) as client:
            status, response = await client.ask(a_question())
            assert (status, response["allowed"], response["status"]["code"]) == (200, False, 503)
            assert reason in response["status"]["message"]
            assert response["status"]["message"].endswith("try again")
            status, _ = await client.ask(a_question(), "/mutate/others")
            assert status == 503
            assert client.count("/mutate/others", "failed") == 1


async def test_an_internal_error_returns_500_and_the_server_continues() -> None:
    async def broken(review: Review) -> AdmissionAnswer:
        if review.namespace == "dev":
            raise KeyError("a bug")
        return AdmissionAnswer()

    async with a_server(broken) as client:
        assert (await client.ask(a_question()))[0] == 500
        assert (await client.ask(a_question(namespace="other")))[0] == 200
        assert client.count("/mutate", "failed") == 1


@pytest.mark.parametrize("garbage", [None, [], {}, {"request": 7}, {"request": {"uid": ""}}])
async def test_an_invalid_review_returns_400(garbage: object) -> None:
    async with a_server(yes) as client:
        status, _ = await client.ask(garbage)
        assert status == 400
        assert client.count("/mutate", "invalid") == 1


async def test_a_review_is_accepted_up_to_the_size_limit_of_the_api_server() -> None:
    """Its requests have at most 3 MiB, and a review has the object and its old version."""
    most = "x" * (3 * 2**20)
    async with a_server(yes) as client:
        status, response = await client.ask(a_question(object={"spec": most}, oldObject={"spec": most}))
        assert (status, response["allowed"]) == (200, True)
        status, _ = await client.ask(a_question(object={"data": "x" * BODY_LIMIT}))
        assert status == 413


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "identity"])
async def test_an_encoded_body_is_refused_unread(encoding: str) -> None:
    """19 KB became 20 MB, past the limits for large requests. API servers encode nothing."""
    body = gzip.compress(orjson.dumps(a_question(object={"data": "x" * 2**20})))
    async with a_server(yes) as client:
        headers = {"Content-Encoding": encoding}
        async with client.session.post(client.url + "/mutate", data=body, headers=headers) as answer:
            assert (answer.status, await answer.text()) == (415, "send the review without Content-Encoding")
        assert client.count("/mutate", "invalid") == 1


async def test_too_many_headers_are_refused() -> None:
    async with a_server(yes) as client:
        headers = {f"X-{number}": "x" for number in range(HEADERS)}
        async with client.session.get(client.url + "/health", headers=headers) as answer:
            assert answer.status == 400


async def test_slow_senders_do_not_delay_other_requests() -> None:
    """Every client of the port can start requests and never finish them."""
    head = b"POST /mutate HTTP/1.1\r\nHost: muster\r\nContent-Length: 1000\r\n\r\n{"
    async with a_server(yes, within_s=1.0) as client:
        port = int(client.url.rpartition(":")[2])
        begun = [await asyncio.open_connection("127.0.0.1", port, ssl=TRUSTING) for _ in range(ROOM)]
        for _, writer in begun:
            writer.write(head)
            await writer.drain()
        assert (await client.ask(a_question()))[1]["allowed"]
        for reader, writer in begun:
            assert b"503" in await reader.readline()
            writer.close()


async def test_large_reviews_are_handled_one_at_a_time() -> None:
    """Each takes its memory several times over."""
    now = most = 0

    async def count(_: Review) -> AdmissionAnswer:
        nonlocal now, most
        now += 1
        most = max(most, now)
        await asyncio.sleep(0)
        now -= 1
        return AdmissionAnswer()

    async with a_server(count) as client:
        large = a_question(object={"data": "x" * SMALL})
        answers = await asyncio.gather(*(client.ask(large) for _ in range(5)))
    assert [status for status, _ in answers] == [200] * 5
    assert most == 1


async def test_concurrent_reviews_over_the_limit_wait_and_are_all_answered() -> None:
    now, most, opened = 0, 0, asyncio.Event()

    async def count(_: Review) -> AdmissionAnswer:
        nonlocal now, most
        now += 1
        most = max(most, now)
        if now == ROOM_OF_SOURCE:
            opened.set()
        await opened.wait()
        now -= 1
        return AdmissionAnswer()

    async with a_server(count) as client:
        answers = await asyncio.gather(*(client.ask(a_question()) for _ in range(2 * ROOM)))
    assert [response["allowed"] for _, response in answers] == [True] * 2 * ROOM
    assert most == ROOM_OF_SOURCE


async def test_health_returns_ok_or_the_missing_part() -> None:
    async with a_server(yes) as client:
        async with client.session.get(client.url + "/health") as answer:
            assert (answer.status, await answer.text()) == (200, "OK")
        client.missing.append("not registered yet")
        async with client.session.get(client.url + "/health") as answer:
            assert (answer.status, await answer.text()) == (503, "not registered yet")


async def test_new_connections_get_the_latest_certificate_and_open_ones_continue() -> None:
    tls, first, second = TlsContexts(), a_leaf(), a_leaf()
    tls.serve(first)
    async with (
        a_server(yes, tls=tls) as client,
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=TRUSTING)) as kept,
    ):
        seen = []
        for leaf in (first, second):
            tls.serve(leaf)
            async with kept.post(client.url + "/mutate", data=orjson.dumps(a_question())) as answer:
                assert answer.status == 200
            seen.append(await asyncio.to_thread(served_certificate, client.url))
    assert seen == [first.chain, second.chain]


def served_certificate(url: str) -> bytes:
    """The certificate of a new connection."""
    host, port = url.removeprefix("https://").split(":")
    return ssl.get_server_certificate((host, int(port))).encode()


async def test_connections_fail_without_a_certificate() -> None:
    async with a_server(yes, tls=TlsContexts()) as client:
        with pytest.raises(aiohttp.ClientError):
            await client.ask(a_question())


async def test_a_port_that_is_taken_is_reported_with_its_option() -> None:
    with socket.create_server(("", 0)) as taken:
        served = AdmissionServer({}, lambda: "", ReviewMetrics(Metrics()))
        with pytest.raises(StartupRefused, match="--webhook-port"):
            await served.start(taken.getsockname()[1], TlsContexts())


async def test_a_flooding_address_does_not_delay_other_addresses() -> None:
    """The flood keeps its share of connections, and a review of the API server is answered meanwhile."""
    unacknowledged_nodes, is_full, finish = 0, asyncio.Event(), asyncio.Event()

    async def delay_flood_reviews(review: Review) -> AdmissionAnswer:
        nonlocal unacknowledged_nodes
        if review.namespace == "flood":
            unacknowledged_nodes += 1
            if unacknowledged_nodes == ROOM_OF_SOURCE:
                is_full.set()
            await finish.wait()
        return AdmissionAnswer()

    async with a_server(delay_flood_reviews) as client:
        connector = aiohttp.TCPConnector(ssl=TRUSTING, local_addr=("127.0.0.2", 0), limit=0)
        async with aiohttp.ClientSession(connector=connector) as attacker:
            body = orjson.dumps(a_question(namespace="flood"))
            flood = [asyncio.create_task(attacker.post(client.url + "/mutate", data=body)) for _ in range(2 * ROOM)]
            async with asyncio.timeout(10):
                await is_full.wait()
            answers = [await client.ask(a_question()) for _ in range(3)]
            assert unacknowledged_nodes == ROOM_OF_SOURCE
            finish.set()
            for reply in await asyncio.gather(*flood):
                reply.release()
    assert [response["allowed"] for _, response in answers] == [True] * 3


async def test_a_slow_large_request_times_out_and_does_not_block_other_large_requests() -> None:
    async with a_server(yes) as client:
        context = ssl.create_default_context(cadata=b"".join(one.pem for one in PAIR).decode())
        port = int(client.url.rpartition(":")[2])
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", port, ssl=context, server_hostname="127.0.0.1", local_addr=("127.0.0.2", 0)
        )
        writer.write(b"POST /mutate HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n{" % (SMALL + 1))
        await writer.drain()
        large = a_question(object=a_description(annotations={"large": "x" * SMALL}))
        _, response = await client.ask(large)
        assert response["allowed"]
        status = await reader.readline()
        assert b"503" in status
        writer.close()
