"""The ``muster`` command, the only place that may hold both operator and core (``muster run --embedded``)."""
