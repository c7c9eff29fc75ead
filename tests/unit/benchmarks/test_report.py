"""The table and the file contain all values of a figure."""

import io
from pathlib import Path

import orjson
from rich.console import Console

from benchmarks.figures import KUBE, Figure
from benchmarks.report import document, durations, footnote, problems, table, write
from benchmarks.session import Session

GANG = Figure(
    "cluster/gang-1000", "s", [2.0, 4.0], 5.0, less_is_better=True, rivals={KUBE: [4.0, 6.0]}, ahead={KUBE: 1.05}
)


def printed(*figures: Figure) -> str:
    output = io.StringIO()
    Console(width=200, file=output).print(table(figures))
    return output.getvalue()


def test_a_row_has_the_value_the_goals_and_both_peers() -> None:
    row = next(line for line in printed(GANG).splitlines() if "gang-1000" in line)
    assert [cell.strip() for cell in row.strip("│").split("│")] == [
        "cluster/gang-1000", "3 s", "2 to 4", "≤ 5, ≥ 1.05x kube-scheduler: met", "5 (1.8x) 1.5 to 2", "15.5 (5.2x) *",
    ]  # fmt: skip


def test_a_goal_that_is_missed_reports_it() -> None:
    assert "≥ 48,000: missed" in printed(Figure("core/5000", "/s", [40_000.0], 48_000.0))


def test_a_lead_over_an_unmeasured_peer_is_not_compared() -> None:
    figure = Figure("cluster/single-5000", "s", [10.0], less_is_better=True, ahead={KUBE: 1.05})
    assert "≥ 1.05x kube-scheduler: not compared" in printed(figure)


def test_the_footnote_reports_the_machine_load() -> None:
    assert "1.5 before" in footnote(Session(load_before=1.5))


def test_the_file_keeps_figures_failures_and_what_steps_took(tmp_path: Path) -> None:
    session = Session()
    with session.step("work"):
        pass
    session.fail("it hung")
    file = tmp_path / "results" / "latest.json"
    write(file, document([GANG], session, quick=False))
    found = orjson.loads(file.read_bytes())
    assert found["failures"] == ["it hung"]
    assert found["figures"][0]["ratios"][KUBE] == {
        "peer": 5.0, "times": 1.75, "lowest": 1.5, "highest": 2.0, "here": True,
    }  # fmt: skip
    assert list(durations(file)) == ["work"]


def test_a_file_that_cannot_be_written_is_known_before_anything_is_measured(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    assert problems([file, tmp_path / "new" / "a.json"]) == []
    file.touch()
    assert problems([file]) == []
    assert problems([tmp_path, file / "b.json"]) == [
        f"{tmp_path} is a folder",
        f"{file / 'b.json'} cannot be written: {file} is no folder",
    ]


def test_before_the_first_run_nothing_is_known_of_durations(tmp_path: Path) -> None:
    assert durations(tmp_path / "none.json") == {}
