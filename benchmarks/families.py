"""The registry of benchmarks: families of names that are measured together.

A name is ``family/benchmark``. Growth curves are figures named ``growth/<dimension>/<size>``, such as
``growth/nodes/15000``. The chart draws one line per dimension.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from benchmarks import cliffs, core_edge, growth, in_process, many_waiting, rest_answers, steady, through_both
from benchmarks.cluster import measure as cluster
from benchmarks.cluster.benches import BENCHES
from benchmarks.duels import measure as duels
from benchmarks.duels.workloads import DUELS
from benchmarks.figures import Figure, Options


@dataclass(frozen=True, slots=True)
class Family:
    """Benchmarks with common preparation.

    ``measure`` returns the figures of the selected names. ``apart``: names are measured separately, so progress is
    shown by name. ``steps``: the steps of progress otherwise, which the family reports itself. ``optional``: names that
    run only if requested.
    """

    names: Sequence[str]
    measure: Callable[[Sequence[str], Options], list[Figure]]
    anti_affinity: bool = False
    steps: Callable[[Sequence[str], Options], list[str]] | None = None
    optional: frozenset[str] = frozenset()
    seldom: bool = False
    """Slow and stable, without a peer in the same session: measured in half of the runs, at least once."""


FAMILIES: Mapping[str, Family] = {
    "core": Family(in_process.CORE, in_process.core, anti_affinity=True),
    "edge": Family(tuple(core_edge.WAYS), core_edge.measure, anti_affinity=True),
    "growth": Family(growth.NAMES, growth.measure, seldom=True),
    "cliffs": Family(cliffs.NAMES, cliffs.measure, seldom=True),
    "waiting": Family(many_waiting.NAMES, many_waiting.measure),
    "steady": Family(steady.NAMES, steady.measure, seldom=True),
    "shapes": Family(in_process.SHAPES, in_process.shapes, anti_affinity=True),
    "cycle-after-event": Family(in_process.CYCLE, in_process.cycles, seldom=True),
    "both": Family(through_both.NAMES, through_both.measure),
    "si": Family(in_process.SI, in_process.si),
    "operator-io": Family(in_process.OPERATOR_IO, in_process.operator_io, anti_affinity=True),
    "operator": Family(in_process.OPERATOR, in_process.operator, seldom=True),
    "memory": Family(in_process.MEMORY, in_process.memory, seldom=True),
    "scale": Family(in_process.SCALE, in_process.scale, seldom=True),
    "rest": Family(tuple(rest_answers.PATHS), rest_answers.measure, seldom=True),
    "cluster": Family(
        tuple(BENCHES),
        cluster.measure,
        steps=cluster.steps,
        optional=frozenset(name for name, bench in BENCHES.items() if bench.optional),
    ),
    "duels": Family(
        tuple(DUELS),
        duels.measure,
        steps=duels.steps,
        optional=frozenset(name for name, duel in DUELS.items() if duel.optional),
    ),
}


def chosen(words: Sequence[str] | None) -> dict[str, list[str]]:
    """Return the names that the words select, by family. Without words, all names that are not optional."""
    found = {key: [name for name in family.names if _is_wanted(key, name, words)] for key, family in FAMILIES.items()}
    return {key: names for key, names in found.items() if names}


def unknown(words: Sequence[str]) -> list[str]:
    """Return the words that match no name."""
    return [word for word in words if not chosen([word])]


def planned(chosen: Mapping[str, Sequence[str]], options: Options) -> list[str]:
    """Return the steps of measuring these names."""
    return [step for key, names in chosen.items() for step in _steps(key, names, options)]


def measured(key: str, names: Sequence[str], options: Options) -> list[Figure]:
    """Measure these names of a family."""
    family = FAMILIES[key]
    options = options_of(key, options)
    if family.steps is not None:
        return family.measure(names, options)
    found: list[Figure] = []
    for some in [[name] for name in names] if family.anti_affinity else [names]:
        with options.session.step(some[0] if family.anti_affinity else key):
            found += family.measure(some, options)
    return found


def options_of(key: str, options: Options) -> Options:
    """Return the options for a family, with half of the runs if it is measured seldom."""
    return replace(options, runs=max(1, options.runs // 2)) if FAMILIES[key].seldom else options


def _steps(key: str, names: Sequence[str], options: Options) -> list[str]:
    family = FAMILIES[key]
    if family.steps is not None:
        return family.steps(names, options)
    return list(names) if family.anti_affinity else [key]


def _is_wanted(family: str, name: str, words: Sequence[str] | None) -> bool:
    """Whether a word selects the name.

    The name of a family selects all of its names that are not optional. A complete name selects only that name:
    ``cluster/gang-100`` does not select ``cluster/gang-1000``. Any other word selects the names that contain it.
    """
    is_optional = name in FAMILIES[family].optional
    if not words:
        return not is_optional
    return any(_means(word, family, name, is_optional=is_optional) for word in words)


def _means(word: str, family: str, name: str, *, is_optional: bool) -> bool:
    if word in FAMILIES:
        return family == word and not is_optional
    if any(word in other.names for other in FAMILIES.values()):
        return name == word
    return word in name
