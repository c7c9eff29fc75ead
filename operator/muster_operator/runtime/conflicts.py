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
from muster_operator.kube.session import KubeSession, Request, running_s
from muster_operator.kube.watch import PAGE
from muster_operator.model import limits
from muster_operator.model.errors import AnswerTooLarge, ApiRefused, PartEnded, StartupRefused, Uncertain, Unreachable

log = structlog.get_logger("muster.beside")

YUNIKORN: Final = "yunikorn"
DEPLOYMENT: Final = "yunikorn-scheduler"
ENDED: Final = frozenset({"Succeeded", "Failed"})
#: From the API server's cache, because these lists are repeated. A cache may ignore the limit of a page.
DEPLOYMENTS: Final = f"/apis/apps/v1/deployments?fieldSelector=metadata.name%3D{DEPLOYMENT}&resourceVersion=0"
PODS: Final = f"/api/v1/pods?labelSelector=app%3Dyunikorn%2Ccomponent%3D{DEPLOYMENT}&resourceVersion=0"
REVIEWS: Final = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
#: Seconds that one detection of a YuniKorn may take.
DETECTION_S: Final = 10.0
#: Seconds for which the answer holds that an account may not bind pods.
REVIEW_S: Final = 300.0
#: Reviews under way at once.
AT_ONCE: Final = 10
#: Seconds between two detections while we lead.
PERIOD_S: Final = 15.0

#: Where the Leases of scheduler names are, for all installations.
NAMESPACE: Final = "kube-system"
PREFIX: Final = "muster-scheduler-"
#: Not those of the Lease that a leader holds.
LABELS: Final = {"app.kubernetes.io/name": "muster", "app.kubernetes.io/component": "scheduler-name"}
#: Seconds for which a holder that does not renew keeps a name.
DURATION_S: Final = 45
#: Seconds after which a holder renews, and after which it looks again at a Lease that it could not take.
RENEW_S: Final = 15.0
LOOK_S: Final = 1.0
#: The part of the duration for which a renewal allows decisions, from when it was sent.
DECIDES: Final = 0.7
#: Seconds that a request may take.
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
    """Of a Deployment or of a pod. Everything else in them is skipped, because users choose how much it is."""

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
        """Whether the Deployment has pods or wants some; an absent number of replicas means one."""
        wanted = self.spec.replicas if self.spec and self.spec.replicas is not None else 1
        return bool(wanted) or bool(self.status and self.status.replicas)

    @property
    def is_going_on(self) -> bool:
        """Whether the pod has not ended."""
        return not self.status or self.status.phase not in ENDED

    @property
    def account(self) -> Account:
        """The service account that it runs as."""
        spec = self.spec.template.spec if self.spec and self.spec.template else self.spec
        return Account(self.metadata.namespace, (spec and spec.service_account_name) or "default")


class _ListMetadata(msgspec.Struct, gc=False):
    continue_: str | None = msgspec.field(name="continue", default=None)


class _WorkloadList(msgspec.Struct, gc=False):
    metadata: _ListMetadata | None = None
    items: list[_Found] | None = None


_decoder: Final = msgspec.json.Decoder(_WorkloadList)


class Reviews:
    """Which accounts may bind pods. That one may not is remembered for a while. `clock`: steady seconds."""

    def __init__(self, session: KubeSession, clock: Callable[[], float] = time.monotonic) -> None:
        self._session, self._clock = session, clock
        self._refused: dict[Account, float] = {}

    async def first_that_may_bind(self, accounts: list[Account]) -> Account | None:
        """The first of them that may bind any pod; None = none may.

        Raises:
            Uncertain: the API server did not say it of one that comes before it.
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
        reply = await self._session.send(Request("POST", REVIEWS, orjson.dumps(review), is_fenced=False))
        if not reply.ok:
            name = f"{account.namespace}/{account.name}"
            raise Uncertain(f"cannot check whether {name} may bind pods: {reply.status} {reply.message()}")
        return bool((reply.json().get("status") or {}).get("allowed"))


async def running_yunikorn(session: KubeSession, reviews: Reviews) -> str:
    """Its kind, namespace and name; empty = none is seen.

    Raises:
        Uncertain: a list or a review failed, they took too long, or there is more than is read or reviewed.
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
    pods = [("pod", one) for one in await _list(session, PODS) if one.is_going_on]
    for kind, one in deployments + pods:
        accounts = found.setdefault(one.metadata.namespace, {})
        if len(accounts) < limits.YUNIKORN_ACCOUNTS_PER_NAMESPACE:
            accounts.setdefault(one.account, f"{kind} {one.metadata.namespace}/{one.metadata.name}")
    in_turns = [*_in_turns(found)]
    account = await reviews.first_that_may_bind(in_turns[: limits.YUNIKORN_ACCOUNTS])
    if account is not None:
        return found[account.namespace][account]
    if len(in_turns) > limits.YUNIKORN_ACCOUNTS:
        raise Uncertain(f"{len(in_turns)} service accounts look like a YuniKorn's, {limits.YUNIKORN_ACCOUNTS} reviewed")
    return ""


def _in_turns(found: dict[str, dict[Account, str]]) -> Iterator[Account]:
    """The first account of each namespace, then the second of each."""
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
    """The Lease of one scheduler name. `patience_s`: how long another that does not renew it is waited for."""

    def __init__(
        self,
        session: KubeSession,
        name: str,
        installation: str,
        patience_s: float = DURATION_S,
        clock: Callable[[], float] = running_s,
    ) -> None:
        self.name, self._installation, self._patience_s, self._clock = name, installation, patience_s, clock
        self._store = Store(session, (NAMESPACE, PREFIX + name), frozenset({name}), REQUEST_S, LABELS)
        self._observation: LeaseObservation | None = None
        self._mine: Lease | None = None  # as we wrote it last
        self._held_until = float("-inf")

    @property
    def held_s(self) -> float:
        """Seconds for which decisions are allowed if nothing is renewed; 0 = it is not ours."""
        return max(0.0, self._held_until - self._clock())

    async def look(self) -> float:
        """Read it; seconds until we may take it if it does not change, 0 = now.

        Raises:
            StartupRefused: another installation took or renewed it since the last look.
            ApiRefused: the server does not show it.
            Unreachable: no answer came.
        """
        before, found, now = self._observation, await self._store.get(), self._clock()
        self._observation = (before or LeaseObservation()).seeing(found, now)
        lease = self._observation.lease
        if lease.holder in {NO_HOLDER, self._installation}:
            return 0.0
        self._held_until = float("-inf")
        if before is not None and lease != before.lease:
            raise StartupRefused(
                f"another Muster (lease {lease.holder}) serves the scheduler name {self.name} (lease "
                f"{NAMESPACE}/{PREFIX}{self.name}): stop it, or set different {SCHEDULER_NAMES}"
            )
        return min(
            self._observation.free_in_s(self._installation, now), self._observation.since_s + self._patience_s - now
        )

    async def take(self) -> None:
        """Take it if it is free, or renew it. Where another was faster the next look finds it.

        Raises:
            StartupRefused: another installation took or renewed it since the last look.
            ApiRefused: the server does not do it.
            Unreachable: no answer came; it may have been done.
        """
        if await self.look() > 0:
            return
        lease = self._observation.lease if self._observation else Lease()
        sent_s, now = self._clock(), _now()
        is_ours = lease.holder == self._installation
        wanted = (
            lease.renewed_by_holder(DURATION_S, now) if is_ours else lease.taken_by(self._installation, DURATION_S, now)
        )
        written = await self._store.put(wanted)
        if written is not None:
            self._mine, self._observation = written, LeaseObservation(written, self._clock())
            self._held_until = sent_s + DURATION_S * DECIDES

    async def give_back(self) -> None:
        """Let another installation serve the name at once, unless another process has written it since.

        The next leader of this installation holds it under the same name, and keeps it.

        Raises:
            ApiRefused: the server does not do it.
            Unreachable: no answer came; it may have been done.
        """
        self._held_until = float("-inf")
        if self._mine is not None:
            await self._store.put(self._mine.given_back(_now()))


@dataclass(slots=True)
class NameLeases:
    """The Leases of all our scheduler names. `on_held`: called when all of them are ours, at first and again.

    `held`: set when all of them are ours for the first time.
    """

    leases: tuple[NameLease, ...]
    on_held: Callable[[], None] = lambda: None
    renew_s: float = RENEW_S
    held: asyncio.Event = field(default_factory=asyncio.Event)
    trouble: str = ""
    _were_ours: bool = False

    @property
    def are_ours(self) -> bool:
        """Whether we hold all of them. Asked before each decision is carried out, so it is short."""
        return all(lease.held_s > 0 for lease in self.leases)

    @property
    def are_lost(self) -> bool:
        """Whether we held all of them once, and do not any more."""
        return self.held.is_set() and not self.are_ours

    @property
    def missing(self) -> str:
        """The names whose Leases we do not hold, and why if it is known; empty = we hold all."""
        names = ", ".join(lease.name for lease in self.leases if lease.held_s <= 0)
        return f"{names} ({self.trouble})" if names and self.trouble else names

    async def until_free(self) -> None:
        """Wait until none of them is another's. Nothing is written.

        Raises:
            StartupRefused: another installation serves one of the names.
        """
        left_s = await self._each(NameLease.look)
        while left_s > 0:
            await asyncio.sleep(min(left_s, LOOK_S))
            left_s = await self._each(NameLease.look)

    async def run(self) -> None:
        """Take them, and renew them for as long as we lead.

        Raises:
            StartupRefused: another installation serves one of the names.
        """
        while True:
            await self.turn()
            await asyncio.sleep(self.renew_s if self._were_ours and not self.trouble else LOOK_S)

    async def turn(self) -> None:
        """Take or renew each of them once.

        Until all are ours, they are taken one after the other, in the same order by every installation. Otherwise two
        that start together could take one each, and both would give way.

        Raises:
            StartupRefused: another installation serves one of the names.
        """
        if self.are_ours:
            await self._each(NameLease.take)
        else:
            await self._take_in_order()
        before, self._were_ours = self._were_ours, self.are_ours
        if self._were_ours and not before:
            log.info("holding the Leases of the scheduler names", names=[lease.name for lease in self.leases])
            self.held.set()
            self.on_held()
        elif before and not self._were_ours:
            log.warning("decisions paused: the Leases of scheduler names are not held", names=self.missing)

    async def give_back(self) -> None:
        """At the end, when no write of ours can come any more; the Leases run out anyway."""
        await self._each(NameLease.give_back)

    async def _each(self, act: Callable[[NameLease], Coroutine[Any, Any, float | None]]) -> float:
        """Do it with all of them at once; the largest result. Failures are logged once, and repeated by the caller."""
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
        trouble = ""
        for result in results:
            if isinstance(result, ApiRefused | Unreachable):
                trouble = str(result)
            elif isinstance(result, BaseException):
                raise result
        if trouble and trouble != self.trouble:
            log.warning("cannot read or write the Leases of scheduler names", reason=trouble)
        self.trouble = trouble
        return max((result for result in results if isinstance(result, float)), default=0.0)


def leases_of(
    session: KubeSession, names: Iterable[str], place: Place, patience_s: float = DURATION_S
) -> tuple[NameLease, ...]:
    """Those of the installation whose leader holds the Lease of that place."""
    return tuple(NameLease(session, name, "/".join(place), patience_s) for name in sorted(names))


def _now() -> str:
    return micro_time(datetime.now(UTC))


async def allowed_names(session: KubeSession, names: frozenset[str], *, are_chosen: bool) -> frozenset[str]:
    """Those of the names that we may serve. `are_chosen`: an operator of the cluster set them.

    Raises:
        StartupRefused: a YuniKorn runs, and its name is wanted.
        Uncertain: nothing is left to serve, because that is not known.
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
        raise StartupRefused(_beside(found))
    log.warning("YuniKorn is running: not serving the scheduler name yunikorn until it is removed", yunikorn=found)
    return names - {YUNIKORN}


@dataclass(slots=True)
class ConflictDetector:
    """Looks again and again. `withheld`: names that are wanted, and not served because of a YuniKorn."""

    session: KubeSession
    names: frozenset[str]
    withheld: frozenset[str] = frozenset()
    period_s: float = PERIOD_S
    reviews: Reviews = field(init=False)

    def __post_init__(self) -> None:
        self.reviews = Reviews(self.session)

    async def run(self) -> None:
        """Look for as long as we lead.

        Raises:
            StartupRefused: we have to give way.
            PartEnded: a name that was withheld may be served: the operator has to start again for it.
        """
        while True:
            await self.look()
            await asyncio.sleep(self.period_s)

    async def look(self) -> None:
        """Look once.

        Raises:
            StartupRefused: we have to give way.
            PartEnded: a name that was withheld may be served.
        """
        if YUNIKORN not in self.names | self.withheld:
            return
        try:
            found = await running_yunikorn(self.session, self.reviews)
        except (Uncertain, Unreachable) as unknown:
            log.warning("cannot determine whether YuniKorn runs: keeping the last known state", reason=str(unknown))
            return
        if found and YUNIKORN in self.names:
            raise StartupRefused(_beside(found))
        if not found and YUNIKORN in self.withheld:
            raise PartEnded(
                "conflict detection", f"YuniKorn is not running: restarting to serve the scheduler name {YUNIKORN}"
            )


def _beside(found: str) -> str:
    return (
        f"{found} is running and serves the scheduler name {YUNIKORN}: scale it to 0, or set {SCHEDULER_NAMES}: muster"
    )
