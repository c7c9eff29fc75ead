"""Themes about other pods: affinity and anti-affinity in both directions, and spreading."""

from __future__ import annotations

from typing import Final

from tests.judge.dice import Dice
from tests.judge.scene import APPS, HOST, NAMESPACES, REGION, TRACKS, ZONE, Raw, Scene
from tests.judge.themes.theme import Theme

_KEYS: Final = (ZONE, HOST, ZONE, HOST, ZONE, HOST, REGION, "rack")
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"


def selector(dice: Dice) -> Raw:
    """A label selector that often matches."""
    found: Raw = {}
    kind = dice.pick((*("all",) * 3, *("labels",) * 3, *("expression",) * 3, "both"))
    if kind in {"labels", "both"}:
        found["matchLabels"] = {"app": dice.pick((APPS[0], *APPS))}
    if kind in {"expression", "both"}:
        key = dice.pick(("app", "track"))
        operator = dice.pick(("In", "NotIn", "Exists", "DoesNotExist"))
        expression: Raw = {"key": key, "operator": operator}
        if operator in {"In", "NotIn"}:
            expression["values"] = dice.some(APPS if key == "app" else TRACKS, 2, at_least=1)
        found["matchExpressions"] = [expression]
    return found


def _term(dice: Dice, pod: Raw) -> Raw:
    term: Raw = {"topologyKey": dice.pick(_KEYS)}
    if dice.chance(95):
        term["labelSelector"] = selector(dice)
    if dice.chance(30):
        term["namespaces"] = dice.some(NAMESPACES, 2, at_least=1)
    if dice.chance(30):
        selectors: tuple[Raw, ...] = (
            {},
            {"matchLabels": {"team": "one"}},
            {"matchExpressions": [{"key": "team", "operator": "NotIn", "values": ["one"]}]},
            {"matchLabels": {"kubernetes.io/metadata.name": "blue"}},
        )
        term["namespaceSelector"] = dice.pick(selectors)
    if dice.chance(15):
        _merge(term, pod, "matchLabelKeys", "In")
    elif dice.chance(10):
        _merge(term, pod, "mismatchLabelKeys", "NotIn")
    return term


def _merge(term: Raw, pod: Raw, field: str, operator: str) -> None:
    """A label key of the pod, merged into the selector as the API server does when a pod is made.

    It takes no selector that names the key already.
    """
    found: Raw | None = term.get("labelSelector")
    if found is None or any(expression["key"] == "track" for expression in found.get("matchExpressions", ())):
        return
    term[field] = ["track"]
    value = pod["metadata"]["labels"].get("track")
    if value is not None:
        expression: Raw = {"key": "track", "operator": operator, "values": [value]}
        found.setdefault("matchExpressions", []).append(expression)


class Company(Theme):
    """Inter-pod affinity."""

    def node(self, dice: Dice, node: Raw) -> None:
        if dice.chance(15):
            node["metadata"]["labels"]["rack"] = "r1"

    def running(self, dice: Dice, scene: Scene, pod: Raw) -> None:
        if dice.chance(30):
            _affinity(pod, "podAntiAffinity")[_REQUIRED] = [_term(dice, pod)]
        if dice.chance(15):
            _affinity(pod, "podAffinity")[_REQUIRED] = [_term(dice, pod)]
        if dice.chance(15):
            _prefer(dice, pod)

    def pending(self, dice: Dice, scene: Scene, pod: Raw) -> None:
        if dice.chance(35):
            terms = [_term(dice, pod) for _ in range(dice.pick((1, 1, 2)))]
            _affinity(pod, "podAffinity")[_REQUIRED] = terms
        if dice.chance(45):
            terms = [_term(dice, pod) for _ in range(dice.pick((1, 1, 2)))]
            _affinity(pod, "podAntiAffinity")[_REQUIRED] = terms
        if dice.chance(20):
            _prefer(dice, pod)


def _affinity(pod: Raw, kind: str) -> Raw:
    found: Raw = pod["spec"].setdefault("affinity", {}).setdefault(kind, {})
    return found


def _prefer(dice: Dice, pod: Raw) -> None:
    weighted = {"weight": dice.pick((1, 10, 100)), "podAffinityTerm": _term(dice, pod)}
    _affinity(pod, dice.pick(("podAffinity", "podAntiAffinity")))[_PREFERRED] = [weighted]


class Spreading(Theme):
    """Topology spread constraints, of which the API server has filled in nothing but merged label keys."""

    def pending(self, dice: Dice, scene: Scene, pod: Raw) -> None:
        keys = dict.fromkeys(dice.pick(_KEYS) for _ in range(dice.pick((1, 1, 1, 2))))
        pod["spec"]["topologySpreadConstraints"] = [_spread(dice, pod, key) for key in keys]


def _spread(dice: Dice, pod: Raw, key: str) -> Raw:
    hard = dice.chance(88)
    found: Raw = {
        "maxSkew": dice.pick((1, 1, 1, 1, 2)),
        "topologyKey": key,
        "whenUnsatisfiable": "DoNotSchedule" if hard else "ScheduleAnyway",
    }
    if dice.chance(93):
        found["labelSelector"] = selector(dice)
    if hard and dice.chance(25):
        found["minDomains"] = dice.pick((1, 2, 3, 4))
    for field in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
        if dice.chance(30):
            found[field] = dice.pick(("Honor", "Ignore"))
    if dice.chance(15):
        _merge(found, pod, "matchLabelKeys", "In")
    return found
