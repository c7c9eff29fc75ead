"""`make simulate-bench`: missing traces are reported, and estimates are compared with the starts of one simulation."""

import csv
import gzip
import sys
from pathlib import Path

import pytest

from benchmarks import simulation
from muster_core.foresight.workload import SECOND, TraceOptions, read_nodes, read_trace
from tests.unit.core.foresight.test_reference import LINES, NODES


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> None:
    monkeypatch.setattr(sys, "argv", ["simulation", *arguments])
    simulation.main()


def test_a_missing_trace_is_reported_with_its_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run(monkeypatch, "--traces", str(tmp_path), "philly", "hpc2n", "openb", "calibration")
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 6
    assert all(f"{tmp_path}/" in line and "is missing" in line for line in lines)


def test_an_unknown_figure_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SystemExit):
        run(monkeypatch, "no-such-figure")


def test_waits_are_compared_with_the_reference(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "hpc2n.csv.gz").write_bytes(gzip.compress("\n".join(LINES).encode()))
    run(monkeypatch, "--traces", str(tmp_path), "hpc2n")
    out = capsys.readouterr().out
    assert "hpc2n fifo: 400 of 400 waits are equal" in out
    assert "hpc2n greedy: 400 of 400 waits are equal" in out


def test_estimates_are_calibrated(capsys: pytest.CaptureFixture[str]) -> None:
    jobs = read_trace(LINES, options=TraceOptions(gang_from=1))
    declared = {row["id"]: int(row["run_s"]) * SECOND for row in csv.DictReader(LINES)}
    policy = simulation.configuration("{name: default}")
    simulation.calibrate("exact", read_nodes(NODES), jobs, policy, declared, 8)
    assert "100% within a factor of two" in capsys.readouterr().out
