"""Benchmarks of Muster and kube-scheduler with a real API server and 1,000 fake nodes. The schedulers run alternately.

Reading order: ``benches`` (workloads, schedulers and order of runs), ``load`` (creates pods and waits for their
binding), ``schedulers`` (starts the schedulers), ``stage`` (one run: wait for an idle machine, load, counts, cleanup),
``usage`` (CPU and memory of processes), ``results`` (figures of the runs), ``measure`` (the complete measurement).
"""
