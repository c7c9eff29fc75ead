"""Samples the stack once per millisecond of CPU time, and counts the samples by stage of a pod's path.

A tracing profiler overstates short Python functions and understates C code. One sample costs a few microseconds.
"""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import FrameType
from typing import Final

#: CPU seconds between two samples.
STEP_S: Final = 0.001
#: Stage by a part of the file's path: the first match, from the innermost frame outwards. Controller code that
#: `_OUTER` modules call counts as theirs.
PLACES: Final = (
    ("/benchmarks/through_both", "event loop"),
    ("/benchmarks/", "stub"),
    ("muster_operator/translate/", "translate"),
    ("muster_operator/controller/core_responses", "core responses"),
    ("muster_operator/controller/", "controller"),
    ("muster_operator/si/", "encode"),
    ("muster_si/", "encode"),
    ("muster_operator/kube/watch", "decode"),
    ("muster_operator/kube/", "requests"),
    ("muster_operator/runtime/loop", "controller"),
    ("muster_operator/", "decode"),
    ("muster_core/si/", "core messages"),
    ("muster_core/runtime/", "core runtime"),
    ("muster_core/", "core"),
)
STAGES: Final = (*dict.fromkeys(stage for _, stage in PLACES), "other")
_OUTER: Final = ("core_responses.py",)
#: Functions of the codec that convert responses of the core, with all that they call; the others encode requests.
_CODEC: Final = "muster_operator/si/codec.py"
DECODERS: Final = ("decoded", "decoded_callback", "decoded_inventory")
#: The inbox is in the module of the task that calls the controller; what is not a method of this class is the inbox.
_LOOP: Final = "muster_operator/runtime/loop.py"
TASK: Final = "Loop"


class Samples:
    """Number of samples by stage and by position in the code."""

    def __init__(self) -> None:
        self.stages: Counter[str] = Counter()
        self.places: Counter[str] = Counter()
        self._known: dict[str, str] = {}

    def shares(self) -> Mapping[str, float]:
        """Return the share of each stage."""
        everything = max(1, self.stages.total())
        return {stage: self.stages[stage] / everything for stage in STAGES}

    def look(self, _: int, frame: FrameType | None) -> None:
        """Record a sample. Handler of SIGPROF."""
        found, place = "other", ""
        while frame is not None:
            file = frame.f_code.co_filename
            stage = self._known.get(file)
            if stage is None:
                stage = self._known[file] = next((name for part, name in PLACES if part in file), "")
            if stage and not place:
                found, place = stage, f"{file.rpartition('/')[2]}:{frame.f_code.co_name}"
            if found == "controller" and file.endswith(_OUTER):
                found = "core responses"
            if found == "encode" and file.endswith(_CODEC) and frame.f_code.co_name in DECODERS:
                found = "core responses"
            if found == "controller" and file.endswith(_LOOP) and not frame.f_code.co_qualname.startswith(f"{TASK}."):
                found = "decode"
            frame = frame.f_back
        self.stages[found] += 1
        self.places[f"{found} {place}"] += 1


@contextmanager
def sampling() -> Iterator[Samples]:
    """Sample during the block."""
    samples = Samples()
    before = signal.signal(signal.SIGPROF, samples.look)
    signal.setitimer(signal.ITIMER_PROF, STEP_S, STEP_S)
    try:
        yield samples
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
