"""Applications: from messages of the Scheduler Interface to events, and back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from google.protobuf import json_format

from muster_core.model import limits, messages
from muster_core.model.effects import ApplicationAccepted, ApplicationRejected, ApplicationUpdated
from muster_core.model.events import ApplicationAdded, ApplicationRemoved
from muster_core.model.ids import RmId
from muster_core.model.records import EventRecorded, Notice
from muster_core.model.resources import Limit, Resources
from muster_core.model.specs import ApplicationSpec, GangStyle, NamespaceQuota
from muster_core.si import pod_tags, values
from muster_core.si.allocations import Intake, too_many
from muster_core.si.pod_tags import AmountReader, Partitions
from muster_core.si.values import NAME_LIMIT, InvalidField
from muster_si import keys, si_pb2

_SECOND: Final = 1_000_000_000
_MILLISECOND: Final = 1_000_000

#: A queue's full path: every part has its own, shorter bound where queues are made.
_QUEUE_LIMIT: Final = 1024

#: What is read of an application that has bound pods, whatever else its tags say.
_IDENTITY_TAGS: Final = (
    keys.APP_TAG_NAMESPACE,
    keys.APP_TAG_PARENT_QUEUE,
    keys.APP_TAG_RESOURCE_QUOTA,
    keys.APP_TAG_RESOURCE_GUARANTEED,
    keys.APP_TAG_RESOURCE_MAX_APPS,
    keys.APP_TAG_CREATE_FORCE,
    keys.APP_TAG_CREATION_TIME,
    keys.APP_TAG_APPLICATION_ID,
    keys.APP_TAG_RENEWAL,
)

_STYLES: Final[Mapping[str, GangStyle]] = {keys.STYLE_SOFT: GangStyle.SOFT, keys.STYLE_HARD: GangStyle.HARD}

ApplicationAnswer = ApplicationAccepted | ApplicationRejected | ApplicationUpdated

#: Longer texts are rejected. A few dozen resources fit many times.
_LONGEST: Final = 16_384
_MOST_DIGITS: Final = 18
NO_QUOTA: Final = NamespaceQuota()


def read_namespace_quota(tags: Mapping[str, str], amounts: AmountReader) -> tuple[NamespaceQuota, list[str]]:
    """Returns the quota, and the error of each tag that was ignored."""
    odd: list[str] = []
    most, least = (_message(tags, tag, amounts, odd) for tag in _AMOUNTS)
    count = _count(tags.get(keys.APP_TAG_RESOURCE_MAX_APPS, ""), odd)
    if most is None and least is None and count is None:
        return NO_QUOTA, odd
    return NamespaceQuota(
        max=None if most is None else Limit(most),
        guaranteed=None if least is None else Resources(least),
        max_applications=count,
    ), odd


_AMOUNTS: Final = (keys.APP_TAG_RESOURCE_QUOTA, keys.APP_TAG_RESOURCE_GUARANTEED)


def _message(tags: Mapping[str, str], tag: str, amounts: AmountReader, odd: list[str]) -> dict[str, int] | None:
    text = tags.get(tag, "")
    if not text:
        return None
    if len(text) > _LONGEST:
        odd.append(f"{tag} is longer than {_LONGEST} characters")
        return None
    message = si_pb2.Resource()
    try:
        json_format.Parse(text, message, max_recursion_depth=10)
        amounts.read(message, tag)
    except (json_format.ParseError, RecursionError) as error:
        odd.append(f'{tag} is not a quota such as {{"resources": {{"vcore": {{"value": 1000}}}}}}: {error}'[:300])
        return None
    except InvalidField as unfit:
        odd.append(str(unfit))
        return None
    return {name: quantity.value for name, quantity in message.resources.items()}


def _count(text: str, odd: list[str]) -> int | None:
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS):
        odd.append(f"{keys.APP_TAG_RESOURCE_MAX_APPS} is {text[:40]!r}, not a count")
        return None
    return int(text)


class ApplicationDecoder:
    """Decodes new and removed applications of one resource manager."""

    def __init__(self, rm: RmId, partitions: Partitions) -> None:
        self._rm, self._partitions = rm, partitions
        #: Amounts of a complete gang, and quotas of a namespace.
        self._sums = AmountReader()

    def read(self, request: si_pb2.ApplicationRequest) -> Intake:
        """Decodes new and removed applications."""
        intake = Intake()
        for number, new in enumerate(request.new):
            try:
                if number >= limits.ITEMS_PER_MESSAGE:
                    raise too_many("applications")
                intake.events.append(ApplicationAdded(self._application(new, intake)))
            except InvalidField as unfit:
                intake.answers.append(ApplicationRejected(self._rm, values.shown(new.applicationID), str(unfit)))
        for gone in request.remove:
            try:
                partition = self._partitions.find(gone.partitionName)
                intake.events.append(ApplicationRemoved(partition, values.application_id(gone.applicationID)))
            except InvalidField as unfit:
                intake.answers.append(ApplicationRejected(self._rm, values.shown(gone.applicationID), str(unfit)))
        return intake

    def _application(self, new: si_pb2.AddApplicationRequest, intake: Intake) -> ApplicationSpec:
        """Never rejects an application with bound pods. Invalid parts are dropped with a warning."""
        try:
            return self._defined(new, intake)
        except InvalidField as unfit:
            if new.tags.get(keys.APP_TAG_CREATE_FORCE, "").lower() != "true":
                raise
            spec = self._defined(_identity_of(new), intake)
            text = messages.definition_ignored(str(unfit))
            intake.answers.append(EventRecorded(self._rm, Notice.APPLICATION, spec.id, text, app_name=_name(new)))
            return spec

    def _defined(self, new: si_pb2.AddApplicationRequest, intake: Intake) -> ApplicationSpec:
        tags = pod_tags.tags(new.tags, "tags", limits.TAG_CHARACTERS_PER_APPLICATION)
        ask = self._sums.read(new.placeholderAsk, "placeholderAsk")
        if len(new.queueName) > _QUEUE_LIMIT:
            raise InvalidField("queueName", f"is longer than {_QUEUE_LIMIT} characters")
        quota, odd = read_namespace_quota(tags, self._sums)
        spec = ApplicationSpec(
            partition=self._partitions.find(new.partitionName),
            id=values.application_id(new.applicationID),
            queue=new.queueName,
            user=values.bounded(new.ugi.user, "ugi.user") or "nobody",
            groups=tuple(values.bounded(group, "ugi.groups") for group in new.ugi.groups),
            tags=tags,
            timeout_ns=values.span_ns(new.executionTimeoutMilliSeconds, "executionTimeoutMilliSeconds"),
            wait_timeout_ns=values.moment_of(tags, keys.APP_TAG_GANG_WAIT_TIMEOUT, _MILLISECOND),
            placeholder_ask=ask,
            style=_STYLES.get(new.gangSchedulingStyle, GangStyle.SOFT),
            gang_placement=pod_tags.gang_placement(tags),
            members=pod_tags.members(tags),
            topology=pod_tags.topology(tags),
            created_ns=values.moment_of(tags, keys.APP_TAG_CREATION_TIME, _SECOND),
            forced=tags.get(keys.APP_TAG_CREATE_FORCE, "").lower() == "true",
            quota=quota,
            namespace=tags.get(keys.APP_TAG_NAMESPACE, ""),
            shown_as=values.bounded(tags.get(keys.APP_TAG_APPLICATION_ID, ""), keys.APP_TAG_APPLICATION_ID),
            is_renewal=tags.get(keys.APP_TAG_RENEWAL) == "true",
            given_up=tags.get(keys.APP_TAG_GIVEN_UP, ""),
            members_missing=tags.get(keys.APP_TAG_MEMBERS_MISSING),
        )
        if ask and new.gangSchedulingStyle not in _STYLES:
            intake.answers.append(_style_warning(self._rm, new))
        if tags.get(keys.APP_TAG_GANG_PLACEMENT) == keys.PLACEMENT_REMOVED:
            text = messages.removed_placement(keys.PLACEMENT_REMOVED, spec.gang_placement)
            intake.answers.append(EventRecorded(self._rm, Notice.APPLICATION, spec.id, text, app_name=_name(new)))
        intake.answers += _quota_warnings(self._rm, new, odd)
        return spec


def _identity_of(new: si_pb2.AddApplicationRequest) -> si_pb2.AddApplicationRequest:
    """Returns the application with only its identity and the amounts that count, as far as they are valid."""
    user, groups = new.ugi.user, [group for group in new.ugi.groups if len(group) <= NAME_LIMIT]
    tags = {tag: new.tags[tag] for tag in _IDENTITY_TAGS if tag in new.tags and len(new.tags[tag]) <= NAME_LIMIT}
    try:
        values.moment_of(tags, keys.APP_TAG_CREATION_TIME, _SECOND)
    except InvalidField:
        del tags[keys.APP_TAG_CREATION_TIME]
    return si_pb2.AddApplicationRequest(
        applicationID=new.applicationID,
        partitionName=new.partitionName,
        queueName=new.queueName if len(new.queueName) <= _QUEUE_LIMIT else "",
        ugi=si_pb2.UserGroupInformation(user=user if len(user) <= NAME_LIMIT else "", groups=groups),
        tags=tags,
    )


def _style_warning(rm: RmId, new: si_pb2.AddApplicationRequest) -> EventRecorded:
    """Warns about an empty or unknown style, which counts as Soft (docs/internals/semantics.md, rule 8)."""
    found = new.gangSchedulingStyle[:32]
    problem = f"gangSchedulingStyle {found!r} is not known" if found else "gangSchedulingStyle is not given"
    known = " or ".join(_STYLES)
    message = f"{problem}; {GangStyle.SOFT} is used. Valid values: {known}"
    return EventRecorded(rm, Notice.APPLICATION, new.applicationID, message, app_name=_name(new))


def _quota_warnings(rm: RmId, new: si_pb2.AddApplicationRequest, odd: list[str]) -> list[EventRecorded]:
    """Warns about the ignored parts of a namespace's quota."""
    texts = (messages.namespace_quota_ignored(why) for why in odd)
    return [EventRecorded(rm, Notice.APPLICATION, new.applicationID, text, app_name=_name(new)) for text in texts]


def _name(new: si_pb2.AddApplicationRequest) -> str:
    return str(new.tags.get(keys.APP_TAG_APPLICATION_ID, ""))


def application_response(answers: Iterable[ApplicationAnswer]) -> si_pb2.ApplicationResponse:
    """Encodes consecutive changes of applications. Callers separate kinds if their order matters."""
    response = si_pb2.ApplicationResponse()
    for item in answers:
        match item:
            case ApplicationAccepted():
                response.accepted.add(applicationID=item.application)
            case ApplicationRejected():
                response.rejected.add(applicationID=item.application, reason=item.reason)
            case ApplicationUpdated():
                response.updated.add(
                    applicationID=item.application,
                    state=item.state.value,
                    stateTransitionTimestamp=item.at_ns,
                    message=item.message,
                )
    return response
