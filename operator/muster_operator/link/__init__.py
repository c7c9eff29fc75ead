"""The operator's I/O: commands to the API server, messages to and from the core, retries and limits.

Read in this order. The one owner of the ledger: ``inbox`` (what happens), ``loop`` (who takes it out), ``current`` (the
present session and its recovery), ``facts``, ``versions`` and ``relists`` (what a watch event or a list is worth). To
the core: ``core`` (sessions), ``si_encode`` and ``si_decode`` (the only modules with protobuf), ``dump``. To the API
server: ``credentials``, ``session`` (one request), ``requests`` (commands as requests), ``retry``, ``kube`` (what
answers mean), ``event_series``, ``pool`` (who writes next). Around it: ``configmaps``, ``settings``, ``reconfigure``,
``beside`` (YuniKorn), ``health``, ``metrics``, ``logs``, ``errors``.
"""
