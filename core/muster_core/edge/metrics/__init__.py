"""What the core measures, for `/ws/v1/metrics`: names, labels, units and buckets of contract 5, and ours.

In reading order: `counted` holds what is counted and timed as it happens,
`laps` the steps of a cycle among it;
`watched` is the collector that reads everything else from the world when
somebody scrapes, with `applications`, `queues`, `nodes` and `scarcity`
for its parts;
`family` makes one metric of values; `text` writes all of them piece by piece,
so that a big scrape never keeps the scheduler waiting.

Differs: the metrics of the Go runtime (`yunikorn_runtime_go_*`, `go_*`) do not exist; `process_*` and `python_gc_*` do.
"""
