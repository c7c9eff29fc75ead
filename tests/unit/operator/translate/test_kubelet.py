"""Which failed pods were rejected by their kubelet: those that it did not start, with one of its reasons."""

from __future__ import annotations

from typing import Any

import pytest

from muster_operator.translate.pods import kubelet_refusal

STARTED = {"name": "main", "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}}}
ENDED = {"name": "main", "state": {"terminated": {"exitCode": 137}}}
RESTARTED = {"name": "main", "state": {"waiting": {"reason": "x"}}, "lastState": {"terminated": {"exitCode": 1}}}
WAITS = {"name": "main", "state": {"waiting": {"reason": "ContainerCreating"}}}


@pytest.mark.parametrize(
    "reason",
    [
        "OutOfcpu",
        "OutOfmemory",
        "OutOfpods",
        "OutOfephemeral-storage",
        "OutOfnvidia.com/gpu",
        "UnexpectedAdmissionError",
        "NodeAffinity",
        "TopologyAffinityError",
        "Evicted",
        "NodeShutdown",
    ],
)
def test_a_pod_that_failed_before_it_started_for_a_kubelet_reason_was_rejected(reason: str) -> None:
    assert kubelet_refusal({"phase": "Failed", "reason": reason, "message": "Pod was rejected"}) == reason
    assert kubelet_refusal({"phase": "Failed", "reason": reason, "containerStatuses": [WAITS]}) == reason


@pytest.mark.parametrize("status", [STARTED, ENDED, RESTARTED])
@pytest.mark.parametrize("field", ["containerStatuses", "initContainerStatuses"])
def test_a_pod_that_ran_was_not_rejected(field: str, status: dict[str, Any]) -> None:
    assert kubelet_refusal({"phase": "Failed", "reason": "Evicted", field: [status]}) == ""


@pytest.mark.parametrize(
    "status",
    [
        {"phase": "Failed", "reason": "DeadlineExceeded"},
        {"phase": "Failed", "reason": "ResourceReservationTimeout"},
        {"phase": "Failed"},
        {"phase": "Pending", "reason": "OutOfcpu"},
        {"phase": "Succeeded", "reason": "OutOfcpu"},
        {"phase": "Failed", "reason": ["OutOfcpu"], "containerStatuses": "odd"},
        {},
    ],
)
def test_other_pod_statuses_are_not_kubelet_rejections(status: dict[str, Any]) -> None:
    assert kubelet_refusal(status) == ""
