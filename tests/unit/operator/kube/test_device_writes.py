"""ResourceClaims get their finalizer, then allocation and reservation; what others changed is never overwritten."""

from __future__ import annotations

from typing import Any, Final

import orjson
import pytest
from msgspec import structs

from muster_operator.kube import claims
from muster_operator.kube.http import Policies, Retry
from muster_operator.kube.session import Reply, Request
from muster_operator.kube.write_queue import WritePriority, is_of_session, key_of, write_priority_of
from muster_operator.model.commands import ClaimCommand, CommandFailed, CommandSucceeded, CreateClaim, ReserveClaim
from muster_operator.model.ids import PodUid
from muster_operator.model.pods import PodRef
from muster_operator.model.storage import ClaimRef
from muster_operator.translate import extended_resources
from tests.unit.operator.kube.apiserver import ApiServer, CommandRecorder, a_kube, reply, serving

POD = PodRef("dev", "p", PodUid("uid-p"))
REF = ClaimRef("dev", "gpu", "uid-gpu")
FINALIZER = "resource.kubernetes.io/delete-protection"
PATH = "/apis/resource.k8s.io/v1/namespaces/dev/resourceclaims/gpu"
Raw = dict[str, Any]


def allocated(device: str = "gpu-0") -> Raw:
    return {"devices": {"results": [{"request": "one", "driver": "d", "pool": "p", "device": device}]}}


OURS = {"resource": "pods", "name": "p", "uid": "uid-p"}
OTHERS = {"resource": "pods", "name": "q", "uid": "uid-q"}
ALLOCATE = ReserveClaim(POD, REF, orjson.dumps(allocated()).decode())
RESERVE = ReserveClaim(POD, REF, "")
UNDO = ReserveClaim(POD, REF, ALLOCATE.allocation, undo=True)
KEEP = ReserveClaim(POD, REF, "", undo=True, keeps=True)


class Store:
    """One ResourceClaim as the API server keeps it: patches with a resource version, status as a subresource.

    ``intrusions``: changes of other clients, one before each of the next patches.
    """

    def __init__(self, *intrusions: Raw, finalizers: tuple[str, ...] = (), uid: str = "uid-gpu", **status: Any) -> None:
        self.raw: Raw = {
            "metadata": {"name": "gpu", "uid": uid, "resourceVersion": "1", "finalizers": list(finalizers)},
            "status": status,
        }
        self.intrusions = list(intrusions)
        self.requests: list[str] = []

    def change(self, part: str, fields: Raw) -> None:
        self.raw[part] = {key: value for key, value in (self.raw[part] | fields).items() if value is not None}
        self.raw["metadata"]["resourceVersion"] = str(int(self.raw["metadata"]["resourceVersion"]) + 1)

    async def send(self, command: ClaimCommand, request: Request, policy: Retry) -> Reply:
        path = request.path.partition("?")[0]
        assert path.startswith(PATH)
        self.requests.append(f"{request.method} {path.removeprefix(PATH) or '/'}")
        if request.method == "PATCH":
            if self.intrusions:
                intrusion = self.intrusions.pop(0)
                for part in intrusion:
                    self.change(part, intrusion[part])
            body = orjson.loads(request.body or b"{}")
            known = body["metadata"]
            if known["resourceVersion"] != self.raw["metadata"]["resourceVersion"]:
                return Reply(409, b'{"reason": "Conflict"}')
            assert known["uid"] == self.raw["metadata"]["uid"]
            if path.endswith("/status"):
                self.change("status", body["status"])
            else:
                self.change("metadata", {key: value for key, value in known.items() if key == "finalizers"})
        return Reply(200, orjson.dumps(self.raw))

    async def run(self, command: ReserveClaim) -> Reply:
        return await claims.write(command, self.send, Policies())


async def test_a_claim_gets_its_finalizer_and_then_allocation_and_reservation_in_one_write() -> None:
    store = Store()
    assert (await store.run(ALLOCATE)).ok
    assert store.requests == ["GET /", "PATCH /", "PATCH /status"]
    assert store.raw["metadata"]["finalizers"] == [FINALIZER]
    assert store.raw["status"] == {"allocation": allocated(), "reservedFor": [OURS]}
    assert (await store.run(ALLOCATE)).ok
    assert store.requests[3:] == ["GET /"], "a repeated write changes nothing"


async def test_an_allocation_with_binding_conditions_has_its_time() -> None:
    chosen = allocated()
    chosen["devices"]["results"][0]["bindingConditions"] = ["ready"]
    store = Store()
    assert (await store.run(ReserveClaim(POD, REF, orjson.dumps(chosen).decode()))).ok
    assert store.raw["status"]["allocation"].pop("allocationTimestamp").endswith("Z")
    assert store.raw["status"]["allocation"] == chosen


async def test_an_allocation_that_the_api_server_stores_without_its_conditions_is_refused() -> None:
    chosen = allocated()
    chosen["devices"]["results"][0] |= {"bindingConditions": ["ready"], "shareID": "s"}
    command = ReserveClaim(POD, REF, orjson.dumps(chosen).decode())

    class WithoutGates(Store):
        def change(self, part: str, fields: Raw) -> None:
            super().change(part, {**fields, "allocation": allocated()} if part == "status" else fields)

    result = await WithoutGates().run(command)
    assert result.status == 409
    assert (
        result.json()["message"] == "the API server does not store bindingConditions, shareID: its feature gate is off"
    )


async def test_an_interrupted_write_continues_with_the_finalizer_that_is_there() -> None:
    store = Store(finalizers=(FINALIZER,))
    await store.run(ALLOCATE)
    assert store.requests == ["GET /", "PATCH /status"]


async def test_a_claim_as_last_seen_is_read_only_after_a_conflict() -> None:
    store = Store()
    metadata = {field: store.raw["metadata"][field] for field in ("uid", "resourceVersion", "finalizers")}
    seen = structs.replace(ALLOCATE, known=orjson.dumps({"metadata": metadata}).decode())
    assert (await store.run(seen)).ok
    assert store.requests == ["PATCH /", "PATCH /status"]
    assert store.raw["status"] == {"allocation": allocated(), "reservedFor": [OURS]}
    late = Store({"status": {"allocation": allocated("gpu-9")}})
    assert (await late.run(seen)).reason() == "Contested"
    assert late.requests == ["PATCH /", "GET /"]


async def test_an_allocated_claim_is_only_reserved() -> None:
    store = Store(allocation=allocated(), reservedFor=[OTHERS])
    assert (await store.run(RESERVE)).ok
    assert store.requests == ["GET /", "PATCH /status"]
    assert store.raw["status"] == {"allocation": allocated(), "reservedFor": [OTHERS, OURS]}


async def test_the_same_allocation_by_another_member_of_the_plan_is_reserved_too() -> None:
    store = Store(allocation=allocated(), reservedFor=[OTHERS])
    assert (await store.run(ALLOCATE)).ok
    assert store.raw["status"]["reservedFor"] == [OTHERS, OURS]


CONTESTED = {
    "allocated elsewhere": (Store(allocation=allocated("gpu-9")), ALLOCATE, "got allocated elsewhere in the meantime"),
    "deallocated": (Store(), RESERVE, "got deallocated elsewhere in the meantime"),
    "another": (Store(uid="uid-new"), ALLOCATE, "was deleted and created again"),
    "in between": (Store({"status": {"allocation": allocated("gpu-9")}}), ALLOCATE, "got allocated elsewhere"),
    "after the finalizer": (
        Store({}, {"status": {"allocation": allocated("gpu-9")}}),
        ALLOCATE,
        "got allocated elsewhere",
    ),
    "being deleted": (
        Store({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}),
        ALLOCATE,
        "is being deleted",
    ),
}


@pytest.mark.parametrize("store, command, why", CONTESTED.values(), ids=CONTESTED)
async def test_a_claim_that_others_have_taken_is_given_up_and_not_written(
    store: Store, command: ReserveClaim, why: str
) -> None:
    reply = await store.run(command)
    assert (reply.status, reply.reason()) == (409, "Contested")
    assert why in reply.message()
    assert "reservedFor" not in store.raw["status"]


async def test_a_harmless_change_of_another_client_is_read_and_kept() -> None:
    store = Store({"metadata": {"labels": {"a": "b"}}}, {"status": {"devices": [{"driver": "d"}]}})
    assert (await store.run(ALLOCATE)).ok
    assert store.raw["status"] == {"allocation": allocated(), "reservedFor": [OURS], "devices": [{"driver": "d"}]}


async def test_an_undo_removes_the_reservation_and_what_was_allocated_with_it() -> None:
    store = Store()
    await store.run(ALLOCATE)
    assert (await store.run(UNDO)).ok
    assert store.raw["status"] == {}
    asked = len(store.requests)
    assert (await store.run(UNDO)).ok
    assert store.requests[asked:] == ["GET /"]


async def test_an_undo_keeps_what_other_pods_use() -> None:
    store = Store(allocation=allocated(), reservedFor=[OTHERS, OURS])
    assert (await store.run(UNDO)).ok
    assert store.raw["status"] == {"allocation": allocated(), "reservedFor": [OTHERS]}
    store = Store(allocation=allocated(), reservedFor=[OURS])
    assert (await store.run(KEEP)).ok
    assert store.raw["status"] == {"allocation": allocated(), "reservedFor": []}
    store = Store(uid="uid-new", allocation=allocated(), reservedFor=[OURS])
    assert (await store.run(UNDO)).ok
    assert store.requests == ["GET /"]


def test_reservations_have_bind_priority_and_end_with_their_session() -> None:
    assert write_priority_of(ALLOCATE) is WritePriority.BIND
    assert write_priority_of(UNDO) is WritePriority.PATCH
    assert (is_of_session(ALLOCATE), is_of_session(UNDO)) == (True, False)
    assert key_of(ALLOCATE) == key_of(UNDO) == "resourceclaim dev/gpu"


async def test_the_written_claim_is_shown_before_the_result() -> None:
    """The session, or the pod, can end before the watch shows it, and its devices must not be free then."""
    server, recorder = ApiServer(), CommandRecorder()
    raw: Raw = {"metadata": {"uid": "uid-gpu", "resourceVersion": "9"}, "status": {"allocation": allocated()}}
    server.plan(f"GET {PATH}", lambda: reply(200, raw))
    written = {**raw, "status": {**raw["status"], "reservedFor": [OURS]}}
    server.plan(f"PATCH {PATH}/status", lambda: reply(200, written))
    async with serving(server), a_kube(server, recorder) as kube:
        await kube.execute(RESERVE)
    assert recorder.results == [CommandSucceeded(RESERVE, version=9)]
    assert recorder.read == [written]


CREATE = CreateClaim(POD, (("x.io/gpu", "gpus"),))
CLAIMS = "/apis/resource.k8s.io/v1/namespaces/dev/resourceclaims"
THE_POD: Raw = {
    "metadata": {"name": "p", "uid": "uid-p", "resourceVersion": "7"},
    "spec": {"containers": [{"name": "c", "resources": {"requests": {"x.io/gpu": "2"}}}]},
}


MAPPING = {"containerName": "c", "resourceName": "x.io/gpu", "requestName": "container-0-request-0"}
ANSWERS = {
    "new": (201, {}, True, ""),
    "there": (409, {}, True, ""),
    "of another pod": (409, {"uid": "uid-other"}, True, "exists, delete it"),
    "for other resources": (409, {"count": 3}, True, "exists, delete it"),
    "without the gate": (201, {}, False, "the feature gate DRAExtendedResource is off"),
}


@pytest.mark.parametrize("answer", ANSWERS.values(), ids=ANSWERS)
async def test_a_claim_for_extended_resources_is_created_once_and_named_in_the_status(
    answer: tuple[int, dict[str, Any], bool, str],
) -> None:
    """A claim can be there already, because an answer was lost or the operator ended."""
    code, there, is_stored, problem = answer
    server, recorder = ApiServer(pods={"p": THE_POD}), CommandRecorder()
    manifest, status = extended_resources.claim(POD, THE_POD["spec"], {"x.io/gpu": "gpus"})
    name = manifest["metadata"]["name"]
    assert status == {"resourceClaimName": name, "requestMappings": [MAPPING]}
    found: Raw = orjson.loads(orjson.dumps(manifest))
    found["metadata"]["ownerReferences"][0]["uid"] = there.get("uid", "uid-p")
    found["spec"]["devices"]["requests"][0]["exactly"]["count"] = there.get("count", 2)
    shown = {**THE_POD, "status": {"extendedResourceClaimStatus": status} if is_stored else {}}
    server.plan(f"POST {CLAIMS}", lambda: reply(code, manifest if code == 201 else {"reason": "AlreadyExists"}))
    server.plan(f"GET {CLAIMS}/{name}", lambda: reply(200, found))
    server.plan("PATCH /api/v1/namespaces/dev/pods/p/status", lambda: reply(200, shown))
    async with serving(server), a_kube(server, recorder) as kube:
        await kube.execute(CREATE)
    [result] = recorder.results
    patch = {"metadata": {"uid": "uid-p", "resourceVersion": "7"}, "status": {"extendedResourceClaimStatus": status}}
    assert [one.body for one in server.requests("PATCH")] == ([] if "exists" in problem else [patch])
    if problem:
        assert isinstance(result, CommandFailed)
        assert problem in result.message
    else:
        assert (result, recorder.read) == (CommandSucceeded(CREATE), [manifest, shown])


_DELETED: Final = {"deletionTimestamp": "2026-01-01T00:00:00Z"}
_OTHER_CLAIM: Final = {"extendedResourceClaimStatus": {"resourceClaimName": "other", "requestMappings": []}}
_OTHER: Final = {"requests": [{"name": "a", "exactly": {"deviceClassName": "gpus", "allocationMode": "All"}}]}


@pytest.mark.parametrize(
    "pod, claim, succeeds",
    [
        pytest.param({}, {}, True, id="earlier creation"),
        pytest.param({"spec": {**THE_POD["spec"], "nodeName": "n1"}}, {}, False, id="pod with a node"),
        pytest.param({"metadata": {**THE_POD["metadata"], **_DELETED}}, {}, False, id="deleted pod"),
        pytest.param({"status": _OTHER_CLAIM}, {}, False, id="pod with another claim"),
        pytest.param({}, {"metadata": _DELETED}, False, id="deleted claim"),
        pytest.param({}, {"metadata": {"annotations": {}}}, False, id="no annotation"),
        pytest.param({}, {"spec": {"devices": _OTHER}}, False, id="other devices"),
    ],
)
async def test_a_claim_that_exists_is_used_only_if_it_asks_for_the_same(
    pod: Raw, claim: Raw, *, succeeds: bool
) -> None:
    raw = {**THE_POD, **pod}
    manifest, status = extended_resources.claim(POD, raw["spec"], {"x.io/gpu": "gpus"})
    found = {**manifest, **claim, "metadata": {**manifest["metadata"], **claim.get("metadata", {})}}
    server, recorder = ApiServer(pods={"p": raw}), CommandRecorder()
    server.plan(f"POST {CLAIMS}", lambda: reply(409, {"reason": "AlreadyExists"}))
    server.plan(f"GET {CLAIMS}/{manifest['metadata']['name']}", lambda: reply(200, found))
    answer = {**raw, "status": {"extendedResourceClaimStatus": status}}
    server.plan("PATCH /api/v1/namespaces/dev/pods/p/status", lambda: reply(200, answer))
    async with serving(server), a_kube(server, recorder) as kube:
        await kube.execute(CREATE)
    assert isinstance(recorder.results[0], CommandSucceeded) is succeeds


async def test_a_claim_is_named_in_the_pod_as_it_is_after_a_conflict() -> None:
    server, recorder = ApiServer(pods={"p": THE_POD}), CommandRecorder()
    manifest, status = extended_resources.claim(POD, THE_POD["spec"], {"x.io/gpu": "gpus"})
    answer = {**THE_POD, "status": {"extendedResourceClaimStatus": status}}

    def conflict() -> Any:
        server.pods["p"] = {**THE_POD, "metadata": {**THE_POD["metadata"], "resourceVersion": "8"}}
        return reply(409, {"reason": "Conflict"})

    server.plan(f"POST {CLAIMS}", lambda: reply(201, manifest), lambda: reply(409, {"reason": "AlreadyExists"}))
    server.plan(f"GET {CLAIMS}/{manifest['metadata']['name']}", lambda: reply(200, manifest))
    server.plan("PATCH /api/v1/namespaces/dev/pods/p/status", conflict, lambda: reply(200, answer))
    async with serving(server), a_kube(server, recorder) as kube:
        await kube.execute(CREATE)
    assert [one.body["metadata"]["resourceVersion"] for one in server.requests("PATCH")] == ["7", "8"]
    assert recorder.results == [CommandSucceeded(CREATE)]
