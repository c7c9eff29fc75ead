"""Whether a YuniKorn scheduler runs: its Deployment by name, or its pods by the labels of its chart, in any namespace.

Everybody may write these names and labels, and a Muster that gave way to them could be stopped by any user. So an
object counts only if its service account may bind pods in the whole cluster, which no user can pretend. Placeholders of
a YuniKorn and pods that it bound are no evidence, because they stay when it is gone.

Users may create many such objects with many accounts. Accounts are reviewed once in a while each, a bounded number of
them in each namespace and in all, and namespaces take turns: no user delays the review of another namespace's account.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from itertools import chain, zip_longest
from typing import Final, NamedTuple

import msgspec
import orjson

from muster_operator.link.api.session import READ_S, KubeSession, Request
from muster_operator.link.errors import ApiRefused, Uncertain
from muster_operator.model import limits

YUNIKORN: Final = "yunikorn"
DEPLOYMENT: Final = "yunikorn-scheduler"
ENDED: Final = frozenset({"Succeeded", "Failed"})
#: From the API server's cache: these looks are repeated, and need not be of this very moment.
DEPLOYMENTS: Final = f"/apis/apps/v1/deployments?fieldSelector=metadata.name%3D{DEPLOYMENT}&resourceVersion=0"
PODS: Final = f"/api/v1/pods?labelSelector=app%3Dyunikorn%2Ccomponent%3D{DEPLOYMENT}&resourceVersion=0"
REVIEWS: Final = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
#: Seconds for which the answer holds that an account may not bind pods.
REVIEW_S: Final = 300.0
#: Reviews under way at once.
AT_ONCE: Final = 10


class Account(NamedTuple):
    """A service account."""

    namespace: str
    name: str


class _Metadata(msgspec.Struct, gc=False):
    namespace: str = ""
    name: str = ""


class _Template(msgspec.Struct, gc=False):
    spec: _Spec | None = None


class _Spec(msgspec.Struct, gc=False, rename="camel"):
    """Of a Deployment or of a pod. Everything else in them is skipped, because users choose how much it is."""

    replicas: int | None = None
    template: _Template | None = None
    service_account_name: str | None = None


class _Status(msgspec.Struct, gc=False):
    replicas: int | None = None
    phase: str | None = None


class _Found(msgspec.Struct, gc=False):
    metadata: _Metadata
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


class _List(msgspec.Struct, gc=False):
    items: list[_Found] | None = None


_decoder: Final = msgspec.json.Decoder(_List)


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
        Uncertain: a list or a review failed, or there are more accounts than are reviewed.
        Unreachable: the API server did not answer.
    """
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
    reply = await session.send(Request("GET", path, within_s=READ_S))
    if not reply.ok:
        raise Uncertain(str(ApiRefused(f"GET {path}", reply.status, reply.message())))
    try:
        return _decoder.decode(reply.body).items or []
    except msgspec.DecodeError as error:
        raise Uncertain(f"GET {path}: {error}") from error
