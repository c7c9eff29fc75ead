"""Muster and kube-scheduler against a real API server with 1,000 fake nodes, one after the other, by turns.

Reading order: ``benches`` (what is run, who runs it, in which order), ``load`` (makes pods and sees them bound),
``schedulers`` (who serves them), ``stage`` (one run: calm, load, counts, clean-up), ``usage`` (what processes cost),
``results`` (figures of the runs), ``measure`` (all of it).
"""
