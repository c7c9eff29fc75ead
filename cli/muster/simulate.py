"""`muster simulate`: a workload under one or more queue configurations, in virtual time, without a cluster.

Runs the production core of this package (`muster_core.foresight`). Reads nodes, workload and queues from files, prints
the measures side by side, and writes a report and one line per job on request.
"""

from __future__ import annotations

import csv
import gzip
import io
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from muster.config import read_configuration, read_file, shown_name
from muster.errors import BadUsage
from muster.manifests import Manifests, read_manifests
from muster.options import exit_on_error
from muster.output import Format, Output, console, emit
from muster.simulation_report import Result, comparison, page, unstarted
from muster.text import print_line, printable
from muster_core.config.load import DEFAULT_TEXT, load
from muster_core.foresight import measures, simulation, workload
from muster_core.foresight.outside import JobState, Latencies
from muster_core.foresight.workload import SECOND, BadInput, Job, TraceOptions
from muster_core.model.config import Configuration
from muster_core.model.specs import GangPlacement, NodeSpec
from muster_operator.translate.values import Raw
from muster_si import keys

EXAMPLES: Final = (
    "muster simulate --nodes nodes.csv --workload trace.csv --queues queues.yaml",
    "muster simulate --nodes n.csv -w w.csv -q a.yaml -q b.yaml --report r.html",
    "muster simulate --nodes nodes.csv -w trace.csv --placement Reserve -o json",
    "muster simulate --nodes cluster.json --workload job.yaml --run-time 3600",
)


class Placement(StrEnum):
    """Values of `--placement`."""

    AUTO = "Auto"
    DIRECT = "Direct"
    RESERVE = "Reserve"


def command(  # noqa: PLR0913 # long: the command line is its options
    *,
    nodes: Annotated[str, typer.Option("--nodes", help="Nodes: a CSV file, or manifests (.yaml, .json).")],
    workload: Annotated[
        list[str],
        typer.Option("--workload", "-w", help="Trace (.csv, .csv.gz) or manifests (.yaml, .json); repeatable."),
    ],
    queues: Annotated[
        list[str] | None,
        typer.Option(
            "--queues",
            "-q",
            help="queues.yaml, or the manifest of a ConfigMap; repeat it to compare (default: a queue per namespace).",
        ),
    ] = None,
    report: Annotated[Path | None, typer.Option(help="Write an HTML report to this file.")] = None,
    jobs: Annotated[Path | None, typer.Option(help="Write one line per job to this CSV file.")] = None,
    gang_from: Annotated[int, typer.Option(min=1, help="Jobs of a trace with this many pods or more are gangs.")] = 2,
    placement: Annotated[Placement, typer.Option(help="Gang placement of the jobs of a trace.")] = Placement.AUTO,
    speed: Annotated[float, typer.Option(min=0.001, help="Divides the times between submissions of a trace.")] = 1.0,
    start_latency: Annotated[float, typer.Option(min=0, help="Seconds from the decision until a pod runs.")] = 0.0,
    stop_latency: Annotated[float, typer.Option(min=0, help="Seconds from the deletion of a pod to its end.")] = 0.0,
    run_time: Annotated[
        int | None, typer.Option(min=0, help="Seconds that pods of manifests run, unless they have a deadline.")
    ] = None,
    output: Format = Output.TABLE,
) -> None:
    """Simulate a workload with the scheduler of this version, and compare queue configurations.

    No cluster is read or changed. Progress is shown on a terminal. Exits with 2 if a file cannot be used.
    """
    options = TraceOptions(gang_from, GangPlacement(placement.value), speed)
    latencies = Latencies(int(start_latency * SECOND), int(stop_latency * SECOND))

    def run() -> None:
        try:
            results = _results(nodes, workload, queues or [], Reader(options, run_time), latencies)
        except BadInput as error:
            raise BadUsage(str(error)) from error
        _write(results, report, jobs)
        if output.is_data:
            emit([{"configuration": one.name, **asdict(one.summary)} for one in results], output)
        else:
            console().print(comparison(results))
            for line in unstarted(results):
                print_line(line)

    exit_on_error(run)


def _results(
    nodes: str, workloads: Sequence[str], queues: Sequence[str], reader: Reader, latencies: Latencies
) -> list[Result]:
    """Raises BadUsage, BadInput."""
    configurations = [(shown_name(file), _configuration(read_file(file), shown_name(file))) for file in queues]
    cluster = reader.nodes(nodes)
    jobs = [job for file in workloads for job in reader.jobs(file)]
    if not cluster or not jobs:
        raise BadUsage(f"{nodes if not cluster else workloads[0]}: has no {'jobs' if cluster else 'nodes'}")
    if len({job.id for job in jobs}) < len(jobs):
        raise BadUsage("two files of --workload have a job with the same id; write unique ids")
    if (twice := _first_twice(jobs)) is not None:
        raise BadUsage(f"two files of --workload have a pod {twice}; write unique names")
    found = configurations or [("default", load(DEFAULT_TEXT, {}).configuration)]
    return [_result(name, configuration, cluster, jobs, latencies) for name, configuration in found]


def _configuration(written: str, file: str) -> Configuration:
    """Raises BadUsage. Prints the warnings."""
    found = read_configuration(written, file)
    found.print_warnings()
    return found.configuration


def _first_twice(jobs: Iterable[Job]) -> str | None:
    """The first pod that two jobs have; pods of a trace have no names."""
    tags = (one.request.tags for job in jobs for one in job.pod_sets)
    names = Counter(f"{one[keys.TAG_NAMESPACE]}/{one[keys.TAG_POD_NAME]}" for one in tags if keys.TAG_POD_NAME in one)
    return next((name for name, count in names.items() if count > 1), None)


def _result(
    name: str, configuration: Configuration, nodes: Sequence[NodeSpec], jobs: Sequence[Job], latencies: Latencies
) -> Result:
    with _shown(name, len(jobs)) as progress:
        run = simulation.simulate(nodes, jobs, configuration, latencies, progress)
    return Result(name, run, measures.summary(run))


@contextmanager
def _shown(name: str, total: int) -> Iterator[simulation.Progress]:
    """A progress bar with the remaining time, on a terminal only."""
    screen = console(err=True)
    texts = (TextColumn("{task.description}", markup=False), TextColumn("{task.completed}/{task.total} jobs"))
    with Progress(
        texts[0],
        BarColumn(),
        texts[1],
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=screen,
        disable=not screen.is_terminal,
    ) as bar:
        task = bar.add_task(printable(name), total=total)
        yield lambda over, _: bar.update(task, completed=over)


# --- files -----------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Reader:
    """Reads nodes and jobs. `run_s`, `shared`, `pods`: see `manifests`; later files see objects of earlier ones."""

    options: TraceOptions
    run_s: int | None
    shared: Sequence[Raw] = ()
    pods: int = 0

    def nodes(self, file: str) -> Sequence[NodeSpec]:
        """Raises BadUsage, BadInput."""
        return self._manifests(file).nodes if _is_manifest(file) else workload.read_nodes(_lines(file), file)

    def jobs(self, file: str) -> Sequence[Job]:
        """Raises BadUsage, BadInput."""
        if _is_manifest(file):
            return self._manifests(file).jobs
        return workload.read_trace(_lines(file), file, self.options)

    def _manifests(self, file: str) -> Manifests:
        read = read_manifests(read_file(file), file, self.run_s, self.shared, self.pods)
        self.shared, self.pods = read.shared, read.pods
        return read


def _is_manifest(file: str) -> bool:
    return file.endswith((".yaml", ".yml", ".json"))


def _lines(file: str) -> list[str]:
    """The lines of a text file, decompressed if its name ends in .gz. Raises BadUsage."""
    if not file.endswith(".gz"):
        return read_file(file).splitlines()
    try:
        return gzip.decompress(Path(file).read_bytes()).decode().splitlines()
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        raise BadUsage(f"{file} cannot be read: {error}") from error


def _write(results: Sequence[Result], report: Path | None, jobs: Path | None) -> None:
    """Raises BadUsage if a file cannot be written."""
    for path, text in ((report, page), (jobs, _as_csv)):
        if path is not None:
            try:
                path.write_text(text(results))
            except OSError as error:
                raise BadUsage(f"{path} cannot be written: {error.strerror}") from error


_COLUMNS: Final = (
    "configuration",
    "id",
    "queue",
    "user",
    "pods",
    "state",
    "submit_s",
    "wait_s",
    "end_s",
    "preemptions",
    "reason",
)


def _as_csv(results: Sequence[Result]) -> str:
    """One line per configuration and job. Times are seconds from the start; an empty field is unknown."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(_COLUMNS)
    for result in results:
        start_ns = result.run.timeline.start_ns
        for one in result.run.records:
            wait_s = measures.wait_s(one) if one.started_ns else ""
            end_s = (one.ended_ns - start_ns) / SECOND if one.state is JobState.COMPLETED else ""
            submit_s = (one.job.submit_ns - start_ns) / SECOND
            user = one.job.application.user
            row = (one.job.id, one.queue, user, one.job.pods, one.state.value, submit_s, wait_s, end_s)
            writer.writerow((result.name, *row, one.preemptions, printable(one.reason)))
    return text.getvalue()
