"""A review with what follows from it: object kinds, namespaces, conditions of the webhook.

Differs: ReplicationController is looked at too. Its controller is trusted like the others, so a name that is forged in
its template would pass where only the kinds of contract 7 are checked.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from muster_operator.model import names
from muster_operator.model.settings import AccessRules, AdmissionSettings, NamespaceRules, Patterns
from muster_operator.translate.values import Raw, mapping, objects, strings, text


class Operation(StrEnum):
    """What is about to be done to the object; of others we are not asked."""

    CREATE = "CREATE"
    UPDATE = "UPDATE"


@dataclass(frozen=True, slots=True)
class Submitter:
    """Who sent the request, as the API server authenticated it. The only source of truth about a user."""

    name: str
    groups: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Review:
    """A question. `old` is None for a CREATE; `kind` is the object's kind, such as `Pod` or `CronJob`.

    `name` may be empty: a pod that is created with `generateName` has none yet.
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
    """Yes or no. `refusal` says what is wrong, where and what to do; empty = allowed.

    `object` is how the object should be stored, None = as it is. `warnings` are shown to the user by kubectl.
    """

    refusal: str = ""
    object: Raw | None = None
    warnings: tuple[str, ...] = ()

    @property
    def is_allowed(self) -> bool:
        """Whether the request continues."""
        return not self.refusal


#: Where the control plane lives: never served and never refused anything, or a cluster could not start itself.
CONTROL_PLANE: Final = "kube-system"


@dataclass(frozen=True, slots=True)
class ClusterSnapshot:
    """A view of the cluster at one moment; an unknown namespace has no annotations, an unknown class no wishes."""

    account: str = "system:serviceaccount:muster:muster-operator"
    """The user name of our own service account: it alone makes placeholders (semantics 18)."""

    home: str = "muster"
    """Our own namespace: what runs there must start without us."""

    scheduler_names: frozenset[str] = frozenset({"muster", "yunikorn"})
    """The names that are served now (semantics 30)."""

    namespaces: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Annotations by namespace (contract 1.6)."""

    may_be_preempted: Mapping[str, bool] = field(default_factory=dict)
    """By name of a PriorityClass: its annotation allow-preemption (contract 1.7)."""

    def is_protected(self, namespace: str) -> bool:
        """Whether nothing is set and nothing refused there. Registration must leave these out too."""
        return namespace in {self.home, CONTROL_PLANE}


@dataclass(frozen=True, slots=True)
class AdmittedKind:
    """A kind of the API. `template`: the way to the pod's description, `()` = the object is the pod itself."""

    group: str
    resource: str
    template: tuple[str, ...]

    @property
    def is_pod(self) -> bool:
        """Whether the object is a pod and not something that pods are made of."""
        return not self.template

    @property
    def api_version(self) -> str:
        """As `apiVersion` of an object says it."""
        return f"{self.group}/v1" if self.group else "v1"

    @property
    def place(self) -> str:
        """The description as users are informed of it; empty for a pod."""
        return "".join(f"{step}." for step in self.template)

    def description(self, thing: Raw) -> Raw:
        """The pod or the template in it. Not to be written to."""
        for step in self.template:
            thing = mapping(thing.get(step))
        return thing

    def replaced(self, thing: Raw, description: Raw) -> Raw:
        """The object with another description; the old object stays as it is."""
        return _replaced(thing, self.template, description)


def _replaced(thing: Raw, way: tuple[str, ...], value: Raw) -> Raw:
    return {**thing, way[0]: _replaced(mapping(thing.get(way[0])), way[1:], value)} if way else value


_TEMPLATE: Final = ("spec", "template")

#: By kind; version v1 of each group, CREATE and UPDATE, without subresources (contract 7).
KINDS: Final = {
    "Pod": AdmittedKind("", "pods", ()),
    "ReplicationController": AdmittedKind("", "replicationcontrollers", _TEMPLATE),
    "Deployment": AdmittedKind("apps", "deployments", _TEMPLATE),
    "ReplicaSet": AdmittedKind("apps", "replicasets", _TEMPLATE),
    "StatefulSet": AdmittedKind("apps", "statefulsets", _TEMPLATE),
    "DaemonSet": AdmittedKind("apps", "daemonsets", _TEMPLATE),
    "Job": AdmittedKind("batch", "jobs", _TEMPLATE),
    "CronJob": AdmittedKind("batch", "cronjobs", ("spec", "jobTemplate", *_TEMPLATE)),
}


def is_made_of_a_template(thing: Raw) -> bool:
    """Whether the object says that a controller made it of a workload that is looked at itself."""
    for owner in objects(mapping(thing.get("metadata")).get("ownerReferences")):
        kind = KINDS.get(str(owner.get("kind")))
        if kind and not kind.is_pod and owner.get("controller") is True and owner.get("apiVersion") == kind.api_version:
            return True
    return False


def is_served(namespace: str, annotations: Mapping[str, str], rules: NamespaceRules) -> bool:
    """Whether pods of the namespace become ours without naming us."""
    said = _said(annotations, names.ANNOTATION_NAMESPACE_ENABLE)
    return said if said is not None else _is_listed(namespace, rules.process, rules.bypass)


def is_labelled(namespace: str, annotations: Mapping[str, str], rules: NamespaceRules) -> bool:
    """Whether pods that name no application get one written on them."""
    said = _said(annotations, (names.ANNOTATION_NAMESPACE_GENERATE_APP_ID,))
    return said if said is not None else _is_listed(namespace, rules.label, rules.no_label)


def is_found(patterns: Patterns, name: str) -> bool:
    """Whether one of the expressions is found in the name."""
    return any(pattern.search(name) is not None for pattern in patterns)


def _said(annotations: Mapping[str, str], keys: tuple[str, ...]) -> bool | None:
    """None = nothing. Anything but "true" is a no (contract 1.6)."""
    return next((annotations[key] == "true" for key in keys if annotations.get(key)), None)


def _is_listed(namespace: str, listed: Patterns, excepted: Patterns) -> bool:
    return (not listed or is_found(listed, namespace)) and not is_found(excepted, namespace)


def is_trusted(submitter: Submitter, rules: AccessRules) -> bool:
    """Whether the submitter may say that a pod belongs to somebody else."""
    if rules.bypass_auth or (rules.trust_controllers and is_found(rules.system_users, submitter.name)):
        return True
    if is_found(rules.external_users, submitter.name):
        return True
    return any(is_found(rules.external_groups, group) for group in submitter.groups)


_MIRROR: Final = "kubernetes.io/config.mirror"

#: The group of kubelets; only the API server says who is in it.
_NODES: Final = "system:nodes"


@dataclass(frozen=True, slots=True)
class AdmissionContext:
    """`new`, `old`: the pod or the template as it would be and as it is stored; `old` is empty for a CREATE."""

    review: Review
    kind: AdmittedKind
    new: Raw
    old: Raw
    served: bool
    """Whether pods of this namespace are to be ours."""
    labelled: bool
    """Whether they get an application's id."""
    ours: bool
    """Whether the pod is ours or will be: it names us, or its namespace is served."""

    @property
    def submitter(self) -> Submitter:
        """Who asks."""
        return self.review.submitter

    @property
    def is_create(self) -> bool:
        """Whether the object is new."""
        return self.review.operation is Operation.CREATE

    @property
    def annotations(self) -> dict[str, str]:
        """Of the pod as it would be."""
        return annotations_of(self.new)

    @property
    def old_annotations(self) -> dict[str, str]:
        """Of the pod as it is stored."""
        return annotations_of(self.old)

    def where(self, annotation: str) -> str:
        """An annotation with the place it is in, for people."""
        return f"{self.kind.place}metadata.annotations[{annotation}]"


def annotations_of(description: Raw) -> dict[str, str]:
    """The annotations of a pod or a template."""
    return strings(mapping(description.get("metadata")).get("annotations"))


def new_context(review: Review, known: ClusterSnapshot, settings: AdmissionSettings) -> AdmissionContext | None:
    """The case; None = it is nothing to us.

    Left alone are other kinds, the control plane's namespace and our own (a cluster must be able to start without us),
    what our own account does, and what a kubelet writes of its static pods.
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
        ours=served or text(mapping(new.get("spec")).get("schedulerName")) in known.scheduler_names,
    )


Condition = tuple[str, str]
"""Its name and its expression."""

_USER_INFO: Final = names.ANNOTATION_USER_INFO
_INTERNAL: Final = names.INTERNAL_PREFIX


def is_guarded(annotation: str) -> bool:
    """Whether users may not write it, or not for others; a request that changes such an annotation is sent to us."""
    return annotation == _USER_INFO or annotation.startswith(_INTERNAL)


@dataclass(frozen=True, slots=True)
class Ours:
    """What tells our own from others': scheduler names that are served, our account, our namespace."""

    scheduler_names: frozenset[str]
    account: str
    home: str


def of_strangers(ours: Ours) -> list[Condition]:
    """Not of kubelets, whose static pods must start without us, and not of ourselves: a placeholder costs no question.

    Only the API server says who is who; nothing that a user can write counts here.
    """
    return [
        ("not-of-a-kubelet", "!has(request.userInfo.groups) || !('system:nodes' in request.userInfo.groups)"),
        ("not-of-muster", f"request.userInfo.username != {ours.account!r}"),
    ]


def claims_us(kind: AdmittedKind, ours: Ours) -> Condition:
    """A new pod that names us. A new template that names us or has a guarded annotation, and what changes it so.

    A template of nobody's that names us and changes gets its owner then, so that is asked about too.
    """
    new, old = (_description(root, kind) for root in ("object", "oldObject"))
    if kind.is_pod:
        return ("names-us", f"{_names(new, ours)} && (request.operation == 'CREATE' || {_changes(new, old)})")
    is_owned_anew = f"({_names(new, ours)} && {_is_nobodys(new)} && {new} != {old})"
    changed = f"{_changes(new, old)} || {is_owned_anew}"
    return ("claims-us", f"request.operation == 'CREATE' ? ({_claims(new, ours)}) : ({changed})")


def claims_nothing(kind: AdmittedKind, ours: Ours) -> Condition:
    """The rest of what is new or, if it is a template, changes."""
    new, old = (_description(root, kind) for root in ("object", "oldObject"))
    if kind.is_pod:
        return ("does-not-name-us", f"!{_names(new, ours)}")
    return ("claims-nothing", f"!({_claims(new, ours)}) && (request.operation == 'CREATE' || {new} != {old})")


def writes_guarded() -> Condition:
    """A binding with a guarded annotation, be it empty: the API server merges those of a binding into the pod's."""
    way = "object.metadata.annotations"
    written = f"{way}.exists(key, key == '{_USER_INFO}' || key.startsWith('{_INTERNAL}'))"
    return ("writes-guarded", f"{_has(way)} && {written}")


def is_called(names: frozenset[str]) -> Condition:
    """An object of one of these names."""
    return ("is-ours", f"object.metadata.name in {_listed(names)}")


def _claims(new: str, ours: Ours) -> str:
    has_internal = f"{_annotations(new)}.exists(key, key.startsWith('{_INTERNAL}'))"
    return " || ".join([_names(new, ours), f"{_annotation(new, _USER_INFO)} != ''", has_internal])


def _is_nobodys(description: str) -> str:
    return f"{_annotation(description, _USER_INFO)} == ''"


def _changes(new: str, old: str) -> str:
    """Whether a guarded annotation is added, changed or taken away."""
    has_other_user = f"{_annotation(new, _USER_INFO)} != {_annotation(old, _USER_INFO)}"
    return " || ".join([has_other_user, _has_other_internal(new, old), _has_other_internal(old, new)])


def _has_other_internal(one: str, other: str) -> str:
    """Whether `one` has an annotation of the internal prefix that `other` has not, or not with this value."""
    here, there = _annotations(one), _annotations(other)
    is_same = f"key in {there} && {there}[key] == {here}[key]"
    return f"{here}.exists(key, key.startsWith('{_INTERNAL}') && !({is_same}))"


def _differ(new: str, old: str) -> str:
    """Whether they are two."""
    return f"({_has(new)} && {_has(old)} && {new} != {old})"


def _names(description: str, ours: Ours) -> str:
    """Whether it names one of our schedulers."""
    way = f"{description}.spec.schedulerName"
    return f"({_has(way)} && {way} in {_listed(ours.scheduler_names)})"


def _annotation(description: str, key: str) -> str:
    """Its value, empty where there is none."""
    way = f"{description}.metadata.annotations"
    return f"({_has(way)} && '{key}' in {way} ? {way}['{key}'] : '')"


def _annotations(description: str) -> str:
    """Its annotations, empty where there are none."""
    way = f"{description}.metadata.annotations"
    return f"({_has(way)} ? {way} : {{}})"


def _has(way: str) -> str:
    """Whether every step of the way is there."""
    steps = way.split(".")
    return " && ".join(f"has({'.'.join(steps[:end])})" for end in range(2, len(steps) + 1))


def _description(root: str, kind: AdmittedKind) -> str:
    return ".".join((root, *kind.template))


def _listed(names: frozenset[str]) -> str:
    return f"[{', '.join(repr(name) for name in sorted(names))}]"
