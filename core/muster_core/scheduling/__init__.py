"""The only writer of the scheduler state. It receives events, runs scheduling cycles and commits plans.

Read ``step`` (events) with ``applications``, ``allocations`` and ``nodes``; ``cycle`` and ``commit`` (plans);
``ledger`` (writes that keep sums); ``requeue`` (wake-up conditions); then ``gangs``, ``reservations``, ``takeovers``,
``preemption`` and ``victims``. ``invariants`` checks the result.
"""
