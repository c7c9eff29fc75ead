"""What happened to an application (`muster explain --history`): states and events of the core, and events of its pods.

Equal things within a few seconds are one entry. Lists are bounded: the newest events of the core, the first events
of each namespace, and the newest entries.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any, Final
from urllib.parse import quote

from muster import pending
from muster.clients.kubernetes import Cluster
from muster.clients.rest import Rest
from muster.errors import BadUsage, NotThere, Unreachable
from muster_si import si_pb2

Json = dict[str, Any]

#: Entries, and events that are read of each namespace.
MOST_ENTRIES: Final = 200
MOST_EVENTS: Final = 5_000
#: An entry stands for equal things that are at most this far apart, with at most three others between them.
_NEAR_NS: Final = 10 * 10**9
_RECENT: Final = 4
#: Names of an entry.
_MOST_NAMES: Final = 3

_CORE: Final = "core"
_POD: Final = "pod"
_ADD: Final = si_pb2.EventRecord.ADD
_Detail = si_pb2.EventRecord
_STATE: Final = "state "

#: What a record says, by its detail. Others with a message are shown with it, and the others are left out: an
#: allocation also has the record of its request.
_WORDS: Final = {
    _Detail.APP_CANNOTRUN_QUEUE: "held back by the maximum of applications of its queue",
    _Detail.APP_RUNNABLE_QUEUE: "no longer held back by its queue",
    _Detail.APP_CANNOTRUN_QUOTA: "held back by the maximum of applications of its user or group",
    _Detail.APP_RUNNABLE_QUOTA: "no longer held back by its user or group",
    _Detail.REQUEST_CANCEL: "request ended",
    _Detail.REQUEST_TIMEOUT: "request timed out",
    _Detail.ALLOC_CANCEL: "allocation ended",
    _Detail.ALLOC_PREEMPT: "allocation preempted",
    _Detail.ALLOC_TIMEOUT: "placeholder timed out",
    _Detail.ALLOC_REPLACED: "placeholder replaced",
    _Detail.ALLOC_NODEREMOVED: "allocation ended with its node",
}
#: The same for a record that something was added.
_ADDED: Final = {_Detail.APP_REQUEST: "requested", _Detail.APP_ALLOC: "allocated"}
#: The same for slots of members without a pod. Their requests and the members that take them are left out.
_SLOT_WORDS: Final = {
    _Detail.ALLOC_CANCEL: "reservation ended",
    _Detail.ALLOC_PREEMPT: "reservation preempted",
    _Detail.ALLOC_TIMEOUT: "reservation timed out",
    _Detail.ALLOC_NODEREMOVED: "reservation ended with its node",
}
_SLOT_ADDED: Final = {_Detail.APP_ALLOC: "reserved"}
_SLOT: Final = "slot of "
#: States by the detail of their record.
_STATES: Final = {
    getattr(_Detail, f"APP_{state.upper()}"): state
    for state in ("New", "Accepted", "Running", "Resuming", "Completing", "Completed", "Failing", "Failed", "Expired")
} | {_Detail.APP_REJECT: "Rejected"}


@dataclass(slots=True)
class HistoryEntry:
    """Something that happened `count` times, from `time` to `until` (nanoseconds since the epoch).

    `source`: core, or the component that sent an event. `names`: some of the pods.
    """

    time: int
    source: str
    what: str
    message: str = ""
    names: list[str] = field(default_factory=list)
    count: int = 1
    until: int = 0


def history(app: Json, pod: str, rest: Rest, cluster: Callable[[], Cluster]) -> Json:
    """The history of an application, or of one pod (NAMESPACE/NAME or a key) and the states of its application.

    `notes`: what could not be read, and why.
    """
    notes: list[str] = []
    items = [item for item in (*app["allocations"], *app["requests"]) if pending.kind(item) != "slot"]
    names = {item["allocationKey"]: pending.full_name(item) for item in items}
    spaces = {app.get("namespace") or "", *(name.rpartition("/")[0] for name in names.values())} - {""}
    keys = {key for key, name in names.items() if pod in ("", key, name)}
    try:
        records = rest.story(app["applicationID"], app.get("namespace") or "")
    except (Unreachable, NotThere) as error:
        records = []
        notes.append(f"events of the core: {error}")
    written = (record.get("referenceID") or record["objectID"] for record in records)
    for key in (*written, *(item["allocationKey"] for item in app["requests"])):
        if group := _group_of_slot(key, app["applicationID"]):
            names[key] = f"{_SLOT}{group}"
    found = [*_of_core(records, pod, keys, names), *_states(app, records), *_reasons(app, pod, keys)]
    keys.update("" if pod else record["referenceID"] for record in records if record.get("referenceID"))
    for space in sorted(spaces if not pod else {pod.rpartition("/")[0]} - {""}):
        try:
            found += _events_of_pods(cluster(), space, keys, pod, names, notes)
        except (Unreachable, NotThere, BadUsage) as error:
            notes.append(f"events of pods: {error}")
    return _in_order(found, names, notes)


def of_pods(cluster: Cluster, pods: Collection[Json]) -> Json:
    """The history of pods, without the core. Raises nothing if their events cannot be read."""
    notes: list[str] = []
    names = {pod["metadata"]["uid"]: f"{pod['metadata']['namespace']}/{pod['metadata']['name']}" for pod in pods}
    found = [entry for pod in pods for entry in _conditions(pod)]
    for space in sorted({pod["metadata"]["namespace"] for pod in pods}):
        try:
            found += _events_of_pods(cluster, space, names, "", names, notes)
        except (Unreachable, NotThere) as error:
            notes.append(f"events of pods: {error}")
    return _in_order(found, names, notes)


def _conditions(pod: Json) -> Iterator[HistoryEntry]:
    uid = pod["metadata"]["uid"]
    yield HistoryEntry(_nanoseconds(pod["metadata"]["creationTimestamp"]), _POD, "created", names=[uid])
    for condition in (pod.get("status") or {}).get("conditions") or []:
        if condition.get("lastTransitionTime"):
            what = f"condition {condition['type']}={condition['status']} {condition.get('reason') or ''}".strip()
            at = _nanoseconds(condition["lastTransitionTime"])
            yield HistoryEntry(at, _POD, what, condition.get("message") or "", [uid])


def _in_order(found: Iterable[HistoryEntry], names: Json, notes: list[str]) -> Json:
    """The newest entries, oldest first. `names`: names of pods by their keys."""
    entries: list[HistoryEntry] = []
    for entry in sorted(found, key=lambda entry: entry.time):
        shown = [names.get(name, name) for name in entry.names]
        last = next((one for one in entries[: -_RECENT - 1 : -1] if _is_alike(one, entry)), None)
        if last is not None:
            last.count += entry.count
            last.until = max(last.until, entry.until, entry.time)
            last.names += [name for name in shown if name not in last.names][: _MOST_NAMES - len(last.names)]
        else:
            entry.names, entry.until = shown, entry.until or entry.time
            entries.append(entry)
    earlier = len(entries) - MOST_ENTRIES
    if earlier > 0:
        notes.append(f"{earlier} earlier entries are left out")
    return {"entries": [asdict(entry) for entry in entries[-MOST_ENTRIES:]], "notes": notes}


def _is_alike(last: HistoryEntry, entry: HistoryEntry) -> bool:
    is_near = entry.time - last.until <= _NEAR_NS
    return is_near and (last.source, last.what, last.message) == (entry.source, entry.what, entry.message)


def _group_of_slot(key: str, app_id: str) -> str:
    """The task group of a slot, whose key is APPLICATION/GROUP or APPLICATION/GROUP/NUMBER; empty for a pod's UID."""
    found = re.fullmatch(rf"(?:.*/)?{re.escape(app_id)}/(.+?)(?:/\d+)?", key)
    return found[1] if found else ""


def _of_core(records: Iterable[Json], pod: str, keys: Collection[str], names: Json) -> Iterator[HistoryEntry]:
    for record in records:
        is_about_request = record["type"] == si_pb2.EventRecord.REQUEST
        key = record["objectID"] if is_about_request else record.get("referenceID", "")
        if pod and key and key not in keys:
            continue
        detail, message = record.get("eventChangeDetail", 0), record.get("message", "")
        is_slot = names.get(key, "").startswith(_SLOT)
        what = (_SLOT_WORDS if is_slot else _WORDS).get(detail, "")
        added = _SLOT_ADDED if is_slot else _ADDED
        if detail in _STATES:
            what = f"{_STATE}{_STATES[detail]}"
        elif detail in added and record["eventChangeType"] == _ADD:
            what = added[detail]
        if what or message:
            yield HistoryEntry(record["timestampNano"], _CORE, what, message, [key] if key else [])


def _states(app: Json, records: Iterable[Json]) -> Iterator[HistoryEntry]:
    """The states without a record, and why the application was rejected or failed."""
    known = {(record["timestampNano"], _STATES.get(record.get("eventChangeDetail", 0))) for record in records}
    why = {"Rejected": app["rejectedMessage"], **dict.fromkeys(("Failing", "Failed"), app.get("failureMessage") or "")}
    for change in app["stateLog"]:
        state, at = change["applicationState"], change["time"]
        if (at, state) not in known:
            yield HistoryEntry(at, _CORE, f"{_STATE}{state}", why.get(state, ""))


def _reasons(app: Json, pod: str, keys: Collection[str]) -> Iterator[HistoryEntry]:
    """Why its requests waited, and preemption attempts."""
    for item in app["requests"]:
        for entry in item.get("allocationLog") or () if item["allocationKey"] in keys or not pod else ():
            what = f"waits: {entry['reason']}" if entry.get("reason") else "preemption"
            yield HistoryEntry(entry["lastOccurrence"], _CORE, what, entry["message"], [item["allocationKey"]])


def _events_of_pods(
    cluster: Cluster, namespace: str, keys: Collection[str], pod: str, names: Json, notes: list[str]
) -> Iterator[HistoryEntry]:
    """Events of the pods with these keys (UIDs), and of the pod. Raises NotThere, Unreachable."""
    path = f"/api/v1/namespaces/{quote(namespace, safe='')}/events"
    fields = "involvedObject.kind=Pod" + (f",involvedObject.name={pod.rpartition('/')[2]}" if pod else "")
    for number, event in enumerate(cluster.list(path, fieldSelector=fields)):
        if number >= MOST_EVENTS:
            notes.append(f"events of pods: namespace {namespace} has more than {MOST_EVENTS}; the others are left out")
            return
        about = event.get("involvedObject") or {}
        name = f"{namespace}/{about.get('name')}"
        if about.get("kind") != "Pod" or (about.get("uid") not in keys and name != pod):
            continue
        names.setdefault(str(about.get("uid")), name)
        times = [event.get(key) for key in ("eventTime", "firstTimestamp", "lastTimestamp")]
        at = [_nanoseconds(text) for text in (*times, (event.get("series") or {}).get("lastObservedTime")) if text]
        source = event.get("reportingComponent") or (event.get("source") or {}).get("component") or "kubernetes"
        if at:
            count = (event.get("series") or {}).get("count") or event.get("count") or 1
            yield HistoryEntry(
                *(min(at), str(source), str(event.get("reason") or ""), str(event.get("message") or "")),
                names=[name],
                count=int(count),
                until=max(at),
            )


def _nanoseconds(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp() * 1e6) * 1000
