"""An operator with events of every kind, so that each of its metrics has a sample."""

from prometheus_client import CollectorRegistry

from muster_operator.runtime.metrics import Metrics as OperatorMetrics
from muster_operator.webhook.server import ReviewMetrics


def busy_operator() -> CollectorRegistry:
    """Return every metric of the operator with at least one sample."""
    metrics = OperatorMetrics()
    metrics.watch("", lambda: {"inbox": 1})
    for labelled in (metrics.streams_broken, metrics.streams_expired, metrics.lists, metrics.repairs):
        labelled.labels("pods").inc()
    metrics.watched.counts["pods", "ADDED"] += 1
    metrics.record_activity("pods")
    metrics.requested("POST", "pods/binding", 201, 0.01)
    metrics.throttle.labels("create").inc()
    metrics.differences.labels("ask missing").inc()
    metrics.compared.labels("nodes").inc()
    metrics.ended("BindPod", 500)
    metrics.retries.labels("BindPod", "500").inc()
    metrics.failures.labels("Ended").inc()
    metrics.sweep_repairs.labels("BindPod").inc()
    for result in ("created", "exported", "failed"):
        metrics.trace_spans.labels(result).inc()
    admission = ReviewMetrics(metrics)
    for result in ("allowed", "changed", "rejected", "failed", "invalid"):
        admission.reviews.labels("/mutate", result).inc()
    admission.seconds.labels("/mutate").observe(0.01)
    metrics.exposition()
    return metrics.registry
