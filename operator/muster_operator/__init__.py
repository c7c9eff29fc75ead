"""The operator: it watches Kubernetes, tells the core what is there, and does what the core decides.

Read in this order: ``model`` (the words), ``translate`` (raw Kubernetes objects to values), ``agent`` (observe and
obey, without I/O), ``link`` (the API server and the core), ``handlers`` (what kopf calls).
"""
