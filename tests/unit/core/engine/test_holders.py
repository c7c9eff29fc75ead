"""An ask that preemption makes room for takes the first room there is (semantics 22)."""

from __future__ import annotations

from muster_core.model.events import ConfigurationReplaced
from tests.unit.builders import RM, a_queue
from tests.unit.core.engine.contest import pods, run, victims, with_preemption
from tests.unit.core.engine.scene import Scene, placed


def test_a_new_node_serves_an_ask_whose_claim_fills_its_queue() -> None:
    queues = with_preemption(a_queue("a", vcore=1000, guaranteed=1000), a_queue("b"))
    scene = Scene(queues, nodes=1)
    run(scene, "root.b", *pods("b", 4))
    run(scene, "root.a", *pods("a", 1))
    assert len(victims(scene.wait(31))) == 1  # told, and not gone yet
    scene.tell(ConfigurationReplaced(RM, queues))  # what was remembered of nodes is forgotten
    assert placed(scene.add_node("n1")) == {"a0": "n1"}
