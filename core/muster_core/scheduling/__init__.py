"""The only writer of the scheduler state. It receives events, runs scheduling cycles and commits plans.

Read ``scheduler`` (`step` and `cycle`) with ``applications``, ``allocations`` and ``nodes`` (events) and ``commit``
(plans); ``ledger`` (writes that keep sums); ``requeue`` (wake-up conditions); ``records`` (event records and failure
reasons); then ``gangs``, ``reservations``, ``takeovers``, ``preemption`` and ``victims``. ``invariants`` checks the
result.
"""
