"""The operator's words: values, orders, reports, and the tables of the life cycles. No I/O, no clock.

Reading order: ``ids`` and ``resources`` (units); ``pods``, ``nodes``, ``namespaces``, ``groups`` (what Kubernetes has);
``applications`` and ``allocations`` (the same as the scheduler sees it); ``facts`` (what Kubernetes tells),
``commands`` (what it is told) and ``results``; ``news`` (what the core is told) and ``verdicts`` (what it answers);
``outcome``, ``states``, ``settings``, ``vocabulary`` (labels and annotations), ``errors``.
Values that are made for each pod or each message are msgspec structs, the others dataclasses: a frozen dataclass of
nineteen fields takes ten times as long to make, and the collector has to look at it.
"""
