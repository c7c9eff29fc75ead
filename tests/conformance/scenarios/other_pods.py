"""Scenarios about other pods: affinity and anti-affinity in both directions, and topology spread."""

from typing import Final

from tests.conformance.choices import Choices
from tests.conformance.objects import APPS, HOST, NAMESPACES, REGION, TRACKS, ZONE, ClusterState, Raw
from tests.conformance.scenarios.scenario import Scenario

_KEYS: Final = (ZONE, HOST, ZONE, HOST, ZONE, HOST, REGION, "rack")
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"


def selector(choices: Choices) -> Raw:
    """A label selector that often matches."""
    found: Raw = {}
    kind = choices.pick((*("all",) * 3, *("labels",) * 3, *("expression",) * 3, "both"))
    if kind in {"labels", "both"}:
        found["matchLabels"] = {"app": choices.pick((APPS[0], *APPS))}
    if kind in {"expression", "both"}:
        key = choices.pick(("app", "track"))
        operator = choices.pick(("In", "NotIn", "Exists", "DoesNotExist"))
        expression: Raw = {"key": key, "operator": operator}
        if operator in {"In", "NotIn"}:
            expression["values"] = choices.some(APPS if key == "app" else TRACKS, 2, at_least=1)
        found["matchExpressions"] = [expression]
    return found


def _term(choices: Choices, pod: Raw) -> Raw:
    term: Raw = {"topologyKey": choices.pick(_KEYS)}
    if choices.chance(95):
        term["labelSelector"] = selector(choices)
    if choices.chance(30):
        term["namespaces"] = choices.some(NAMESPACES, 2, at_least=1)
    if choices.chance(30):
        selectors: tuple[Raw, ...] = (
            {},
            {"matchLabels": {"team": "one"}},
            {"matchExpressions": [{"key": "team", "operator": "NotIn", "values": ["one"]}]},
            {"matchLabels": {"kubernetes.io/metadata.name": "blue"}},
        )
        term["namespaceSelector"] = choices.pick(selectors)
    if choices.chance(15):
        _merge(term, pod, "matchLabelKeys", "In")
    elif choices.chance(10):
        _merge(term, pod, "mismatchLabelKeys", "NotIn")
    return term


def _merge(term: Raw, pod: Raw, field: str, operator: str) -> None:
    """Merge a label key of the pod into the selector, as the API server does for a new pod.

    The API server rejects a selector that already has the key.
    """
    found: Raw | None = term.get("labelSelector")
    if found is None or any(expression["key"] == "track" for expression in found.get("matchExpressions", ())):
        return
    term[field] = ["track"]
    value = pod["metadata"]["labels"].get("track")
    if value is not None:
        expression: Raw = {"key": "track", "operator": operator, "values": [value]}
        found.setdefault("matchExpressions", []).append(expression)


class OtherPods(Scenario):
    """Inter-pod affinity."""

    def node(self, choices: Choices, node: Raw) -> None:
        if choices.chance(15):
            node["metadata"]["labels"]["rack"] = "r1"

    def running(self, choices: Choices, state: ClusterState, pod: Raw) -> None:
        if choices.chance(30):
            _affinity(pod, "podAntiAffinity")[_REQUIRED] = [_term(choices, pod)]
        if choices.chance(15):
            _affinity(pod, "podAffinity")[_REQUIRED] = [_term(choices, pod)]
        if choices.chance(15):
            _prefer(choices, pod)

    def pending(self, choices: Choices, state: ClusterState, pod: Raw) -> None:
        if choices.chance(35):
            terms = [_term(choices, pod) for _ in range(choices.pick((1, 1, 2)))]
            _affinity(pod, "podAffinity")[_REQUIRED] = terms
        if choices.chance(45):
            terms = [_term(choices, pod) for _ in range(choices.pick((1, 1, 2)))]
            _affinity(pod, "podAntiAffinity")[_REQUIRED] = terms
        if choices.chance(20):
            _prefer(choices, pod)


def _affinity(pod: Raw, kind: str) -> Raw:
    found: Raw = pod["spec"].setdefault("affinity", {}).setdefault(kind, {})
    return found


def _prefer(choices: Choices, pod: Raw) -> None:
    weighted = {"weight": choices.pick((1, 10, 100)), "podAffinityTerm": _term(choices, pod)}
    _affinity(pod, choices.pick(("podAffinity", "podAntiAffinity")))[_PREFERRED] = [weighted]


class Spreading(Scenario):
    """Topology spread constraints without defaults, except for merged label keys."""

    def pending(self, choices: Choices, state: ClusterState, pod: Raw) -> None:
        keys = dict.fromkeys(choices.pick(_KEYS) for _ in range(choices.pick((1, 1, 1, 2))))
        pod["spec"]["topologySpreadConstraints"] = [_spread(choices, pod, key) for key in keys]


def _spread(choices: Choices, pod: Raw, key: str) -> Raw:
    hard = choices.chance(88)
    found: Raw = {
        "maxSkew": choices.pick((1, 1, 1, 1, 2)),
        "topologyKey": key,
        "whenUnsatisfiable": "DoNotSchedule" if hard else "ScheduleAnyway",
    }
    if choices.chance(93):
        found["labelSelector"] = selector(choices)
    if hard and choices.chance(25):
        found["minDomains"] = choices.pick((1, 2, 3, 4))
    for field in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
        if choices.chance(30):
            found[field] = choices.pick(("Honor", "Ignore"))
    if choices.chance(15):
        _merge(found, pod, "matchLabelKeys", "In")
    return found
