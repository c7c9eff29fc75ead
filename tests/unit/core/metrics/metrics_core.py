"""A core with objects and events of every kind, so that each of its metrics has a sample."""

from dataclasses import replace

from prometheus_client import CollectorRegistry

from muster_core.model.decisions import ReasonKind
from muster_core.model.effects import SchedulingState, SchedulingStateChanged
from muster_core.model.events import ApplicationAdded, AskAdded, ConnectionLost, Event, ManagerRegistered, NodeAdded
from muster_core.model.ids import AllocationKey, ApplicationId, QueuePath, RmId
from muster_core.runtime.service import Scheduler
from muster_core.scheduling.scheduler import cycle, step
from tests.unit.builders import PARTITION, RM, a_configuration, a_node, a_queue, an_application, an_ask


def busy_core() -> CollectorRegistry:
    """Return the metrics of queues with all kinds of quotas, nodes, running applications and a rejected one."""
    core = Scheduler()
    configuration = a_configuration(a_queue("a", vcore=2000, guaranteed=1000))
    events: list[Event] = [ManagerRegistered(RM, configuration), NodeAdded(a_node("n0", vcore=1500))]
    events += [ApplicationAdded(an_application())] * 2  # the second is rejected
    events += [AskAdded(replace(an_ask(f"r{i}"), created_ns=1)) for i in range(3)]
    events += [ApplicationAdded(an_application("waits", gang=2))]
    for event in events:
        core.metrics.received([event])
        for effect in step(core.loop.scheduler_state, event, 1):
            core.metrics.sent(effect)
    cycle(core.loop.scheduler_state, 1, lambda: True)
    core.loop.scheduler_state.partitions[PARTITION].gang_times.note(QueuePath("root.a"), 1)
    step(core.loop.scheduler_state, ConnectionLost(RmId("unknown")), 1)
    for kind in ReasonKind:
        state = SchedulingState.SKIPPED
        core.metrics.sent(SchedulingStateChanged(RM, ApplicationId("a"), AllocationKey("k"), state, "", kind))
    core.metrics.dropped("something")
    core.metrics.healthy = True
    return core.metrics.registry
