"""The theme of amounts: what nodes have and pods ask for, near the point where the one ends."""

from __future__ import annotations

from typing import Final

from tests.judge.dice import Dice
from tests.judge.scene import Raw, Scene
from tests.judge.themes.theme import Theme

GPU: Final = "example.com/gpu"
HUGE: Final = "hugepages-2Mi"
_OFFERS: Final = {
    "cpu": ("2", "1", "1500m"),
    "memory": ("2Gi", "1Gi", "1Mi", "1.5G", "2e9"),
    "pods": ("4", "2", "110", "110"),
    "ephemeral-storage": ("10Gi", "1Gi"),
    GPU: ("1", "2", "0"),
    HUGE: ("4Mi", "64Mi"),
}
_ASKS: Final = {
    "cpu": ("500m", "1", "1001m", "2", "0.3", "1e-1"),
    "memory": ("512Mi", "1Gi", "1073741825", "2Gi", "1G", "1073741824500m"),
    "ephemeral-storage": ("1Gi", "2Gi", "0"),
    GPU: ("1", "2", "0"),
    HUGE: ("2Mi", "64Mi"),
}


class Amounts(Theme):
    """Requests of every kind of container against every kind of resource."""

    def node(self, dice: Dice, node: Raw) -> None:
        offers = {name: dice.pick(_OFFERS[name]) for name in ("cpu", "memory", "pods", "ephemeral-storage")}
        for name in (GPU, HUGE):
            if dice.chance(60):
                offers[name] = dice.pick(_OFFERS[name])
        node["status"]["allocatable"] = offers

    def running(self, dice: Dice, scene: Scene, pod: Raw) -> None:
        _ask(dice, pod["spec"]["containers"][0], 2)
        if dice.chance(20):
            _resize(dice, pod)

    def pending(self, dice: Dice, scene: Scene, pod: Raw) -> None:
        spec = pod["spec"]
        _ask(dice, spec["containers"][0], 3)
        if dice.chance(20):
            spec["containers"].append({"name": "second", "image": "example.com/main:1"})
            _ask(dice, spec["containers"][1], 2)
        if dice.chance(25):
            init: Raw = {"name": "init", "image": "example.com/init:1"}
            if dice.chance(50):
                init["restartPolicy"] = "Always"
            _ask(dice, init, 2)
            spec["initContainers"] = [init]
        if dice.chance(10):
            spec["overhead"] = {"cpu": "250m", "memory": "64Mi"}
        if dice.chance(8):  # for the pod as a whole, not less than for its containers together
            name = dice.pick(("cpu", "memory"))
            spec["resources"] = {"requests": {name: "8" if name == "cpu" else "8Gi"}}


def _resize(dice: Dice, pod: Raw) -> None:
    """A pod that has more or less than its spec says, and perhaps may never have what it says."""
    granted = {"cpu": dice.pick(("500m", "2")), "memory": dice.pick(("512Mi", "2Gi"))}
    status: Raw = {"name": "main", "resources": {"requests": granted}, "allocatedResources": granted}
    pod["status"]["containerStatuses"] = [status]
    if dice.chance(40):
        reason = dice.pick(("Deferred", "Infeasible"))
        pod["status"]["conditions"] = [{"type": "PodResizePending", "status": "True", "reason": reason}]


def _ask(dice: Dice, container: Raw, at_most: int) -> None:
    requests = {name: dice.pick(_ASKS[name]) for name in dice.some(tuple(_ASKS), at_most)}
    if HUGE in requests:  # it is not to be asked for alone
        requests.setdefault("cpu", "100m")
    if requests:
        # Extended resources and huge pages are asked for with limits of the same amount.
        limits = {name: amount for name, amount in requests.items() if name in {GPU, HUGE}}
        container["resources"] = {"requests": requests, **({"limits": limits} if limits else {})}
