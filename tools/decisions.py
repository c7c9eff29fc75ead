"""The decisions of the core on recorded histories, and how two commits differ (`make decisions`).

    python -m tools.decisions                               # compare with the stored decisions
    python -m tools.decisions --compare HEAD~5 HEAD         # placements, waits and victims that differ
    python -m tools.decisions --record queues /tmp/core.journal
    python -m tools.decisions --store                       # after an intended change

A history is a journal of the core (`--journal`) without what the core decided: the events and when cycles ran. It is
replayed on a virtual clock with the timers of the present code, and cycles run until nothing is left to do. What
happened outside stays as recorded: a pod that another commit places later ends when it ended in the recording. Reasons
of waiting requests, node reservations and events are not compared.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import statistics
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any, Final, cast

import orjson
import typer
from rich.console import Console
from rich.table import Column, Table

from muster_core.foresight.virtual_core import VirtualCore
from muster_core.model.effects import AllocationResponse, ApplicationRejected, Effect
from muster_core.model.events import AskAdded, Event, TimerFired
from muster_core.model.ids import Termination
from muster_core.runtime.journal import from_plain

ROOT: Final = Path(__file__).parents[1]
HISTORIES: Final = ROOT / "tests/unit/core/histories"
STORED: Final = HISTORIES / "decisions.json"
SUFFIX: Final = ".journal.gz"
SECOND: Final = 1_000_000_000

#: Differences of one history that are printed.
_PRINTED: Final = 10

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@dataclass(slots=True)
class Decisions:
    """What the core decided on one history, times in ns of its clock.

    `placed`: node and time of each request, by key and number of its placements before. `waits`: ns from request to
    placement. `released`: what the core took away or gave up, by key, with the reason. `rejected`: applications.
    """

    events: int = 0
    placed: dict[str, tuple[str, int]] = field(default_factory=dict)
    waits: dict[str, int] = field(default_factory=dict)
    released: dict[str, str] = field(default_factory=dict)
    rejected: dict[str, str] = field(default_factory=dict)

    def summary(self) -> dict[str, Any]:
        """Returns counts, the mean wait in seconds, and a digest of all decisions."""
        reasons = Counter(self.released.values())
        waits = [wait / SECOND for wait in self.waits.values()]
        digest = hashlib.sha256(orjson.dumps(asdict(self), option=orjson.OPT_SORT_KEYS)).hexdigest()
        return {
            "events": self.events,
            "placed": len(self.placed),
            "released": dict(sorted(reasons.items())),
            "rejected": len(self.rejected),
            "mean wait s": round(statistics.fmean(waits), 3) if waits else 0,
            "digest": digest[:16],
        }


def replayed(lines: Iterable[bytes]) -> Decisions:
    """Replays a history. Raises what the core raises."""
    found, asked, times = Decisions(), dict[str, int](), Counter[str]()
    core = VirtualCore(0)
    events: list[Event] = []
    for text in lines:
        line = cast("dict[str, object]", orjson.loads(text))
        if "restart" in line:
            core, events = VirtualCore(0), []
            continue
        now_ns = cast("int", line["now"])
        while not events and (rings_ns := core.timers.next_ns()) is not None and rings_ns <= now_ns:
            core.now_ns = max(core.now_ns, rings_ns)
            _note(found, core.send([]), core.now_ns, asked, times)
        core.now_ns = max(core.now_ns, now_ns)
        if "event" not in line:
            _note(found, core.send(events), core.now_ns, asked, times)
            events = []
            continue
        plain = cast("dict[str, object]", line["event"])
        if plain["$"] == TimerFired.__name__:
            continue  # the present code has its own timers
        event = cast("Event", from_plain(plain))
        found.events += 1
        if isinstance(event, AskAdded):
            asked.setdefault(event.spec.key, core.now_ns)
        events.append(event)
    _note(found, core.send(events), core.now_ns, asked, times)
    return found


def _note(found: Decisions, effects: Iterable[Effect], now_ns: int, asked: dict[str, int], times: Counter[str]) -> None:
    for effect in effects:
        if isinstance(effect, ApplicationRejected):
            found.rejected[effect.application] = effect.reason
        if not isinstance(effect, AllocationResponse):
            continue
        for new in effect.new:
            key = f"{new.ask.key}#{times[new.ask.key]}"
            times[new.ask.key] += 1
            found.placed[key] = (new.node, now_ns)
            found.waits[key] = now_ns - asked.get(new.ask.key, now_ns)
        for key, why in (
            *((gone.key, gone.termination) for gone in effect.released),
            *((gone.key, gone.termination) for gone in effect.released_asks),
        ):
            if why is not Termination.STOPPED_BY_RM:
                found.released[f"{key}#{times[key]}"] = str(why)


def lines_of(path: Path) -> Iterator[bytes]:
    """Returns the lines of a history or of a journal."""
    with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
        yield from file


def record(name: str, journal: Path) -> Path:
    """Adds the journal to the histories, without the effects. Returns the new file."""
    path = HISTORIES / f"{name}{SUFFIX}"
    with path.open("wb") as raw, gzip.GzipFile("", "wb", 9, raw, mtime=0) as file:
        for text in lines_of(journal):
            line = orjson.loads(text)
            if "continued" in line:
                continue  # a part of the event before
            file.write(orjson.dumps({key: line[key] for key in ("now", "event", "restart") if key in line}) + b"\n")
    return path


def names() -> list[str]:
    """Returns the names of the histories."""
    return sorted(path.name.removesuffix(SUFFIX) for path in HISTORIES.glob(f"*{SUFFIX}"))


def decided(name: str) -> Decisions:
    """Returns the decisions of the present code on a history."""
    return replayed(lines_of(HISTORIES / f"{name}{SUFFIX}"))


def stored() -> dict[str, dict[str, Any]]:
    """Returns the summaries of the stored decisions."""
    found: dict[str, dict[str, Any]] = orjson.loads(STORED.read_bytes()) if STORED.exists() else {}
    return found


def changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    """Returns the entries of two summaries that differ, in words."""
    keys = [key for key in {**before, **after} if before.get(key) != after.get(key)]
    found = [f"{key} {before.get(key, 'none')}, now {after.get(key, 'none')}" for key in keys]
    return "; ".join(found) or "the same"


def _of_commit(commit: str, chosen: list[str]) -> dict[str, Decisions]:
    """Returns the decisions of another commit's core, with the histories and this file of the present tree.

    The other core must know the classes of the histories, and have `foresight`.
    """
    with tempfile.TemporaryDirectory(prefix="muster-decisions-") as folder:
        tree, out = Path(folder) / "tree", Path(folder) / "decisions.json"
        _run("git", "worktree", "add", "--detach", str(tree), commit)
        try:
            path = os.pathsep.join(str(tree / part) for part in ("core", "proto"))
            command = (sys.executable, str(Path(__file__)), "--json", str(out), *chosen)
            _run(*command, env={**os.environ, "PYTHONPATH": path})
            found: Mapping[str, Mapping[str, Any]] = orjson.loads(out.read_bytes())
        finally:
            _run("git", "worktree", "remove", "--force", str(tree))
    return {name: Decisions(**one) for name, one in found.items()}


def _run(*command: str, env: Mapping[str, str] | None = None) -> None:
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    if done.returncode:
        typer.echo(f"{' '.join(command)}: {done.stderr.strip()[-2000:]}", err=True)
        raise typer.Exit(2)


def differences(before: Decisions, after: Decisions) -> list[str]:
    """Returns a line for each placement, release or rejection that differs, earliest placement first."""
    found: list[tuple[int, str]] = []
    for key in before.placed | after.placed:
        one, other = before.placed.get(key), after.placed.get(key)
        if one is None or other is None or tuple(one) != tuple(other):
            at_ns = min(place[1] for place in (one, other) if place is not None)
            found.append((at_ns, f"{key}: {_place(before, key)}, now {_place(after, key)}"))
    lines = [text for _, text in sorted(found)]
    for what, old, new in (
        ("released", before.released, after.released),
        ("rejected", before.rejected, after.rejected),
    ):
        changed = (key for key in sorted(old | new) if old.get(key) != new.get(key))
        lines += [f"{key}: {what} {old.get(key, 'not')}, now {new.get(key, 'not')}" for key in changed]
    return lines


def _place(decisions: Decisions, key: str) -> str:
    place = decisions.placed.get(key)
    return "not placed" if place is None else f"on {place[0]} after {decisions.waits[key] / SECOND:.3f} s"


def _compare(commits: tuple[str, str], chosen: list[str], console: Console) -> int:
    before, after = (_of_commit(commit, chosen) for commit in commits)
    table = Table(
        Column("history", no_wrap=True), "events", "placed", "mean wait, s", "released", "rejected", "other decisions"
    )
    changed: dict[str, list[str]] = {}
    for name in chosen:
        old, new = before[name].summary(), after[name].summary()
        if not (lines := differences(before[name], after[name])):
            continue
        changed[name] = lines
        cells = (
            _both(old[key], new[key]) if key != "released" else _both(*(sum(one[key].values()) for one in (old, new)))
            for key in ("placed", "mean wait s", "released", "rejected")
        )
        table.add_row(name, str(new["events"]), *cells, str(len(lines)))
    if changed:
        console.print(table)
    for name, lines in changed.items():
        for line in lines[:_PRINTED]:
            console.print(f"{name}: {line}", markup=False, highlight=False, soft_wrap=True)
        if len(lines) > _PRINTED:
            console.print(f"{name}: and {len(lines) - _PRINTED} more")
    console.print(f"{len(chosen)} histories, {len(changed)} with other decisions")
    return int(bool(changed))


def _both(old: object, new: object) -> str:
    return str(new) if old == new else f"{old} → {new}"


@app.command()
def main(
    words: Annotated[
        list[str] | None, typer.Argument(help="histories, default all; with --record name and file")
    ] = None,
    *,
    compare: Annotated[tuple[str, str] | None, typer.Option(help="two commits, the older one first")] = None,
    store: Annotated[bool, typer.Option("--store", help="store the decisions of the present code")] = False,
    recorded: Annotated[bool, typer.Option("--record", help="add a journal of the core: NAME FILE")] = False,
    json: Annotated[Path | None, typer.Option(help="write all decisions to this file")] = None,
) -> None:
    """Replay recorded histories, and show which decisions differ. Exit code 1: some do."""
    console = Console()
    if recorded:
        if words is None or len(words) != 2:
            raise typer.BadParameter("--record needs a name and a file")
        console.print(record(words[0], Path(words[1])))
        return
    chosen = words or names()
    if unknown := sorted(set(chosen) - set(names())):
        raise typer.BadParameter(f"no such history: {', '.join(unknown)}; known: {', '.join(names())}")
    if compare is not None:
        raise typer.Exit(_compare(compare, chosen, console))
    found = {name: decided(name) for name in chosen}
    if json is not None:
        json.write_bytes(orjson.dumps({name: asdict(one) for name, one in found.items()}))
        return
    summaries = {name: one.summary() for name, one in found.items()}
    known = stored()
    other = [name for name in chosen if summaries[name] != known.get(name)]
    if store:
        STORED.write_bytes(orjson.dumps(known | summaries, option=orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS) + b"\n")
    for name in other:
        console.print(f"{name}: {changes(known.get(name, {}), summaries[name])}", markup=False, highlight=False)
    console.print(f"{len(chosen)} histories, {len(other)} with other decisions than stored")
    raise typer.Exit(0 if store else int(bool(other)))


if __name__ == "__main__":
    app()
