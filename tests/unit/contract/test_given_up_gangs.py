"""Controller and engine when a gang is given up because its placeholders cannot be created."""

import random  # noqa: TID251 - only with seeds

import pytest

from muster_core.model.states import ApplicationState
from tests.unit.contract.agent_and_core import Both
from tests.unit.operator.controller.objects import a_group, a_pod, gang_annotations

APP = "dev/train"


def given_up(style: str, *, nodes: int = 2, refused: int = 2, members: int = 3) -> Both:
    """A gang of which this many placeholders cannot be created."""
    both = Both()
    both.kubernetes.add_nodes(nodes)
    both.start()
    both.kubernetes.refuse_creates = refused
    annotations = gang_annotations(a_group("g", members), parameters=f"gangSchedulingStyle={style}", member_of="g")
    pods = [a_pod(f"w{number}", app=APP, annotations=annotations) for number in range(members)]
    for pod in pods:
        pod["metadata"]["creationTimestamp"] = both.created()
    both.kubernetes.add(*pods)
    both.run()
    return both


def history(both: Both) -> list[list[ApplicationState]]:
    """The states of the ended applications, oldest application first."""
    return [[state for _, state in app.state_log] for app in both.real.partition.history]


@pytest.mark.parametrize("refused", [1, 2, 3])
def test_a_hard_gang_that_gives_up_is_failed_in_the_core(refused: int) -> None:
    both = given_up("Hard", refused=refused)
    assert both.kubernetes.placeholders() == []
    assert {pod["status"]["phase"] for pod in both.kubernetes.pods.values()} == {"Failed"}
    assert both.real.applications_there == {}
    [states] = history(both)
    assert states[-2:] == [ApplicationState.FAILING, ApplicationState.FAILED]
    assert both.ledger.applications == {}
    both.compare()
    assert both.differences == []


def test_a_soft_gang_that_gives_up_releases_its_reservation_and_runs() -> None:
    both = given_up("Soft")
    assert all(pod["spec"].get("nodeName") for pod in both.kubernetes.pods.values())
    assert ApplicationState.FAILED not in {state for states in history(both) for state in states}


def test_the_id_of_a_failed_gang_can_be_reused() -> None:
    both = given_up("Hard")
    for uid in list(both.kubernetes.pods):
        both.kubernetes.delete(uid)
    annotations = gang_annotations(a_group("g", 1), member_of="g")
    pod = a_pod("again", app=APP, annotations=annotations)
    pod["metadata"]["creationTimestamp"] = both.created()
    both.kubernetes.add(pod)
    both.run()
    assert both.kubernetes.node_of("again")
    assert [states[-1] for states in history(both)] == [ApplicationState.FAILED]


@pytest.mark.parametrize("seed", [7, 10, 21, 23, 28])
def test_a_user_bound_member_counts_on_its_node_after_its_gang_gave_up(seed: int) -> None:
    """The bound pod arrives at any time, also between the failure of the gang and its removal from the core."""
    chance = random.Random(seed)
    both = Both()
    both.kubernetes.add_nodes(2)
    both.start()
    both.kubernetes.refuse_creates = chance.choice([1, 2, 3])
    annotations = gang_annotations(a_group("g", 3), parameters="gangSchedulingStyle=Hard", member_of="g")
    pods = [a_pod(f"w{number}", app=APP, annotations=annotations) for number in range(3)]
    late = a_pod("late", app=APP)
    late["spec"]["nodeName"] = next(iter(both.kubernetes.nodes))
    for pod in (*pods, late):
        pod["metadata"]["creationTimestamp"] = both.created()
    both.kubernetes.add(*pods)
    for _ in range(chance.randrange(40)):
        both.step(chance.randrange)
    both.kubernetes.add(late)
    both.run(chance.randrange)
    both.compare()
    assert both.differences == []
    partition = both.real.partition
    counted = [pod.key for pod in partition.foreign.values()]  # or as a pod of the next run, if the gang has gone
    counted += [pod.spec.key for app in partition.applications.values() for pod in app.allocations.values()]
    assert counted == ["uid-late"]
