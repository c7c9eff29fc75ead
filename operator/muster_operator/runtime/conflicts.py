"""Detection of other schedulers with the same names.

One Lease per scheduler name in kube-system is held by the installation that serves it. A YuniKorn counts as running
only if its service account may bind pods in the complete cluster, because any user can create objects with its names
and labels. A failed check changes nothing; the last certain result stays.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import chain, zip_longest
from typing import Any, Final, NamedTuple
from urllib.parse import quote

import msgspec
import orjson
import structlog

from muster_operator.config.settings import SCHEDULER_NAMES
from muster_operator.kube.commands import micro_time
from muster_operator.kube.leases import NO_HOLDER, Lease, LeaseObservation, Store
from muster_operator.kube.lists import PAGE
from muster_operator.kube.session import KubeSession, Request, running_s
from muster_operator.model import limits
from muster_operator.model.errors import AnswerTooLarge, ApiRefused, PartEnded, StartupRefused, Uncertain, Unreachable
from muster_operator.model.names import YUNIKORN

log = structlog.get_logger("muster.conflicts")

DEPLOYMENT: Final = "yunikorn-scheduler"
ENDED: Final = frozenset({"Succeeded", "Failed"})
#: From the API server's cache (resourceVersion=0), because these lists are repeated. A cache may ignore page limits.
DEPLOYMENTS: Final = f"/apis/apps/v1/deployments?fieldSelector=metadata.name%3D{DEPLOYMENT}&resourceVersion=0"
PODS: Final = f"/api/v1/pods?labelSelector=app%3Dyunikorn%2Ccomponent%3D{DEPLOYMENT}&resourceVersion=0"
REVIEWS: Final = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
#: Timeout of one detection of YuniKorn in seconds.
DETECTION_S: Final = 10.0
#: Seconds for which the result that an account may not bind pods is cached.
REVIEW_S: Final = 300.0
#: Maximum number of concurrent reviews.
AT_ONCE: Final = 10
#: Seconds between two detections while this replica leads.
PERIOD_S: Final = 15.0

#: Namespace and name prefix of the Leases of scheduler names, for all installations.
NAMESPACE: Final = "kube-system"
PREFIX: Final = "muster-scheduler-"
#: Different labels from those of the leader's Lease.
LABELS: Final = {"app.kubernetes.io/name": "muster", "app.kubernetes.io/component": "scheduler-name"}
#: Seconds for which a holder that does not renew keeps a name.
DURATION_S: Final = 45
#: Seconds between renewals, and between reads of a Lease that another installation holds.
RENEW_S: Final = 15.0
CHECK_INTERVAL_S: Final = 1.0
#: Share of the duration for which a renewal allows decisions, from the time it was sent.
DECIDES: Final = 0.7
#: Timeout of a request in seconds.
REQUEST_S: Final = 5.0

Place = tuple[str, str]
"""Namespace and name of a Lease."""


class Account(NamedTuple):
    """A service account."""

    namespace: str
    name: str


class _WorkloadMetadata(msgspec.Struct, gc=False):
    namespace: str = ""
    name: str = ""


class _Spec(msgspec.Struct, gc=False, rename="camel"):
    """Spec of a Deployment or a pod. Other fields are skipped, because users control their size."""

    replicas: int | None = None
    template: _Template | None = None
    service_account_name: str | None = None


class _Template(msgspec.Struct, gc=False):
    spec: _Spec | None = None


class _Status(msgspec.Struct, gc=False):
    replicas: int | None = None
    phase: str | None = None


class _Found(msgspec.Struct, gc=False):
    metadata: _WorkloadMetadata
    spec: _Spec | None = None
    status: _Status | None = None

    @property
    def wants_pods(self) -> bool:
        """Whether the Deployment has or wants pods. A missing number of replicas means one."""
        wanted = self.spec.replicas if self.spec and self.spec.replicas is not None else 1
        return bool(wanted) or bool(self.status and self.status.replicas)

    @property
    def is_active(self) -> bool:
        """Whether the pod has not ended."""
        return not self.status or self.status.phase not in ENDED

    @property
    def account(self) -> Account:
        """The service account of the pods."""
        spec = self.spec.template.spec if self.spec and self.spec.template else self.spec
        return Account(self.metadata.namespace, (spec and spec.service_account_name) or "default")


class _WorkloadListMetadata(msgspec.Struct, gc=False):
    continue_: str | None = msgspec.field(name="continue", default=None)


class _WorkloadList(msgspec.Struct, gc=False):
    metadata: _WorkloadListMetadata | None = None
    items: list[_Found] | None = None


_decoder: Final = msgspec.json.Decoder(_WorkloadList)


class Reviews:
    """Checks which accounts may bind pods. Negative results are cached. `clock`: seconds of a monotonic clock."""

    def __init__(self, session: KubeSession, clock: Callable[[], float] = time.monotonic) -> None:
        self._session, self._clock = session, clock
        self._refused: dict[Account, float] = {}

    async def first_that_may_bind(self, accounts: list[Account]) -> Account | None:
        """Returns the first account that may bind any pod, or None.

        Raises:
            Uncertain: the API server did not answer the review of an earlier account.
            Unreachable: the API server did not answer.
        """
        now = self._clock()
        self._refused = {
            account: at for account in accounts if (at := self._refused.get(account, now - REVIEW_S)) > now - REVIEW_S
        }
        asked = [account for account in accounts if account not in self._refused]
        for begin in range(0, len(asked), AT_ONCE):
            part = asked[begin : begin + AT_ONCE]
            for account, may_bind in zip(part, await asyncio.gather(*map(self._may_bind, part)), strict=True):
                if may_bind:
                    return account
                self._refused[account] = now
        return None

    async def _may_bind(self, account: Account) -> bool:
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": {
                "user": f"system:serviceaccount:{account.namespace}:{account.name}",
                "groups": [
                    "system:serviceaccounts",
                    f"system:serviceaccounts:{account.namespace}",
                    "system:authenticated",
                ],
                "resourceAttributes": {"verb": "create", "resource": "pods", "subresource": "binding"},
            },
        }
        reply = await self._session.send(Request("POST", REVIEWS, orjson.dumps(review), needs_leadership=False))
        if not reply.ok:
            name = f"{account.namespace}/{account.name}"
            raise Uncertain(f"cannot check whether {name} may bind pods: {reply.status} {reply.message()}")
        return bool((reply.json().get("status") or {}).get("allowed"))


async def running_yunikorn(session: KubeSession, reviews: Reviews) -> str:
    """Returns kind, namespace and name of a running YuniKorn; empty if none is found.

    Raises:
        Uncertain: a list or review failed, took too long, or exceeds the limits.
        Unreachable: the API server did not answer.
    """
    try:
        async with asyncio.timeout(DETECTION_S):
            return await _running_yunikorn(session, reviews)
    except TimeoutError as error:
        raise Uncertain(f"the detection took more than {DETECTION_S:g} s") from error


async def _running_yunikorn(session: KubeSession, reviews: Reviews) -> str:
    found: dict[str, dict[Account, str]] = {}
    deployments = [("deployment", one) for one in await _list(session, DEPLOYMENTS) if one.wants_pods]
    pods = [("pod", one) for one in await _list(session, PODS) if one.is_active]
    for kind, one in deployments + pods:
        accounts = found.setdefault(one.metadata.namespace, {})
        if len(accounts) < limits.YUNIKORN_ACCOUNTS_PER_NAMESPACE:
            accounts.setdefault(one.account, f"{kind} {one.metadata.namespace}/{one.metadata.name}")
    listed = [*_round_robin(found)]
    account = await reviews.first_that_may_bind(listed[: limits.YUNIKORN_ACCOUNTS])
    if account is not None:
        return found[account.namespace][account]
    if len(listed) > limits.YUNIKORN_ACCOUNTS:
        most = limits.YUNIKORN_ACCOUNTS
        raise Uncertain(f"{len(listed)} service accounts may belong to YuniKorn, only the first {most} were checked")
    return ""


def _round_robin(found: dict[str, dict[Account, str]]) -> Iterator[Account]:
    """The first account of each namespace, then the second of each, and so on."""
    return (account for account in chain.from_iterable(zip_longest(*found.values())) if account is not None)


async def _list(session: KubeSession, path: str) -> list[_Found]:
    found: list[_Found] = []
    token, left = "", limits.YUNIKORN_LIST_BYTES
    while True:
        page = f"{path}&limit={PAGE}" + (f"&continue={quote(token)}" if token else "")
        try:
            reply = await session.send(Request("GET", page, most_bytes=left))
            if not reply.ok:
                raise Uncertain(str(ApiRefused(f"GET {path}", reply.status, reply.message())))
            part = _decoder.decode(reply.body)
        except (AnswerTooLarge, msgspec.DecodeError) as error:
            raise Uncertain(f"GET {path}: {error}") from error
        left -= len(reply.body)
        found += part.items or []
        token = (part.metadata and part.metadata.continue_) or ""
        if not token:
            return found


class NameLease:
    """The Lease of one scheduler name. `max_wait_s`: maximum wait for a holder that does not renew it."""

    def __init__(
        self,
        session: KubeSession,
        name: str,
        installation: str,
        max_wait_s: float = DURATION_S,
        clock: Callable[[], float] = running_s,
    ) -> None:
        self.name, self._installation, self._max_wait_s, self._clock = name, installation, max_wait_s, clock
        self._store = Store(session, (NAMESPACE, PREFIX + name), frozenset({name}), REQUEST_S, LABELS)
        self._observation: LeaseObservation | None = None
        self._own_lease: Lease | None = None  # as last written by this process
        self._hold_until = float("-inf")

    @property
    def held_s(self) -> float:
        """Seconds for which decisions are allowed without a further renewal; 0 = the Lease is not held."""
        return max(0.0, self._hold_until - self._clock())

    async def check(self) -> float:
        """Reads the Lease. Returns the seconds until it can be acquired if it does not change; 0 = now.

        Raises:
            StartupRefused: another installation has acquired or renewed it since the last read.
            ApiRefused: the API server answered with an error.
            Unreachable: there was no answer.
        """
        before, found, now = self._observation, await self._store.get(), self._clock()
        self._observation = (before or LeaseObservation()).updated(found, now)
        lease = self._observation.lease
        if lease.holder in {NO_HOLDER, self._installation}:
            return 0.0
        self._hold_until = float("-inf")
        if before is not None and lease != before.lease:
            raise StartupRefused(
                f"another Muster (lease {lease.holder}) serves the scheduler name {self.name} (lease "
                f"{NAMESPACE}/{PREFIX}{self.name}): stop it, or set different {SCHEDULER_NAMES}"
            )
        return min(
            self._observation.free_in_s(self._installation, now), self._observation.since_s + self._max_wait_s - now
        )

    async def take(self) -> None:
        """Acquires the Lease if it is free, or renews it. After a conflict the next read shows the holder.

        Raises:
            StartupRefused: another installation has acquired or renewed it since the last read.
            ApiRefused: the API server answered with an error.
            Unreachable: there was no answer; the write may have succeeded.
        """
        if await self.check() > 0:
            return
        lease = self._observation.lease if self._observation else Lease()
        sent_s, now = self._clock(), _now()
        is_ours = lease.holder == self._installation
        wanted = (
            lease.renewed_by_holder(DURATION_S, now) if is_ours else lease.taken_by(self._installation, DURATION_S, now)
        )
        written = await self._store.put(wanted)
        if written is not None:
            self._own_lease, self._observation = written, LeaseObservation(written, self._clock())
            self._hold_until = sent_s + DURATION_S * DECIDES

    async def give_back(self) -> None:
        """Releases the Lease for other installations, unless another process has written it since.

        The next leader of this installation has the same identity and keeps the Lease.

        Raises:
            ApiRefused: the API server answered with an error.
            Unreachable: there was no answer; the write may have succeeded.
        """
        self._hold_until = float("-inf")
        if self._own_lease is not None:
            await self._store.put(self._own_lease.given_back(_now()))


@dataclass(slots=True)
class NameLeases:
    """The Leases of all served scheduler names. `on_held` is called each time when all of them become held.

    `held`: set when all of them are held for the first time.
    """

    leases: tuple[NameLease, ...]
    on_held: Callable[[], None] = lambda: None
    renew_s: float = RENEW_S
    held: asyncio.Event = field(default_factory=asyncio.Event)
    problem: str = ""
    _were_all_held: bool = False

    @property
    def are_all_held(self) -> bool:
        """Whether all of them are held. Called before each decision is sent, so it must be fast."""
        return all(lease.held_s > 0 for lease in self.leases)

    @property
    def are_lost(self) -> bool:
        """Whether all of them were held before, and are not now."""
        return self.held.is_set() and not self.are_all_held

    @property
    def missing(self) -> str:
        """The names whose Leases are not held, with the reason if it is known; empty = all are held."""
        names = ", ".join(lease.name for lease in self.leases if lease.held_s <= 0)
        return f"{names} ({self.problem})" if names and self.problem else names

    async def until_free(self) -> None:
        """Waits until no other installation holds one of them. Writes nothing.

        Raises:
            StartupRefused: another installation serves one of the names.
        """
        left_s = await self._each(NameLease.check)
        while left_s > 0:
            await asyncio.sleep(min(left_s, CHECK_INTERVAL_S))
            left_s = await self._each(NameLease.check)

    async def run(self) -> None:
        """Acquires the Leases, and renews them while this replica leads.

        Raises:
            StartupRefused: another installation serves one of the names.
        """
        while True:
            await self.acquire_or_renew()
            await asyncio.sleep(self.renew_s if self._were_all_held and not self.problem else CHECK_INTERVAL_S)

    async def acquire_or_renew(self) -> None:
        """Acquires or renews each Lease once.

        Until all are held, they are acquired one after the other, in the same order by every installation. Otherwise
        two installations that start together could acquire one each, and both would exit.

        Raises:
            StartupRefused: another installation serves one of the names.
        """
        if self.are_all_held:
            await self._each(NameLease.take)
        else:
            await self._take_in_order()
        before, self._were_all_held = self._were_all_held, self.are_all_held
        if self._were_all_held and not before:
            log.info("holding the Leases of the scheduler names", names=[lease.name for lease in self.leases])
            self.held.set()
            self.on_held()
        elif before and not self._were_all_held:
            log.warning("decisions paused: the Leases of scheduler names are not held", names=self.missing)

    async def give_back(self) -> None:
        """Releases the Leases at the end, when all writes have finished. Otherwise they would expire."""
        await self._each(NameLease.give_back)

    async def _each(self, act: Callable[[NameLease], Coroutine[Any, Any, float | None]]) -> float:
        """Calls ``act`` for all Leases concurrently and returns the largest result. Failures are logged once."""
        results = await asyncio.gather(*(act(lease) for lease in self.leases), return_exceptions=True)
        return self._evaluate(results)

    async def _take_in_order(self) -> None:
        results: list[float | BaseException | None] = []
        for lease in self.leases:  # sorted by name
            results += await asyncio.gather(lease.take(), return_exceptions=True)
            if lease.held_s <= 0:
                break
        self._evaluate(results)

    def _evaluate(self, results: Sequence[float | BaseException | None]) -> float:
        problem = ""
        for result in results:
            if isinstance(result, ApiRefused | Unreachable):
                problem = str(result)
            elif isinstance(result, BaseException):
                raise result
        if problem and problem != self.problem:
            log.warning("cannot read or write the Leases of scheduler names", reason=problem)
        self.problem = problem
        return max((result for result in results if isinstance(result, float)), default=0.0)


def leases_of(
    session: KubeSession, names: Iterable[str], place: Place, max_wait_s: float = DURATION_S
) -> tuple[NameLease, ...]:
    """The Leases of an installation, which is identified by the place of its leader's Lease."""
    return tuple(NameLease(session, name, "/".join(place), max_wait_s) for name in sorted(names))


def _now() -> str:
    return micro_time(datetime.now(UTC))


async def allowed_names(session: KubeSession, names: frozenset[str], *, are_chosen: bool) -> frozenset[str]:
    """The scheduler names that can be served. `are_chosen`: a user has configured them.

    Raises:
        StartupRefused: YuniKorn is running, and its name is configured.
        Uncertain: it is unknown whether YuniKorn is running, and no other name is left.
        Unreachable: the API server did not answer.
    """
    if YUNIKORN not in names:
        return names
    try:
        found = await running_yunikorn(session, Reviews(session))
    except Uncertain as unknown:
        if names == {YUNIKORN}:
            raise
        log.warning(
            "cannot determine whether YuniKorn runs: not serving the scheduler name yunikorn", reason=str(unknown)
        )
        return names - {YUNIKORN}
    if not found:
        return names
    if are_chosen or names == {YUNIKORN}:
        raise StartupRefused(_yunikorn_is_running(found))
    log.warning("YuniKorn is running: not serving the scheduler name yunikorn until it is removed", yunikorn=found)
    return names - {YUNIKORN}


@dataclass(slots=True)
class ConflictDetector:
    """Detects YuniKorn periodically. `withheld`: wanted names that are not served because of YuniKorn."""

    session: KubeSession
    names: frozenset[str]
    withheld: frozenset[str] = frozenset()
    period_s: float = PERIOD_S
    reviews: Reviews = field(init=False)

    def __post_init__(self) -> None:
        self.reviews = Reviews(self.session)

    async def run(self) -> None:
        """Repeats the detection while this replica leads.

        Raises:
            StartupRefused: YuniKorn is running.
            PartEnded: a withheld name can be served now, for which the operator has to restart.
        """
        while True:
            await self.check()
            await asyncio.sleep(self.period_s)

    async def check(self) -> None:
        """Detects once.

        Raises:
            StartupRefused: YuniKorn is running.
            PartEnded: a withheld name can be served now.
        """
        if YUNIKORN not in self.names | self.withheld:
            return
        try:
            found = await running_yunikorn(self.session, self.reviews)
        except (Uncertain, Unreachable) as unknown:
            log.warning("cannot determine whether YuniKorn runs: keeping the last known state", reason=str(unknown))
            return
        if found and YUNIKORN in self.names:
            raise StartupRefused(_yunikorn_is_running(found))
        if not found and YUNIKORN in self.withheld:
            raise PartEnded(
                "conflict detection", f"YuniKorn is not running: restarting to serve the scheduler name {YUNIKORN}"
            )


def _yunikorn_is_running(found: str) -> str:
    return (
        f"{found} is running and serves the scheduler name {YUNIKORN}: scale it to 0, or set {SCHEDULER_NAMES}: muster"
    )
