"""Event records of changes: for the REST API, and warnings for the resource manager."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import Final, assert_never

from muster_core.model.ids import AllocationKey, ApplicationId, NodeId, QueuePath, RmId, value
from muster_core.model.resources import NOTHING, Resources
from muster_core.model.specs import AskSpec


class Notice(StrEnum):
    """Kind of the object that a record is about."""

    REQUEST = "REQUEST"
    APPLICATION = "APP"
    NODE = "NODE"
    QUEUE = "QUEUE"
    USER_GROUP = "USERGROUP"


class Change(StrEnum):
    """SET: a value or state was set. ADD, REMOVE: the object, or something in it, was added or removed."""

    NONE = "NONE"
    SET = "SET"
    ADD = "ADD"
    REMOVE = "REMOVE"


class Detail(StrEnum):
    """What has changed. The values are the names of EventRecord.ChangeDetail."""

    NONE = "DETAILS_NONE"
    REQUEST_CANCEL = "REQUEST_CANCEL"
    REQUEST_ALLOC = "REQUEST_ALLOC"
    REQUEST_TIMEOUT = "REQUEST_TIMEOUT"
    APP_ALLOC = "APP_ALLOC"
    APP_REQUEST = "APP_REQUEST"
    APP_REJECT = "APP_REJECT"
    APP_NEW = "APP_NEW"
    APP_ACCEPTED = "APP_ACCEPTED"
    APP_RUNNING = "APP_RUNNING"
    APP_COMPLETING = "APP_COMPLETING"
    APP_COMPLETED = "APP_COMPLETED"
    APP_FAILING = "APP_FAILING"
    APP_FAILED = "APP_FAILED"
    APP_RESUMING = "APP_RESUMING"
    APP_EXPIRED = "APP_EXPIRED"
    APP_CANNOTRUN_QUEUE = "APP_CANNOTRUN_QUEUE"
    APP_RUNNABLE_QUEUE = "APP_RUNNABLE_QUEUE"
    APP_CANNOTRUN_QUOTA = "APP_CANNOTRUN_QUOTA"
    APP_RUNNABLE_QUOTA = "APP_RUNNABLE_QUOTA"
    NODE_DECOMISSION = "NODE_DECOMISSION"
    NODE_SCHEDULABLE = "NODE_SCHEDULABLE"
    NODE_ALLOC = "NODE_ALLOC"
    NODE_CAPACITY = "NODE_CAPACITY"
    NODE_OCCUPIED = "NODE_OCCUPIED"
    NODE_RESERVATION = "NODE_RESERVATION"
    QUEUE_CONFIG = "QUEUE_CONFIG"
    QUEUE_DYNAMIC = "QUEUE_DYNAMIC"
    QUEUE_TYPE = "QUEUE_TYPE"
    QUEUE_MAX = "QUEUE_MAX"
    QUEUE_GUARANTEED = "QUEUE_GUARANTEED"
    QUEUE_APP = "QUEUE_APP"
    QUEUE_ALLOC = "QUEUE_ALLOC"
    QUEUE_PREEMPTION = "QUEUE_PREEMPTION"
    ALLOC_CANCEL = "ALLOC_CANCEL"
    ALLOC_PREEMPT = "ALLOC_PREEMPT"
    ALLOC_TIMEOUT = "ALLOC_TIMEOUT"
    ALLOC_REPLACED = "ALLOC_REPLACED"
    ALLOC_NODEREMOVED = "ALLOC_NODEREMOVED"
    UG_USER_LIMIT = "UG_USER_LIMIT"
    UG_GROUP_LIMIT = "UG_GROUP_LIMIT"
    UG_APP_LINK = "UG_APP_LINK"
    UG_USER_RESOURCE = "UG_USER_RESOURCE"
    UG_GROUP_RESOURCE = "UG_GROUP_RESOURCE"


@value
class EventRecorded:
    """One event record.

    `subject`: ID of the object; `reference`: ID of a second object; `resource`: the amount. A record without a change
    (`Change.NONE`, `Detail.NONE`) is a message for users, which the resource manager also receives.
    """

    rm: RmId
    about: Notice
    subject: str
    message: str = ""
    reference: str = ""
    change: Change = Change.NONE
    detail: Detail = Detail.NONE
    resource: Resources = NOTHING
    #: Application ID that users see, for the application in `subject` or `reference`; empty = the same ID.
    app_name: str = ""

    @property
    def is_for_people(self) -> bool:
        """Whether it is a message for users, without a change."""
        return self.change is Change.NONE and self.detail is Detail.NONE


@value
class AskRecorded:
    """A request was added or removed."""

    rm: RmId
    ask: AskSpec
    change: Change
    detail: Detail
    app_name: str = ""


@value
class AllocationsRecorded:
    """Allocations of one application that were added or removed together: key, node and amount of each.

    `detail`: why they were removed. `group`: the group whose limit they count towards; empty = none. `asked`: each of
    them fulfilled a request.
    """

    rm: RmId
    application: ApplicationId
    user: str
    group: str
    queue: QueuePath
    change: Change
    detail: Detail
    places: tuple[tuple[AllocationKey, NodeId, Resources], ...]
    asked: bool = False
    app_name: str = ""


Recorded = EventRecorded | AskRecorded | AllocationsRecorded

#: Records per allocation: application, node, queue and user.
_OF_A_PLACE: Final = 4


def count_of(noted: Recorded) -> int:
    """Returns the number of event records that it is converted to."""
    if isinstance(noted, AllocationsRecorded):
        return len(noted.places) * (_OF_A_PLACE + noted.asked + bool(noted.group))
    return 1


def application_of(noted: Recorded) -> str:
    """Returns the ID of the application that the record is about, or the owner of its request; empty = neither."""
    if isinstance(noted, AskRecorded):
        return noted.ask.application
    if isinstance(noted, AllocationsRecorded):
        return noted.application
    return {Notice.APPLICATION: noted.subject, Notice.REQUEST: noted.reference}.get(noted.about, "")


def records_of(noted: Recorded) -> Iterator[EventRecorded]:
    """Yields the event records that it is converted to, in order."""
    match noted:
        case EventRecorded():
            yield noted
        case AskRecorded():
            ask, about = noted.ask, Notice.APPLICATION
            subject, amount, name = ask.application, ask.resources, noted.app_name
            yield EventRecorded(noted.rm, about, subject, "", ask.key, noted.change, noted.detail, amount, name)
        case AllocationsRecorded():
            yield from _records_of_places(noted)
        case _:
            assert_never(noted)


def _records_of_places(noted: AllocationsRecorded) -> Iterator[EventRecorded]:
    rm, app, queue, change = noted.rm, noted.application, noted.queue, noted.change
    gone, name = Change.REMOVE, noted.app_name
    for key, node, amount in noted.places:
        if noted.asked:
            yield EventRecorded(rm, Notice.APPLICATION, app, "", key, gone, Detail.REQUEST_ALLOC, amount, name)
        yield EventRecorded(rm, Notice.APPLICATION, app, "", key, change, noted.detail, amount, name)
        yield EventRecorded(rm, Notice.NODE, node, "", key, change, Detail.NODE_ALLOC, amount)
        yield EventRecorded(rm, Notice.QUEUE, queue, "", key, change, Detail.QUEUE_ALLOC, amount)
        yield EventRecorded(rm, Notice.USER_GROUP, noted.user, "", queue, change, Detail.UG_USER_RESOURCE, amount)
        if noted.group:
            yield EventRecorded(rm, Notice.USER_GROUP, noted.group, "", queue, change, Detail.UG_GROUP_RESOURCE, amount)
