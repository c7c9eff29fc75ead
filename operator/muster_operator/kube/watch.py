"""List and watch of the resources that scheduling depends on, and the freshness of watches.

One stream per resource. The list is read as a stream or in pages, and the watch starts at its version. Events are
decoded directly from the lines of the stream. A new list is read only after 410 Gone and for the periodic comparison.
Bind decisions wait while the pod or node watch is stale.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from io import BytesIO
from typing import Any, Final, Protocol, TypedDict
from urllib.parse import urlencode

import aiohttp
import msgspec
import orjson
import structlog

from muster_operator.kube.http import PASSING
from muster_operator.kube.lists import answer, pages
from muster_operator.kube.session import KubeSession, Request, running_s
from muster_operator.model import names
from muster_operator.model.errors import ApiRefused, Unreachable
from muster_operator.translate.pod_classes import PartialPod, partial_pod, partial_pod_event
from muster_operator.translate.values import Raw

#: Path of each resource. A recovery needs the first list of all of them.
PATHS: Final = {
    "namespaces": "/api/v1/namespaces",
    "priorityclasses": "/apis/scheduling.k8s.io/v1/priorityclasses",
    "storageclasses": "/apis/storage.k8s.io/v1/storageclasses",
    "csidrivers": "/apis/storage.k8s.io/v1/csidrivers",
    "csistoragecapacities": "/apis/storage.k8s.io/v1/csistoragecapacities",
    "csinodes": "/apis/storage.k8s.io/v1/csinodes",
    "persistentvolumes": "/api/v1/persistentvolumes",
    "persistentvolumeclaims": "/api/v1/persistentvolumeclaims",
    "volumeattachments": "/apis/storage.k8s.io/v1/volumeattachments",
    "podgroups": "/apis/scheduling.k8s.io/v1beta1/podgroups",
    names.LABELLED_POD_GROUPS: "/apis/scheduling.x-k8s.io/v1alpha1/podgroups",
    "nodes": "/api/v1/nodes",
    "pods": "/api/v1/pods",
}

#: The same for devices, with the setting for ResourceClaims.
_OF_DEVICES: Final = ("resourceslices", "devicetaintrules", "deviceclasses", "resourceclaims")
DEVICE_PATHS: Final = {plural: f"/apis/resource.k8s.io/v1/{plural}" for plural in _OF_DEVICES}

#: Optional APIs, which can be switched off, or whose permission can be missing. Each with its paths in older versions,
#: in the order in which they are tried if the cluster does not serve the first one.
OPTIONAL: Final[Mapping[str, tuple[str, ...]]] = {
    "podgroups": ("/apis/scheduling.k8s.io/v1alpha2/podgroups",),
    names.LABELLED_POD_GROUPS: (),
    "resourceslices": (),
    "devicetaintrules": tuple(f"/apis/resource.k8s.io/{one}/devicetaintrules" for one in ("v1beta2", "v1alpha3")),
    "deviceclasses": (),
    "resourceclaims": (),
}

log = structlog.get_logger("muster.stream")
freshness_log = structlog.get_logger("muster.freshness")


class _Manager(TypedDict, total=False):
    """ManagedFieldsEntry without `fieldsV1`."""

    apiVersion: Any
    fieldsType: Any
    manager: Any
    operation: Any
    subresource: Any
    time: Any


class _Metadata(TypedDict, total=False):
    """ObjectMeta without `selfLink`, which API servers do not send any more."""

    annotations: Any
    creationTimestamp: Any
    deletionGracePeriodSeconds: Any
    deletionTimestamp: Any
    finalizers: Any
    generateName: Any
    generation: Any
    labels: Any
    managedFields: list[_Manager] | None
    name: Any
    namespace: Any
    ownerReferences: Any
    resourceVersion: Any
    uid: Any


class _Object(TypedDict, total=False):
    """Top-level fields of all watched kinds, and those of the Status in an ERROR event."""

    apiVersion: Any
    kind: Any
    metadata: _Metadata
    spec: Any
    status: Any
    data: Any
    binaryData: Any
    immutable: Any
    value: Any
    globalDefault: Any
    description: Any
    preemptionPolicy: Any
    provisioner: Any
    volumeBindingMode: Any
    allowedTopologies: Any
    storageClassName: Any
    nodeTopology: Any
    capacity: Any
    maximumVolumeSize: Any
    code: Any
    message: Any
    reason: Any
    details: Any


class _Event(TypedDict):
    type: Any
    object: _Object


_OBJECT: Final = msgspec.json.Decoder(_Object)
_EVENT: Final = msgspec.json.Decoder(_Event)


def decoded_object(json: bytes | memoryview) -> Any:
    """Decodes an object of a list. Raises ValueError if the text is not valid JSON."""
    return _decoded(_OBJECT, json)


def decoded_event(json: bytes | memoryview) -> Any:
    """Decodes a watch event. Raises ValueError if the text is not valid JSON."""
    return _decoded(_EVENT, json)


def _decoded(form: msgspec.json.Decoder[Any], json: bytes | memoryview) -> Any:
    try:
        return form.decode(json)
    except msgspec.DecodeError:
        return orjson.loads(json)


def decoded_pod(json: bytes | memoryview) -> Any:
    """Decodes a pod of a list, as a PartialPod if possible.

    Raises:
        ValueError: the text is not valid JSON.
    """
    try:
        return partial_pod(json)
    except msgspec.DecodeError:
        return decoded_object(json)


def decoded_pod_event(json: bytes) -> Any:
    """Decodes a watch event of a pod, with a PartialPod if possible.

    Raises:
        ValueError: the text is not valid JSON.
    """
    try:
        event = partial_pod_event(json)
    except msgspec.DecodeError:  # a bookmark, an error, or a pod with unexpected field types
        return decoded_event(json)
    return {"type": event.type, "object": event.object}


def whole(incoming: PartialPod) -> Any:
    """Decodes the complete pod of a PartialPod.

    Raises:
        ValueError: the text is not valid JSON.
    """
    return decoded_event(incoming.json)["object"] if incoming.is_event else decoded_object(incoming.json)


#: Errors that end a watch normally. It continues at its last version.
_INTERRUPTIONS: Final = (aiohttp.ClientConnectionError, aiohttp.ClientPayloadError, TimeoutError)


@dataclass(frozen=True, slots=True)
class From:
    """Start of a watch: after `version`, or with `is_list` as a streamed list of a state not older than `version`.

    A streamed list ends with a bookmark (Kubernetes, API concepts: streaming lists). The watch ends after `silent_s`
    seconds without data.
    """

    version: str
    silent_s: float
    is_list: bool = False

    @property
    def parameters(self) -> dict[str, str]:
        """Query parameters of the request."""
        found = {"watch": "true", "allowWatchBookmarks": "true"}
        if self.version:
            found["resourceVersion"] = self.version
        if self.is_list:
            found |= {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
        return found


async def lines(session: KubeSession, path: str, since: From) -> AsyncGenerator[list[bytes], None]:
    """Yields the lines of a watch, one event each, until it ends or has no data for too long. A batch can be empty.

    Each line ends in a newline, which the decoders ignore.

    Raises:
        Unreachable: no response.
        ApiRefused: the API server answered with an error.
    """
    reply = await answer(session, Request("GET", f"{path}?{urlencode(since.parameters)}", is_stream=True))
    if (response := reply.stream) is None:
        raise ApiRefused(f"GET {path}", reply.status, "the answer to a watch is not a stream")
    try:
        async with response:
            rest = b""
            while not response.content.at_eof():
                async with asyncio.timeout(since.silent_s):
                    piece = await response.content.readany()
                some = BytesIO(rest + piece if rest else piece).readlines()  # ten times faster than bytes.split
                rest = some.pop() if some and not some[-1].endswith(b"\n") else b""
                yield some
    except _INTERRUPTIONS as error:
        log.debug("watch interrupted", path=path, reason=repr(error))


#: Seconds between comparisons if there are no errors. Each one costs the API server a complete list.
COMPARE_S: Final = 3600.0

#: Minimum seconds between comparisons that are caused by contradictions.
SUSPECT_S: Final = 300.0

#: Seconds until a failed comparison is repeated. The watch continues in the meantime.
RETRY_LIST_S: Final = 30.0

#: Seconds without data after which a watch is closed. API servers send a bookmark every minute.
SILENT_S: Final = 75.0

#: Seconds without data after which a streamed list is closed. Its first objects arrive immediately if it is supported.
SILENT_LIST_S: Final = 15.0

#: Seconds to wait after a watch without events. The last value repeats.
BACKOFF_S: Final = (0.2, 0.5, 1.0, 2.0, 5.0)

#: Pauses and intervals are longer by a random share up to this one, so that streams do not start at the same time.
JITTER: Final = 0.2

#: A watch of at least this many seconds counts as successful even without events.
GOOD_STREAM_S: Final = 5.0

#: Number of consecutive rejections of a version before the version is dropped and a new list is read.
REFUSALS: Final = 3

#: The same for rejections that are usually temporary: about five minutes.
TEMPORARY_REFUSALS: Final = 40
_TEMPORARY: Final = PASSING | {401, 403}

#: Seconds between two lists of a resource that the cluster does not have. Less than STALE_S.
NOT_SERVED_S: Final = 60.0
_NOT_SERVED: Final = 404

#: Number of consecutive refusals after which the cluster does not have a listed resource any more: about a minute.
ABSENCES: Final = 15
_FORBIDDEN: Final = 403

#: Events handled before other tasks can run, because lists arrive in large batches.
EVENTS_PER_PASS: Final = 100
_GONE: Final = 410

#: Statuses with which API servers reject streamed lists that they do not support.
_NOT_STREAMED: Final = frozenset({400, 422})
_END_OF_LIST: Final = "k8s.io/initial-events-end"

#: Decoders of events and of listed objects, for resources that do not use the default ones.
_DECODERS: Final = {"pods": (decoded_pod_event, decoded_pod)}


class WatchListener(Protocol):
    """Receives what a stream delivers; the inbox is one."""

    def changed(self, plural: str, kind: str, raw: Any) -> None:
        """Receives the object of a watch event of type `kind`. Must not block."""

    async def watched(self, plural: str, kind: str | None, raw: Any) -> None:
        """Receives an object of a list (None), or of an event while the list is read. Can wait before it returns."""

    def list_begun(self, plural: str, *, is_reset: bool = False) -> None:
        """A list is about to be requested. `is_reset`: the API server's store was restored to an earlier state."""

    async def listed(self, plural: str, version: str = "") -> None:
        """The list is complete at this version."""

    async def comparison_due(self, plural: str, within_s: float) -> None:
        """Waits until something contradicts the known state, at most that many seconds."""

    def stream_broke(self, plural: str, reason: str) -> None:
        """Counts that a stream had to be started again."""

    def stream_expired(self, plural: str) -> None:
        """Counts that events were lost, so that a list is needed."""

    def record_activity(self, plural: str) -> None:
        """Records that the watch received data."""

    def bookmark(self, plural: str) -> None:
        """Counts a bookmark."""


@dataclass(frozen=True, slots=True)
class Topic:
    """A watched resource and its listener. `path`: of its list.

    `older_paths`: in older versions of an optional API; None = the API is not optional.
    """

    plural: str
    path: str
    session: KubeSession
    listener: WatchListener
    older_paths: tuple[str, ...] | None = None


class Refused(Exception):
    """The API server sent an error event."""


class Expired(Exception):
    """Events after the known version are not available any more."""


#: Errors after which a stream is resumed. The last three mean an invalid response.
FAILURES: Final = (
    *(Expired, Refused, ApiRefused, Unreachable, aiohttp.ClientError, TimeoutError),
    *(ValueError, LookupError, TypeError),
)


class _Pacing:
    """Limits a list in the background to half of the time, so that watch events are handled first."""

    def __init__(self, *, is_background: bool) -> None:
        self._is_background, self._count, self._since = is_background, 0, time.monotonic()

    async def pause_if_due(self) -> None:
        """Call it after each object. Pauses if it is time."""
        self._count += 1
        if self._is_background and not self._count % EVENTS_PER_PASS:
            await asyncio.sleep(time.monotonic() - self._since)
            self._since = time.monotonic()


class WatchStream:
    """Lists and watches one resource as long as its task runs."""

    def __init__(self, topic: Topic, compare_s: float = COMPARE_S) -> None:
        self._topic, self._compare_s = topic, compare_s
        self.plural, self._path = topic.plural, topic.path
        self._decode_event, self._decode_object = _DECODERS.get(self.plural, (decoded_event, decoded_object))
        self._version = ""  # empty = list first
        self._is_reset = self._is_forbidden = False
        self._streams_lists = True
        self._comparing: asyncio.Task[None] | None = None
        self._failures = self._taken = self._handled = self._absences = 0
        self._refusals = Counter[int]()  # of the version, by limit

    async def run(self) -> None:
        """Passes events to the listener until cancelled. After any error of the API server the stream is resumed."""
        try:
            while True:
                began, taken, reason = time.monotonic(), self._taken, ""
                try:
                    await (self._watch() if self._version else self._synchronise())
                except FAILURES as error:
                    reason = self._failed(error)
                if not reason and (self._taken > taken or time.monotonic() - began > GOOD_STREAM_S):
                    self._failures = 0
                else:
                    await self._pause(reason)
        finally:
            self._stop_comparing()

    async def _synchronise(self) -> None:
        """Lists all objects, which gives the version from which to watch."""
        self._stop_comparing()
        version = await self._list_served()
        if version is None:
            await self._topic.listener.listed(self.plural)
            await asyncio.sleep(NOT_SERVED_S)
            return
        self._version, self._is_reset = version, False
        self._refusals.clear()
        self._taken += 1
        self._comparing = asyncio.create_task(self._compare(), name=f"comparison of {self.plural}")

    async def _list_served(self) -> str | None:
        """Lists all objects in the first version that the cluster serves. None = it does not have this resource.

        A proxy without a backend, or a starting API server, refuses what is served. A listed resource is absent only
        if that continues.
        """
        refused: ApiRefused | None = None
        for path in (self._topic.path, *(self._topic.older_paths or ())):
            self._path = path
            try:
                version = await self._list("")
            except ApiRefused as error:
                if not self._is_absent(error.status):
                    raise
                refused = error
                self._report_forbidden(error.status)
            else:
                self._absences = 0
                return version
        self._absences += 1
        if refused is not None and self._taken and self._absences < ABSENCES:
            raise refused
        return None

    def _is_absent(self, status: int) -> bool:
        """Whether the cluster may not have the resource: the path is of an API group.

        An optional API can be switched off later, and its permission can be missing; but ResourceClaims that were
        listed keep their devices. Of others, only one that was never listed can be absent.
        """
        if self._topic.older_paths is not None:
            may_be_forbidden = not (self._taken and self.plural == "resourceclaims")
            return status == _NOT_SERVED or (status == _FORBIDDEN and may_be_forbidden)
        return status == _NOT_SERVED and not self._taken and not self._topic.path.startswith("/api/")

    def _report_forbidden(self, status: int) -> None:
        """Logs once that a permission is missing. Objects that exist are treated as missing until it is granted."""
        if status == _FORBIDDEN and not self._is_forbidden:
            self._is_forbidden = True
            log.warning("the permission to list a resource is missing", resource=self.plural, path=self._path)

    def _stop_comparing(self) -> None:
        if self._comparing is not None:
            self._comparing.cancel()
            self._comparing = None

    async def _compare(self) -> None:
        """Compares the known state with a list periodically, while the watch continues."""
        within_s = self._compare_s
        while True:
            await self._topic.listener.comparison_due(self.plural, _with_jitter(within_s))
            try:
                await self._list(self._version)
            except FAILURES as error:
                log.warning("comparison with a list failed", resource=self.plural, reason=str(error))
                within_s = RETRY_LIST_S
            else:
                within_s = self._compare_s
                await asyncio.sleep(_with_jitter(min(SUSPECT_S, self._compare_s)))

    async def _list(self, not_older_than: str) -> str:
        """Lists all objects and returns the version of the list."""
        listener = self._topic.listener
        listener.list_begun(self.plural, is_reset=self._is_reset)
        pacing = _Pacing(is_background=bool(not_older_than))
        version = await self._streamed_list(not_older_than, pacing) if self._streams_lists else ""
        if not version:
            # Objects from an incomplete stream can be deleted in the state that the pages show.
            listener.list_begun(self.plural, is_reset=self._is_reset)
            version = await self._paged_list(not_older_than, pacing)
        await listener.listed(self.plural, version)
        return version

    async def _streamed_list(self, not_older_than: str, pacing: _Pacing) -> str:
        """Reads a streamed list and returns its version. Empty = the API server does not stream lists, or not now."""
        try:
            async with aclosing(self._lines(From(not_older_than, SILENT_LIST_S, is_list=True))) as stream:
                async for line in stream:
                    event = self._decoded(line)
                    kind, raw = event["type"], event["object"]
                    if kind != "BOOKMARK":
                        await self._listed(None if kind == "ADDED" else kind, raw)
                        await pacing.pause_if_due()
                    elif (raw["metadata"].get("annotations") or {}).get(_END_OF_LIST) == "true":
                        return str(raw["metadata"]["resourceVersion"])
        except ApiRefused as refused:
            if refused.status not in _NOT_STREAMED:
                raise
            self._streams_lists = False
        log.info("streamed lists not supported, listing in pages", resource=self.plural)
        return ""

    async def _paged_list(self, not_older_than: str, pacing: _Pacing) -> str:
        topic, version = self._topic, ""
        async with aclosing(pages(topic.session, self._path, not_older_than)) as stream:
            async for page in stream:
                version = page.version
                for item in page.items:
                    await self._listed(None, self._decode_object(item))
                    await pacing.pause_if_due()
        return version

    async def _watch(self) -> None:
        """Watches from the known version until the stream ends.

        Raises:
            Expired: the version is not available any more.
            Refused: the stream reports an error.
        """
        async with aclosing(self._batches(From(self._version, SILENT_S))) as stream:
            async for some in stream:
                for line in some:
                    if not line.isspace() and self._take(line):
                        await asyncio.sleep(0)

    def _take(self, line: bytes) -> bool:
        """Passes a watch event to the listener. Returns whether other tasks should run now."""
        event = self._decode_event(line)
        kind, raw = event["type"], event["object"]
        if kind == "ERROR":
            raise _error(raw)
        version: str = raw.metadata.resource_version if type(raw) is PartialPod else raw["metadata"]["resourceVersion"]
        if kind != "BOOKMARK":
            self._topic.listener.changed(self.plural, kind, raw)
        elif is_older(version, self._version):
            self._is_reset = True
            raise Expired(f"the server is at {version} and was at {self._version}: etcd was restored")
        else:
            self._topic.listener.bookmark(self.plural)
        self._version = version
        if self._refusals:
            self._refusals.clear()
        self._taken += 1
        return not self._taken % EVENTS_PER_PASS

    async def _lines(self, since: From) -> AsyncGenerator[bytes, None]:
        """Yields the lines of a watch one by one until it ends."""
        async with aclosing(self._batches(since)) as stream:
            async for some in stream:
                for line in some:
                    if not line.isspace():
                        yield line

    async def _batches(self, since: From) -> AsyncGenerator[list[bytes], None]:
        """Yields the received lines of a watch in batches until it ends. A line can be empty except for its newline."""
        topic = self._topic
        async with aclosing(lines(topic.session, self._path, since)) as stream:
            async for some in stream:
                topic.listener.record_activity(self.plural)
                yield some

    def _decoded(self, line: bytes) -> Any:
        """Decodes a watch event.

        Raises:
            Expired: the version is not available any more.
            Refused: the stream reports an error.
        """
        event = self._decode_event(line)
        if event["type"] == "ERROR":
            raise _error(event["object"])
        return event

    async def _listed(self, kind: str | None, raw: Any) -> None:
        """Passes an object of a list to the listener, and lets other tasks run from time to time."""
        await self._topic.listener.watched(self.plural, kind, raw)
        self._handled = (self._handled + 1) % EVENTS_PER_PASS
        if not self._handled:
            await asyncio.sleep(0)

    def _failed(self, error: Exception) -> str:
        """Returns the reason to log, or an empty string if only a new list is needed.

        After repeated rejections of one version, the version itself may be the cause and is dropped.
        """
        status = getattr(error, "status", None)
        if isinstance(error, Expired) or status == _GONE:
            self._topic.listener.stream_expired(self.plural)
            log.info("watch expired, listing again", resource=self.plural, reason=str(error))
            self._version = ""
            return ""
        if self._version and status is not None and self._topic.older_paths is not None and self._is_absent(status):
            self._version = ""
            return ""
        limit = TEMPORARY_REFUSALS if status in _TEMPORARY else REFUSALS
        self._refusals[limit] += not isinstance(error, Unreachable)
        if self._refusals[limit] >= limit:
            self._refusals.clear()
            self._version, self._is_reset = "", True
        return f"{type(error).__name__}: {error}"

    async def _pause(self, reason: str) -> None:
        delay_s = _with_jitter(BACKOFF_S[min(self._failures, len(BACKOFF_S) - 1)])
        self._failures += 1
        self._topic.listener.stream_broke(self.plural, reason or "it ended immediately")
        log.warning("watch stream restarted", resource=self.plural, reason=reason, in_seconds=round(delay_s, 2))
        await asyncio.sleep(delay_s)


def paths(*, has_devices: bool) -> dict[str, str]:
    """The paths of the resources that are watched."""
    return PATHS | (DEVICE_PATHS if has_devices else {})


def streams(session: KubeSession, listener: WatchListener, *, has_devices: bool = False) -> list[WatchStream]:
    """One stream for each resource."""
    return [
        WatchStream(Topic(plural, path, session, listener, OPTIONAL.get(plural)))
        for plural, path in paths(has_devices=has_devices).items()
    ]


def _error(raw: Raw) -> Expired | Refused:
    """The exception for an error event of the API server."""
    return Expired(raw.get("message", "")) if raw.get("code") == _GONE else Refused(f"the watch reports {raw}")


def _with_jitter(seconds: float) -> float:
    """The time plus jitter."""
    return seconds * (1 + JITTER * random.random())  # noqa: S311 - not security relevant


def is_older(version: str, seen: str | None) -> bool:
    """Compares numeric versions, which Kubernetes 1.35 guarantees for its own resources. Others are never older."""
    if not seen or not version.isdecimal() or not seen.isdecimal():
        return False
    return len(version) < len(seen) or (len(version) == len(seen) and version < seen)


#: Seconds without data after which a stream is stale. A watch without data is closed and restarted after 75 s.
STALE_S: Final = 120.0

#: Resources on which all decisions depend.
DECISIVE: Final = frozenset({"pods", "nodes"})


class WatchFreshness:
    """When each watch last delivered data. Called by the inbox. `clock` must also count while the machine sleeps."""

    def __init__(self, clock: Callable[[], float] = running_s) -> None:
        self._clock = clock
        self._delivered: dict[str, float] = {}
        self._delivery = asyncio.Event()
        self._fresh_until = float("-inf")  # no decisive stream is stale before

    def note(self, plural: str) -> None:
        """Records that the stream delivered data."""
        self._delivered[plural] = self._clock()
        self._delivery.set()

    @property
    def stale(self) -> str:
        """The resources with a stale stream, separated by commas; empty if there is none."""
        before = self._clock() - STALE_S
        return ", ".join(sorted(plural for plural, at in self._delivered.items() if at < before))

    def may_decide(self) -> bool:
        """Whether no decisive stream is stale. Called before each write, so it must be fast."""
        now = self._clock()
        if now > self._fresh_until:
            delivered = [self._delivered[plural] for plural in DECISIVE & self._delivered.keys()]
            self._fresh_until = min(delivered, default=now) + STALE_S
        return now <= self._fresh_until

    async def all_fresh(self) -> None:
        """Waits until no stream is stale."""
        if stale := self.stale:
            freshness_log.warning(
                "watches are stale, waiting for the current cluster state before making decisions", resources=stale
            )
        while self.stale:
            await self._next_delivery()

    async def until_stale(self) -> None:
        """Waits until a decisive stream is stale. Sleeps while none can be."""
        while self.may_decide():
            left_s = self._fresh_until - self._clock()
            await asyncio.sleep(max(0.0, left_s) + 0.01)

    async def until_fresh(self) -> None:
        """Waits until no decisive stream is stale."""
        while not self.may_decide():
            await self._next_delivery()

    async def _next_delivery(self) -> None:
        self._delivery.clear()
        await self._delivery.wait()
