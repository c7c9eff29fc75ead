"""Scheduling constraints of a pod or a task group as tags of its request: canonical JSON, see muster_si.keys."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from itertools import chain
from typing import Any, Final

from muster_operator.model.errors import BadInputError
from muster_operator.translate.values import (
    Raw,
    TranslationCache,
    canonical,
    integer,
    items,
    mapping,
    memoized,
    objects,
    strings,
    text,
)


def _restarts_all(spec: Raw) -> bool:
    """KEP-5532: a container restart policy rule restarts all containers of the pod."""
    return any(
        rule.get("action") == "RestartAllContainers"
        for field in ("containers", "initContainers")
        for container in objects(spec.get(field))
        if "restartPolicyRules" in container
        for rule in objects(container["restartPolicyRules"])
    )


def _has_host_network_and_user_namespace(spec: Raw) -> bool:
    """KEP-5607: the pod uses the host's network and its own user namespace."""
    return spec.get("hostNetwork") is True and spec.get("hostUsers") is False


_CONTAINERS: Final = ("containers", "initContainers", "ephemeralContainers")


def _has_bind_mount_options(spec: Raw) -> bool:
    """A volume mount of the pod has options."""
    containers = chain.from_iterable(objects(spec.get(field)) for field in _CONTAINERS)
    return any(mount.get("bindMountOptions") for one in containers for mount in objects(one.get("volumeMounts")))


_FEATURES: Final[Mapping[str, Callable[[Raw], bool]]] = {
    "RestartAllContainersOnContainerExits": _restarts_all,
    "UserNamespacesHostNetworkSupport": _has_host_network_and_user_namespace,
    "VolumeBindMountOptions": _has_bind_mount_options,
}


def required_features(spec: Raw) -> list[str]:
    """Names of the node features that the pod needs, sorted (NodeDeclaredFeatures). Empty for nearly every pod."""
    return [name for name, is_required in _FEATURES.items() if is_required(spec)]


_TOLERATION_FIELDS: Final = ("key", "operator", "value", "effect")
_TERM_FIELDS: Final = ("matchExpressions", "matchFields")


def _requirement(raw: Raw) -> Raw:
    return {
        "key": text(raw.get("key")),
        "operator": text(raw.get("operator")),
        "values": [text(value) for value in items(raw.get("values"))],
    }


def node_term(raw: Raw) -> Raw:
    """Translates a term of a required or preferred node affinity."""
    return {
        field: [_requirement(entry) for entry in objects(raw.get(field))] for field in _TERM_FIELDS if raw.get(field)
    }


def _required(spec: Raw) -> Raw | None:
    """The required node affinity as written, or None."""
    node_affinity = mapping(mapping(spec.get("affinity")).get("nodeAffinity"))
    required = node_affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    return required if isinstance(required, dict) else None


def _terms(required: Raw) -> list[Raw]:
    return [node_term(term) for term in objects(required.get("nodeSelectorTerms"))]


def _parts(spec: Raw) -> Raw:
    """The raw node constraints of the pod, without empty fields."""
    parts = {field: spec[field] for field in ("nodeSelector", "tolerations") if spec.get(field)}
    if "affinity" in spec and (required := _required(spec)) is not None:
        parts["required"] = required
    if features := required_features(spec):
        parts["features"] = features
    return parts


def _node_constraints_tag(parts: Raw) -> str:
    facts: dict[str, Any] = {}
    if selector := strings(parts.get("nodeSelector")):
        facts["nodeSelector"] = selector
    if "required" in parts:
        facts["nodeAffinity"] = _terms(parts["required"])
    tolerations = [
        {field: text(entry.get(field)) for field in _TOLERATION_FIELDS if entry.get(field)}
        for entry in objects(parts.get("tolerations"))
    ]
    if tolerations:
        facts["tolerations"] = tolerations
    if "features" in parts:
        facts["features"] = parts["features"]
    return canonical("constraints", facts) if facts else ""


_memoized_node_constraints_tag: Final = memoized("node constraints", _node_constraints_tag)


def constraints_tag(spec: Raw) -> str:
    """Value of the tag for node constraints; empty if the pod has none. ``spec`` is that of a pod or a task group.

    Raises:
        BadInputError: the constraints cannot be written as JSON or are too large.
    """
    parts = _parts(spec)
    return _memoized_node_constraints_tag(parts) if parts else ""


def required_node(metadata: Raw, spec: Raw, system_namespaces: Container[str]) -> str:
    """The only node that a DaemonSet pod of a system namespace can run on; empty for other pods.

    `Differs:` YuniKorn does so for every pod that names an owner of kind DaemonSet. The core preempts for this node,
    and users can write owner references and create DaemonSets in their namespaces.
    """
    owners = objects(metadata.get("ownerReferences"))
    if metadata.get("namespace") not in system_namespaces or not any(map(_is_daemon_set, owners)):
        return ""
    names: set[str] = set()
    for term in _terms(_required(spec) or {}):
        named = [set(one["values"]) for one in term.get("matchFields", []) if _is_name(one)]
        if not named:
            return ""  # this term does not name a node
        names |= set.intersection(*named)
    return names.pop() if len(names) == 1 else ""


def _is_daemon_set(owner: Raw) -> bool:
    named = owner.get("apiVersion"), owner.get("kind")
    return named == ("apps/v1", "DaemonSet") and owner.get("controller") is True


def _is_name(requirement: Raw) -> bool:
    return (requirement["key"], requirement["operator"]) == ("metadata.name", "In")


_MAX_WEIGHT: Final = 100


def _preferred(spec: Raw) -> list[Any]:
    node_affinity = mapping(mapping(spec.get("affinity")).get("nodeAffinity"))
    return objects(node_affinity.get("preferredDuringSchedulingIgnoredDuringExecution"))


def _with_tag(image: str) -> str:
    """The image name as nodes report it: a name without tag and digest gets the tag ``:latest``.

    Source: kube-scheduler, ImageLocality.
    """
    return image if image.rfind(":") > image.rfind("/") else f"{image}:latest"


def _images(spec: Raw) -> tuple[str, ...]:
    """Images of containers and init containers, as written."""
    return tuple(
        [
            name
            for field in ("containers", "initContainers")
            if field in spec
            for container in objects(spec[field])
            if isinstance(name := container.get("image"), str) and name
        ]
    )


_IMAGES_TAGS: Final[TranslationCache[str]] = TranslationCache()


def _images_tag(images: tuple[str, ...]) -> str:
    """The tag of a pod that has no preferences except its images, which is true of most pods. Order does not matter."""
    if not images:
        return ""
    written = "\0".join(images).encode("utf-8", "replace")
    return _IMAGES_TAGS.get(written, lambda _: _node_preferences_tag({"images": _sorted_names(images)}))


def _sorted_names(names: Iterable[str]) -> list[str]:
    return sorted(_with_tag(text(name)) for name in names)


def _volume_images(spec: Raw) -> list[str]:
    """Images of volumes of kind ``image`` (KEP-4639)."""
    names = [
        text(mapping(volume["image"]).get("reference")) for volume in objects(spec.get("volumes")) if "image" in volume
    ]
    return _sorted_names(name for name in names if name)


def _node_preferences_tag(parts: Raw) -> str:
    facts = dict(parts)
    if "nodeAffinity" in parts:
        facts["nodeAffinity"] = [
            {"weight": weight, "preference": node_term(mapping(entry.get("preference")))}
            for entry in parts["nodeAffinity"]
            if 0 < (weight := integer(entry.get("weight"))) <= _MAX_WEIGHT
        ]
    return canonical("preferences", {field: value for field, value in facts.items() if value})


_memoized_node_preferences_tag: Final = memoized("node preferences", _node_preferences_tag)


def preferences_tag(spec: Raw) -> str:
    """Value of the tag for images and preferred node affinity; empty if the pod has neither.

    Raises:
        BadInputError: the preferences cannot be written as JSON or are too large.
    """
    images = _images(spec)
    parts: Raw = {}
    if "affinity" in spec and (preferred := _preferred(spec)):
        parts["nodeAffinity"] = preferred
    if "volumes" in spec and (of_volumes := _volume_images(spec)):
        parts["volumeImages"] = of_volumes
    if not parts:
        return _images_tag(images)
    return _memoized_node_preferences_tag({**parts, "images": _sorted_names(images)})


_ANY_ADDRESS: Final = "0.0.0.0"  # noqa: S104 - Kubernetes' name of all addresses of a node
_MAX_PORT: Final = 65_535


def _ports(container: Raw) -> Iterator[tuple[str, str, int]]:
    for port in objects(container.get("ports")):
        number = integer(port.get("hostPort"))
        if 0 < number <= _MAX_PORT:
            yield text(port.get("hostIP")) or _ANY_ADDRESS, text(port.get("protocol")) or "TCP", number


def _host_ports(spec: Raw) -> Iterator[tuple[str, str, int]]:
    for container in objects(spec.get("initContainers")):
        if "ports" in container and container.get("restartPolicy") == "Always":
            yield from _ports(container)
    for container in objects(spec.get("containers")):
        if "ports" in container:
            yield from _ports(container)


def ports_tag(spec: Raw) -> str:
    """Value of the tag for host ports, sorted and without duplicates; empty if the pod has none.

    Raises:
        BadInputError: an address cannot be written as JSON.
    """
    ports = sorted(set(_host_ports(spec)))
    return canonical("ports", ports) if ports else ""


_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
_KINDS: Final = ("podAffinity", "podAntiAffinity")
_ACTIONS: Final = frozenset({"DoNotSchedule", "ScheduleAnyway"})
_POLICIES: Final = {"nodeAffinityPolicy": "Honor", "nodeTaintsPolicy": "Ignore"}
_OPERATORS: Final = {"matchLabelKeys": "In", "mismatchLabelKeys": "NotIn"}


def _selector(value: Any) -> Raw | None:
    """Translates a label selector. Returns None if there is none."""
    if not isinstance(value, dict):
        return None
    selector: Raw = {}
    if labels := strings(value.get("matchLabels")):
        selector["matchLabels"] = labels
    if expressions := [_expression(entry) for entry in objects(value.get("matchExpressions"))]:
        selector["matchExpressions"] = expressions
    return selector


def _expression(raw: Raw) -> Raw:
    expression: Raw = {"key": text(raw.get("key")), "operator": text(raw.get("operator"))}
    if values := [text(value) for value in items(raw.get("values"))]:
        expression["values"] = values
    return expression


def _keys(raw: Raw, field: str) -> list[str]:
    return [text(key) for key in items(raw.get(field)) if isinstance(key, str)]


def _merge(selector: Raw | None, additions: Iterable[Raw]) -> None:
    """Adds requirements to the selector. A missing selector stays missing, because it matches no pod."""
    if selector is not None and (added := list(additions)):
        selector["matchExpressions"] = [*selector.get("matchExpressions", []), *added]


def _label_requirements(raw: Raw, labels: Mapping[str, str], field: str) -> Iterator[Raw]:
    """One requirement per label key of ``field`` that the pod has."""
    for key in _keys(raw, field):
        if key in labels:
            yield {"key": key, "operator": _OPERATORS[field], "values": [labels[key]]}


def _term(where: str, raw: Raw, namespace: str, labels: Mapping[str, str]) -> Raw:
    """Translates a term of inter-pod (anti-)affinity.

    The API server merges ``matchLabelKeys`` into the selector when the pod is created, and later label changes have no
    effect. Keys that are already in the selector are therefore not added. Terms of a task group are never merged.
    """
    term: Raw = {"topologyKey": _topology_key(where, raw)}
    selector = _selector(raw.get("labelSelector"))
    existing = {(entry["key"], entry["operator"]) for entry in (selector or {}).get("matchExpressions", [])}
    label_requirements = [entry for field in _OPERATORS for entry in _label_requirements(raw, labels, field)]
    _merge(selector, [entry for entry in label_requirements if (entry["key"], entry["operator"]) not in existing])
    if selector is not None:
        term["labelSelector"] = selector
    namespace_selector = _selector(raw.get("namespaceSelector"))
    names = sorted({text(name) for name in items(raw.get("namespaces")) if isinstance(name, str)})
    if not names and namespace_selector is None:
        names = [namespace]
    if names:
        term["namespaces"] = names
    if namespace_selector is not None:
        term["namespaceSelector"] = namespace_selector
    return term


def _topology_key(where: str, raw: Raw) -> str:
    key = text(raw.get("topologyKey"))
    if not key:
        raise BadInputError(f"{where}.topologyKey", "is missing", "name a label of nodes")
    return key


def _spread(index: int, raw: Raw, labels: Mapping[str, str]) -> Raw:
    """Translates a spread constraint. Like kube-scheduler, merges ``matchLabelKeys`` with the pod's current labels."""
    found: Raw = {
        "maxSkew": max(integer(raw.get("maxSkew"), 1), 1),
        "topologyKey": _topology_key(f"topologySpreadConstraints[{index}]", raw),
        "whenUnsatisfiable": raw["whenUnsatisfiable"],
        "minDomains": max(integer(raw.get("minDomains"), 1), 1),
    }
    for field, default in _POLICIES.items():
        found[field] = raw[field] if raw.get(field) in ("Honor", "Ignore") else default
    selector = _selector(raw.get("labelSelector"))
    existing = (selector or {}).get("matchExpressions", [])
    _merge(selector, [entry for entry in _label_requirements(raw, labels, "matchLabelKeys") if entry not in existing])
    if selector is not None:
        found["labelSelector"] = selector
    return found


def _preferred_terms(kind: str, raw: Raw, namespace: str, labels: Mapping[str, str]) -> Iterator[Raw]:
    for index, entry in enumerate(objects(raw.get(_PREFERRED))):
        weight = integer(entry.get("weight"))
        if 0 < weight <= _MAX_WEIGHT:
            term = _term(f"{kind}.preferred[{index}]", mapping(entry.get("podAffinityTerm")), namespace, labels)
            yield {"weight": weight if kind == "podAffinity" else -weight, **term}


def _inter_pod_tag(parts: Raw) -> str:
    namespace, labels = parts["namespace"], parts.get("labels", {})
    facts: dict[str, list[Raw]] = {"preferred": []}
    for kind, field in zip(_KINDS, ("affinity", "antiAffinity"), strict=True):
        raw = mapping(parts.get(kind))
        facts[field] = [
            _term(f"{kind}[{index}]", term, namespace, labels) for index, term in enumerate(objects(raw.get(_REQUIRED)))
        ]
        facts["preferred"] += _preferred_terms(kind, raw, namespace, labels)
    facts["spread"] = [
        _spread(index, raw, labels)
        for index, raw in enumerate(objects(parts.get("spread")))
        if text(raw.get("whenUnsatisfiable")) in _ACTIONS
    ]
    present = {field: value for field, value in facts.items() if value}
    return canonical("affinity", present) if present else ""


_memoized_inter_pod_tag: Final = memoized("pod affinity and topology spread constraints", _inter_pod_tag)


def _uses_pod_labels(parts: Raw) -> bool:
    """Whether a term uses labels of the pod itself. If not, pods with other labels share the cached tag."""
    terms = [term for kind in _KINDS for term in objects(mapping(parts.get(kind)).get(_REQUIRED))]
    terms += [
        mapping(entry.get("podAffinityTerm"))
        for kind in _KINDS
        for entry in objects(mapping(parts.get(kind)).get(_PREFERRED))
    ]
    return any(field in term for term in (*terms, *objects(parts.get("spread"))) for field in _OPERATORS)


def pod_constraints_tag(spec: Raw, namespace: str, labels: Mapping[str, str]) -> str:
    """Value of the tag for inter-pod affinity and topology spread; empty if there is none.

    ``spec`` is that of a pod or a task group.

    Raises:
        BadInputError: a topology key is missing, or the terms cannot be written as JSON or are too large.
    """
    parts: Raw = {}
    if "affinity" in spec:
        affinity = mapping(spec["affinity"])
        parts = {kind: affinity[kind] for kind in _KINDS if affinity.get(kind)}
    if spec.get("topologySpreadConstraints"):
        parts["spread"] = spec["topologySpreadConstraints"]
    if not parts:
        return ""
    parts["namespace"] = namespace
    if _uses_pod_labels(parts):
        parts["labels"] = dict(labels)
    return _memoized_inter_pod_tag(parts)
