"""Who has to go, for whom: pure questions, asked by engine/preemption.py and engine/quota.py.

In reading order: `rights` says who may preempt, how far, and what a queue may
lose; `candidates` whom, in which order; `clearing` who stands in a pod's way
on a node for more than room; `guarantee` plans for asks of queues below their
guarantee, `required` for asks that may run on one node only, `quota` for
queues over a lowered maximum. `rivals` knows a livelock.
"""
