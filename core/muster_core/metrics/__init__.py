"""Prometheus metrics of the core.

Differs: the metrics of the Go runtime (`yunikorn_runtime_go_*`, `go_*`) do not exist. `process_*` and `python_gc_*`
exist instead.
"""
