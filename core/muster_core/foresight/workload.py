"""Nodes and jobs of a simulation, and the CSV files that describe them.

A trace has one line per job: `id, submit_s, run_s, estimate_s, pods, cpu_milli, memory_mib, gpu_milli, user, queue`.
Amounts are those of one pod; an empty field is unknown. Other columns are ignored. A file of nodes has `name` (or
`sn`), `cpu_milli`, `memory_mib`, `gpu`, `model`, and optionally `pods` and `count`: the number of equal nodes. Times
are virtual nanoseconds from `START_NS`.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from muster_core.model.ids import AllocationKey, ApplicationId, NodeId, RmId, TaskGroup, partition_id
from muster_core.model.resources import NOTHING, Resources
from muster_core.model.specs import ApplicationSpec, AskSpec, GangPlacement, GangStyle, Member, NodeSpec
from muster_si import keys
from muster_si.near_names import nearest

RM: Final = RmId("simulation")
PARTITION: Final = partition_id(RM, keys.DEFAULT_PARTITION)
SECOND: Final = 1_000_000_000

#: Time of the first submission. Not 0, because the core uses 0 for "not set".
START_NS: Final = 86_400 * SECOND

GPU: Final = "nvidia.com/gpu"

#: Thousandths of a GPU, used instead of whole GPUs if a job of the trace needs a part of one. They count per node, not
#: per device.
GPU_SHARE: Final = "alibabacloud.com/gpu-milli"

#: Label with the GPU model of a node.
GPU_MODEL: Final = "nvidia.com/gpu.product"
HOST_NAME: Final = "kubernetes.io/hostname"
_PODS_PER_NODE: Final = 110

#: Most pods of a job, and equal nodes of a line.
_MOST_PODS: Final = 100_000
_MOST_NODES: Final = 100_000
_MIB: Final = 1 << 20
_WORKERS: Final = TaskGroup("workers")


class BadInput(Exception):
    """A line of an input file cannot be used. The message names file, line, column, value and rule."""


@dataclass(frozen=True, slots=True)
class PodSet:
    """`count` equal pods. `request` is their template: application, key and times are set when they are created."""

    count: int
    request: AskSpec


@dataclass(frozen=True, slots=True)
class Job:
    """One application: submitted at `submit_ns`, its pods run for `run_ns`; None = until the end of the simulation.

    A gang runs from the moment that all its pods have started. Without a gang, each pod runs by itself.
    """

    application: ApplicationSpec
    pod_sets: tuple[PodSet, ...]
    submit_ns: int
    run_ns: int | None

    @property
    def id(self) -> ApplicationId:
        """ID of the application."""
        return self.application.id

    @property
    def pods(self) -> int:
        """Number of pods."""
        return sum(one.count for one in self.pod_sets)

    @property
    def resources(self) -> Resources:
        """Total of all pods."""
        total = NOTHING
        for one in self.pod_sets:
            total = total.plus(one.request.resources, one.count)
        return total


@dataclass(frozen=True, slots=True)
class TraceOptions:
    """How the jobs of a trace become applications.

    Jobs with at least `gang_from` pods are gangs with this placement. `speed`: divides the times between submissions.
    """

    gang_from: int = 2
    placement: GangPlacement = GangPlacement.AUTO
    speed: float = 1.0


_DEFAULTS: Final = TraceOptions()


def read_trace(lines: Iterable[str], file: str = "trace", options: TraceOptions = _DEFAULTS) -> list[Job]:
    """Reads the jobs of a trace. Raises BadInput."""
    rows = list(_rows(lines, file, ("id", "submit_s", "pods"), _JOB_COLUMNS))
    is_shared = any(row.amount("gpu_milli") % 1000 for row in rows)
    templates: dict[tuple[Resources, bool], AskSpec] = {}
    seen: set[str] = set()
    jobs = []
    for row in rows:
        if (name := row.text("id")) in seen:
            raise row.bad("id", "is the id of an earlier line")
        seen.add(name)
        jobs.append(_job(row, options, templates, is_shared=is_shared))
    return jobs


def _job(row: _Row, options: TraceOptions, templates: dict[tuple[Resources, bool], AskSpec], *, is_shared: bool) -> Job:
    gpu = row.amount("gpu_milli")
    amounts = {
        keys.CPU: row.amount("cpu_milli"),
        keys.MEMORY: row.amount("memory_mib") * _MIB,
        (GPU_SHARE if is_shared else GPU): gpu if is_shared else gpu // 1000,
        keys.PODS: 1,
    }
    name, pods, resources = ApplicationId(row.text("id")), row.amount("pods"), Resources(amounts)
    if not 1 <= pods <= _MOST_PODS:
        raise row.bad("pods", f"is not a number from 1 to {_MOST_PODS}")
    is_gang = pods >= options.gang_from
    group = _WORKERS if is_gang else TaskGroup("")
    template = templates.get((resources, is_gang))
    if template is None:
        template = templates[resources, is_gang] = AskSpec(
            PARTITION, ApplicationId(""), AllocationKey(""), resources, group=group
        )
    queue = row.text("queue") or "default"
    submit_ns = START_NS + int(row.amount("submit_s") * SECOND / options.speed)
    application = ApplicationSpec(
        PARTITION,
        name,
        queue=queue if queue.startswith("root.") else f"root.{queue}",
        user=row.text("user") or "nobody",
        tags=_namespace(queue),
        placeholder_ask=template.resources.times(pods) if is_gang else NOTHING,
        style=GangStyle.SOFT,
        gang_placement=options.placement,
        members=(Member(_WORKERS, pods, template.resources),) if is_gang else (),
        created_ns=submit_ns,
    )
    run_s = row.text("run_s")
    run_ns = row.amount("run_s") * SECOND if run_s else None
    return Job(application, (PodSet(pods, template),), submit_ns, run_ns)


@lru_cache(maxsize=4096)
def _namespace(queue: str) -> Mapping[str, str]:
    """Returns the tags of an application: its namespace is the name of its queue, for rules that place by namespace."""
    name = queue.rpartition(".")[2]
    return {keys.APP_TAG_NAMESPACE: name}


def read_nodes(lines: Iterable[str], file: str = "nodes") -> list[NodeSpec]:
    """Reads a CSV file of nodes. Raises BadInput."""
    nodes = [node for row in _rows(lines, file, ("cpu_milli",), _NODE_COLUMNS) for node in _nodes(row)]
    names = {node.id for node in nodes}
    if len(names) < len(nodes):
        raise BadInput(f"{file}: two nodes have the same name; write unique names, or `count` for equal nodes")
    return nodes


def _nodes(row: _Row) -> Iterator[NodeSpec]:
    gpu, model = row.amount("gpu"), row.text("model")
    capacity = Resources(
        {
            keys.CPU: row.amount("cpu_milli"),
            keys.MEMORY: row.amount("memory_mib") * _MIB,
            GPU: gpu,
            GPU_SHARE: gpu * 1000,
            keys.PODS: row.amount("pods") or _PODS_PER_NODE,
        }
    )
    base, count = row.text("name") or row.text("sn") or f"node-{row.line}", row.amount("count") or 1
    if count > _MOST_NODES:
        raise row.bad("count", f"is more than {_MOST_NODES}")
    for number in range(count):
        name = base if count == 1 else f"{base}-{number}"
        labels = {HOST_NAME: name} | ({GPU_MODEL: model} if model else {})
        yield NodeSpec(PARTITION, NodeId(name), capacity, labels=labels)


# --- CSV -------------------------------------------------------------------------------------------------------------

#: Largest amount of a field, as in the Scheduler Interface.
_MOST: Final = 1 << 48


@dataclass(frozen=True, slots=True)
class _Row:
    """One line of a file, counted from 1."""

    file: str
    line: int
    fields: Mapping[str, str]

    def text(self, column: str) -> str:
        return (self.fields.get(column) or "").strip()

    def amount(self, column: str) -> int:
        """Returns a whole number of at least 0; an empty field is 0."""
        text = self.text(column)
        if not text:
            return 0
        if not (text.isascii() and text.isdigit()):
            raise self.bad(column, "is not a whole number of at least 0")
        if (found := int(text[:20])) > _MOST:
            raise self.bad(column, f"is more than {_MOST}")
        return found

    def bad(self, column: str, rule: str) -> BadInput:
        return BadInput(f"{self.file}:{self.line}: {column} {self.text(column)[:80]!r} {rule}")


#: The columns that are read. Others are ignored, unless they look like a mistyped one.
_NODE_COLUMNS: Final = ("name", "sn", "cpu_milli", "memory_mib", "gpu", "model", "pods", "count")
_JOB_COLUMNS: Final = (
    *("id", "submit_s", "run_s", "estimate_s", "pods", "cpu_milli", "memory_mib", "gpu_milli", "user", "queue"),
)


def _rows(lines: Iterable[str], file: str, needed: Sequence[str], known: Sequence[str]) -> Iterator[_Row]:
    """Yields the lines after the header. Raises BadInput if columns are missing or mistyped."""
    reader = csv.DictReader(lines)
    try:
        _check_header(reader.fieldnames or (), file, needed, known)
        for fields in reader:
            yield _Row(file, reader.line_num, fields)
    except (csv.Error, UnicodeDecodeError) as error:
        raise BadInput(f"{file}:{reader.line_num}: is not CSV in UTF-8: {error}") from error


def _check_header(header: Sequence[str], file: str, needed: Sequence[str], known: Sequence[str]) -> None:
    """Raises BadInput if columns are missing or mistyped."""
    absent = [column for column in known if column not in header]
    mistyped = {name: closest for name in header if name not in known and (closest := _meant(name, absent))}
    if missing := [column for column in needed if column not in header]:
        problem = f"has no column {', '.join(missing)}" if header else "is empty"
    elif mistyped:
        problem = f"has {'unknown columns' if len(mistyped) > 1 else 'an unknown column'} {', '.join(mistyped)}"
    else:
        return
    fixes = ", ".join(f"{closest} for {name}" for name, closest in mistyped.items())
    fix = f"write {fixes}" if fixes else "name the columns in the first line"
    raise BadInput(f"{file}:1: {problem}; {fix}. Columns: {', '.join(known)}")


def _meant(name: str, absent: Sequence[str]) -> str:
    """Returns the absent column that a name of the header probably means: cpu_milli for `cpu`; empty = none."""
    typed = name.strip().lower().removesuffix("s")
    begun = (column for column in absent if len(typed) > 1 and column.startswith(typed))
    return next(begun, "") or nearest(typed, absent, 0.8)
