"""`muster plan`: what an edited queue configuration would change in the cluster as it is now.

Copies the cluster (`muster.cluster_copy`), lets the production core run once with the active configuration and once
with the edited one, and prints how the outcomes differ. Nothing in the cluster is changed.
"""

from __future__ import annotations

import time
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Annotated, Any, Final

import typer
from rich.console import Group, RenderableType

from muster.cluster_copy import ClusterCopy, read_copy
from muster.config import read_configuration, read_file, shown_name
from muster.errors import PROBLEM, BadUsage
from muster.options import Target, connected
from muster.output import Format, Output, show, table
from muster.printers import amounts, count, span
from muster_core.foresight.outlook import APPLICATIONS, ApplicationOutlook, Fate, Outlook, Usage, outlook
from muster_core.foresight.virtual_core import VirtualCore
from muster_core.foresight.workload import PARTITION, RM
from muster_core.model.config import Configuration
from muster_core.model.effects import ApplicationRejected
from muster_core.model.events import ApplicationAdded, ConfigurationReplaced, ManagerRegistered
from muster_core.model.ids import ApplicationId
from muster_si import keys

Json = dict[str, Any]

EXAMPLES: Final = (
    "muster plan queues.yaml",
    "kubectl get configmap muster-configs -n muster -o yaml | muster plan -",
    "muster plan queues.yaml --within 600 -o json",
)

#: Longest virtual time, the real time of one command, and the longest file. The core reads 4 Mi characters.
_MOST_S: Final = 86_400
_REAL_S: Final = 60.0
_MOST_BYTES: Final = 16 << 20
_SECOND: Final = 1_000_000_000

#: Lines without `-o wide`.
_SHOWN: Final = 40


@connected
def command(
    target: Target,
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="queues.yaml or the manifest of a ConfigMap; - = standard input.")
    ],
    *,
    within: Annotated[
        int, typer.Option(min=1, max=_MOST_S, help="Seconds of virtual time after the configuration is applied.")
    ] = 60,
    output: Format = Output.TABLE,
) -> None:
    """Show what an edited queue configuration would change in the cluster as it is now.

    Nothing is changed. Lists all nodes and pods. Exits with 0 without a difference, with 1 if there are differences,
    and with 2 if the core would reject the file.
    """
    found = show(lambda: _read(target, file, within), _view, output)
    if found["differences"]:
        raise typer.Exit(PROBLEM)


def _read(target: Target, file: str, within: int) -> Json:
    """Raises CommandError."""
    written, shown = read_file(file, _MOST_BYTES), shown_name(file)
    if not written.strip():  # for example of a pipe whose first program failed
        raise BadUsage(f"{shown} is empty; write the complete configuration")
    read_configuration(written, shown)  # an invalid file needs no cluster
    copied = read_copy(target.rest, target.cluster, "plan")
    edited = read_configuration(written, shown, copied.extra)
    edited.print_warnings()
    require_partition(edited.configuration, shown)
    return planned(copied, edited.configuration, within, _REAL_S)


def require_partition(configuration: Configuration, file: str) -> None:
    """Raises BadUsage if the configuration of this file lacks the partition that is simulated."""
    if keys.DEFAULT_PARTITION not in {one.name for one in configuration.partitions}:
        raise BadUsage(f"{file}: has no partition {keys.DEFAULT_PARTITION!r}, which the operator uses")


def planned(copied: ClusterCopy, configuration: Configuration, within: int, real_s: float) -> Json:
    """The differences as data. Raises BadUsage if the real time does not suffice."""
    deadline = time.monotonic() + real_s
    on_copy = copied.unscheduled()

    def run(*events: ConfigurationReplaced, other_than: Outlook | None = None) -> Outlook:
        found = on_copy(
            lambda copy: outlook(
                copy, PARTITION, events, within * _SECOND, lambda: time.monotonic() < deadline, other_than=other_than
            )
        )
        if found is None:
            raise BadUsage(f"the cluster cannot be simulated in {real_s:g} s; use a smaller --within")
        return found

    now = copied.once("outlook", within, run)
    then = run(ConfigurationReplaced(RM, replace(configuration, tracking=False)), other_than=now)
    places = copied.once("placed", 0, lambda: _placed(copied, copied.configuration)), _placed(copied, configuration)
    unlimited = _without_maximum(copied.configuration, configuration)
    return {"within": within, "differences": [*differences(now, then), *unlimited, *_placed_otherwise(now, *places)]}


def _without_maximum(present: Configuration, edited: Configuration) -> Iterator[Json]:
    """Queues of both configurations that lose a maximum: after a typing error in a name, this is the only effect."""
    before, after = dict(_maximums(present)), dict(_maximums(edited))
    for queue, maximum in before.items():
        if lost := {name: bound for name, bound in maximum.items() if name not in after.get(queue, maximum)}:
            yield {"change": "unlimited", "queue": queue, "max": lost}


def _maximums(configuration: Configuration) -> Iterator[tuple[str, dict[str, int]]]:
    """The path of each queue with its own maximum."""
    queues = [(one.root.name, one.root) for one in configuration.partitions if one.name == keys.DEFAULT_PARTITION]
    for path, queue in queues:
        yield path, dict(queue.max.items())
        queues += [(f"{path}.{child.name}", child) for child in queue.children]


@dataclass(frozen=True, slots=True)
class _Place:
    """The queue of an application; empty = it is rejected for this reason."""

    queue: str
    reason: str = ""


def _placed(copied: ClusterCopy, configuration: Configuration) -> dict[ApplicationId, _Place]:
    """Where applications would be placed if they were submitted under this configuration."""
    core = VirtualCore(copied.now_ns)
    core.apply([ManagerRegistered(RM, replace(configuration, tracking=False))])
    partition = core.scheduler_state.partitions[PARTITION]
    queues = partition.queues.by_path
    known: dict[int, _Place | None] = {}  # by kind of application, for the present queues
    found: dict[ApplicationId, _Place] = {}
    for name, kind, event in copied.once("kinds", 0, lambda: [*_kinds(copied)]):
        if kind not in known:
            number = len(queues)
            rejected = [one for one in core.apply([event]) if isinstance(one, ApplicationRejected)]
            app = partition.applications.get(name)
            if len(queues) != number:
                known.clear()
            if app is not None:
                known[kind] = _Place(app.queue.path)
            else:
                known[kind] = _Place("", rejected[0].reason) if rejected else None
        if (place := known[kind]) is not None:
            found[name] = place
    return found


def _kinds(copied: ClusterCopy) -> Iterator[tuple[ApplicationId, int, ApplicationAdded]]:
    """New applications like the present ones, with the number of their kind.

    Those of a kind differ in nothing that a placement rule reads.
    """
    numbers: dict[Hashable, int] = {}
    for event in copied.objects:
        if isinstance(event, ApplicationAdded) and not event.spec.is_renewal:
            spec = replace(event.spec, placed=None, forced=False)
            kind = _OF_PLACEMENT(spec), frozenset(spec.tags.items())
            yield spec.id, numbers.setdefault(kind, len(numbers)), ApplicationAdded(spec)


#: What a queue is chosen or refused for, with the tags.
_OF_PLACEMENT: Final = attrgetter(
    *("queue", "user", "groups", "groups_unknown", "namespace", "quota"),
    *("placeholder_ask", "members", "gang_placement", "style", "topology"),
)


def _placed_otherwise(
    now: Outlook, present: Mapping[ApplicationId, _Place], edited: Mapping[ApplicationId, _Place]
) -> Iterator[Json]:
    for name, place in edited.items():
        if name not in now.applications or present.get(name, place).queue == place.queue:
            continue
        subject = _subject(now.applications[name])
        if not place.queue:
            yield {"change": "rejected", **subject, "reason": place.reason}
        else:
            yield {"change": "moves", **subject, "to": place.queue}


def differences(now: Outlook, then: Outlook) -> Iterator[Json]:
    """How the second outlook differs from the first."""
    for name, before in now.applications.items():
        after = then.applications.get(name)
        if after is None:
            continue
        if after.fate is not before.fate:
            yield {"change": _CHANGES[after.fate], **_subject(after), **_details(after)}
        if after.preempted > before.preempted:
            yield {"change": "preempted", **_subject(after), "pods": after.preempted - before.preempted}
    known = {(one.queue, one.user, one.group): one for one in now.excesses}
    for excess in then.excesses:
        if known.get((excess.queue, excess.user, excess.group)) != excess:
            yield {"change": "exceeds", **usage_data(excess)}


_CHANGES: Final = {
    Fate.STARTED: "starts",
    Fate.WAITING: "waits",
    Fate.REJECTED: "rejected",
    Fate.FAILED: "fails",
}


def _subject(app: ApplicationOutlook) -> Json:
    return {"application": app.name, "namespace": app.namespace, "user": app.user, "queue": app.queue}


def _details(app: ApplicationOutlook) -> Json:
    return {"nodes": dict(app.nodes)} if app.fate is Fate.STARTED else {"reason": app.reason}


def usage_data(usage: Usage) -> Json:
    """Usage and maximum of a queue, or of a user or group in it."""
    return {
        "queue": usage.queue,
        "user": usage.user,
        "group": usage.group,
        "used": dict(usage.used),
        "max": dict(usage.max),
    }


# --- output ----------------------------------------------------------------------------------------------------------

_ORDER: Final = ("unlimited", "exceeds", "preempted", "rejected", "fails", "moves", "waits", "starts")


def _view(found: Json, wide: bool, now_ns: int) -> RenderableType:  # noqa: FBT001  # the signature of a View
    entries = in_order(found)
    if not entries:
        return summary(found)
    made = table("CHANGE", "APPLICATION", "QUEUE", "MESSAGE", sentences=("MESSAGE",))
    for entry in entries if wide else entries[:_SHOWN]:
        name = "/".join(filter(None, (entry.get("namespace"), entry.get("application"))))
        made.add_row(entry["change"], name, entry["queue"], message(entry))
    rest = len(entries) - _SHOWN
    more = [f"and {rest} more (-o wide)"] if rest > 0 and not wide else []
    return Group(made, *more, "", summary(found))


def in_order(found: Json) -> list[Json]:
    """The differences, the most important first."""
    return sorted(found["differences"], key=lambda entry: _ORDER.index(entry["change"]))


def message(entry: Json) -> str:
    """One difference in words."""
    match entry["change"]:
        case "starts":
            return f"on {nodes_text(entry['nodes'])}" if entry["nodes"] else ""
        case "preempted":
            return count(entry["pods"], "pod")
        case "exceeds":
            return usage_text(entry)
        case "unlimited":
            return f"loses its maximum of {amounts(entry['max'])}"
        case "moves":
            return f"to {entry['to']}"
        case _:
            return str(entry["reason"])


def nodes_text(nodes: Mapping[str, int], most: int = 4) -> str:
    """`a, b (2 pods) and 3 more nodes`."""
    shown = [name if number == 1 else f"{name} ({count(number, 'pod')})" for name, number in list(nodes.items())[:most]]
    rest = len(nodes) - most
    return ", ".join(shown) + (f" and {count(rest, 'more node')}" if rest > 0 else "")


def usage_text(entry: Json) -> str:
    """Usage and maximum in words."""
    whose = f"user {entry['user']}: " if entry["user"] else f"group {entry['group']}: " if entry["group"] else ""
    parts = []
    for name in entry["used"]:
        if name == APPLICATIONS:
            parts.append(f"{count(entry['used'][name], 'application')} running, maximum {entry['max'][name]}")
        else:
            used, most = ({name: entry[key][name]} for key in ("used", "max"))
            parts.append(f"uses {amounts(used)}, maximum {amounts(most)}")
    return whose + "; ".join(parts)


def summary(found: Json) -> str:
    """The number of differences of each kind in words."""
    within, numbers = span(found["within"]), dict.fromkeys(_ORDER, 0)
    if not found["differences"]:
        return f"No difference within {within}"
    for entry in found["differences"]:
        numbers[entry["change"]] += 1
    shown = [f"{number} {_WORDS[change]}" for change, number in numbers.items() if number]
    return f"Within {within}, against the active configuration: {', '.join(shown)}"


_WORDS: Final = {
    "unlimited": "without a maximum",
    "exceeds": "above a maximum",
    "preempted": "preempted",
    "rejected": "rejected if submitted again",
    "fails": "failed",
    "moves": "moved if submitted again",
    "waits": "no longer started",
    "starts": "started",
}
