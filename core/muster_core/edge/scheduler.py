"""The core as the Scheduler Interface sees it: sessions, their configuration, and mail for the loop.

Implements `muster_si.api.SchedulerAPI` for both transports. A call decodes its
message and hands it to the loop; what comes of it is said to the session's
callback. It decides nothing about scheduling and never touches the world.

RM status (seed 003): a registration opens a session (running), a lost
connection closes it and keeps the world (paused), the manager's clock or
`unregister` ends it (stopped). Registering again drops what was known.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

import structlog

from muster_core.edge import cluster_facts, inventory, registration, reports
from muster_core.edge.events.store import EventStore
from muster_core.edge.groups.lookup import Groups
from muster_core.edge.groups.retries import GroupRetries
from muster_core.edge.journal import Journal
from muster_core.edge.loop import Loop, LoopSettings
from muster_core.edge.mailbox import Mail
from muster_core.edge.metrics.counted import Metrics
from muster_core.edge.metrics.watched import Owners, Watched
from muster_core.edge.outlet import Outlet
from muster_core.edge.reading import NAME_LIMIT
from muster_core.edge.session import Fence, Kind, Session
from muster_core.edge.si_decode import Decoder, Intake
from muster_core.edge.supervisor import Supervisor
from muster_core.model.events import (
    ApplicationAdded,
    Attended,
    ConfigurationReplaced,
    ConnectionLost,
    FactsTold,
    ManagerLeft,
    ManagerRegistered,
    PlacesJudged,
    VictimsJudged,
)
from muster_core.model.ids import ROOT, RmId, partition_id
from muster_core.model.notes import EventNoted, Notice
from muster_core.world.world import Partition, World
from muster_si import keys, muster_pb2, si_pb2
from muster_si.api import ResourceManagerCallback
from muster_si.errors import RefusalCode, Refused

_log = structlog.get_logger(__name__)

#: Utilization reports, or facts, that are heard without letting others run.
_REPORTS_AT_ONCE: Final = 256


class Scheduler:  # long: one method for each call of the interface
    """One core: its loop, its sessions. `run` has to be going for anything to happen.

    `instance` is its name since its start, for readers of events: numbers begin anew with each.
    """

    def __init__(
        self,
        settings: LoopSettings | None = None,
        now_ns: Callable[[], int] | None = None,
        journal: Journal | None = None,
        instance: str = "",
        groups: Groups | None = None,
    ) -> None:
        self.groups = groups or Groups()
        self.metrics = Metrics()
        supervisor = Supervisor(self.metrics)
        self.events = EventStore(instance)
        self.outlet = Outlet(self.metrics, supervisor, self.events)
        self.loop = Loop(self.outlet, self.metrics, supervisor, settings or LoopSettings(), now_ns, journal)
        self.group_retries = GroupRetries(self.groups, self.loop.mailbox, lambda: self.loop.world)
        outlet, loop = self.outlet, self.loop
        owners = Owners(
            world=lambda: loop.world,
            mailbox=loop.mailbox,
            events=self.events,
            pushes=outlet.pushes,
            sessions=outlet.sessions,
            metrics=self.metrics,
        )
        self.metrics.registry.register(Watched(owners))

    # -- SchedulerAPI ---------------------------------------------------------

    async def register_resource_manager(
        self, request: si_pb2.RegisterResourceManagerRequest, callback: ResourceManagerCallback
    ) -> si_pb2.RegisterResourceManagerResponse:
        """Open a session; the older one of the same rmID is over, and its world dropped. Raises Refused."""
        rm = registration.rm_id(request.rmID)
        registration.require_version(request.version)
        extra = dict(request.extraConfig)
        text = registration.text_of(request.policyGroup, request.config, extra)
        loaded = registration.configuration_of(text, extra, request.policyGroup)
        decoder = Decoder(rm, registration.partition_names(loaded))
        session = Session(rm, callback, decoder, dict(request.buildInfo), extra, text)
        session.resolvers = registration.resolvers(rm, loaded)
        session.has_queues = not loaded.is_default
        _replace(self.outlet.sessions, session)
        self.outlet.pushes.forget(rm)
        self.outlet.configure(loaded.settings)
        _log.info("resource manager registered", rm=rm, version=request.version, build=dict(request.buildInfo))
        fenced = extra.get(keys.EXTRA_FENCE, "").lower() == "true"
        event = ManagerRegistered(rm, loaded.configuration, fenced=fenced)
        await self.loop.mailbox.put(Mail([event], session, registration.warnings(rm, loaded)))
        return si_pb2.RegisterResourceManagerResponse()

    async def update_allocation(self, request: si_pb2.AllocationRequest) -> None:
        """Take asks, releases, confirmations, existing allocations. Raises Refused, SessionLost."""
        session = self._session(request.rmID)
        await _take(self.loop, session, session.decoder.allocations(request), Kind.ALLOCATION)

    async def update_application(self, request: si_pb2.ApplicationRequest) -> None:
        """Take new and removed applications, once their users' groups are known. Raises Refused, SessionLost."""
        session = self._session(request.rmID)
        async with session.turn:
            intake = session.decoder.applications(request)
            intake.events, said = await self.groups.fill(session.rm, intake.events, session.resolvers)
            intake.answers += said
            await _take(self.loop, session, intake, Kind.APPLICATION)
            if any(isinstance(event, ApplicationAdded) and event.spec.groups_unknown for event in intake.events):
                self.group_retries.watch(session)

    async def update_node(self, request: si_pb2.NodeRequest) -> None:
        """Take node actions. Raises Refused, SessionLost."""
        session = self._session(request.rmID)
        await _take(self.loop, session, session.decoder.nodes(request), Kind.NODE)

    async def update_configuration(self, request: si_pb2.UpdateConfigurationRequest) -> None:
        """Put another configuration in force. Raises Refused, which leaves the old one, and SessionLost."""
        session = self._session(request.rmID)
        extra = dict(request.extraConfig)
        async with session.turn:
            try:
                text = registration.text_of(request.policyGroup, request.config, extra)
                # Aside: thousands of queues take longer to read than the loop may stand still.
                loaded = await asyncio.to_thread(registration.configuration_of, text, extra, request.policyGroup)
                if session.has_queues:
                    registration.require_queues(loaded, request.policyGroup)
            except Refused as refused:
                await _keep_configuration(self.loop, session, refused)
                raise
            session.require_open()
            session.config_text, session.extra_config = text, extra
            session.has_queues = not loaded.is_default
            session.resolvers = registration.resolvers(session.rm, loaded)
            session.decoder.know_partitions(registration.partition_names(loaded))
            self.outlet.configure(loaded.settings)
            event = ConfigurationReplaced(session.rm, loaded.configuration)
            await self.loop.mailbox.put(Mail([event], session, registration.warnings(session.rm, loaded)))
            self.group_retries.watch(session)
        _log.info("configuration replaced", rm=session.rm, checksum=loaded.configuration.checksum)

    async def update_utilization(self, request: muster_pb2.UtilizationRequest) -> muster_pb2.UtilizationResponse:
        """Take reports of what is really used; those that cannot be read come back. Raises Refused, SessionLost."""
        session = self._session(request.rmID)
        taken, rejected = reports.read(request.reports, session.decoder.partitions)
        for start in range(0, len(taken), _REPORTS_AT_ONCE):
            await self.loop.mailbox.put(Mail(taken[start : start + _REPORTS_AT_ONCE], session))
        return muster_pb2.UtilizationResponse(rejected=rejected)

    async def update_facts(self, request: muster_pb2.FactsRequest) -> muster_pb2.FactsResponse:
        """Take facts about other objects; those that cannot be read come back. Raises Refused, SessionLost."""
        session = self._session(request.rmID)
        partition = _known_partition(self.loop.world, session, request.partitionName)
        taken, rejected = cluster_facts.read(request.facts)
        for start in range(0, len(taken), _REPORTS_AT_ONCE):
            told = FactsTold(partition.id, taken[start : start + _REPORTS_AT_ONCE])
            await self.loop.mailbox.put(Mail([told], session))
        return muster_pb2.FactsResponse(rejected=rejected)

    async def answer(self, rm_id: str, answer: muster_pb2.Answer) -> None:
        """Take an attendance or an answer; one that nobody asked for is counted. Raises Refused, SessionLost."""
        session = self._session(rm_id)
        match answer.WhichOneof("kind"):
            case "attendance":
                session.attendance = answer.attendance
                wanted = answer.attendance
                event = Attended(session.rm, wanted.predicates, wanted.preemptionPredicates)
                self.loop.mailbox.post(Mail([event], session))
            case "predicates" if session.attendance.predicates:
                judged = PlacesJudged(session.rm, answer.predicates.id, tuple(answer.predicates.refusals))
                self.loop.mailbox.post(Mail([judged], session))
            case "preemptionPredicates" if session.attendance.preemptionPredicates:
                found = answer.preemptionPredicates
                self.loop.mailbox.post(Mail([VictimsJudged(session.rm, found.id, found.response.success)], session))
            case "stateDump" if answer.stateDump.id in session.questions:
                future = session.questions.pop(answer.stateDump.id)
                if not future.done():
                    future.set_result(answer.stateDump)
            case kind:
                self.metrics.unheard(f"answer {kind or 'of no kind'}, unasked")

    async def fence(self, request: muster_pb2.FenceRequest) -> None:
        """Return when the world has seen all that the request counts. Raises Refused, SessionLost."""
        await _pass(self.loop, self._session(request.rmID), request, recovers=not request.more)

    async def take_inventory(self, request: muster_pb2.InventoryRequest) -> muster_pb2.Inventory:
        """Show a part of what the world holds once it has seen what the request counts. Raises Refused, SessionLost."""
        session = self._session(request.after.rmID)
        await _pass(self.loop, session, request.after, recovers=False)
        session.require_open()
        partition = _known_partition(self.loop.world, session, request.partitionName)
        return inventory.take(partition, request, session.words)

    async def unregister(self, request: muster_pb2.UnregisterRequest) -> None:
        """The resource manager leaves: its session is over, its world goes. Raises Refused, SessionLost."""
        session = self._session(request.rmID)
        session.end("unregistered")
        _log.info("resource manager left", rm=session.rm)
        self.loop.mailbox.post(Mail([ManagerLeft(session.rm)]))

    async def connection_lost(self, rm_id: str, callback: ResourceManagerCallback) -> None:
        """The way to this callback broke: paused, until it registers again or its clock rings."""
        session = self.outlet.sessions.get(RmId(rm_id))
        if session is None or session.callback is not callback or not session.is_open:
            return
        session.end("the connection was lost")
        _log.warning("connection to the resource manager lost", rm=session.rm)
        self.loop.mailbox.post(Mail([ConnectionLost(session.rm)]))

    # -- around it ------------------------------------------------------------

    async def run(self) -> None:
        """Until `close`."""
        await self.loop.run()

    def close(self) -> None:
        """The core shuts down: every session is over."""
        for session in self.outlet.sessions.values():
            _lose(session, "the scheduler shuts down")
        self.events.close()
        self.group_retries.close()
        self.groups.close()
        self.loop.close()

    def _session(self, rm_id: str) -> Session:
        session = self.outlet.sessions.get(registration.rm_id(rm_id))
        if session is None:
            raise Refused(RefusalCode.FAILED_PRECONDITION, f"resource manager {rm_id!r} is not registered")
        session.require_open()
        return session


def _known_partition(world: World, session: Session, name: str) -> Partition:
    """The partition of that name. Raises Refused."""
    partition = world.partitions.get(partition_id(session.rm, name))
    if partition is None:
        raise Refused(RefusalCode.NOT_FOUND, f"partition {name[:NAME_LIMIT]!r} is not there")
    return partition


async def _pass(loop: Loop, session: Session, request: muster_pb2.FenceRequest, *, recovers: bool) -> None:
    """Wait until the world has seen as many messages of the session. Raises Refused, SessionLost."""
    counts = {
        Kind.APPLICATION: request.applicationRequests,
        Kind.NODE: request.nodeRequests,
        Kind.ALLOCATION: request.allocationRequests,
    }
    if min(counts.values()) < 0:
        raise Refused(RefusalCode.INVALID_ARGUMENT, "a fence counts no less than 0 messages")
    fence = Fence(counts, asyncio.get_running_loop().create_future(), recovers)
    await loop.mailbox.put(Mail([], session, fence=fence))
    session.require_open()  # the loop does not read mail of a session that is over
    await fence.passed


async def _keep_configuration(loop: Loop, session: Session, refused: Refused) -> None:
    _log.warning("configuration refused, the one before stays in force", rm=session.rm, reason=refused.reason)
    text = f"the new configuration is refused, the one before stays in force: {refused.reason}"
    await loop.mailbox.put(Mail([], session, [EventNoted(session.rm, Notice.QUEUE, ROOT, text)]))


async def _take(loop: Loop, session: Session, intake: Intake, kind: Kind) -> None:
    await loop.mailbox.put(Mail(intake.events, session, intake.answers, kind))
    await asyncio.sleep(0)  # a sender in this process that never waits leaves the loop its turns
    session.require_open()


def _replace(sessions: dict[RmId, Session], session: Session) -> None:
    older = sessions.get(session.rm)
    sessions[session.rm] = session
    if older is not None:
        _lose(older, f"resource manager {session.rm!r} registered again")


def _lose(session: Session, reason: str) -> None:
    if session.is_open:
        session.end(reason)
        session.callback.session_lost(reason)
