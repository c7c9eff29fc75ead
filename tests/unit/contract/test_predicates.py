"""A resource manager that declares it is asked before its pods are placed. Other pods do not wait for its answers."""

import asyncio

from muster_core.model.ids import RmId
from muster_si import muster_pb2, si_pb2
from tests.unit.contract.cores import RM, CoreWire, Talk, a_resource

PREEMPTING = """
partitions:
- name: default
  queues:
  - name: root
    submitacl: "*"
    queues:
    - name: default
      properties: {preemption.delay: 1ms}
      resources: {guaranteed: {vcore: 4}}
    - name: other
      resources: {max: {vcore: 100}}
"""


async def attending(core_wire: CoreWire, *, config: str = "", rm_id: str = RM, **wanted: bool) -> Talk:
    """Register a resource manager that declares these callbacks."""
    talk = Talk(core_wire.connect(), rm_id=rm_id)
    await talk.register(config)
    await talk.client.answer(rm_id, muster_pb2.Answer(attendance=muster_pb2.Attendance(**wanted)))
    while _declared(core_wire, rm_id) != wanted:  # noqa: ASYNC110 # answers have their own stream without a barrier
        await asyncio.sleep(0)
    return talk


def _declared(core_wire: CoreWire, rm_id: str) -> dict[str, bool]:
    manager = core_wire.core.loop.scheduler_state.managers.get(RmId(rm_id))
    if manager is None:
        return {"registered": False}
    found = {"predicates": manager.pending_callbacks.places, "preemptionPredicates": manager.pending_callbacks.victims}
    return {name: wish for name, wish in found.items() if wish}


async def question(talk: Talk, kind: str, number: int = 0) -> muster_pb2.Callback:
    """Wait for the question of a kind with this number."""
    items = await talk.rm.callbacks.until(
        lambda received: sum(one.WhichOneof("kind") == kind for one in received) > number
    )
    return [one for one in items if one.WhichOneof("kind") == kind][number]


async def answer_predicates(talk: Talk, asked: muster_pb2.PredicatesQuestion, *refusals: str) -> None:
    """Answer with a reason for each node, or none."""
    answer = muster_pb2.PredicatesAnswer(id=asked.id, refusals=refusals)
    await talk.client.answer(talk.rm_id, muster_pb2.Answer(predicates=answer))


async def test_all_allocations_of_a_plan_are_one_question_and_rejected_ones_are_replanned(core_wire: CoreWire) -> None:
    talk = await attending(core_wire, predicates=True)
    for name in ("n1", "n2"):
        await talk.node(name)
    await talk.application()
    await talk.accepted()
    await talk.ask("a", "b", "c", vcore=2000)
    asked = (await question(talk, "predicates")).predicates
    assert {one.allocationKey for one in asked.args} == {"a", "b", "c"}
    assert all(one.allocate for one in asked.args)
    assert talk.allocations() == []
    await answer_predicates(talk, asked, *("no licence here" if one.nodeID == "n1" else "" for one in asked.args))
    places = await talk.allocated(*(one.allocationKey for one in asked.args if one.nodeID == "n2"))
    assert {one.nodeID for one in places} == {"n2"}
    again = (await question(talk, "predicates", 1)).predicates
    assert {one.nodeID for one in again.args} == {"n2"}
    await answer_predicates(talk, again, *("" for _ in again.args))
    await talk.allocated(*(one.allocationKey for one in again.args))
    assert len(talk.allocations()) == 2, "n2 has room for two: the third is told whose word keeps it off n1"
    received = await talk.rm.callbacks.until(lambda items: any(one.HasField("schedulingStates") for one in items))
    reasons = [state.reason for one in received for state in one.schedulingStates.states]
    assert any("1 no licence here" in reason for reason in reasons), reasons


async def test_other_requests_are_scheduled_while_an_answer_is_pending(core_wire: CoreWire) -> None:
    talk = await attending(core_wire, predicates=True)
    await talk.node("n1")
    for name in ("app", "late"):
        await talk.application(name)
        await talk.accepted(name)
    await talk.ask("a")
    first = (await question(talk, "predicates")).predicates
    await talk.ask("b", applicationID="late")
    second = (await question(talk, "predicates", 1)).predicates
    await answer_predicates(talk, second, "")
    await talk.allocated("b")
    await answer_predicates(talk, first, "")
    await talk.allocated("a")


async def test_an_allocation_whose_resources_were_taken_is_planned_again(core_wire: CoreWire) -> None:
    talk = await attending(core_wire, predicates=True)
    await talk.node("n1", vcore=1000)
    for name in ("app", "late"):
        await talk.application(name)
        await talk.accepted(name)
    await talk.ask("a")
    first = (await question(talk, "predicates")).predicates
    await talk.ask("b", applicationID="late")
    second = (await question(talk, "predicates", 1)).predicates
    assert (first.args[0].nodeID, second.args[0].nodeID) == ("n1", "n1")
    await answer_predicates(talk, second, "")
    await talk.allocated("b")
    await answer_predicates(talk, first, "")
    await talk.node("n2", vcore=1000)
    third = (await question(talk, "predicates", 2)).predicates
    assert [(one.allocationKey, one.nodeID) for one in third.args] == [("a", "n2")]
    await answer_predicates(talk, third, "")
    await talk.allocated("a")


async def test_victims_are_preempted_only_if_the_resource_manager_confirms_it(core_wire: CoreWire) -> None:
    talk = await attending(core_wire, config=PREEMPTING, preemptionPredicates=True)
    await talk.node("n1")
    for name, queue in (("rich", "root.other"), ("app", "root.default")):
        talk.sent["application"] += 1
        new = si_pb2.AddApplicationRequest(
            applicationID=name, queueName=queue, partitionName="default", tags={"namespace": "default"}
        )
        await talk.client.update_application(si_pb2.ApplicationRequest(rmID=RM, new=[new]))
        await talk.accepted(name)
    await talk.ask("v1", "v2", vcore=2000, applicationID="rich")
    await talk.allocated("v1", "v2")
    await talk.ask("a", resourceAsk=a_resource({"vcore": 2000}))
    asked = (await question(talk, "preemptionPredicates")).preemptionPredicates
    assert (asked.args.allocationKey, asked.args.nodeID, asked.args.startIndex) == ("a", "n1", 0)
    assert len(asked.args.preemptAllocationKeys) == 1
    assert talk.releases() == []
    response = si_pb2.PreemptionPredicatesResponse(success=True, index=0)
    answer = muster_pb2.PreemptionPredicatesAnswer(id=asked.id, response=response)
    await talk.client.answer(RM, muster_pb2.Answer(preemptionPredicates=answer))
    [release] = await talk.released(1)
    assert release.allocationKey == asked.args.preemptAllocationKeys[0]
    assert release.terminationType == si_pb2.PREEMPTED_BY_SCHEDULER


async def test_a_resource_manager_without_predicates_is_not_asked(core_wire: CoreWire) -> None:
    talk = await attending(core_wire)
    await talk.node("n1")
    await talk.application()
    await talk.accepted()
    await talk.ask("a")
    await talk.allocated("a")
    assert not any(one.HasField("predicates") for one in talk.rm.callbacks.items)
