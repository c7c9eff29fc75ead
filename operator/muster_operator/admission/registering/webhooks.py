"""The two webhook configurations as values: what happens to which request while we are there, and while we are not.

    hook           asked about                                                        without us
    own-pods       a new pod that names one of our schedulers, and a change of a      refused
                   guarded annotation on one
    own-bindings   a binding that would write a guarded annotation on its pod         refused
    own-workloads  a template that names one of our schedulers or has a guarded       refused
    own-cronjobs   annotation, when that is new; one of ours without an owner, when
                   it changes
    pods           any other new pod                                                  goes on, to the scheduler it names
    workloads      any other template that is new or changes                          goes on as it is
    cronjobs
    configuration  our ConfigMaps                                                     goes on: it may be the repair

Nobody asks us about kube-system, kube-node-lease and our own namespace; `conditions` leaves out more. Everything that
the API server would fill in is written out, so that what stands there can be compared with what should.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from muster_operator.admission.kinds import KINDS, Kind
from muster_operator.admission.known import CONTROL_PLANE
from muster_operator.admission.registering import conditions
from muster_operator.admission.registering.conditions import Condition, Ours
from muster_operator.link.config.configmaps import NAMES

#: Of both configurations, where Muster runs in the namespace that deploy/rbac.yaml makes.
NAME: Final = "muster-admission"
HOME: Final = "muster"
#: Where our hooks live; their names need three parts.
DOMAIN: Final = "admission.muster"
#: Contract 7.
MUTATE: Final = "/mutate"
VALIDATE: Final = "/validate-conf"
#: The same for what is not ours yet: what we cannot answer goes on.
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
class Door:
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


def mutating(door: Door, ours: Ours, bundle: Iterable[bytes]) -> Json:
    """The MutatingWebhookConfiguration, whose API server trusts these authorities."""
    trusted = b"".join(bundle)

    def claims(kind: Kind) -> Condition:
        return conditions.claims_us(kind, ours)

    hooks = [
        _own(
            "own-pods", [_rule("", ["pods"], _CREATE_AND_UPDATE), _rule("", ["pods/*"], ["UPDATE"])], claims(_POD), ours
        ),
        _own("own-bindings", [_rule("", ["pods/binding", "bindings"], _CREATE)], conditions.writes_guarded(), ours),
        _others("pods", _rules([_POD], _CREATE), _POD, ours),
        _own("own-workloads", _rules(_WORKLOADS, _CREATE_AND_UPDATE), claims(_WORKLOADS[0]), ours),
        _others("workloads", _rules(_WORKLOADS, _CREATE_AND_UPDATE), _WORKLOADS[0], ours),
        _own("own-cronjobs", _rules([_CRONJOB], _CREATE_AND_UPDATE), claims(_CRONJOB), ours),
        _others("cronjobs", _rules([_CRONJOB], _CREATE_AND_UPDATE), _CRONJOB, ours),
    ]
    selector = _in_namespaces("NotIn", {CONTROL_PLANE, _NODE_LEASES, ours.home})
    for hook in hooks:
        is_own = hook["failurePolicy"] == "Fail"
        hook["clientConfig"] = door.client(MUTATE if is_own else MUTATE_OTHERS, trusted)
        hook["namespaceSelector"] = selector
        hook["reinvocationPolicy"] = "Never"
    return _configuration("MutatingWebhookConfiguration", name_of(ours.home), hooks)


def validating(door: Door, ours: Ours, bundle: Iterable[bytes]) -> Json:
    """The ValidatingWebhookConfiguration."""
    hook = _hook("configuration", [_rule("", ["configmaps"], _CREATE_AND_UPDATE)], [conditions.is_called(NAMES)])
    hook["clientConfig"] = door.client(VALIDATE, b"".join(bundle))
    hook["namespaceSelector"] = _in_namespaces("In", {ours.home})
    hook["failurePolicy"] = "Ignore"
    hook["timeoutSeconds"] = TIMEOUT_S
    return _configuration("ValidatingWebhookConfiguration", name_of(ours.home), [hook])


def bundle_of(configuration: Json) -> bytes:
    """The authorities that stand in a configuration; of several hooks the first that has any."""
    clients = [hook.get("clientConfig") or {} for hook in configuration.get("webhooks") or []]
    return next((base64.b64decode(client["caBundle"]) for client in clients if client.get("caBundle")), b"")


def _own(name: str, rules: list[Json], asked: Condition, ours: Ours) -> Json:
    """What is ours fails closed."""
    hook = _hook(name, rules, [*conditions.of_strangers(ours), asked])
    return {**hook, "failurePolicy": "Fail", "timeoutSeconds": TIMEOUT_S}


def _others(name: str, rules: list[Json], kind: Kind, ours: Ours) -> Json:
    """What is not ours yet is never held up for long, and never stopped."""
    hook = _hook(name, rules, [*conditions.of_strangers(ours), conditions.claims_nothing(kind, ours)])
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


def _rules(kinds: Iterable[Kind], operations: list[str]) -> list[Json]:
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
