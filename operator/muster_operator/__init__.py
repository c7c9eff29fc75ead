"""The operator: it watches Kubernetes, tells the core what is there, and does what the core decides.

Read in this order: ``model`` (the words), ``translate`` (raw Kubernetes objects to values), ``agent`` (observe and
obey, without I/O), ``link`` (the API server and the core), ``handlers`` (what kopf calls), ``admission`` (what is set
on pods and refused before they are stored). Then how it becomes a process: ``assembly`` (all parts, wired), ``serving``
(run them and end them in order), ``running`` (from nothing to the end), ``main`` (the command line).
"""
