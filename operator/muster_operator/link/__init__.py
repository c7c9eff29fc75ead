"""The operator's I/O: commands to the API server, messages to and from the core, retries and limits.

Read in this order. The one owner of the ledger: ``inbox`` (what happens), ``door`` (raw objects end there), ``loop``
(who takes it out), ``facts`` and ``versions`` (what a watch event or a list is worth), ``freshness`` (how old that
is), ``collector`` (no pauses for garbage). Then the folders: ``si`` (the core), ``api`` (the API server),
``config`` (the ConfigMaps), ``leading`` (who may write), ``beside`` (other schedulers). Around it: ``health``,
``metrics`` (over ``tallies``), ``logs``, ``errors``.
"""
