"""The webhook configurations and their reconciliation.

Match conditions (CEL) limit requests to pods and workloads that concern Muster, so that an unavailable webhook blocks
no others. API servers before Kubernetes 1.28 ignore match conditions, so that registration requires 1.28. Only the
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

from muster_operator.config.settings import CONFIG_MAP_NAMES
from muster_operator.kube.session import KubeSession, Request
from muster_operator.model.errors import ApiRefused, StartupRefused, Unreachable
from muster_operator.translate.values import Raw, mapping, text
from muster_operator.webhook import context
from muster_operator.webhook.certificates import split
from muster_operator.webhook.context import CONTROL_PLANE, KINDS, AdmittedKind, MatchCondition, MusterIdentity

log = structlog.get_logger("muster.admission")

#: Name of both configurations if Muster runs in the default namespace.
NAME: Final = "muster-admission"
HOME: Final = "muster"

#: Domain of the webhook names, which need three parts.
DOMAIN: Final = "admission.muster"

#: Paths of the webhook, as in YuniKorn.
MUTATE: Final = "/mutate"
VALIDATE: Final = "/validate-conf"

#: Path for objects that do not name Muster. These webhooks fail open.
MUTATE_OTHERS: Final = "/mutate/others"

#: Timeouts of the API server in seconds, for objects of Muster and for others.
TIMEOUT_S: Final = 5
OTHERS_TIMEOUT_S: Final = 2

#: Namespace of the node heartbeats.
_NODE_LEASES: Final = "kube-node-lease"
_NAMESPACE: Final = "kubernetes.io/metadata.name"  # set by the API server; users cannot change it
_POD: Final = KINDS["Pod"]
_CRONJOB: Final = KINDS["CronJob"]
_WORKLOADS: Final = tuple(kind for kind in KINDS.values() if kind.template == KINDS["Job"].template)

#: Only the user of their templates is guarded. No pods of them exist that Muster would have to add something to.
_GUARDED: Final = {"own-revisions": KINDS["ControllerRevision"], "own-templates": KINDS["PodTemplate"]}
_CREATE: Final = ["CREATE"]
_CREATE_AND_UPDATE: Final = ["CREATE", "UPDATE"]
Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class WebhookClientConfig:
    """Address of the webhook: a service in Muster's namespace, or a URL without a path outside of the cluster."""

    namespace: str
    service: str = ""
    port: int = 443
    url: str = ""

    def client(self, path: str, bundle: bytes) -> Json:
        """The clientConfig of a webhook. Without a bundle the API server uses the trust store of its machine."""
        client: Json = {"caBundle": base64.b64encode(bundle).decode()} if bundle else {}
        if self.url:
            return {**client, "url": self.url.rstrip("/") + path}
        service = {"namespace": self.namespace, "name": self.service, "path": path, "port": self.port}
        return {**client, "service": service}


def name_of(own_namespace: str) -> str:
    """Name of both configurations. It contains the namespace, so that two installations do not conflict."""
    return NAME if own_namespace == HOME else f"{NAME}-{own_namespace}"


def mutating(client_config: WebhookClientConfig, identity: MusterIdentity, bundle: Iterable[bytes]) -> Json:
    """The MutatingWebhookConfiguration, with these authorities as caBundle."""
    trusted = b"".join(bundle)

    def claims(kind: AdmittedKind) -> MatchCondition:
        return context.concerns_muster(kind, identity)

    hooks = [
        _own(
            "own-pods",
            [_rule("", ["pods"], _CREATE_AND_UPDATE), _rule("", ["pods/*"], ["UPDATE"])],
            claims(_POD),
            identity,
        ),
        _own("own-bindings", [_rule("", ["pods/binding", "bindings"], _CREATE)], context.writes_guarded(), identity),
        _others("pods", _rules([_POD], _CREATE), _POD, identity),
        _own("own-workloads", _rules(_WORKLOADS, _CREATE_AND_UPDATE), claims(_WORKLOADS[0]), identity),
        _others("workloads", _rules(_WORKLOADS, _CREATE_AND_UPDATE), _WORKLOADS[0], identity),
        _own("own-cronjobs", _rules([_CRONJOB], _CREATE_AND_UPDATE), claims(_CRONJOB), identity),
        _others("cronjobs", _rules([_CRONJOB], _CREATE_AND_UPDATE), _CRONJOB, identity),
        *(_own(name, _rules([kind], _CREATE_AND_UPDATE), claims(kind), identity) for name, kind in _GUARDED.items()),
    ]
    selector = _in_namespaces("NotIn", {CONTROL_PLANE, _NODE_LEASES, identity.own_namespace})
    for hook in hooks:
        is_own = hook["failurePolicy"] == "Fail"
        hook["clientConfig"] = client_config.client(MUTATE if is_own else MUTATE_OTHERS, trusted)
        hook["namespaceSelector"] = selector
        hook["reinvocationPolicy"] = "Never"
    return _configuration("MutatingWebhookConfiguration", name_of(identity.own_namespace), hooks)


def validating(client_config: WebhookClientConfig, identity: MusterIdentity, bundle: Iterable[bytes]) -> Json:
    """The ValidatingWebhookConfiguration, with these authorities as caBundle."""
    hook = _hook(
        "configuration", [_rule("", ["configmaps"], _CREATE_AND_UPDATE)], [context.is_called(CONFIG_MAP_NAMES)]
    )
    hook["clientConfig"] = client_config.client(VALIDATE, b"".join(bundle))
    hook["namespaceSelector"] = _in_namespaces("In", {identity.own_namespace})
    hook["failurePolicy"] = "Ignore"
    hook["timeoutSeconds"] = TIMEOUT_S
    return _configuration("ValidatingWebhookConfiguration", name_of(identity.own_namespace), [hook])


def bundle_of(configuration: Json) -> bytes:
    """The caBundle of a configuration, from the first webhook that has one."""
    clients = [hook.get("clientConfig") or {} for hook in configuration.get("webhooks") or []]
    return next((base64.b64decode(client["caBundle"]) for client in clients if client.get("caBundle")), b"")


def _own(name: str, rules: list[Json], condition: MatchCondition, identity: MusterIdentity) -> Json:
    """A webhook for objects of Muster. It fails closed."""
    hook = _hook(name, rules, [*context.exclude_internal_requests(identity), condition])
    return {**hook, "failurePolicy": "Fail", "timeoutSeconds": TIMEOUT_S}


def _others(name: str, rules: list[Json], kind: AdmittedKind, identity: MusterIdentity) -> Json:
    """A webhook for objects that do not name Muster. It fails open and has a short timeout."""
    hook = _hook(
        name, rules, [*context.exclude_internal_requests(identity), context.does_not_concern_muster(kind, identity)]
    )
    return {**hook, "failurePolicy": "Ignore", "timeoutSeconds": OTHERS_TIMEOUT_S}


def _hook(name: str, rules: list[Json], condition: Iterable[MatchCondition]) -> Json:
    return {
        "name": f"{name}.{DOMAIN}",
        "rules": rules,
        "matchConditions": [{"name": key, "expression": expression} for key, expression in condition],
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

#: First Kubernetes version with match conditions.
OLDEST: Final = (1, 28)

#: Seconds until the next attempt.
AGAIN_S: Final = 1.0
_WHO_AM_I: Final = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
_DIGITS: Final = re.compile(r"\d+")


async def discover_api(session: KubeSession) -> str:
    """Returns the user name of the operator at the API server. Repeats the request until it is answered.

    Raises:
        StartupRefused: the API server is too old.
    """
    found = await _until_answered(lambda: _version(session))
    if found < OLDEST:
        raise StartupRefused(
            f"the webhook needs Kubernetes {OLDEST[0]}.{OLDEST[1]} and this is {found[0]}.{found[1]}: "
            "remove --webhook-service and --webhook-url"
        )
    return await _until_answered(lambda: _name(session))


async def _until_answered(ask: Callable[[], Awaitable[T]]) -> T:
    while True:
        try:
            return await ask()
        except (ApiRefused, Unreachable) as error:
            log.warning("cannot read version and user name from the API server, retrying", reason=str(error))
            await asyncio.sleep(AGAIN_S)


async def _version(session: KubeSession) -> tuple[int, int]:
    """The version of the API server. Some clouds report a minor version such as "28+"."""
    version = await session.get("/version")
    major, minor = (_DIGITS.match(text(version.get(key))) for key in ("major", "minor"))
    if major is None or minor is None:
        raise ApiRefused("GET /version", 200, "no version in it")
    return int(major[0]), int(minor[0])


async def _name(session: KubeSession) -> str:
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    reply = await session.send(Request("POST", _WHO_AM_I, orjson.dumps(body), needs_leadership=False))
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
    """What to register. `by_manifest`: the user applies the configurations, and only the caBundle is maintained."""

    client_config: WebhookClientConfig
    identity: MusterIdentity
    by_manifest: bool = False


@dataclass(frozen=True, slots=True)
class RegistrationView:
    """The present configurations by path; None = the configuration does not exist."""

    found: Mapping[str, Raw | None]

    @property
    def authorities(self) -> tuple[tuple[bytes, ...], ...]:
        """The authorities of each configuration."""
        return tuple(split(bundle_of(one or {})) for one in self.found.values())


class Registrar:
    """Reads and writes both configurations."""

    def __init__(self, session: KubeSession, registration: Registration) -> None:
        self._session, self._registration = session, registration
        client_config, identity = registration.client_config, registration.identity
        self._name = name_of(identity.own_namespace)
        #: By path: what was written last, and its webhooks as the API server stored them.
        self._written: dict[str, tuple[Json, object]] = {}
        self._makers: dict[str, Make] = {
            MUTATING: lambda bundle: mutating(client_config, identity, bundle),
            VALIDATING: lambda bundle: validating(client_config, identity, bundle),
        }

    async def read(self) -> RegistrationView:
        """Reads the present configurations.

        Raises:
            ApiRefused, Unreachable: a configuration cannot be read.
        """
        return RegistrationView({path: await self._read(path) for path in self._makers})

    async def keep(self, read: RegistrationView, bundle: tuple[bytes, ...]) -> None:
        """Creates or corrects the configurations, with these authorities. Writes only if there is a difference.

        Raises:
            NotLeading: there is a difference, and the leader has to correct it.
            ApiRefused, Unreachable: the API server answered with an error, or not at all.
        """
        for path, make in self._makers.items():
            found = read.found[path]
            wanted = self._wanted(path, make(bundle), found)
            if found is None or not _is_equal(found, self._as_stored(path, wanted)):
                await self._write(path, wanted, found)

    def _as_stored(self, path: str, wanted: Json) -> Json:
        """The wanted configuration with what the API server, or an admission webhook of others, adds to it.

        Otherwise each round would write it again.
        """
        written, webhooks = self._written.get(path, (None, None))
        return {**wanted, "webhooks": webhooks} if written == wanted else wanted

    def _wanted(self, path: str, identity: Json, found: Raw | None) -> Json:
        """The wanted configuration: the generated one, or that of the user with the generated authorities.

        Raises:
            ApiRefused: the configuration of the user does not exist.
        """
        if self._registration.by_manifest:
            if found is None:
                raise ApiRefused(
                    f"GET {path}/{self._name}", 404, "apply deploy/webhooks.yaml, or remove --webhook-manifest"
                )
            return {**identity, "webhooks": _with_authorities(found, identity)}
        return (
            identity
            if found is None
            else {**identity, "webhooks": _with_authorities(identity, found, only_missing=True)}
        )

    async def _read(self, path: str) -> Raw | None:
        try:
            return await self._session.get(f"{path}/{self._name}")
        except ApiRefused as error:
            if error.status == 404:
                return None
            raise

    async def _write(self, path: str, wanted: Json, found: Raw | None) -> None:
        """Creates or replaces a configuration. After a conflict the next round tries again."""
        body, method = wanted, "POST"
        if found is not None:
            version = mapping(found.get("metadata")).get("resourceVersion")
            before = mapping(found.get("metadata"))
            labels = {**mapping(before.get("labels")), **mapping(wanted["metadata"].get("labels"))}
            metadata = {**before, **wanted["metadata"], "labels": labels, "resourceVersion": version}
            body, method, path = {**wanted, "metadata": metadata}, "PUT", f"{path}/{self._name}"
        reply = await self._session.send(Request(method, path, orjson.dumps(body)))
        if reply.ok:
            self._written[path.removesuffix(f"/{self._name}")] = wanted, reply.json().get("webhooks")
            log.info("webhooks registered", kind=wanted["kind"], name=self._name, first=found is None)
        elif reply.status not in {404, 409}:
            raise ApiRefused(f"{method} {path}", reply.status, reply.message())


def _with_authorities(hooks_of: Raw, source: Raw, *, only_missing: bool = False) -> list[Json]:
    """The webhooks of one configuration with the authorities of another one, matched by name.

    `only_missing`: keeps existing authorities, which another tool such as cert-manager may have written.
    """
    found = {hook["name"]: hook["clientConfig"].get("caBundle") for hook in source.get("webhooks") or []}
    hooks: list[Json] = []
    for hook in hooks_of.get("webhooks") or []:
        client, bundle = hook["clientConfig"], found.get(hook["name"])
        keeps = not bundle or (only_missing and client.get("caBundle"))
        hooks.append(hook if keeps else {**hook, "clientConfig": {**client, "caBundle": bundle}})
    return hooks


def _is_equal(found: Raw, wanted: Raw) -> bool:
    """Whether webhooks and labels are as wanted. Other labels and annotations are ignored."""
    labels = mapping(mapping(found.get("metadata")).get("labels"))
    condition = mapping(mapping(wanted.get("metadata")).get("labels"))
    return found.get("webhooks") == wanted.get("webhooks") and all(
        text(labels.get(key)) == value for key, value in condition.items()
    )
