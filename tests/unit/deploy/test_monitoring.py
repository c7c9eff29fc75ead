"""Dashboard and alert rules refer only to existing metrics, labels and values, and use all metrics of Muster."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.unit.core.metrics.metrics_core import busy_core
from tests.unit.deploy.sample_metrics import busy_operator

FOLDER = Path(__file__).parents[3] / "deploy" / "monitoring"
DASHBOARD: dict[str, Any] = json.loads((FOLDER / "dashboard.json").read_text(encoding="utf-8"))
RULES: dict[str, Any] = yaml.safe_load((FOLDER / "alerts.yaml").read_text(encoding="utf-8"))
NOT_SHOWN: dict[str, str] = yaml.safe_load((FOLDER / "not-shown.yaml").read_text(encoding="utf-8"))

PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
ALL_RULES = [rule for group in RULES["spec"]["groups"] for rule in group["rules"]]
ALERTS = [rule for rule in ALL_RULES if "alert" in rule]
RECORDED = {rule["record"]: rule["expr"] for rule in ALL_RULES if "record" in rule}
SHOWN = {f"{panel['title']} {target['refId']}": target["expr"] for panel in PANELS for target in panel["targets"]}
ALERTED = {rule["alert"]: rule["expr"] for rule in ALERTS}

#: Expressions of panels, alerts and recording rules by their names.
EXPRESSIONS = {**SHOWN, **ALERTED, **RECORDED}

NAME = re.compile(r"\b((?:muster|yunikorn|process|python)_[a-z0-9_]+)(?:\{([^}]*)\})?")
MATCHER = re.compile(r'(\w+)\s*(=~|=)\s*"([^"]*)"')
GROUPING = re.compile(r"\b(?:by|ignoring|group_left)\s*\(([^)]*)\)")
#: Labels that Prometheus itself gives.
GIVEN = {"instance", "job", "namespace", "pod"}

Labels = dict[str, set[str]]


def known_samples() -> dict[str, Labels]:
    """Name of each sample → its labels → their values."""
    found: dict[str, Labels] = {}
    for registry in (busy_core(), busy_operator()):
        for metric in registry.collect():
            for sample in metric.samples:
                labels = found.setdefault(sample.name, {})
                for label, value in sample.labels.items():
                    labels.setdefault(label, set()).add(value)
    return found


KNOWN = known_samples()


def named(expression: str) -> Iterator[tuple[str, str]]:
    """Each metric of an expression, with what is between its braces."""
    return ((found[1], found[2] or "") for found in NAME.finditer(expression))


@pytest.mark.parametrize("expression", [*EXPRESSIONS.values()], ids=[*EXPRESSIONS])
def test_an_expression_uses_only_existing_metrics_and_labels(expression: str) -> None:
    metrics = list(named(expression))
    assert metrics, "an expression without a metric shows nothing"
    labels: set[str] = set()
    for name, braces in metrics:
        assert name in KNOWN, f"no metric is called {name}"
        labels |= KNOWN[name].keys()
        for label, operator, text in MATCHER.findall(braces):
            assert label in KNOWN[name], f"{name} has no label {label}"
            check_values(name, label, operator, text)
    for group in GROUPING.findall(expression):
        assert {label.strip() for label in group.split(",")} - {""} <= labels | GIVEN


def check_values(name: str, label: str, operator: str, text: str) -> None:
    """Values that are chosen on the dashboard, or belong to the cluster, are not known beforehand."""
    if text.startswith("$") or label in ("status", "queue", "resource"):
        return
    wanted = text.split("|") if operator == "=~" else [text]
    known = KNOWN[name][label] | ({"preempting", "maxRunningApps"} if name == "yunikorn_queue_resource" else set())
    assert set(wanted) <= known, f"{name} has no {label} {text}"


@pytest.mark.parametrize("expression", [*EXPRESSIONS.values()], ids=[*EXPRESSIONS])
def test_an_expression_has_balanced_brackets(expression: str) -> None:
    for opening, closing in ("()", "{}", "[]"):
        assert expression.count(opening) == expression.count(closing)
    assert expression.count('"') % 2 == 0


def ours() -> set[str]:
    """Metrics of ours, without the endings of a histogram's samples."""
    names = {re.sub(r"_(bucket|sum|count|created)$", "", name) for name in KNOWN}
    return {name for name in names if name.startswith("muster_")} - {
        name.removesuffix("_total") for name in KNOWN if name.endswith("_total")
    }


def test_the_dashboard_shows_every_own_metric_or_reports_why_not() -> None:
    shown = {name for expression in SHOWN.values() for name, _ in named(expression)}
    shown = {re.sub(r"_(bucket|sum|count)$", "", name) for name in shown}
    assert ours() - shown == set(NOT_SHOWN)


def test_each_alert_reports_how_bad_it_is_and_what_to_do() -> None:
    assert len(ALERTED) == len(ALERTS), "two alerts have the same name"
    for rule in ALERTS:
        assert rule["labels"]["severity"] in ("critical", "warning", "info")
        assert set(rule["annotations"]) == {"summary", "description"}
        for found in re.findall(r"\$labels\.(\w+)", rule["annotations"]["description"]):
            assert any(found in KNOWN[name] for name, _ in named(rule["expr"]))


def test_a_recording_rule_is_named_after_its_label_and_metric() -> None:
    assert RECORDED
    for name, expression in RECORDED.items():
        label, metric, _ = name.split(":")
        assert f"{metric}_bucket" in [found for found, _ in named(expression)]
        assert f"by (le, {label})" in expression


def test_no_two_panels_overlap_and_each_has_its_number() -> None:
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])
    cells = [
        (x, y)
        for place in (panel["gridPos"] for panel in DASHBOARD["panels"])
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]
    assert len(cells) == len(set(cells))
    assert max(x for x, _ in cells) < 24
