"""The admission webhook: decisions, server, certificates and registration.

Read ``context`` and ``decisions`` (pure), then ``server``, ``certificates``, ``registration``, and ``service``, which
connects them.
"""
