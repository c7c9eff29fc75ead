"""Random clusters with pending pods, one scenario at a time (Hypothesis strategies)."""

from collections.abc import Mapping
from typing import Final

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from tests.conformance.choices import Choices
from tests.conformance.histories import add_history
from tests.conformance.objects import (
    APPS,
    NAMESPACES,
    OTHERS,
    OURS,
    TRACKS,
    ClusterState,
    Raw,
    a_namespace,
    a_node,
    a_pod,
)
from tests.conformance.scenarios.nodes import Cordons, Features, Images, Labels, Names, Ports, Taints, Topology
from tests.conformance.scenarios.other_pods import OtherPods, Spreading
from tests.conformance.scenarios.resources import Resources
from tests.conformance.scenarios.scenario import Scenario
from tests.conformance.scenarios.volumes import Binding, Claims, Disks, Limits, Provisioning, Single, Zones

SCENARIOS: Final[Mapping[str, Scenario]] = {
    "cordons": Cordons(),
    "taints": Taints(),
    "labels": Labels(),
    "names": Names(),
    "ports": Ports(),
    "amounts": Resources(),
    "disks": Disks(),
    "single": Single(),
    "limits": Limits(),
    "binding": Binding(),
    "claims": Claims(),
    "provisioning": Provisioning(),
    "zones": Zones(),
    "spreading": Spreading(),
    "other_pods": OtherPods(),
    "features": Features(),
    "images": Images(),
}
#: The share of each scenario in the pairs of a round.
SHARES: Final[Mapping[str, int]] = {
    "cordons": 1,
    "taints": 1,
    "labels": 2,
    "names": 6,
    "ports": 3,
    "amounts": 7,
    "disks": 3,
    "single": 5,
    "limits": 6,
    "binding": 4,
    "claims": 13,
    "provisioning": 4,
    "zones": 2,
    "spreading": 9,
    "other_pods": 6,
    "features": 3,
    "images": 1,
}
_ALWAYS: Final = Topology()
#: Scenarios that can be combined with all others. Two that write the same objects cannot.
_COMBINABLE: Final = ("taints", "labels", "amounts", "spreading", "other_pods", "ports", "cordons", "images", "zones")
#: Pending pods of a cluster. They are evaluated independently of each other.
PODS: Final = 5
#: Mostly one, so that pods share claims and affect each other.
_APPS: Final = (APPS[0], *APPS)
_NAMESPACES: Final = (*("red",) * 8, "blue", "blue", "green")


def states(main: str) -> SearchStrategy[ClusterState]:
    """Clusters with this main scenario."""
    return _states(main)


@st.composite
def _states(draw: DrawFn, main: str) -> ClusterState:
    choices = Choices(draw)
    combined = [SCENARIOS[name] for name in choices.some([name for name in _COMBINABLE if name != main], 2)]
    cast = [SCENARIOS[main]]
    state = ClusterState(namespaces=[a_namespace(name, _team(choices)) for name in NAMESPACES])
    for number in range(choices.between(1, 6)):
        node = a_node(number)
        for scenario in (_ALWAYS, *cast, *(scenario for scenario in combined if choices.chance(40))):
            scenario.node(choices, node)
        state.nodes.append(node)
    for scenario in (*cast, *combined):
        scenario.objects(choices, state)
    for number in range(12):
        if choices.chance(60):
            state.pods.append(_running(choices, state, number, cast, combined))
    for number in range(PODS):
        state.pending.append(_pending(choices, state, number, cast, combined))
    if choices.chance(50):
        add_history(choices, state)
    return state


def _team(choices: Choices) -> dict[str, str]:
    return {"team": choices.pick(("one", "two"))} if choices.chance(80) else {}


def _labels(choices: Choices) -> dict[str, str]:
    labels = {"app": choices.pick(_APPS)}
    if choices.chance(60):
        labels["track"] = choices.pick(TRACKS)
    return labels


def _running(choices: Choices, state: ClusterState, number: int, cast: list[Scenario], combined: list[Scenario]) -> Raw:
    node = choices.pick(state.nodes)["metadata"]["name"]
    scheduler = OURS if choices.chance(50) else OTHERS
    pod = a_pod(f"r{number}", choices.pick(_NAMESPACES), _labels(choices), node, scheduler)
    for scenario in cast + [scenario for scenario in combined if choices.chance(40)]:
        scenario.running(choices, state, pod)
    if choices.chance(5):
        pod["metadata"] |= {"deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": 30}
    return _as_stored(pod)


def _pending(choices: Choices, state: ClusterState, number: int, cast: list[Scenario], combined: list[Scenario]) -> Raw:
    pod = a_pod(f"p{number}", choices.pick(_NAMESPACES), _labels(choices))
    for scenario in cast + [scenario for scenario in combined if choices.chance(35)]:
        scenario.pending(choices, state, pod)
    return _as_stored(pod)


def _as_stored(pod: Raw) -> Raw:
    """The pod with the defaults of the API server: with hostNetwork every port is a host port."""
    spec = pod["spec"]
    if spec.get("hostNetwork"):
        for container in (*spec["containers"], *spec.get("initContainers", ())):
            for port in container.get("ports", ()):
                port.setdefault("hostPort", port["containerPort"])
    return pod
