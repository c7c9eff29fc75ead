"""The webhook configurations and their reconciliation.

Match conditions (CEL) limit requests to pods and workloads that concern Muster, so an unavailable webhook blocks
nothing else. API servers before Kubernetes 1.28 ignore match conditions, so registration requires 1.28. Only the
leader writes.
"""

from __future__ import annotations

import asyncio
import base64
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import orjson
import structlog

from muster_operator.config.configmaps import NAMES
from muster_operator.kube.session import KubeSession, Request
from muster_operator.model.errors import ApiRefused, StartupRefused, Unreachable
from muster_operator.translate.values import Raw, mapping, text
from muster_operator.webhook import context
from muster_operator.webhook.certificates import split
from muster_operator.webhook.context import CONTROL_PLANE, KINDS, AdmittedKind, Condition, Ours

log = structlog.get_logger("muster.admission")

#: Of both configurations, where Muster runs in the namespace that deploy/rbac.yaml makes.
NAME: Final = "muster-admission"
HOME: Final = "muster"

#: Where our hooks live; their names need three parts.
DOMAIN: Final = "admission.muster"

#: Contract 7.
MUTATE: Final = "/mutate"
VALIDATE: Final = "/validate-conf"

#: The same for what is not ours yet: what we cannot answer continues.
MUTATE_OTHERS: Final = "/mutate/others"

#: Seconds that the API server waits for an answer about our own, and about others.
TIMEOUT_S: Final = 5
OTHERS_TIMEOUT_S: Final = 2

#: Nodes say here that they live.
_NODE_LEASES: Final = "kube-node-lease"
_NAMESPACE: Final = "kubernetes.io/metadata.name"  # the API server writes it, and nobody can change it
_POD: Final = KINDS["Pod"]
_CRONJOB: Final = KINDS["CronJob"]
_WORKLOADS: Final = tuple(kind for kind in KINDS.values() if kind not in (_POD, _CRONJOB))
_CREATE: Final = ["CREATE"]
_CREATE_AND_UPDATE: Final = ["CREATE", "UPDATE"]
Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class WebhookClientConfig:
    """Where the API server finds us: a service of our namespace, or (outside of the cluster) a URL without a path."""

    namespace: str
    service: str = ""
    port: int = 443
    url: str = ""

    def client(self, path: str, bundle: bytes) -> Json:
        """The clientConfig of a hook; without a bundle the API server trusts whom its machine trusts."""
        client: Json = {"caBundle": base64.b64encode(bundle).decode()} if bundle else {}
        if self.url:
            return {**client, "url": self.url.rstrip("/") + path}
        service = {"namespace": self.namespace, "name": self.service, "path": path, "port": self.port}
        return {**client, "service": service}


def name_of(home: str) -> str:
    """What both configurations are called: two Musters with names of their own do not write over each other."""
    return NAME if home == HOME else f"{NAME}-{home}"


def mutating(client_config: WebhookClientConfig, ours: Ours, bundle: Iterable[bytes]) -> Json:
    """The MutatingWebhookConfiguration, whose API server trusts these authorities."""
    trusted = b"".join(bundle)

    def claims(kind: AdmittedKind) -> Condition:
        return context.claims_us(kind, ours)

    hooks = [
        _own(
            "own-pods", [_rule("", ["pods"], _CREATE_AND_UPDATE), _rule("", ["pods/*"], ["UPDATE"])], claims(_POD), ours
        ),
        _own("own-bindings", [_rule("", ["pods/binding", "bindings"], _CREATE)], context.writes_guarded(), ours),
        _others("pods", _rules([_POD], _CREATE), _POD, ours),
        _own("own-workloads", _rules(_WORKLOADS, _CREATE_AND_UPDATE), claims(_WORKLOADS[0]), ours),
        _others("workloads", _rules(_WORKLOADS, _CREATE_AND_UPDATE), _WORKLOADS[0], ours),
        _own("own-cronjobs", _rules([_CRONJOB], _CREATE_AND_UPDATE), claims(_CRONJOB), ours),
        _others("cronjobs", _rules([_CRONJOB], _CREATE_AND_UPDATE), _CRONJOB, ours),
    ]
    selector = _in_namespaces("NotIn", {CONTROL_PLANE, _NODE_LEASES, ours.home})
    for hook in hooks:
        is_own = hook["failurePolicy"] == "Fail"
        hook["clientConfig"] = client_config.client(MUTATE if is_own else MUTATE_OTHERS, trusted)
        hook["namespaceSelector"] = selector
        hook["reinvocationPolicy"] = "Never"
    return _configuration("MutatingWebhookConfiguration", name_of(ours.home), hooks)


def validating(client_config: WebhookClientConfig, ours: Ours, bundle: Iterable[bytes]) -> Json:
    """The ValidatingWebhookConfiguration."""
    hook = _hook("configuration", [_rule("", ["configmaps"], _CREATE_AND_UPDATE)], [context.is_called(NAMES)])
    hook["clientConfig"] = client_config.client(VALIDATE, b"".join(bundle))
    hook["namespaceSelector"] = _in_namespaces("In", {ours.home})
    hook["failurePolicy"] = "Ignore"
    hook["timeoutSeconds"] = TIMEOUT_S
    return _configuration("ValidatingWebhookConfiguration", name_of(ours.home), [hook])


def bundle_of(configuration: Json) -> bytes:
    """The authorities that are in a configuration; of several hooks the first that has any."""
    clients = [hook.get("clientConfig") or {} for hook in configuration.get("webhooks") or []]
    return next((base64.b64decode(client["caBundle"]) for client in clients if client.get("caBundle")), b"")


def _own(name: str, rules: list[Json], asked: Condition, ours: Ours) -> Json:
    """What is ours fails closed."""
    hook = _hook(name, rules, [*context.of_strangers(ours), asked])
    return {**hook, "failurePolicy": "Fail", "timeoutSeconds": TIMEOUT_S}


def _others(name: str, rules: list[Json], kind: AdmittedKind, ours: Ours) -> Json:
    """What is not ours yet is never held up for long, and never stopped."""
    hook = _hook(name, rules, [*context.of_strangers(ours), context.claims_nothing(kind, ours)])
    return {**hook, "failurePolicy": "Ignore", "timeoutSeconds": OTHERS_TIMEOUT_S}


def _hook(name: str, rules: list[Json], asked: Iterable[Condition]) -> Json:
    return {
        "name": f"{name}.{DOMAIN}",
        "rules": rules,
        "matchConditions": [{"name": key, "expression": expression} for key, expression in asked],
        "matchPolicy": "Equivalent",
        "objectSelector": {},
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }


def _rules(kinds: Iterable[AdmittedKind], operations: list[str]) -> list[Json]:
    by_group: dict[str, list[str]] = {}
    for kind in kinds:
        by_group.setdefault(kind.group, []).append(kind.resource)
    return [_rule(group, resources, operations) for group, resources in by_group.items()]


def _rule(group: str, resources: list[str], operations: list[str]) -> Json:
    return {
        "apiGroups": [group],
        "apiVersions": ["v1"],
        "operations": operations,
        "resources": resources,
        "scope": "Namespaced",
    }


def _in_namespaces(operator: str, names: set[str]) -> Json:
    return {"matchExpressions": [{"key": _NAMESPACE, "operator": operator, "values": sorted(names)}]}


def _configuration(kind: str, name: str, hooks: list[Json]) -> Json:
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": name, "labels": {"app": "muster"}},
        "webhooks": hooks,
    }


T = TypeVar("T")

#: The first version that keeps `matchConditions`.
OLDEST: Final = (1, 28)

#: Seconds until we ask again.
AGAIN_S: Final = 1.0
_WHO_AM_I: Final = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
_DIGITS: Final = re.compile(r"\d+")


async def discover_api(session: KubeSession) -> str:
    """Our name to the API server; asked until it answers.

    Raises:
        StartupRefused: it is too old.
    """
    found = await _until_answered(lambda: _version(session))
    if found < OLDEST:
        raise StartupRefused(
            f"the webhook needs Kubernetes {OLDEST[0]}.{OLDEST[1]} and this is {found[0]}.{found[1]}: "
            "leave --webhook-service and --webhook-url out"
        )
    return await _until_answered(lambda: _name(session))


async def _until_answered(ask: Callable[[], Awaitable[T]]) -> T:
    while True:
        try:
            return await ask()
        except (ApiRefused, Unreachable) as error:
            log.warning("the API server does not introduce itself, asking again", reason=str(error))
            await asyncio.sleep(AGAIN_S)


async def _version(session: KubeSession) -> tuple[int, int]:
    """Some clouds write "28+"."""
    said = await session.get("/version")
    major, minor = (_DIGITS.match(text(said.get(key))) for key in ("major", "minor"))
    if major is None or minor is None:
        raise ApiRefused("GET /version", 200, "no version in it")
    return int(major[0]), int(minor[0])


async def _name(session: KubeSession) -> str:
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    reply = await session.send(Request("POST", _WHO_AM_I, orjson.dumps(body), is_fenced=False))
    name = text(mapping(mapping(reply.json().get("status")).get("userInfo")).get("username"))
    if not name:
        raise ApiRefused(f"POST {_WHO_AM_I}", reply.status, reply.message())
    return name


_PATH: Final = "/apis/admissionregistration.k8s.io/v1"
MUTATING: Final = f"{_PATH}/mutatingwebhookconfigurations"
VALIDATING: Final = f"{_PATH}/validatingwebhookconfigurations"
Make = Callable[[Iterable[bytes]], Json]


@dataclass(frozen=True, slots=True)
class Registration:
    """What to register, and how: `by_manifest` leaves all but the authorities to the user."""

    client_config: WebhookClientConfig
    ours: Ours
    by_manifest: bool = False


@dataclass(frozen=True, slots=True)
class RegistrationView:
    """The configurations as they stand, by path; None = there is none."""

    found: Mapping[str, Raw | None]

    @property
    def authorities(self) -> tuple[tuple[bytes, ...], ...]:
        """Those of each configuration."""
        return tuple(split(bundle_of(one or {})) for one in self.found.values())


class Registrar:
    """Both configurations of the cluster."""

    def __init__(self, session: KubeSession, registration: Registration) -> None:
        self._session, self._registration = session, registration
        client_config, ours = registration.client_config, registration.ours
        self._name = name_of(ours.home)
        self._makers: dict[str, Make] = {
            MUTATING: lambda bundle: mutating(client_config, ours, bundle),
            VALIDATING: lambda bundle: validating(client_config, ours, bundle),
        }

    async def look(self) -> RegistrationView:
        """What is there.

        Raises:
            ApiRefused, Unreachable: it cannot be read.
        """
        return RegistrationView({path: await self._read(path) for path in self._makers})

    async def keep(self, look: RegistrationView, bundle: tuple[bytes, ...]) -> None:
        """Have both stand as they should, with these authorities; nothing is written where nothing differs.

        Raises:
            NotLeading: something differs, and another replica has to put it right.
            ApiRefused, Unreachable: the API server refuses, or does not answer.
        """
        for path, make in self._makers.items():
            found = look.found[path]
            wanted = self._wanted(path, make(bundle), found)
            if found is None or not _is_as(found, wanted):
                await self._write(path, wanted, found)

    def _wanted(self, path: str, ours: Json, found: Raw | None) -> Json:
        """Ours, or the user's with our authorities.

        Raises:
            ApiRefused: the user's is not there.
        """
        if self._registration.by_manifest:
            if found is None:
                raise ApiRefused(
                    f"GET {path}/{self._name}", 404, "apply deploy/webhooks.yaml, or leave --webhook-manifest out"
                )
            return {**ours, "webhooks": _with_authorities(found, ours)}
        return ours if found is None else {**ours, "webhooks": _with_authorities(ours, found, only_missing=True)}

    async def _read(self, path: str) -> Raw | None:
        try:
            return await self._session.get(f"{path}/{self._name}")
        except ApiRefused as error:
            if error.status == 404:
                return None
            raise

    async def _write(self, path: str, wanted: Json, found: Raw | None) -> None:
        """Create or replace. Somebody else was faster: the next round looks again."""
        body, method = wanted, "POST"
        if found is not None:
            version = mapping(found.get("metadata")).get("resourceVersion")
            metadata = {**mapping(found.get("metadata")), **wanted["metadata"], "resourceVersion": version}
            body, method, path = {**wanted, "metadata": metadata}, "PUT", f"{path}/{self._name}"
        reply = await self._session.send(Request(method, path, orjson.dumps(body)))
        if reply.ok:
            log.info("webhooks registered", kind=wanted["kind"], name=self._name, first=found is None)
        elif reply.status not in {404, 409}:
            raise ApiRefused(f"{method} {path}", reply.status, reply.message())


def _with_authorities(hooks_of: Raw, source: Raw, *, only_missing: bool = False) -> list[Json]:
    """The hooks of one configuration with the authorities of the other's, by name.

    `only_missing`: where the first names none; somebody else, such as cert-manager, may have written the other's.
    """
    found = {hook["name"]: hook["clientConfig"].get("caBundle") for hook in source.get("webhooks") or []}
    hooks: list[Json] = []
    for hook in hooks_of.get("webhooks") or []:
        client, bundle = hook["clientConfig"], found.get(hook["name"])
        keeps = not bundle or (only_missing and client.get("caBundle"))
        hooks.append(hook if keeps else {**hook, "clientConfig": {**client, "caBundle": bundle}})
    return hooks


def _is_as(found: Raw, wanted: Raw) -> bool:
    """Whether hooks and labels are as they should be; other labels and annotations are nobody's harm."""
    labels = mapping(mapping(found.get("metadata")).get("labels"))
    asked = mapping(mapping(wanted.get("metadata")).get("labels"))
    return found.get("webhooks") == wanted.get("webhooks") and all(
        text(labels.get(key)) == value for key, value in asked.items()
    )
