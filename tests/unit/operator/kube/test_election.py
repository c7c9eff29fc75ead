"""Two candidates never may write at the same time, with any delayed, lost or unanswered request."""

import asyncio
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlsplit

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster_operator.kube import leadership
from muster_operator.kube.leadership import PERIOD_S, Candidacy, LeaderLabel, Leadership, NoElection, pause_s
from muster_operator.kube.leases import NEVER_HELD, NO_HOLDER, Lease, LeaseObservation, body, read
from muster_operator.kube.session import MERGE_PATCH, KubeSession, LeadershipGuard, Reply, Request
from muster_operator.model.errors import ApiRefused, LeadershipLost, NotLeading, Unreachable
from muster_operator.model.names import LABEL_ROLE, ROLE_LEADER

DURATION_S = 10


@dataclass
class Store:
    """One Lease behind an API server: a version that is not the present one is refused."""

    stored: dict[str, Any] | None = None
    version: int = 0

    def do(self, request: Request) -> Reply:
        if request.method == "GET":
            return Reply(404, b"{}") if self.stored is None else self._reply(200)
        body = orjson.loads(request.body)
        named = body["metadata"].get("resourceVersion")
        if request.method == "POST" and self.stored is not None:
            return Reply(409, b"{}")
        if request.method == "PUT" and (self.stored is None or named != str(self.version)):
            return Reply(409, b"{}")
        self.version += 1
        body["metadata"]["resourceVersion"] = str(self.version)
        self.stored = body
        return self._reply(200)

    def _reply(self, status: int) -> Reply:
        return Reply(status, orjson.dumps(self.stored))


class Wire(KubeSession):
    """The network: a request waits here until the test does it, answers it or loses it."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.request_sent: Request | None = None
        self.reply: Reply | None = None
        self.lost: list[Request] = []

    async def send(self, request: Request) -> Reply:
        self.request_sent, self.reply, self._answer = request, None, asyncio.get_running_loop().create_future()
        answer: Reply = await self._answer
        return answer

    def do(self) -> None:
        """The store executes the request; the response is still in flight."""
        if self.request_sent is not None and self.reply is None:
            self.reply = self.store.do(self.request_sent)

    def answer(self) -> None:
        """It is done, if it was not, and answered."""
        self.do()
        if self.request_sent is not None and self.reply is not None:
            self.request_sent = None
            self._answer.set_result(self.reply)

    def lose(self) -> None:
        """The response is dropped. A pending request may still be executed."""
        if self.request_sent is not None:
            self.lost += [self.request_sent] if self.reply is None else []
            self.request_sent = None
            self._answer.set_exception(Unreachable("the lease", "lost"))

    def do_late(self) -> None:
        """What was given up arrives after all."""
        if self.lost:
            self.store.do(self.lost.pop(0))


class Candidate:
    """One operator's part in the election, by the test's clock."""

    def __init__(self, name: str, store: Store, now: list[float]) -> None:
        self.wire, self.guard = Wire(store), LeadershipGuard(lambda: now[0])
        candidacy = Candidacy("ns", "muster", name, DURATION_S)
        self.leadership = Leadership(self.wire, candidacy, self.guard, lambda: now[0])
        self.has_lost = False
        self._iteration: asyncio.Task[None] | None = None

    @property
    def may_write(self) -> bool:
        return self.guard.left_s > 0

    async def step(self, act: str) -> None:
        """Begin a turn if none is under way, else let the network act; then let the candidate go on."""
        if self._iteration is None or self._iteration.done():
            self._iteration = asyncio.create_task(self._run_all())
        else:
            getattr(self.wire, act)()
        for _ in range(5):
            await asyncio.sleep(0)

    async def acquire_or_renew(self) -> None:
        """A step in which all requests are executed and answered."""
        await self.step("answer")
        while self._iteration is not None and not self._iteration.done():
            await self.step("answer")

    async def end(self) -> None:
        if self._iteration is not None:
            self._iteration.cancel()
            await asyncio.wait([self._iteration])

    async def _run_all(self) -> None:
        try:
            if not self.has_lost:
                await self.leadership.acquire_or_renew()
        except LeadershipLost:
            self.has_lost = True
        except (Unreachable, ApiRefused):
            return


STEPS = st.lists(
    st.tuples(
        st.sampled_from([0, 1]),
        st.sampled_from(["acquire_or_renew", "answer", "lose", "do", "do_late"]),
        st.sampled_from([0.0, 0.5, 2.5, 5.0]),
    ),
    max_size=60,
)


@given(STEPS)
@settings(max_examples=200, deadline=None)
def test_two_candidates_may_never_write_at_the_same_time(steps: list[tuple[int, str, float]]) -> None:
    async def play() -> None:
        now, store = [0.0], Store()
        candidates = [Candidate("a", store, now), Candidate("b", store, now)]
        for who, act, passes_s in steps:
            now[0] += passes_s
            await (candidates[who].acquire_or_renew() if act == "acquire_or_renew" else candidates[who].step(act))
            assert not all(candidate.may_write for candidate in candidates)
        for candidate in candidates:
            await candidate.end()

    asyncio.run(play())


async def a_duel() -> tuple[Candidate, Candidate, list[float]]:
    """The first leads, the second has seen it; and the clock of both."""
    now, store = [0.0], Store()
    first, second = Candidate("a", store, now), Candidate("b", store, now)
    await first.acquire_or_renew()
    await second.acquire_or_renew()
    assert (first.may_write, second.may_write) == (True, False)
    return first, second, now


async def test_a_holder_that_cannot_renew_stops_before_another_takes_the_lease() -> None:
    first, second, now = await a_duel()
    now[0] = 7.0
    assert not first.may_write
    now[0] = 9.9
    await second.acquire_or_renew()
    assert not second.may_write
    now[0] = 10.0
    await second.acquire_or_renew()
    assert second.may_write


async def test_a_renewal_counts_from_when_it_was_sent() -> None:
    first, _, now = await a_duel()
    now[0] = 2.0
    await first.step("answer")
    now[0] = 5.0
    await first.step("answer")
    assert first.guard.left_s == 4.0


async def test_a_holder_that_could_not_renew_continues_if_no_other_candidate_led() -> None:
    first, _, now = await a_duel()
    await first.step("lose")
    await first.step("lose")
    now[0] = 3600.0
    assert first.guard.left_s == 0
    await first.acquire_or_renew()
    assert first.may_write
    assert not first.has_lost


async def release_lease(candidate: Candidate) -> None:
    releasing = asyncio.create_task(candidate.leadership.release())
    while not releasing.done():
        await asyncio.sleep(0)
        candidate.wire.answer()


async def test_a_released_lease_is_taken_immediately_and_its_holder_stops_writing() -> None:
    first, second, _ = await a_duel()
    await release_lease(first)
    assert not first.may_write
    await second.acquire_or_renew()
    assert second.may_write


@pytest.mark.parametrize("is_gone_again", [False, True])
async def test_a_candidate_stops_when_another_one_led_since_its_last_renewal(*, is_gone_again: bool) -> None:
    first, second, now = await a_duel()
    now[0] = 10.0
    await second.acquire_or_renew()
    if is_gone_again:
        await release_lease(second)
    await first.acquire_or_renew()
    await first.acquire_or_renew()
    assert first.has_lost
    assert not first.may_write


@pytest.mark.parametrize("act", ["do", "lose"])
async def test_an_unanswered_renewal_is_resolved_by_reading_the_lease(act: str) -> None:
    first, _, now = await a_duel()
    now[0] = 1.0
    await first.step("answer")
    await first.step(act)
    await first.step("lose")
    await first.acquire_or_renew()
    await first.acquire_or_renew()
    assert first.guard.left_s == 7.0
    assert not first.has_lost


async def test_a_candidate_does_not_wait_for_a_predecessor_with_the_same_identity() -> None:
    first, _, now = await a_duel()
    again = Candidate("a", first.wire.store, now)
    await again.acquire_or_renew()
    assert again.may_write


async def test_two_processes_with_the_same_identity_do_not_both_continue() -> None:
    """An identity that two replicas share by mistake."""
    first, _, now = await a_duel()
    twin = Candidate("a", first.wire.store, now)
    await twin.acquire_or_renew()
    for _ in range(2):
        await first.acquire_or_renew()
    assert (first.has_lost, first.may_write, twin.may_write) == (True, False, True)


async def test_without_an_election_writes_are_allowed_until_the_release() -> None:
    guard = LeadershipGuard()
    alone = NoElection(guard)
    running = asyncio.create_task(alone.run())
    await alone.begun.wait()
    assert guard.left_s == float("inf")
    running.cancel()
    await alone.release()
    assert guard.left_s == 0


@pytest.mark.parametrize("status", [403, 500])
async def test_a_rejected_renewal_does_not_end_the_candidate(status: int) -> None:
    candidate = Candidate("a", Store(), [0.0])
    await candidate.step("answer")
    candidate.wire.reply = Reply(status, b"{}")
    await candidate.acquire_or_renew()
    assert not candidate.may_write


# -- Which candidate may take the lease, by its own clock only, and the content of the object.

A = Lease("a", 10, acquired="t0", renewed="t1", transitions=3, version="7", uid="u")


def test_a_lease_without_a_holder_is_free() -> None:
    assert LeaseObservation().free_in_s("b", 0.0) == 0
    assert LeaseObservation().updated(A.given_back("t2"), 5.0).free_in_s("b", 5.0) == 0


@pytest.mark.parametrize("looks", [[0.0], [0.0, 4.0, 9.0]])
def test_an_unchanged_lease_is_free_after_its_duration(looks: list[float]) -> None:
    observation = LeaseObservation()
    for moment in looks:
        observation = observation.updated(A, moment)
    assert observation.free_in_s("b", 9.0) == 1
    assert observation.free_in_s("b", 10.0) == 0


def test_a_renewal_counts_from_when_it_was_observed() -> None:
    observation = LeaseObservation().updated(A, 0.0).updated(A.renewed_by_holder(10, "long ago"), 9.0)
    assert observation.free_in_s("b", 10.0) == 9


def test_a_metadata_change_is_not_a_renewal() -> None:
    labelled = Lease("a", 10, acquired="t0", renewed="t1", transitions=3, version="8", uid="u")
    observation = LeaseObservation().updated(A, 0.0).updated(labelled, 9.0)
    assert observation.free_in_s("b", 10.0) == 0
    assert observation.lease.version == "8"


def test_a_candidate_may_take_its_own_lease_immediately() -> None:
    assert LeaseObservation().updated(A, 0.0).free_in_s("a", 0.0) == 0


def test_a_deleted_lease_is_not_free_before_it_expires() -> None:
    observation = LeaseObservation().updated(A, 0.0).updated(None, 1.0)
    assert observation.free_in_s("b", 1.0) == 9
    assert "resourceVersion" not in body("ns", "muster", observation.lease)["metadata"]


def test_holder_changes_are_counted_and_renewals_are_not() -> None:
    assert NEVER_HELD.taken_by("a", 10, "t").transitions == 0
    assert A.renewed_by_holder(10, "t2") == Lease("a", 10, "t0", "t2", 3)
    assert A.taken_by("a", 10, "t2") == Lease("a", 10, "t2", "t2", 3)
    assert A.taken_by("b", 20, "t2") == Lease("b", 20, "t2", "t2", 4)
    assert A.given_back("t2").taken_by("b", 10, "t3").transitions == 4


def test_a_holder_change_is_detected_after_the_lease_was_released() -> None:
    taken = A.taken_by("b", 10, "t2")
    for state, shown in [(A, False), (A.given_back("t"), False), (taken, True), (taken.given_back("t"), True)]:
        assert LeaseObservation().updated(state, 0.0).has_changed_hands(A) is shown
    assert not LeaseObservation().updated(A.renewed_by_holder(10, "t2"), 0.0).has_changed_hands(A)
    assert LeaseObservation().updated(A.taken_by("a", 10, "t2"), 0.0).has_changed_hands(A)


def test_a_lease_object_is_read_back_unchanged() -> None:
    raw = body("ns", "muster", A)
    assert read(raw) == A
    assert raw["metadata"]["resourceVersion"] == "7"
    assert (raw["kind"], raw["apiVersion"]) == ("Lease", "coordination.k8s.io/v1")


@pytest.mark.parametrize("raw", [{}, {"spec": None, "metadata": None}, {"spec": {"holderIdentity": None}}])
def test_an_empty_lease_object_has_no_holder(raw: dict[str, object]) -> None:
    assert read(raw).holder == NO_HOLDER
    assert "acquireTime" not in body("ns", "muster", read(raw))["spec"]


# -- Only the leader's pod has the leader label: others lose it immediately, and ours gets it after the recovery.

Json = dict[str, Any]


@dataclass
class Pods(KubeSession):
    """The pods of one namespace behind an API server. `closed`: the guard is; `denies`: so are our rights."""

    roles: dict[str, str | None]
    uids: dict[str, str] = field(default_factory=dict)
    written: list[Request] = field(default_factory=list)
    heard: asyncio.Event = field(default_factory=asyncio.Event)
    is_down: bool = False
    closed: bool = False
    denies: bool = False

    async def send(self, request: Request) -> Reply:
        if self.is_down:
            raise Unreachable(request.name, "down")
        url = urlsplit(request.path)
        if request.method == "GET":
            assert parse_qs(url.query)["labelSelector"] == [f"{LABEL_ROLE}={ROLE_LEADER}"]
            found = [self._pod(name) for name, role in self.roles.items() if role == ROLE_LEADER]
            return Reply(200, orjson.dumps({"items": found}))
        if self.closed:
            raise NotLeading(request.name)
        self.written.append(request)
        self.heard.set()
        return Reply(
            self._patched(url.path.removesuffix("/status").rpartition("/")[2], orjson.loads(request.body)["metadata"]),
            b"{}",
        )

    def _pod(self, name: str) -> Json:
        return {"metadata": {"name": name, "uid": f"old-{name}", "labels": {LABEL_ROLE: self.roles[name]}}}

    def _patched(self, name: str, metadata: Json) -> int:
        if self.denies:
            return 403
        if name not in self.roles:
            return 404
        if metadata.get("uid", f"old-{name}") != self.uids.get(name, f"old-{name}"):
            return 409
        self.roles[name] = metadata["labels"][LABEL_ROLE]
        return 200


def ours(pods: Pods, *, recovered: bool = True) -> LeaderLabel:
    event = asyncio.Event()
    if recovered:
        event.set()
    return LeaderLabel(pods, "muster", "ours", event)


async def test_the_leader_label_is_set_on_our_pod_and_removed_from_all_others() -> None:
    pods = Pods({"ours": None, "before": ROLE_LEADER, "long-before": ROLE_LEADER})
    assert await ours(pods).check()
    assert pods.roles == {"ours": ROLE_LEADER, "before": None, "long-before": None}
    assert all(one.content_type == MERGE_PATCH and one.needs_leadership for one in pods.written)


async def test_the_leader_label_is_set_on_our_pod_only_after_the_core_has_recovered() -> None:
    pods = Pods({"ours": None, "before": ROLE_LEADER})
    mark = ours(pods, recovered=False)
    assert await mark.check()
    assert pods.roles == {"ours": None, "before": None}
    mark.recovered.set()
    assert await mark.check()
    assert pods.roles == {"ours": ROLE_LEADER, "before": None}


async def test_a_later_check_removes_the_leader_label_from_others_when_the_first_one_failed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(leadership, "AGAIN_S", 0.01)
    pods = Pods({"ours": None, "before": ROLE_LEADER}, is_down=True)
    task = asyncio.create_task(ours(pods, recovered=False).run())
    await asyncio.sleep(0)
    pods.is_down = False
    async with asyncio.timeout(20):
        await pods.heard.wait()
    assert pods.roles == {"ours": None, "before": None}, "our core knows nothing yet"
    task.cancel()


async def test_a_correct_leader_label_is_not_written() -> None:
    pods = Pods({"ours": ROLE_LEADER, "other": None})
    assert await ours(pods).check()
    assert pods.written == []


async def test_a_restarted_leader_keeps_its_label_while_its_core_recovers() -> None:
    """A restarted container in the same pod; no other replica has led meanwhile."""
    pods = Pods({"ours": ROLE_LEADER})
    assert await ours(pods, recovered=False).check()
    assert pods.roles == {"ours": ROLE_LEADER}


async def test_a_deleted_or_recreated_pod_is_not_labelled() -> None:
    pods = Pods({"ours": None, "again": ROLE_LEADER}, uids={"again": "new"})
    assert await ours(pods).check()
    assert pods.roles == {"ours": ROLE_LEADER, "again": ROLE_LEADER}
    mark = LeaderLabel(pods, "muster", "gone", asyncio.Event())
    mark.recovered.set()
    assert await mark.check()


@pytest.mark.parametrize("trouble", ["is_down", "closed", "denies"])
async def test_a_failed_check_is_reported_and_the_next_one_repairs_the_labels(trouble: str) -> None:
    pods = Pods({"ours": None, "before": ROLE_LEADER})
    setattr(pods, trouble, True)
    assert not await ours(pods).check()
    assert pods.roles == {"ours": None, "before": ROLE_LEADER}
    setattr(pods, trouble, False)
    assert await ours(pods).check()
    assert pods.roles == {"ours": ROLE_LEADER, "before": None}


def test_failed_checks_are_repeated_with_a_growing_pause_up_to_the_period() -> None:
    assert [pause_s(failed) for failed in (1, 2, 3, 100_000)] == [1.0, 2.0, 4.0, PERIOD_S]
    assert pause_s(0) == PERIOD_S
