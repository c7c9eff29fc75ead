"""The families that need no cluster: the core's engine, the transport between core and operator, the operator alone."""

from __future__ import annotations

from collections.abc import Sequence

import uvloop

from benchmarks import core_placement, core_shapes, cycle_after_event, operator_scale, si_throughput
from benchmarks import operator_io as io
from benchmarks.figures import Figure, Options

CORE = tuple(f"core/{size}" for size in core_placement.SIZES)
SHAPES = tuple(f"shapes/{name}{what}" for name in core_shapes.WORKS for what in ("", " growth"))
CYCLE = tuple(f"cycle-after-event/{name}" for name in ("median", "p99", "max", "memory"))
SI = ("si/transport",)
BUDGETS = {"operator-io/binds": 5000.0, "operator-io/events": 15_000.0, "operator-io/translated": None}
"""Goals per CPU second (docs/internals/architecture.md, Operator)."""
OPERATOR_IO = tuple(BUDGETS)
MEMORY = tuple(f"memory/{name}" for name in operator_scale.MEMORY)
SCALE = tuple(f"scale/{name}" for name in operator_scale.SCALE)
OPERATOR = tuple(f"operator/{name}" for name in operator_scale.GOALS)


def core(names: Sequence[str], options: Options) -> list[Figure]:
    """Measure allocations per CPU second of the engine, by number of nodes."""
    asks = 1000 if options.quick else 10_000
    return [_engine(name, asks, options.runs) for name in names]


def _engine(name: str, asks: int, runs: int) -> Figure:
    size = int(name.partition("/")[2])
    rates = [asks / core_placement.by_the_engine(size, asks, mixed=False) for _ in range(runs)]
    return Figure(name, "/CPU s", rates, core_placement.TARGET)


def shapes(names: Sequence[str], options: Options) -> list[Figure]:
    """Measure placements per CPU second for pods with constraints, and their growth with the number of nodes."""
    return [_shape(name, options) for name in names]


def _shape(name: str, options: Options) -> Figure:
    which, _, what = name.rpartition("/")[2].partition(" ")
    if what == "growth":
        times = [core_shapes.growth(which) for _ in range(max(1, options.runs // 2))]  # slow and stable
        return Figure(name, "x", times, core_shapes.MOST_GROWTH, less_is_better=True)
    share = 0.1 if options.quick else 1.0
    rates = [core_shapes.measured(which, core_shapes.NODES, share=share) for _ in range(options.runs)]
    return Figure(name, "/CPU s", rates, core_shapes.WORKS[which].goal)


def cycles(names: Sequence[str], options: Options) -> list[Figure]:
    """Measure the milliseconds of a cycle after one event in a full cluster, and the memory."""
    runs = [cycle_after_event.run(quick=options.quick) for _ in range(options.runs)]
    figures = []
    for name in names:
        which = name.rpartition("/")[2]
        unit = "MiB" if which == "memory" else "ms"
        values = [found[which] for found in runs]
        figures.append(Figure(name, unit, values, cycle_after_event.TARGETS[which], less_is_better=True))
    return figures


def si(names: Sequence[str], options: Options) -> list[Figure]:
    """Measure messages per second of the gRPC transport."""
    results = si_throughput.measured(6000 if options.quick else 60_000, options.runs)
    return [Figure(f"si/{name}", "/s", rates, si_throughput.TARGET) for name, rates in results.items()]


def operator_io(names: Sequence[str], options: Options) -> list[Figure]:
    """Measure binds and watch events per CPU second of the operator."""
    return [_io(name, options.runs) for name in names]


def _io(name: str, runs: int) -> Figure:
    rates = [_io_once(name) for _ in range(runs)]
    return Figure(name, "/CPU s", rates, BUDGETS[name])


def _io_once(name: str) -> float:
    if name == "operator-io/binds":
        with io.server(0) as url:
            return io.BINDS / uvloop.run(io.binds(url))[1]
    with io.server(io.EVENTS) as url:
        return io.EVENTS / uvloop.run(io.events(url, translated=name.endswith("translated")))[1]


def operator(names: Sequence[str], options: Options) -> list[Figure]:
    """Measure startup, memory, lag and pauses of the operator with 20,000 pods. All names are one measurement."""
    runs = [operator_scale.run(quick=options.quick) for _ in range(options.runs)]
    figures = []
    for name in names:
        which = name.rpartition("/")[2]
        unit, goal = operator_scale.GOALS[which]
        values = [found[which] for found in runs]
        figures.append(Figure(name, unit, values, goal, less_is_better=which != "rate"))
    return figures


def memory(names: Sequence[str], options: Options) -> list[Figure]:
    """Measure the memory of operator and core as two processes with 50,000 pods. All names are one measurement."""
    runs = [operator_scale.memory(quick=options.quick) for _ in range(options.runs)]
    figures = []
    for name in names:
        which = name.rpartition("/")[2]
        values = [found[which] for found in runs]
        figures.append(Figure(name, "MiB", values, operator_scale.MEMORY[which], less_is_better=True))
    return figures


def scale(names: Sequence[str], options: Options) -> list[Figure]:
    """Measure the operator with 15,000 nodes and 150,000 pods. All names are one measurement of three minutes."""
    runs = [operator_scale.scale(quick=options.quick) for _ in range(1 if options.quick else options.runs)]
    figures = []
    for name in names:
        which = name.rpartition("/")[2]
        unit, goal = operator_scale.SCALE[which]
        figures.append(Figure(name, unit, [found[which] for found in runs], goal, less_is_better=True))
    return figures
