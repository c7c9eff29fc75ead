"""Callbacks of muster.v1, which are separate from the three streams, and their answers."""

from muster_si import muster_pb2, si_pb2
from tests.unit.contract.conftest import Wire, registered
from tests.unit.contract.peers import ResourceManager, a_registration


def a_question(number: int) -> muster_pb2.Callback:
    args = [si_pb2.PredicatesArgs(allocationKey="a", nodeID="n1", allocate=True)]
    return muster_pb2.Callback(predicates=muster_pb2.PredicatesQuestion(id=number, args=args))


def an_answer(number: int, *refusals: str) -> muster_pb2.Answer:
    return muster_pb2.Answer(predicates=muster_pb2.PredicatesAnswer(id=number, refusals=refusals))


async def test_attendance_is_the_first_answer(wire: Wire) -> None:
    client = wire.connect()
    await client.register_resource_manager(a_registration(), ResourceManager())
    attendance = muster_pb2.Answer(attendance=muster_pb2.Attendance(predicates=True, stateDump=True))
    await client.answer("rm", attendance)
    assert await wire.scheduler.answers.first() == [("rm", attendance)]


async def test_answers_in_any_order_are_matched_by_id(wire: Wire) -> None:
    client, rm = await registered(wire)
    for number in (1, 2, 3):
        wire.scheduler.present["rm"].call_back(a_question(number))
    questions = await rm.callbacks.first(3)
    assert [question.predicates.id for question in questions] == [1, 2, 3]
    for question in reversed(questions):
        await client.answer("rm", an_answer(question.predicates.id, "", "node(s) had taints"))
    answers = await wire.scheduler.answers.first(3)
    assert [answer.predicates.id for _, answer in answers] == [3, 2, 1]
    assert answers[0][1].predicates.refusals == ["", "node(s) had taints"]


async def test_a_preemption_question_and_its_answer_are_delivered(wire: Wire) -> None:
    client, rm = await registered(wire)
    question = muster_pb2.PreemptionPredicatesQuestion(
        id=9, args=si_pb2.PreemptionPredicatesArgs(allocationKey="a", preemptAllocationKeys=["b", "c"])
    )
    wire.scheduler.present["rm"].call_back(muster_pb2.Callback(preemptionPredicates=question))
    (asked,) = await rm.callbacks.first()
    assert asked.preemptionPredicates == question
    response = si_pb2.PreemptionPredicatesResponse(success=True, index=1)
    await client.answer(
        "rm",
        muster_pb2.Answer(preemptionPredicates=muster_pb2.PreemptionPredicatesAnswer(id=9, response=response)),
    )
    ((_, answer),) = await wire.scheduler.answers.first()
    assert answer.preemptionPredicates.response == response


async def test_events_and_states_all_arrive_in_order(wire: Wire) -> None:
    rm = ResourceManager()
    await wire.connect().register_resource_manager(a_registration(), rm)
    callback = wire.scheduler.present["rm"]
    for number in range(300):
        event = si_pb2.EventRecord(objectID=str(number))
        callback.call_back(muster_pb2.Callback(events=muster_pb2.Events(events=[event])))
        state = si_pb2.UpdateContainerSchedulingStateRequest(allocationKey=str(number))
        callback.call_back(muster_pb2.Callback(schedulingStates=muster_pb2.SchedulingStates(states=[state])))
    callback.call_back(a_question(1))
    got = await rm.callbacks.until(lambda items: bool(items) and items[-1].WhichOneof("kind") == "predicates")
    numbers = [str(number) for number in range(300)]
    assert [event.objectID for each in got for event in each.events.events] == numbers
    assert [state.allocationKey for each in got for state in each.schedulingStates.states] == numbers


async def test_the_scheduler_may_ask_for_a_new_registration(wire: Wire) -> None:
    rm = ResourceManager()
    await wire.connect().register_resource_manager(a_registration(), rm)
    wish = muster_pb2.Callback(reregister=muster_pb2.Reregister(reason="an invariant broke"))
    callback = wire.scheduler.present["rm"]
    callback.call_back(wish)
    callback.session_lost("an invariant broke")
    await rm.ends.first()
    assert rm.callbacks.items == [wish]
