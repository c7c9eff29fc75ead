"""The API server: who we are there, one request, commands as requests, what answers mean, and who writes next.

Read in this order: ``credentials``, ``connections`` (one pool for all), ``session`` (one request), ``measuring``.
Writes: ``requests`` (commands as requests), ``retry``, ``kube`` (what answers mean), ``event_series``; ``urgency``,
``brakes``, ``event_buffer``, ``pool`` (who is next). Reads: ``listing`` (a list page by page), ``decoding``.
"""
