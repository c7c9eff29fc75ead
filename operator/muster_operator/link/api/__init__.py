"""The API server: who we are there, one request, commands as requests, what answers mean, and who writes next.

Read in this order: ``credentials``, ``session`` (one request), ``requests`` (commands as requests), ``retry``, ``kube``
(what answers mean), ``event_series``, ``pool``.
"""
