"""Words that cross on the wire: what is said of an older ask is not taken for the last word on a pod (semantics 3)."""

from __future__ import annotations

from muster_operator.model.commands import BindPod
from muster_operator.model.facts import NodeGone
from muster_operator.model.ids import NodeName, PodUid
from muster_operator.model.verdicts import AllocationVerdict, AskRejected
from tests.unit.operator.agent.driver import APP, asked, live, orders, waiting
from tests.unit.operator.objects import a_container


def test_a_refusal_of_an_ask_that_another_took_the_place_of_does_not_keep_the_pod_from_its_node() -> None:
    """Resized while the core decided on a node that just went: the pod is asked for a third time, and that counts."""
    driver = live("n1", "n2")
    raw = waiting(driver)
    raw["spec"]["containers"] = [a_container(cpu="2")]
    assert asked(driver.see(raw)) == ["uid-w0"]
    driver.fact(NodeGone(NodeName("n1")))
    assert asked(driver.allocated("uid-w0", "n1")) == ["uid-w0"]
    driver.told(AllocationVerdict(rejected_asks=(AskRejected(APP, PodUid("uid-w0"), "allocated already"),)))
    [bind] = orders(driver.allocated("uid-w0", "n2"))
    assert isinstance(bind, BindPod)
    assert bind.node == "n2"
