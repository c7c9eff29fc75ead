"""Two candidates never may write at the same time, with any delayed, lost or unanswered request."""

import asyncio
from dataclasses import dataclass
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster_operator.kube.leadership import Candidacy, Leadership, NoElection
from muster_operator.kube.session import KubeSession, LeadershipGuard, Reply, Request
from muster_operator.model.errors import ApiRefused, LeadershipLost, Unreachable

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
