"""A record as JSON, with the names, numbers and omissions of contract 6.1."""

from __future__ import annotations

from typing import Final

from muster_core.edge.events.ring import Record
from muster_core.model.notes import Change, Detail, Notice
from muster_si import si_pb2

#: Longer messages are cut (contract 6.1).
TEXT_LIMIT: Final = 1024

TYPES: Final = {notice: si_pb2.EventRecord.Type.Value(notice.value) for notice in Notice}
CHANGES: Final = {change: si_pb2.EventRecord.ChangeType.Value(change.value) for change in Change}
DETAILS: Final = {detail: si_pb2.EventRecord.ChangeDetail.Value(detail.value) for detail in Detail}


def text(message: str) -> str:
    """The message as it is read: one that is too long is cut and ends in `...`."""
    return message if len(message) <= TEXT_LIMIT else message[: TEXT_LIMIT - 3] + "..."


def as_json(record: Record) -> dict[str, object]:
    """One record for REST."""
    noted = record.noted
    subject, reference = noted.subject, noted.reference
    if noted.app_name and noted.about is Notice.APPLICATION:
        subject = noted.app_name
    elif noted.app_name:
        reference = noted.app_name
    found: dict[str, object] = {"type": TYPES[noted.about], "objectID": subject}
    if reference:
        found["referenceID"] = reference
    if noted.message:
        found["message"] = text(noted.message)
    found["timestampNano"] = record.at_ns
    found["eventChangeType"] = CHANGES[noted.change]
    if noted.detail is not Detail.NONE:
        found["eventChangeDetail"] = DETAILS[noted.detail]
    amounts: dict[str, object] = {name: {"value": amount} for name, amount in noted.resource.items()}
    found["resource"] = {"resources": amounts}
    return found
