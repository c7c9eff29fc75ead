"""Words that cross on the wire: what is said of an older ask is not taken for the last word on a pod (semantics 3)."""

from __future__ import annotations

from muster_operator.agent.comparing import compare
from muster_operator.model.commands import BindPod
from muster_operator.model.facts import NodeGone
from muster_operator.model.ids import NodeName, PodUid
from muster_operator.model.inventory import Inventory, Part
from muster_operator.model.verdicts import AllocationVerdict, AskRejected
from muster_si import keys
from tests.unit.operator.agent.driver import APP, asked, live, orders, refused, waiting
from tests.unit.operator.agent.gang import reserving, uid
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


def test_the_core_that_refused_the_ask_of_a_pod_on_its_way_out_is_not_expected_to_know_of_it() -> None:
    """A bind failed and was asked for anew while the core failed the gang, and ended it with the old allocation."""
    driver, (first, second) = reserving(parameters="gangSchedulingStyle=Hard")
    [bind] = orders(driver.allocated(uid(first)))
    assert asked(driver.result(refused(bind))) == [uid(first)]
    driver.cancelled(uid(second))
    driver.updated(keys.APP_FAILING, "the time is over")
    driver.updated(keys.APP_FAILED)
    unknown = AskRejected(APP, PodUid(uid(first)), "application job is not known")
    driver.told(AllocationVerdict(rejected_asks=(unknown,)))
    found = compare(driver.ledger, Inventory(Part.APPLICATIONS), set(), driver.now)
    assert found.found == []
