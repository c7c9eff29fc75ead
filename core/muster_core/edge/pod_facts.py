"""What filters and scores read of a pod beside its resources, out of an ask's or an allocation's tags.

Each distinct text is read once (semantics 21). Shapes as in muster_si.keys.
Called by si_decode.py; raises Unfit with the tag's name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, TypeVar

from muster_core.edge import facts
from muster_core.edge.reading import (
    Object,
    an_object,
    each,
    flag,
    number,
    one_of,
    only,
    pairs,
    parsed,
    remembered,
    text_of,
    texts,
)
from muster_core.edge.refusals import Unfit
from muster_core.model import limits
from muster_core.model.company import ANY_COMPANY, Company, PodTerm, Selector, Spread, WeighedTerm
from muster_core.model.constraints import Term
from muster_core.model.facts import (
    NO_FACTS,
    NO_PREFERENCES,
    NO_VOLUMES,
    Disk,
    HostPort,
    PodFacts,
    Preferences,
    Volumes,
)
from muster_core.model.placement import Target, TargetOperator
from muster_core.model.storage import Handle
from muster_si import keys

_SELECTOR_OPERATORS: Final = {
    "In": TargetOperator.IN,
    "NotIn": TargetOperator.NOT_IN,
    "Exists": TargetOperator.EXIST,
    "DoesNotExist": TargetOperator.NOT_EXIST,
}
_TERM_FIELDS: Final = ("topologyKey", "labelSelector", "namespaces", "namespaceSelector")
_SPREAD_FIELDS: Final = frozenset(
    {
        "maxSkew",
        "topologyKey",
        "whenUnsatisfiable",
        "labelSelector",
        "minDomains",
        "nodeAffinityPolicy",
        "nodeTaintsPolicy",
    }
)
_UNSATISFIABLE: Final = frozenset({"DoNotSchedule", "ScheduleAnyway"})
_POLICIES: Final = frozenset({"Honor", "Ignore"})
_DISKS: Final = frozenset({"gce", "aws", "iscsi", "rbd"})
_PORTS: Final = 65_535
_WEIGHT: Final = 100

Value = TypeVar("Value")


def read(tags: Mapping[str, str]) -> PodFacts:
    """All of it, one value for all pods with the same; NO_FACTS where the tags have none."""
    if _TAGS.isdisjoint(tags):
        return NO_FACTS
    get = tags.get
    terms, used = get(keys.TAG_POD_CONSTRAINTS, ""), get(keys.TAG_VOLUMES, "")
    namespace = get(keys.TAG_NAMESPACE, "")
    pod = f"{namespace}/{get(keys.TAG_POD_NAME, '')}" if '"ephemeral"' in used else ""
    others = get(keys.CONTAINER_PORTS, ""), get(keys.TAG_PREFERENCES, "")
    return _facts(terms, namespace if terms else "", used, pod, others)


@remembered
def _facts(terms: str, namespace: str, used: str, pod: str, others: tuple[str, str]) -> PodFacts:
    return PodFacts(
        company=_read(keys.TAG_POD_CONSTRAINTS, terms, lambda text: company(text, namespace)) or ANY_COMPANY,
        ports=_read(keys.CONTAINER_PORTS, others[0], ports) or (),
        volumes=_read(keys.TAG_VOLUMES, used, lambda text: volumes(text, pod)) or NO_VOLUMES,
        preferences=_read(keys.TAG_PREFERENCES, others[1], preferences) or NO_PREFERENCES,
    )


_TAGS: Final = frozenset({keys.TAG_POD_CONSTRAINTS, keys.CONTAINER_PORTS, keys.TAG_VOLUMES, keys.TAG_PREFERENCES})


def _read(tag: str, text: str, reader: Callable[[str], Value]) -> Value | None:
    try:
        return reader(text) if text else None
    except Unfit as unfit:
        raise unfit.inside(tag) from unfit


@remembered
def company(text: str, namespace: str) -> Company:
    """The value of `muster/pod-constraints`, of a pod in this namespace."""
    return company_of(an_object(parsed(text), "the value"), namespace)


def company_of(found: Object, namespace: str) -> Company:
    """The same, of a part of another value."""
    only(found, frozenset({"affinity", "antiAffinity", "preferred", "spread"}))
    company = Company(
        near=each(found.get("affinity") or [], "affinity", _term),
        apart=each(found.get("antiAffinity") or [], "antiAffinity", _term),
        preferred=each(found.get("preferred") or [], "preferred", _weighed),
        spread=each(found.get("spread") or [], "spread", lambda one: _spread(one, namespace)),
    )
    _bounded(company)
    return company


def _bounded(company: Company) -> None:
    """Check how many labels the selectors read. Raises Unfit."""
    terms = (*company.near, *company.apart, *(weighed.term for weighed in company.preferred))
    sizes = [(len(term.selector or ()), len(term.namespaces) if term.among is None else 1) for term in terms]
    sizes += [(len(spread.selector or ()), 1) for spread in company.spread]
    selectors = "the label selectors"
    number, most = sum(size for size, _ in sizes), limits.SELECTOR_EXPRESSIONS_PER_POD
    if number > most:
        raise Unfit(selectors, f"have {number} expressions, the limit is {most}: use fewer expressions")
    number, most = sum(size * scopes for size, scopes in sizes), limits.SELECTOR_READS_PER_POD
    if number > most:
        raise Unfit(
            selectors,
            f"have {number} expressions if each counts once per named namespace, the limit is {most}:"
            " name fewer namespaces, or select them by a label",
        )


@remembered
def ports(text: str) -> tuple[HostPort, ...]:
    """The value of `si/container-ports`."""
    found = parsed(text)
    if not isinstance(found, list):
        raise Unfit("the value", "is not a list")
    return tuple(_port(one) for one in found)


@remembered
def volumes(text: str, pod: str = "") -> Volumes:
    """The value of `muster/volumes`. `pod`: "namespace/name", which is of interest where it has volumes of its own."""
    found = an_object(parsed(text), "the value")
    only(found, frozenset({"claims", "ephemeral", "disks", "attached"}))
    attached = an_object(found.get("attached") or {}, "attached")
    ephemeral = pairs(found.get("ephemeral"), "ephemeral")
    return Volumes(
        claims=texts(found, "claims"),
        ephemeral=ephemeral,
        disks=each(found.get("disks") or [], "disks", _disk),
        attached=tuple(Handle(driver, handle) for driver in sorted(attached) for handle in texts(attached, driver)),
        pod=pod if ephemeral else "",
    )


@remembered
def preferences(text: str) -> Preferences:
    """The value of `muster/preferences`."""
    return preferences_of(an_object(parsed(text), "the value"))


def preferences_of(found: Object) -> Preferences:
    """The same, of a part of another value."""
    only(found, frozenset({"nodeAffinity", "images", "volumeImages"}))
    return Preferences(
        terms=each(found.get("nodeAffinity") or [], "nodeAffinity", _preferred),
        images=texts(found, "images"),
        volume_images=texts(found, "volumeImages"),
    )


def _term(found: Object) -> PodTerm:
    only(found, frozenset(_TERM_FIELDS))
    return PodTerm(
        topology=_topology(found),
        selector=selector(found, "labelSelector", keys.TAG_POD_LABEL_PREFIX),
        namespaces=tuple(sorted(texts(found, "namespaces"))),
        among=selector(found, "namespaceSelector", ""),
    )


def _topology(found: Object) -> str:
    if not text_of(found, "topologyKey"):
        raise Unfit("topologyKey", "is missing")
    return text_of(found, "topologyKey")


def _weighed(found: Object) -> WeighedTerm:
    only(found, frozenset({"weight", *_TERM_FIELDS}))
    weight = number(found, "weight", least=-_WEIGHT, most=_WEIGHT)
    return WeighedTerm(weight, _term({field: found[field] for field in _TERM_FIELDS if field in found}))


def _spread(found: Object, namespace: str) -> Spread:
    only(found, _SPREAD_FIELDS)
    policies = {
        field: one_of(found, field, _POLICIES) if found.get(field) else default
        for field, default in (("nodeAffinityPolicy", "Honor"), ("nodeTaintsPolicy", "Ignore"))
    }
    return Spread(
        topology=_topology(found),
        max_skew=number(found, "maxSkew", 1, least=1),
        selector=selector(found, "labelSelector", keys.TAG_POD_LABEL_PREFIX),
        namespace=namespace,
        required=one_of(found, "whenUnsatisfiable", _UNSATISFIABLE) == "DoNotSchedule",
        min_domains=number(found, "minDomains", 1, least=1),
        honors_affinity=policies["nodeAffinityPolicy"] == "Honor",
        honors_taints=policies["nodeTaintsPolicy"] == "Honor",
    )


def selector(found: Object, field: str, prefix: str) -> Selector:
    """A label selector as targets on what is called `prefix` + label; absent = None, which matches nothing."""
    if found.get(field) is None:
        return None
    selector = an_object(found[field], field)
    only(selector, frozenset({"matchLabels", "matchExpressions"}))
    labels = (
        Target(prefix + key, TargetOperator.IN, (value,))
        for key, value in pairs(selector.get("matchLabels"), "matchLabels")
    )
    return (
        *labels,
        *each(selector.get("matchExpressions") or [], "matchExpressions", lambda one: _expression(one, prefix)),
    )


def _expression(found: Object, prefix: str) -> Target:
    only(found, frozenset({"key", "operator", "values"}))
    if not text_of(found, "key"):
        raise Unfit("key", "is missing")
    operator = _SELECTOR_OPERATORS[one_of(found, "operator", frozenset(_SELECTOR_OPERATORS))]
    return Target(prefix + text_of(found, "key"), operator, texts(found, "values"))


def _port(found: object) -> HostPort:
    match found:
        case [str(ip), str(protocol), int(port)] if 0 < port <= _PORTS:
            return HostPort(ip, protocol, port)
        case _:
            raise Unfit("a port", "is not [host IP, protocol, port]")


def _disk(found: Object) -> Disk:
    only(found, frozenset({"kind", "id", "readOnly", "monitors"}))
    return Disk(one_of(found, "kind", _DISKS), text_of(found, "id"), flag(found, "readOnly"), texts(found, "monitors"))


def _preferred(found: Object) -> tuple[int, Term]:
    only(found, frozenset({"weight", "preference"}))
    return number(found, "weight", most=_WEIGHT), facts.term(an_object(found.get("preference") or {}, "preference"))
