"""Input of admission decisions: the review, the object kinds, the namespaces, and the match conditions in CEL.

Differs: ReplicationController is checked too. Its controller is trusted like the others, so a forged user in its
template would pass if only the kinds that YuniKorn checks were checked.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from muster_operator.model import names
from muster_operator.model.settings import AccessRules, AdmissionSettings, NamespaceRules, Patterns
from muster_operator.translate.values import Raw, mapping, objects, strings, text


class Operation(StrEnum):
    """Operations that the webhook receives."""

    CREATE = "CREATE"
    UPDATE = "UPDATE"


@dataclass(frozen=True, slots=True)
class Submitter:
    """The user of the request, as authenticated by the API server. The only source of truth about a user."""

    name: str
    groups: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Review:
    """An admission request. `old` is None for a CREATE; `kind` is the object's kind, such as `Pod` or `CronJob`.

    `name` may be empty, because a pod that is created with `generateName` has no name yet.
    """

    operation: Operation
    kind: str
    namespace: str
    name: str
    submitter: Submitter
    object: Raw
    old: Raw | None = None


@dataclass(frozen=True, slots=True)
class AdmissionAnswer:
    """The answer to a request. `refusal` names the problem, the field and the fix; empty = allowed.

    `object` is the object to store, None = unchanged. `warnings` are displayed by kubectl.
    """

    refusal: str = ""
    object: Raw | None = None
    warnings: tuple[str, ...] = ()

    @property
    def is_allowed(self) -> bool:
        """Whether the request is allowed."""
        return not self.refusal


#: Limits of warnings, because the API server truncates long ones and drops many.
WARNING_LIMIT: Final = 250
MOST_WARNINGS: Final = 20


def shortened(warnings: Iterable[str]) -> tuple[str, ...]:
    """The different warnings within the limits."""
    short = [one if len(one) <= WARNING_LIMIT else one[: WARNING_LIMIT - 3] + "..." for one in warnings]
    return tuple(dict.fromkeys(short))[:MOST_WARNINGS]


#: Namespace of the control plane. Muster changes and rejects nothing there, so that a cluster can always start.
CONTROL_PLANE: Final = "kube-system"


@dataclass(frozen=True, slots=True)
class ClusterSnapshot:
    """The cluster as known at one moment. Unknown namespaces have no annotations, unknown classes no settings."""

    account: str = "system:serviceaccount:muster:muster-operator"
    """User name of the operator's service account, the only one that creates placeholders."""

    own_namespace: str = "muster"
    """Namespace of Muster, whose pods must start without the webhook."""

    scheduler_names: frozenset[str] = frozenset({"muster", "yunikorn"})
    """Served scheduler names (docs/internals/semantics.md, 30)."""

    namespaces: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Annotations by namespace."""

    may_be_preempted: Mapping[str, bool] = field(default_factory=dict)
    """Annotation allow-preemption by name of a PriorityClass."""

    def is_protected(self, namespace: str) -> bool:
        """Whether Muster changes and rejects nothing in this namespace. The registration must exclude it too."""
        return namespace in {self.own_namespace, CONTROL_PLANE}


@dataclass(frozen=True, slots=True)
class AdmittedKind:
    """An object kind of the webhook. `template`: path to the pod template, `()` = the object is a pod."""

    group: str
    resource: str
    template: tuple[str, ...]

    @property
    def is_pod(self) -> bool:
        """Whether the object is a pod and not a workload with a template."""
        return not self.template

    @property
    def api_version(self) -> str:
        """The `apiVersion` of objects of this kind."""
        return f"{self.group}/v1" if self.group else "v1"

    @property
    def place(self) -> str:
        """Path of the template for messages; empty for a pod."""
        return "".join(f"{step}." for step in self.template)

    def description(self, thing: Raw) -> Raw:
        """The pod, or the template of the workload. Callers must not write to it."""
        for step in self.template:
            thing = mapping(thing.get(step))
        return thing

    def replaced(self, thing: Raw, description: Raw) -> Raw:
        """A copy of the object with another pod or template."""
        return _replaced(thing, self.template, description)


def _replaced(thing: Raw, way: tuple[str, ...], value: Raw) -> Raw:
    return {**thing, way[0]: _replaced(mapping(thing.get(way[0])), way[1:], value)} if way else value


_TEMPLATE: Final = ("spec", "template")

#: By kind; version v1 of each group, CREATE and UPDATE, without subresources. `Differs:` YuniKorn does not check
#: ControllerRevisions, from which a StatefulSet creates pods during a partitioned update, and PodTemplates.
KINDS: Final = {
    "Pod": AdmittedKind("", "pods", ()),
    "ReplicationController": AdmittedKind("", "replicationcontrollers", _TEMPLATE),
    "Deployment": AdmittedKind("apps", "deployments", _TEMPLATE),
    "ReplicaSet": AdmittedKind("apps", "replicasets", _TEMPLATE),
    "StatefulSet": AdmittedKind("apps", "statefulsets", _TEMPLATE),
    "DaemonSet": AdmittedKind("apps", "daemonsets", _TEMPLATE),
    "Job": AdmittedKind("batch", "jobs", _TEMPLATE),
    "CronJob": AdmittedKind("batch", "cronjobs", ("spec", "jobTemplate", *_TEMPLATE)),
    "ControllerRevision": AdmittedKind("apps", "controllerrevisions", ("data", *_TEMPLATE)),
    "PodTemplate": AdmittedKind("", "podtemplates", ("template",)),
}


def is_made_of_a_template(thing: Raw) -> bool:
    """Whether the object has a controller of one of these workload kinds, which is checked itself."""
    for owner in objects(mapping(thing.get("metadata")).get("ownerReferences")):
        kind = KINDS.get(str(owner.get("kind")))
        if kind and not kind.is_pod and owner.get("controller") is True and owner.get("apiVersion") == kind.api_version:
            return True
    return False


def is_served(namespace: str, annotations: Mapping[str, str], rules: NamespaceRules) -> bool:
    """Whether pods of the namespace get Muster as their scheduler even if they do not name it."""
    enabled = _first_set(annotations, names.ANNOTATION_NAMESPACE_ENABLE)
    return enabled if enabled is not None else _is_listed(namespace, rules.process, rules.bypass)


def is_labelled(namespace: str, annotations: Mapping[str, str], rules: NamespaceRules) -> bool:
    """Whether pods without an application ID get one."""
    enabled = _first_set(annotations, (names.ANNOTATION_NAMESPACE_GENERATE_APP_ID,))
    return enabled if enabled is not None else _is_listed(namespace, rules.label, rules.no_label)


def is_found(patterns: Patterns, name: str) -> bool:
    """Whether one of the patterns matches a part of the name."""
    return any(pattern.search(name) is not None for pattern in patterns)


def _first_set(annotations: Mapping[str, str], keys: tuple[str, ...]) -> bool | None:
    """The first of these annotations that is set; None if there is none. As in YuniKorn, only "true" means yes."""
    return next((annotations[key] == "true" for key in keys if annotations.get(key)), None)


def _is_listed(namespace: str, listed: Patterns, excepted: Patterns) -> bool:
    return (not listed or is_found(listed, namespace)) and not is_found(excepted, namespace)


def is_trusted(submitter: Submitter, rules: AccessRules) -> bool:
    """Whether the submitter may set another user on a pod."""
    if rules.bypass_auth or (rules.trust_controllers and is_found(rules.system_users, submitter.name)):
        return True
    if is_found(rules.external_users, submitter.name):
        return True
    return any(is_found(rules.external_groups, group) for group in submitter.groups)


_MIRROR: Final = "kubernetes.io/config.mirror"

#: Group of the kubelets, which only the API server assigns.
_NODES: Final = "system:nodes"


@dataclass(frozen=True, slots=True)
class AdmissionContext:
    """A review with what decisions need.

    `new`, `old`: the pod or the template of the request and as stored; `old` is empty for a CREATE.
    """

    review: Review
    kind: AdmittedKind
    new: Raw
    old: Raw
    served: bool
    """Whether pods of this namespace get Muster as their scheduler."""
    labelled: bool
    """Whether pods without an application ID get one."""
    is_for_muster: bool
    """Whether the pod has a scheduler name of Muster, or gets one because of its namespace."""

    @property
    def submitter(self) -> Submitter:
        """The user of the request."""
        return self.review.submitter

    @property
    def is_create(self) -> bool:
        """Whether the object is created."""
        return self.review.operation is Operation.CREATE

    @property
    def annotations(self) -> dict[str, str]:
        """Annotations of the pod or template in the request."""
        return annotations_of(self.new)

    @property
    def old_annotations(self) -> dict[str, str]:
        """Annotations of the stored pod or template."""
        return annotations_of(self.old)

    def where(self, annotation: str) -> str:
        """Path of an annotation, for messages."""
        return f"{self.kind.place}metadata.annotations[{annotation}]"


def annotations_of(description: Raw) -> dict[str, str]:
    """The annotations of a pod or a template."""
    return strings(mapping(description.get("metadata")).get("annotations"))


def new_context(review: Review, known: ClusterSnapshot, settings: AdmissionSettings) -> AdmissionContext | None:
    """Returns the context of a review, or None if the webhook does not decide about it.

    Ignored are other kinds, requests of the operator, and static pods of kubelets. The namespaces of the control plane
    and of Muster are ignored too, so that a cluster can start without Muster.
    """
    kind = KINDS.get(review.kind)
    if kind is None or known.is_protected(review.namespace) or review.submitter.name == known.account:
        return None
    new = kind.description(review.object)
    if kind.is_pod and _MIRROR in annotations_of(new) and _NODES in review.submitter.groups:
        return None
    written = known.namespaces.get(review.namespace, {})
    served = is_served(review.namespace, written, settings.namespaces)
    return AdmissionContext(
        review=review,
        kind=kind,
        new=new,
        old=kind.description(review.old or {}),
        served=served,
        labelled=is_labelled(review.namespace, written, settings.namespaces),
        is_for_muster=served or text(mapping(new.get("spec")).get("schedulerName")) in known.scheduler_names,
    )


MatchCondition = tuple[str, str]
"""Name and CEL expression of a match condition."""

_USER_INFO: Final = names.ANNOTATION_USER_INFO
_INTERNAL: Final = names.INTERNAL_PREFIX


def is_guarded(annotation: str) -> bool:
    """Whether users may not set the annotation, or not for other users. Changes of it are sent to the webhook."""
    return annotation == _USER_INFO or annotation.startswith(_INTERNAL)


@dataclass(frozen=True, slots=True)
class MusterIdentity:
    """Identifies Muster: its scheduler names, its user name at the API server, its namespace."""

    scheduler_names: frozenset[str]
    account: str
    own_namespace: str


def exclude_internal_requests(identity: MusterIdentity) -> list[MatchCondition]:
    """Excludes requests of kubelets and of the operator.

    Static pods must start without the webhook, and placeholders need no admission. Both conditions use only the
    authenticated user.
    """
    return [
        ("not-of-a-kubelet", "!has(request.userInfo.groups) || !('system:nodes' in request.userInfo.groups)"),
        ("not-of-muster", f"request.userInfo.username != {identity.account!r}"),
    ]


def concerns_muster(kind: AdmittedKind, identity: MusterIdentity) -> MatchCondition:
    """Matches new pods with our scheduler name, and new templates with our scheduler name or a guarded annotation.

    Also matches changes of guarded annotations, and a changed template with our scheduler name and without a user,
    because it gets a user then.
    """
    new, old = (_description(root, kind) for root in ("object", "oldObject"))
    if kind.is_pod:
        return ("names-us", f"{_names(new, identity)} && (request.operation == 'CREATE' || {_changes(new, old)})")
    gets_user = f"({_names(new, identity)} && {_has_no_user(new)} && {new} != {old})"
    changed = f"{_changes(new, old)} || {gets_user}"
    return ("claims-us", f"request.operation == 'CREATE' ? ({_claims(new, identity)}) : ({changed})")


def does_not_concern_muster(kind: AdmittedKind, identity: MusterIdentity) -> MatchCondition:
    """Matches the other new pods, and the other new or changed templates."""
    new, old = (_description(root, kind) for root in ("object", "oldObject"))
    if kind.is_pod:
        return ("does-not-name-us", f"!{_names(new, identity)}")
    return ("claims-nothing", f"!({_claims(new, identity)}) && (request.operation == 'CREATE' || {new} != {old})")


def writes_guarded() -> MatchCondition:
    """Matches a binding with a guarded annotation, which the API server would copy to the pod."""
    way = "object.metadata.annotations"
    written = f"{way}.exists(key, key == '{_USER_INFO}' || key.startsWith('{_INTERNAL}'))"
    return ("writes-guarded", f"{_has(way)} && {written}")


def is_called(names: frozenset[str]) -> MatchCondition:
    """Matches objects with one of these names."""
    return ("is-configuration", f"object.metadata.name in {_listed(names)}")


def _claims(new: str, identity: MusterIdentity) -> str:
    has_internal = f"{_annotations(new)}.exists(key, key.startsWith('{_INTERNAL}'))"
    return " || ".join([_names(new, identity), f"{_annotation(new, _USER_INFO)} != ''", has_internal])


def _has_no_user(description: str) -> str:
    return f"{_annotation(description, _USER_INFO)} == ''"


def _changes(new: str, old: str) -> str:
    """Expression: a guarded annotation is added, changed or removed."""
    has_other_user = f"{_annotation(new, _USER_INFO)} != {_annotation(old, _USER_INFO)}"
    return " || ".join([has_other_user, _has_other_internal(new, old), _has_other_internal(old, new)])


def _has_other_internal(one: str, other: str) -> str:
    """Expression: `one` has an internal annotation that `other` does not have with this value."""
    here, there = _annotations(one), _annotations(other)
    is_same = f"key in {there} && {there}[key] == {here}[key]"
    return f"{here}.exists(key, key.startsWith('{_INTERNAL}') && !({is_same}))"


def _names(description: str, identity: MusterIdentity) -> str:
    """Expression: the pod or template has one of our scheduler names."""
    way = f"{description}.spec.schedulerName"
    return f"({_has(way)} && {way} in {_listed(identity.scheduler_names)})"


def _annotation(description: str, key: str) -> str:
    """Expression: the value of the annotation, or an empty string."""
    way = f"{description}.metadata.annotations"
    return f"({_has(way)} && '{key}' in {way} ? {way}['{key}'] : '')"


def _annotations(description: str) -> str:
    """Expression: the annotations, or an empty map."""
    way = f"{description}.metadata.annotations"
    return f"({_has(way)} ? {way} : {{}})"


def _has(way: str) -> str:
    """Expression: every step of the path exists."""
    steps = way.split(".")
    return " && ".join(f"has({'.'.join(steps[:end])})" for end in range(2, len(steps) + 1))


def _description(root: str, kind: AdmittedKind) -> str:
    return ".".join((root, *kind.template))


def _listed(names: frozenset[str]) -> str:
    return f"[{', '.join(repr(name) for name in sorted(names))}]"
