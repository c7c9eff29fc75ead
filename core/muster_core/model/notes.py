"""What is noted of every change, for those who watch: an EventRecord before it is a message.

Written by engine/ where the change is made, kept and handed out by edge/.
Names and meaning: seed 003, EventRecord; contract 6.1. What codes and which
resource manager hears of it are the edge's business.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from muster_core.model.ids import RmId
from muster_core.model.resources import NOTHING, Resources


class Notice(StrEnum):
    """What kind of thing it is about."""

    REQUEST = "REQUEST"
    APPLICATION = "APP"
    NODE = "NODE"
    QUEUE = "QUEUE"
    USER_GROUP = "USERGROUP"


class Change(StrEnum):
    """SET = a value or state was set; ADD, REMOVE = it, or something in it, came or went."""

    NONE = "NONE"
    SET = "SET"
    ADD = "ADD"
    REMOVE = "REMOVE"


class Detail(StrEnum):
    """What of it changed. Values are the names of EventRecord.ChangeDetail."""

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


@dataclass(frozen=True, slots=True)
class EventNoted:
    """`subject` is the id of what it is about, `reference` the second thing's, `resource` the amount concerned.

    One that changes nothing (`Change.NONE`, `Detail.NONE`) is said to people: the resource manager hears it too.
    """

    rm: RmId
    about: Notice
    subject: str
    message: str = ""
    reference: str = ""
    change: Change = Change.NONE
    detail: Detail = Detail.NONE
    resource: Resources = NOTHING
