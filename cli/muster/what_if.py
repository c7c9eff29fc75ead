"""Answers questions about the present state of a core: what would start an application and when, and what manifests or
an edited configuration would do.

`muster_core.rest.what_if` starts it as a process of its own (`python -m muster.what_if BYTES SECONDS`), so that the
core neither waits for an answer nor keeps the memory of a copy. It reads states and questions from standard input, and
writes a line for each question: the status of the response, and its JSON or error message. The answers are those of
`muster explain`, `plan` and `apply --dry-run` with `-o json`, and `lines`: what these commands print.
"""

from __future__ import annotations

import gc
import io
import logging
import os
import pickle
import resource
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, BinaryIO, Final

import orjson
import structlog

from muster import dry_run, plan, printers
from muster.cluster_copy import ClusterCopy
from muster.config import read_configuration
from muster.errors import BadUsage
from muster.estimate import estimate
from muster.manifests import Submitter, read_requests
from muster.unblocking import changes
from muster_core.foresight import present
from muster_core.foresight.forecast import RunTimeHistory
from muster_core.foresight.present import ENDED, NEW_STATE, PresentState
from muster_core.foresight.workload import PARTITION, BadInput
from muster_core.model.events import AllocationReported, ApplicationAdded, AskAdded, Event, NodeAdded
from muster_core.model.specs import ApplicationSpec
from muster_si import keys

Json = dict[str, Any]

#: Added to the niceness of the core, which has precedence.
_NICER: Final = 10
#: Names in messages.
_MANIFESTS, _QUEUES = "manifests", "queues.yaml"
_SUBJECT: Final = "the simulation"


def main(memory_bytes: int, cpu_s: int) -> None:
    """Answers until standard input ends. The limits are those of this process; `cpu_s` is for one question."""
    os.nice(_NICER)
    gc.set_threshold(100_000, 50, 1_000)  # a state is hundreds of thousands of objects that stay
    out = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what anything prints is no answer
    resource.setrlimit(resource.RLIMIT_DATA, (memory_bytes, memory_bytes))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    answers: Answers | None = None
    earlier: _EarlierViews | None = None
    file = io.BufferedReader(io.FileIO(sys.stdin.fileno(), closefd=False))
    while file.peek(1):
        resource.setrlimit(resource.RLIMIT_CPU, (int(time.process_time()) + cpu_s, hard))
        try:
            question = pickle.load(file)  # noqa: S301  # the core wrote it
            if question == NEW_STATE:
                answers = None  # the memory of the old state is free first
                gc.collect()
                answers = Answers(present.read(file))
            elif question["question"] == "earlier":
                if earlier is None or earlier.journal != question["journal"]:
                    earlier = _EarlierViews(question["journal"])
                _write(out, *earlier.answer(question))
            elif answers is not None:
                _write(out, *answers.answer(question))
        except MemoryError:
            _write(out, ENDED, f"the state of the scheduler needs more than {memory_bytes >> 20} MiB")
            return
        except Exception as error:
            _write(out, 500, f"there is no answer because of an error, which the log of the core has: {error!r:.300}")
            raise


def _write(out: BinaryIO, status: int, body: object) -> None:
    out.write(b"%d %s\n" % (status, orjson.dumps(body)))
    out.flush()


class _EarlierViews:
    """Views of the states of a journal, which only their questions import."""

    def __init__(self, journal: str) -> None:
        from muster_core.main import install_extensions  # noqa: PLC0415  # takes half a second
        from muster_core.rest.earlier import EarlierStates  # noqa: PLC0415  # the same

        # The log of the core has the failures that the journal repeats.
        structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
        install_extensions()
        self.journal: Final = journal
        self._states = EarlierStates(journal)

    def answer(self, question: Mapping[str, Any]) -> tuple[int, object]:
        deadline = time.monotonic() + question["real_s"]
        at_ns, view = question["at_ns"], question["route"]
        path, query = question["path"], question["query"]
        return self._states.answer(at_ns, view, path, query, lambda: time.monotonic() < deadline)


class Answers:
    """The answers for one state."""

    def __init__(self, state: PresentState) -> None:
        objects = [*map(_of_simulation, state.events)]
        specs = [event.spec for event in objects if isinstance(event, AllocationReported | AskAdded)]
        pods = {str(spec.key): f"{spec.namespace}/{spec.tags.get(keys.TAG_POD_NAME, spec.key)}" for spec in specs}
        self._copied = ClusterCopy(state.configuration, state.extra, objects, state.now_ns, pods, is_of_core=True)
        self._history = RunTimeHistory()
        for run in state.runs:
            self._history.add(*run)
        specs_of_apps = (event.spec for event in objects if isinstance(event, ApplicationAdded))
        #: The newest application of each namespace, whose quota and parent queue others in it get, too.
        self._of_namespace = {spec.namespace: spec for spec in specs_of_apps}

    def answer(self, question: Mapping[str, Any]) -> tuple[int, object]:
        """Status and JSON, or an error message."""
        arguments = dict(question)
        ask: dict[str, Callable[..., Json]] = {
            "changes": self.changes,
            "estimate": self.estimate,
            "dry-run": self.dry_run,
            "plan": self.plan,
        }
        try:
            return 200, ask[arguments.pop("question")](**arguments)
        except (BadUsage, BadInput) as error:
            return 400, str(error)

    def changes(self, app: Json, real_s: float) -> Json:
        """The smallest sets of changes that would start an application. Raises BadUsage."""
        found = changes(self._copied, app, _SUBJECT, real_s)
        return {**found, "lines": printers.changes(found)}

    def estimate(self, app: Json, real_s: float) -> Json:
        """When an application is expected to start. Raises BadUsage."""
        found = estimate(self._copied, self._history, app, _SUBJECT, real_s)
        return {**found, "lines": [printers.estimated_start(found)]}

    def dry_run(self, text: str, namespace: str, user: str, groups: list[str], real_s: float) -> Json:
        """What would become of manifests. Raises BadUsage and BadInput."""
        submission = read_requests({_MANIFESTS: text}, (), Submitter(namespace, user, groups))
        events = [*map(partial(_in_namespace, self._of_namespace), submission.events)]
        found = dry_run.answer(self._copied, replace(submission, events=events), _MANIFESTS, real_s)
        return {**found, "lines": [dry_run.result_text(one) for one in found["applications"]]}

    def plan(self, text: str, within: int, real_s: float) -> Json:
        """What an edited configuration would change. Raises BadUsage."""
        edited = read_configuration(text, _QUEUES, self._copied.extra)
        plan.require_partition(edited.configuration, _QUEUES)
        found = plan.planned(self._copied, edited.configuration, within, real_s)
        differences = [{**one, "message": plan.message(one)} for one in plan.in_order(found)]
        return {**found, "differences": differences, "warnings": [*edited.warnings], "lines": [plan.summary(found)]}


def _of_simulation(event: Event) -> Event:
    """The event in the partition of simulations."""
    match event:
        case NodeAdded():
            existing = tuple(replace(one, partition=PARTITION) for one in event.existing)
            return replace(event, spec=replace(event.spec, partition=PARTITION), existing=existing)
        case ApplicationAdded():
            return ApplicationAdded(replace(event.spec, partition=PARTITION))
        case AllocationReported():
            return AllocationReported(replace(event.spec, partition=PARTITION))
        case AskAdded():
            return AskAdded(replace(event.spec, partition=PARTITION))
        case _:
            raise TypeError(type(event).__name__)


def _in_namespace(
    known: Mapping[str, ApplicationSpec], event: ApplicationAdded | AskAdded
) -> ApplicationAdded | AskAdded:
    """A new application with what the operator knows of its namespace."""
    if isinstance(event, AskAdded) or (like := known.get(event.spec.namespace)) is None:
        return event
    shared = {tag: like.tags[tag] for tag in _OF_NAMESPACE if tag in like.tags}
    return ApplicationAdded(replace(event.spec, tags={**shared, **event.spec.tags}, quota=like.quota))


_OF_NAMESPACE: Final = (
    keys.APP_TAG_PARENT_QUEUE,
    keys.APP_TAG_RESOURCE_QUOTA,
    keys.APP_TAG_RESOURCE_GUARANTEED,
    keys.APP_TAG_RESOURCE_MAX_APPS,
)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
