"""The ``muster`` command, the only place that may hold both operator and core (``muster run --embedded``).

``main`` lists the commands. ``validate`` and ``config`` look at configurations with ``manifest``; ``trial`` and
``uninstall`` are what the chart runs as test and after the end.
"""
