"""The results of `muster simulate` side by side: a table for the terminal, and a report as one HTML file.

The report loads nothing from elsewhere and runs no script. Names of users, queues and files are escaped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

import numpy as np

from muster.output import FittingTable, table
from muster.printers import count, label
from muster_core.foresight.measures import GroupMeasures, Summary, wait_s
from muster_core.foresight.outside import JobState
from muster_core.foresight.simulation import Run
from muster_core.foresight.timeline import UsageSample
from muster_core.foresight.workload import GPU_SHARE, SECOND


@dataclass(frozen=True, slots=True)
class Result:
    """One configuration with its run."""

    name: str
    run: Run
    summary: Summary


def seconds(value: float) -> str:
    """A time for people: the two largest units."""
    for unit, size, part, smaller in (("d", 86_400, "h", 3_600), ("h", 3_600, "m", 60), ("m", 60, "s", 1)):
        if value >= size:
            whole, rest = divmod(value, size)
            return f"{whole:,.0f}{unit} {rest // smaller:.0f}{part}"
    return f"{value:.3g}s"


def percent(value: float) -> str:
    """A share."""
    return f"{100 * value:.1f} %"


def hours(value: float, resource: str) -> str:
    """An amount times seconds, in hours of a CPU, a GPU, a GiB or one of the resource."""
    divisor = {"vcore": 1000, GPU_SHARE: 1000, "memory": 1 << 30}.get(resource, 1)
    return f"{value / divisor / 3600:,.1f} h"


#: Reasons of a configuration that the output names.
_REASONS: Final = 10

_WAITS: Final = ("mean", "p50", "p95", "p99", "max")
_SLOWDOWNS: Final = ("mean", "p95", "p99")


def rows(results: Sequence[Result]) -> list[tuple[str, list[str]]]:
    """The measures, each with its value per configuration."""
    each = [one.summary for one in results]
    main = each[0].main
    name_of_main = label(main)
    slowdowns = [one.bounded_slowdown for one in each]
    return [
        *(
            (f"jobs {state}", [f"{one.jobs[state]:,}" for one in each])
            for state in JobState
            if any(one.jobs[state] for one in each)
        ),
        *((f"wait {part}", [seconds(getattr(one.wait_s, part)) for one in each]) for part in _WAITS),
        *((f"bounded slowdown {part}", [f"{getattr(one, part):,.2f}" for one in slowdowns]) for part in _SLOWDOWNS),
        ("makespan", [seconds(one.makespan_s) for one in each]),
        *(
            (f"utilization {label(name)}", [percent(one.utilization[name]) for one in each])
            for name in each[0].utilization
        ),
        (f"unused while wanted {name_of_main}", [percent(one.unused.get(main, 0.0)) for one in each]),
        (f"allocated but not running {name_of_main}", [percent(one.idle.get(main, 0.0)) for one in each]),
        (f"reserved and free {name_of_main}", [percent(one.reserved) for one in each]),
        (f"fragmented {name_of_main}", [percent(one.fragmented) for one in each]),
        ("preemptions", [f"{one.preemptions:,}" for one in each]),
        (f"lost work {name_of_main}", [hours(one.lost.get(main, 0.0), main) for one in each]),
        ("Jain's index of queues", [f"{one.jain_queues:.3f}" for one in each]),
        ("Jain's index of users", [f"{one.jain_users:.3f}" for one in each]),
    ]


def comparison(results: Sequence[Result]) -> FittingTable:
    """The measures for the terminal, one column per configuration."""
    made = table("measure", *(one.name for one in results))
    for name, values in rows(results):
        made.add_row(name, *values)
    return made


def unstarted(results: Sequence[Result]) -> Iterator[str]:
    """Why jobs were rejected, failed or still wait at the end: a line per reason, the most frequent ones."""
    for result in results:
        shown = result.summary.reasons[:_REASONS]
        yield from (f"{result.name}: {count(one.jobs, 'job')} {one.state}: {one.reason}" for one in shown)


# --- HTML ------------------------------------------------------------------------------------------------------------

_STYLE: Final = """
:root{color-scheme:light dark;--line:#8884;--a:#2563eb;--b:#d97706;--c:#059669;--d:#db2777;--e:#7c3aed;--f:#64748b}
body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:70rem;padding:0 1rem}
table{border-collapse:collapse;margin:1rem 0;display:block;overflow-x:auto}
th,td{padding:.25rem .8rem;border-bottom:1px solid var(--line);text-align:right;white-space:nowrap}
th:first-child,td:first-child{text-align:left}
figure{margin:1.5rem 0}figcaption{font-weight:600}
svg{width:100%;height:auto;max-width:60rem}svg text{font:12px system-ui,sans-serif;fill:currentColor}
.grid{stroke:var(--line)}.line{fill:none;stroke-width:1.5}
.key{display:inline-block;width:.8rem;height:.8rem;margin:0 .3rem 0 1rem;border-radius:2px}
"""
_COLORS: Final = ("a", "b", "c", "d", "e", "f")

#: Queues and users in a table of the report, those with the most jobs.
_SHOWN: Final = 50


def page(results: Sequence[Result]) -> str:
    """The report."""
    start_s = results[0].run.timeline.start_ns / SECOND
    main = results[0].summary.main
    scale = 1000 if main in (GPU_SHARE, "vcore") else 1
    samples = {one.name: one.run.timeline.samples for one in results}

    def over_time(value: Callable[[UsageSample], float]) -> dict[str, list[tuple[float, float]]]:
        return {
            name: [((one.at_ns / SECOND - start_s) / 86_400, value(one)) for one in found]
            for name, found in samples.items()
        }

    parts = [
        "<h1>Muster simulation</h1>",
        f"<p>{len(results[0].run.records):,} jobs on {results[0].run.nodes:,} nodes.</p>",
        _table(("measure", *(one.name for one in results)), ((name, *values) for name, values in rows(results))),
        _chart(f"Allocated {label(main)}", "days", over_time(lambda one: one.used / scale)),
        _chart("Waiting jobs", "days", over_time(lambda one: one.waiting)),
        _chart(f"Free, but fragmented {label(main)}", "days", over_time(lambda one: one.fragmented / scale)),
        _chart("Share of jobs (%) by longest wait (hours)", "hours", {one.name: _waits(one.run) for one in results}),
    ]
    for one in results:
        parts += [f"<h2>{escape(one.name)}</h2>", _groups("queue", one.summary.queues)]
        parts.append(_groups("user", one.summary.users))
        reasons = ((f"{why.jobs:,}", why.state, why.reason) for why in one.summary.reasons[:_REASONS])
        parts.append(_table(("jobs not completed", "state", "reason"), reasons))
    policy = "default-src 'none'; style-src 'unsafe-inline'"
    head = (
        f'<meta charset="utf-8"><meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width"><title>Muster simulation</title>'
    )
    return f'<!doctype html>\n<html lang="en"><head>{head}<style>{_STYLE}</style></head>\n<body>\n' + (
        "\n".join(parts) + "\n</body></html>\n"
    )


def _table(header: Iterable[str], lines: Iterable[Iterable[str]]) -> str:
    top = "".join(f"<th>{escape(text)}</th>" for text in header)
    body = "\n".join("<tr>" + "".join(f"<td>{escape(text)}</td>" for text in line) + "</tr>" for line in lines)
    return f"<table><thead><tr>{top}</tr></thead>\n<tbody>{body}</tbody></table>"


def _groups(kind: str, groups: Sequence[GroupMeasures]) -> str:
    shown = sorted(groups, key=lambda one: (-one.jobs, one.name))[:_SHOWN]
    header = (kind, "jobs", "wait mean", "wait p95", "slowdown mean", "service", "finish-time ratio mean", "max")
    return _table(
        header,
        (
            (
                one.name,
                f"{one.jobs:,}",
                seconds(one.wait_s.mean),
                seconds(one.wait_s.p95),
                f"{one.bounded_slowdown.mean:,.2f}",
                percent(one.service),
                f"{one.finish_time_ratio.mean:,.2f}",
                f"{one.finish_time_ratio.max:,.2f}",
            )
            for one in shown
        ),
    )


def _waits(run: Run) -> list[tuple[float, float]]:
    """The distribution of waits: the wait in hours of each percent of the jobs."""
    waits = [wait_s(one) / 3600 for one in run.records if one.started_ns]
    if not waits:
        return []
    shares = np.linspace(0, 100, 201)
    return [(float(wait), float(share)) for wait, share in zip(np.percentile(waits, shares), shares, strict=True)]


_WIDE, _HIGH, _LEFT, _BOTTOM = 900, 240, 70, 30


def _chart(title: str, unit: str, lines: dict[str, list[tuple[float, float]]]) -> str:
    """Lines over one axis, as SVG."""
    most_x = max((x for points in lines.values() for x, _ in points), default=0.0) or 1.0
    most_y = max((y for points in lines.values() for _, y in points), default=0.0) or 1.0
    shapes = []
    for tick in range(5):
        y = _HIGH - _HIGH * tick / 4
        x = _LEFT + (_WIDE - _LEFT) * tick / 4
        shapes.append(f'<line class="grid" x1="{_LEFT}" x2="{_WIDE}" y1="{y:.0f}" y2="{y:.0f}"/>')
        shapes.append(f'<text x="{_LEFT - 8}" y="{y + 4:.0f}" text-anchor="end">{most_y * tick / 4:,.4g}</text>')
        anchor = "end" if tick == 4 else "middle"
        label = f"{most_x * tick / 4:,.4g}" + (f" {unit}" if tick == 4 else "")
        shapes.append(f'<text x="{x:.0f}" y="{_HIGH + 20}" text-anchor="{anchor}">{label}</text>')
    keys = []
    for number, (name, points) in enumerate(lines.items()):
        color = f"var(--{_COLORS[number % len(_COLORS)]})"
        path = " ".join(
            f"{_LEFT + (_WIDE - _LEFT) * x / most_x:.1f},{_HIGH - _HIGH * y / most_y:.1f}" for x, y in points
        )
        shapes.append(f'<polyline class="line" style="stroke:{color}" points="{path}"/>')
        keys.append(f'<span class="key" style="background:{color}"></span>{escape(name)}')
    view = f"0 -10 {_WIDE + 10} {_HIGH + _BOTTOM + 10}"
    return (
        f"<figure><figcaption>{escape(title)}</figcaption>"
        f'<svg viewBox="{view}" role="img" aria-label="{escape(title)}">{"".join(shapes)}</svg>'
        f"<div>{''.join(keys)}</div></figure>"
    )
