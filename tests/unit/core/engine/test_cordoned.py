"""A cordoned node takes nothing new but the pods that are made for it (seed 003, DRAIN_NODE; ADR 0014)."""

from __future__ import annotations

from dataclasses import replace

from muster_core.model.events import NodeAction
from muster_core.model.release import Termination
from muster_core.model.specs import AskSpec
from tests.unit.builders import a_queue, an_ask, made_for
from tests.unit.core.engine.contest import a_daemon, confirm, pods, run, submit, with_preemption
from tests.unit.core.engine.scene import Scene, placed, releases


def agent(node: str = "n0", vcore: int = 1000) -> AskSpec:
    return replace(a_daemon("agent", node, vcore=vcore), constraints=made_for(node))


def cordoned(vcore: int = 4000) -> Scene:
    """n0 is cordoned, n1 is open."""
    scene = Scene(with_preemption(a_queue("a"), a_queue("b")), nodes=2, vcore=vcore)
    scene.node("n0", NodeAction.DRAIN)
    return scene


def test_a_daemon_sets_pod_goes_to_its_cordoned_node_and_the_others_go_elsewhere() -> None:
    scene = cordoned()
    said = run(scene, "root.a", agent(), an_ask("r0"))
    assert placed(said) == {"agent": "n0", "r0": "n1"}


def test_one_that_does_not_tolerate_the_cordon_waits_for_its_end() -> None:
    scene = cordoned()
    assert placed(run(scene, "root.a", a_daemon("agent", "n0"))) == {}
    assert placed(scene.node("n0", NodeAction.OPEN)) == {"agent": "n0"}


def test_one_whose_node_is_not_there_yet_waits_for_it() -> None:
    scene = cordoned()
    assert placed(run(scene, "root.a", agent("n7"))) == {}
    assert placed(scene.add_node("n7", draining=True)) == {"agent": "n7"}


def test_a_daemon_sets_pod_takes_from_a_full_node_also_when_that_is_cordoned() -> None:
    """Contract 10.2."""
    scene = Scene(with_preemption(a_queue("a"), a_queue("b")), nodes=1, vcore=2000)
    run(scene, "root.b", *pods("r", 2))
    scene.node("n0", NodeAction.DRAIN)
    submit(scene, "agents", "root.a")
    said = scene.ask(replace(agent(), application=scene.app("agents").id))
    said += scene.wait(60)
    assert list(releases(said).values()) == [Termination.PREEMPTED_BY_SCHEDULER]
    assert placed(confirm(scene, said)) == {"agent": "n0"}
