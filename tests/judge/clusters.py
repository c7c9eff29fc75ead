"""Random clusters and pods to be placed in them, one theme at a time (Hypothesis strategies)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from tests.judge.dice import Dice
from tests.judge.pasts import give_past
from tests.judge.scene import APPS, NAMESPACES, OTHERS, OURS, TRACKS, Raw, Scene, a_namespace, a_node, a_pod
from tests.judge.themes.amounts import Amounts
from tests.judge.themes.company import Company, Spreading
from tests.judge.themes.nodes import Cordons, Features, Images, Labels, Names, Places, Ports, Taints
from tests.judge.themes.theme import Theme
from tests.judge.themes.volumes import Binding, Claims, Disks, Limits, Provisioning, Single, Zones

THEMES: Final[Mapping[str, Theme]] = {
    "cordons": Cordons(),
    "taints": Taints(),
    "labels": Labels(),
    "names": Names(),
    "ports": Ports(),
    "amounts": Amounts(),
    "disks": Disks(),
    "single": Single(),
    "limits": Limits(),
    "binding": Binding(),
    "claims": Claims(),
    "provisioning": Provisioning(),
    "zones": Zones(),
    "spreading": Spreading(),
    "company": Company(),
    "features": Features(),
    "images": Images(),
}
#: Of how many pairs each theme gets its part.
SHARES: Final[Mapping[str, int]] = {
    "cordons": 1,
    "taints": 1,
    "labels": 2,
    "names": 6,
    "ports": 3,
    "amounts": 7,
    "disks": 3,
    "single": 5,
    "limits": 3,
    "binding": 4,
    "claims": 13,
    "provisioning": 4,
    "zones": 2,
    "spreading": 9,
    "company": 6,
    "features": 3,
    "images": 1,
}
_ALWAYS: Final = Places()
#: Themes that may go with every other; two that write the same objects do not.
_BESIDE: Final = ("taints", "labels", "amounts", "spreading", "company", "ports", "cordons", "images", "zones")
#: Pods that are to be placed in one cluster: asked together, they do not see each other.
PODS: Final = 5
#: Mostly one, so that pods meet claims and each other.
_APPS: Final = (APPS[0], *APPS)
_NAMESPACES: Final = (*("red",) * 8, "blue", "blue", "green")


def scenes(ruling: str) -> SearchStrategy[Scene]:
    """Clusters that this theme rules."""
    return _scenes(ruling)


@st.composite
def _scenes(draw: DrawFn, ruling: str) -> Scene:
    dice = Dice(draw)
    beside = [THEMES[name] for name in dice.some([name for name in _BESIDE if name != ruling], 2)]
    cast = [THEMES[ruling]]
    scene = Scene(namespaces=[a_namespace(name, _team(dice)) for name in NAMESPACES])
    for number in range(dice.between(1, 6)):
        node = a_node(number)
        for theme in (_ALWAYS, *cast, *(theme for theme in beside if dice.chance(40))):
            theme.node(dice, node)
        scene.nodes.append(node)
    for theme in (*cast, *beside):
        theme.objects(dice, scene)
    for number in range(12):
        if dice.chance(60):
            scene.pods.append(_running(dice, scene, number, cast, beside))
    for number in range(PODS):
        scene.pending.append(_pending(dice, scene, number, cast, beside))
    if dice.chance(50):
        give_past(dice, scene)
    return scene


def _team(dice: Dice) -> dict[str, str]:
    return {"team": dice.pick(("one", "two"))} if dice.chance(80) else {}


def _labels(dice: Dice) -> dict[str, str]:
    labels = {"app": dice.pick(_APPS)}
    if dice.chance(60):
        labels["track"] = dice.pick(TRACKS)
    return labels


def _running(dice: Dice, scene: Scene, number: int, cast: list[Theme], beside: list[Theme]) -> Raw:
    node = dice.pick(scene.nodes)["metadata"]["name"]
    scheduler = OURS if dice.chance(50) else OTHERS
    pod = a_pod(f"r{number}", dice.pick(_NAMESPACES), _labels(dice), node, scheduler)
    for theme in cast + [theme for theme in beside if dice.chance(40)]:
        theme.running(dice, scene, pod)
    if dice.chance(5):
        pod["metadata"] |= {"deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": 30}
    return _as_stored(pod)


def _pending(dice: Dice, scene: Scene, number: int, cast: list[Theme], beside: list[Theme]) -> Raw:
    pod = a_pod(f"p{number}", dice.pick(_NAMESPACES), _labels(dice))
    for theme in cast + [theme for theme in beside if dice.chance(35)]:
        theme.pending(dice, scene, pod)
    return _as_stored(pod)


def _as_stored(pod: Raw) -> Raw:
    """With what the API server fills in: on the host's network every port is a port of the host."""
    spec = pod["spec"]
    if spec.get("hostNetwork"):
        for container in (*spec["containers"], *spec.get("initContainers", ())):
            for port in container.get("ports", ()):
                port.setdefault("hostPort", port["containerPort"])
    return pod
