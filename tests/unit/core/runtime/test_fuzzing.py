"""Whatever a resource manager sends, it is taken or refused: no failure inside, no unsound world.

Messages are made from their descriptors, with few names so that they meet.
Some are valid but for a field or two, others are anything.
"""

import asyncio
from collections.abc import Awaitable
from typing import Any

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from muster_core.runtime.loop import LoopSettings
from muster_core.runtime.service import Scheduler
from muster_core.scheduling import invariants
from muster_si import keys, muster_pb2, si_pb2
from muster_si.errors import Refused, SessionLost
from tests.amounts import amount
from tests.unit.core import messages as m
from tests.unit.core.conftest import Bench, FakeClock, Notebook

_NAMES = st.sampled_from(["app-1", "pod-1", "pod-2", "node-1", "default", "g", "root.default", "", "1"])
_ODD = st.sampled_from(["x" * 300, "root..a", "a/b", "ä€\0", "\U0001f986", "{", "[{}]", "null", '{"a":1e999}', "-1"])
_TEXT = st.one_of(_NAMES, _NAMES, _ODD)
_KEYS = st.sampled_from(sorted({value for name, value in vars(keys).items() if name.isupper() and type(value) is str}))
_NUMBERS = st.sampled_from([0, 1, 1, 2, -1, 1000, 2**31 - 1, -(2**31)])
_LONG = st.one_of(_NUMBERS, st.sampled_from([2**62, 2**63 - 1, -(2**63)]))
Fact = muster_pb2.Fact


def _fact(kind: Fact.Kind.ValueType, name: str, found: str) -> Fact:
    return Fact(kind=kind, name=name, attributes={keys.FACT_OBJECT: found})


_VALID: tuple[Message, ...] = (
    m.an_ask(),
    m.an_ask("pod-2", taskGroupName="g", placeholder=True, maxAllocations=2),
    m.an_allocation(),
    m.a_release(),
    m.an_ask_release(),
    m.an_application(),
    m.an_application(placeholderAsk=m.a_resource(vcore=2000), gangSchedulingStyle="Hard"),
    si_pb2.RemoveApplicationRequest(applicationID="app-1", partitionName="default"),
    m.a_node(),
    m.a_node(action=si_pb2.NodeInfo.UPDATE),
    m.a_node("node-2", existingAllocations=[m.an_allocation("pod-3", nodeID="node-2")]),
    m.a_node(action=si_pb2.NodeInfo.DECOMISSION),
    muster_pb2.UtilizationReport(ID="node-1", actualUsedResource=m.a_resource(vcore=1)),
    m.an_ask("pod-4", tags={keys.TAG_VOLUMES: '{"claims":["ns/c"]}'}),
    _fact(Fact.STORAGE_CLASS, "s", '{"bindingMode":"WaitForFirstConsumer","provisioner":"p"}'),
    _fact(Fact.CLAIM, "ns/c", '{"storageClassName":"s","request":1}'),
    _fact(Fact.VOLUME, "v", '{"storageClassName":"s","capacity":1,"phase":"Available"}'),
    Fact(kind=Fact.VOLUME, name="v", gone=True),
)
_WHOLE: tuple[type[Message], ...] = (
    si_pb2.AllocationRequest,
    si_pb2.ApplicationRequest,
    si_pb2.NodeRequest,
    si_pb2.UpdateConfigurationRequest,
    muster_pb2.UtilizationRequest,
    muster_pb2.FactsRequest,
    muster_pb2.Answer,
    si_pb2.RegisterResourceManagerRequest,
)


@st.composite
def _anything(draw: st.DrawFn, kind: type[Message], depth: int = 4) -> Message:
    """Any message of a type: about half of its fields."""
    made = kind()
    for field in kind.DESCRIPTOR.fields:
        if field.name != "rmID" and depth and draw(st.booleans()):
            _fill(draw, made, field, depth - 1)
    return made


@st.composite
def _mutated(draw: st.DrawFn) -> Message:
    """A valid item, with up to two fields that hold anything."""
    valid = draw(st.sampled_from(_VALID))
    made = type(valid)()
    made.CopyFrom(valid)
    fields: list[Any] = list(made.DESCRIPTOR.fields)
    for field in draw(st.lists(st.sampled_from(fields), max_size=2)):
        made.ClearField(field.name)
        _fill(draw, made, field, 3)
    return made


def _fill(draw: st.DrawFn, made: Message, field: Any, depth: int) -> None:
    kind = field.message_type
    if kind is None:
        value = draw(_scalar(field))
        if field.is_repeated:
            getattr(made, field.name).extend([value])
        else:
            setattr(made, field.name, value)
    elif kind.GetOptions().map_entry:
        _fill_map(draw, getattr(made, field.name), kind, depth)
    else:
        item = draw(_anything(GetMessageClass(kind), depth))
        target = getattr(made, field.name)
        if field.is_repeated:
            target.add().CopyFrom(item)
        else:
            target.CopyFrom(item)


def _fill_map(draw: st.DrawFn, target: Any, kind: Descriptor, depth: int) -> None:
    value = kind.fields_by_name["value"]
    for _ in range(draw(st.integers(0, 2))):
        if value.message_type is not None:
            item = draw(_anything(GetMessageClass(value.message_type), depth))
            target[draw(st.sampled_from(["vcore", "memory", "odd/one", ""]))].CopyFrom(item)
        else:
            target[draw(st.one_of(_KEYS, _TEXT))] = draw(_TEXT)


def _scalar(field: Any) -> st.SearchStrategy[Any]:
    match field.cpp_type:
        case FieldDescriptor.CPPTYPE_STRING:
            return _TEXT
        case FieldDescriptor.CPPTYPE_BOOL:
            return st.booleans()
        case FieldDescriptor.CPPTYPE_ENUM:
            return st.sampled_from([*(one.number for one in field.enum_type.values), 99])
        case FieldDescriptor.CPPTYPE_INT64:
            return _LONG
        case FieldDescriptor.CPPTYPE_UINT32 | FieldDescriptor.CPPTYPE_UINT64:
            return st.sampled_from([0, 1, 2, 2**32 - 1])
        case FieldDescriptor.CPPTYPE_DOUBLE | FieldDescriptor.CPPTYPE_FLOAT:
            return st.floats()
        case _:
            return _NUMBERS


def _complete(item: Message) -> Message:
    """The request that carries an item."""
    match item:
        case si_pb2.AllocationAsk():
            return m.asks(item)
        case si_pb2.Allocation():
            return m.allocations(item)
        case si_pb2.AllocationRelease() | si_pb2.AllocationAskRelease():
            mine = [item] if isinstance(item, si_pb2.AllocationRelease) else []
            asks = [item] if isinstance(item, si_pb2.AllocationAskRelease) else []
            releases = si_pb2.AllocationReleasesRequest(allocationsToRelease=mine, allocationAsksToRelease=asks)
            return si_pb2.AllocationRequest(rmID=m.RM, releases=releases)
        case si_pb2.AddApplicationRequest():
            return si_pb2.ApplicationRequest(rmID=m.RM, new=[item])
        case si_pb2.RemoveApplicationRequest():
            return si_pb2.ApplicationRequest(rmID=m.RM, remove=[item])
        case si_pb2.NodeInfo():
            return si_pb2.NodeRequest(rmID=m.RM, nodes=[item])
        case muster_pb2.UtilizationReport():
            return muster_pb2.UtilizationRequest(rmID=m.RM, reports=[item])
        case muster_pb2.Fact():
            return muster_pb2.FactsRequest(rmID=m.RM, partitionName="default", facts=[item])
        case _:
            if "rmID" in item.DESCRIPTOR.fields_by_name:
                setattr(item, "rmID", m.RM)  # noqa: B010 - every request has it, their base has not
            return item


def _send(bench: Bench, message: Message) -> Awaitable[object]:
    core = bench.core
    match message:
        case si_pb2.AllocationRequest():
            return core.update_allocation(message)
        case si_pb2.ApplicationRequest():
            return core.update_application(message)
        case si_pb2.NodeRequest():
            return core.update_node(message)
        case si_pb2.UpdateConfigurationRequest():
            return core.update_configuration(message)
        case muster_pb2.UtilizationRequest():
            return core.update_utilization(message)
        case muster_pb2.FactsRequest():
            return core.update_facts(message)
        case muster_pb2.Answer():
            return core.answer(m.RM, message)
        case si_pb2.RegisterResourceManagerRequest():
            return core.register_resource_manager(message, bench.rm)
        case _:
            raise TypeError(type(message).__name__)


async def _tell_all(messages: list[Message]) -> None:
    clock = FakeClock()
    bench = Bench(Scheduler(LoopSettings(event_queue_length=64, checks=True), clock), clock, Notebook())
    running = asyncio.create_task(bench.core.run())
    await bench.register()
    for message in (m.nodes(m.a_node()), m.applications(m.an_application()), *messages):
        try:
            await _send(bench, message)
        except (Refused, SessionLost):
            await bench.register()
        clock.now += 7_000_000_000
        await bench.wait_until_idle()
    broken = invariants.check(bench.core.loop.scheduler_state)
    failures, ends = bench.metric("muster_core_failures_total"), [end for end in bench.rm.ends if "trust" in end]
    bench.core.close()
    await running
    assert (broken, failures, ends) == ([], 0.0, [])


_ITEM = _mutated().map(_complete)
_MESSAGES = st.lists(
    st.one_of(_ITEM, _ITEM, *(_anything(kind).map(_complete) for kind in _WHOLE)), min_size=5, max_size=15
)


@settings(max_examples=amount(30, 1000), deadline=None, suppress_health_check=list(HealthCheck))
@given(messages=_MESSAGES)
def test_no_message_breaks_the_core(messages: list[Message]) -> None:
    asyncio.run(_tell_all(messages))
