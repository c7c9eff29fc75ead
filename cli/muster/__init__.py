"""The ``muster`` command, the only place that may hold both operator and core (``muster run --embedded``).

``main`` lists the commands, ``later`` loads each when it is used. ``errors`` has the exit codes, ``output`` what is
printed, ``asking`` the options of all that ask a core. ``clients`` ask, ``views`` draw; ``reasons`` and ``checks``
think for ``explain`` and ``doctor``. ``status``, ``queues``, ``apps``, ``application``, ``nodes`` and ``version`` are
a command each, ``serving`` is ``muster run``. ``validate`` and ``config`` look at configurations with ``manifest``;
``trial`` and ``uninstall`` are what the chart runs as test and after the end.
"""
