"""Reserve with the real controller and core: pods with constraints of their own start together or not at all."""

from collections.abc import Callable
from typing import Any

import pytest

from muster_operator.model.pods import Placement
from muster_operator.model.settings import Settings
from tests.unit.contract import gangs
from tests.unit.contract.agent_and_core import Both
from tests.unit.contract.test_restarts import both_of_them, the_operator
from tests.unit.operator.controller.objects import Raw, a_container, a_node

MEMBERS = 3
HOST = "kubernetes.io/hostname"
APART = {
    "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": HOST, "labelSelector": {"matchLabels": {"role": "w"}}}
        ]
    }
}
PORT = {**a_container(cpu="1", memory="1Gi"), "ports": [{"containerPort": 80, "hostPort": 80}]}
CASES: dict[str, dict[str, Any]] = {
    "anti-affinity": {"affinity": APART},
    "host port": {"containers": [PORT]},
    "larger": {"containers": [a_container(cpu="5", memory="1Gi")]},
    "selector": {"nodeSelector": {HOST: "*"}},
}


def a_member(both: Both, number: int, case: str) -> Raw:
    raw = gangs.a_member(both, f"w{number}", "", count=MEMBERS)
    raw["metadata"]["labels"]["role"] = "w"
    spec = {"nodeSelector": {HOST: f"n{number + 1}"}} if case == "selector" else CASES[case]
    raw["spec"].update(spec)
    return raw


def bound(both: Both) -> int:
    return sum(both.kubernetes.node_of(f"w{number}") is not None for number in range(MEMBERS))


def no_restart(both: Both) -> None:
    """Nothing ends."""


@pytest.mark.parametrize("restart", [no_restart, the_operator, both_of_them], ids=lambda restart: restart.__name__)
@pytest.mark.parametrize("case", CASES)
def test_members_start_together_or_not_at_all(case: str, restart: Callable[[Both], None]) -> None:
    """Two nodes have room for two of the three members. The task group alone would fit on one node."""
    both = Both()
    both.settings = Settings(gang_placement=Placement.RESERVE)
    for name in ("n1", "n2"):
        both.kubernetes.add_node(a_node(name, labels={HOST: name}))
    both.start()
    both.kubernetes.add(*(a_member(both, number, case) for number in range(MEMBERS)))
    both.wait(30)
    assert bound(both) == 0
    restart(both)
    both.wait(30)
    assert bound(both) == 0
    both.kubernetes.add_node(a_node("n3", labels={HOST: "n3"}))
    both.wait(30)
    assert bound(both) == MEMBERS
    assert both.kubernetes.placeholders() == []


def test_after_a_restart_placeholders_without_a_node_that_are_too_small_are_replaced() -> None:
    both = Both()
    both.settings = Settings(gang_placement=Placement.RESERVE, placeholders_follow=False)
    both.start()
    both.kubernetes.add(*(a_member(both, number, "larger") for number in range(MEMBERS)))
    both.wait(5)
    assert requested(both) == ["1"] * MEMBERS
    both.settings = Settings(gang_placement=Placement.RESERVE)
    the_operator(both)
    both.wait(30)
    assert requested(both) == ["5"] * MEMBERS


def requested(both: Both) -> list[str]:
    return [raw["spec"]["containers"][0]["resources"]["requests"]["cpu"] for raw in both.kubernetes.placeholders()]
