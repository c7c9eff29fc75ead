"""What a pod costs the core from its request to its allocation. Function calls are counted, not time.

The bounds are a few percent above the present numbers. A change that exceeds one makes each pod more expensive.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from muster_core.model.constraints import InterPodConstraints, Target, TargetOperator, TopologySpreadConstraint
from muster_core.model.events import ApplicationAdded, AskAdded, NodeAdded
from muster_core.model.ids import AllocationKey, ApplicationId
from muster_core.model.specs import NO_PROPERTIES, PodProperties
from muster_core.scheduling.scheduler import cycle, step
from tests.unit.builders import a_configuration, a_node, a_queue, an_application, an_ask
from tests.unit.core.function_calls import CallCounter
from tests.unit.core.scheduling.scenario import Scenario, placed

PODS = 500

SELECTOR = (Target("si/pod-label/app", TargetOperator.IN, ("it",)),)
SPREAD = PodProperties(inter_pod=InterPodConstraints(spread=(TopologySpreadConstraint("zone", 5, SELECTOR, ""),)))


def calls_per_pod(applications: int, facts: PodProperties = NO_PROPERTIES) -> float:
    """Sends the requests of all applications, each in its own leaf, then runs cycles until all have a node."""
    leaves = [a_queue(f"q{number}") for number in range(applications)]
    scenario = Scenario(a_configuration(*leaves))
    for number in range(20):
        scenario.send(NodeAdded(a_node(f"n{number}", PODS * 100, labels={"zone": f"{number % 3}"})))
    names = [f"app{number}" for number in range(applications)]
    scenario.send(
        *(ApplicationAdded(an_application(name, queue=f"root.q{number}")) for number, name in enumerate(names))
    )
    like = replace(an_ask("like", vcore=100, tags={"si/pod-label/app": "it"}), facts=facts)
    asks = [
        AskAdded(replace(like, key=AllocationKey(f"{number}"), application=ApplicationId(names[number % applications])))
        for number in range(PODS)
    ]
    effects = []
    with CallCounter() as counter:
        for event in asks:
            effects += step(scenario.scheduler_state, event, scenario.now_ns)
        effects += cycle(scenario.scheduler_state, scenario.now_ns, lambda: True).effects
    assert len(placed(effects)) == PODS
    return counter.calls / PODS


@pytest.mark.parametrize(
    "applications, facts, most",
    [
        pytest.param(5, NO_PROPERTIES, 90, id="many pods of few applications"),
        pytest.param(PODS, NO_PROPERTIES, 700, id="one pod in each of many leaves"),
        pytest.param(5, SPREAD, 208, id="many pods with a spread constraint"),
    ],
)
def test_a_pod_takes_few_function_calls(applications: int, facts: PodProperties, most: int) -> None:
    assert calls_per_pod(applications, facts) <= most
