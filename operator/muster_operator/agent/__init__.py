"""Observe and obey: what a change in Kubernetes means to the core, and what the core's word means to Kubernetes.

Pure: one ledger with one owner, ``now`` (seconds of any steady clock) as an argument, an ``Outcome`` as the answer.

    ledger.Ledger(settings)                            everything the agent remembers
    observing.observe(ledger, fact, now)               a fact from Kubernetes
    obeying.obey(ledger, verdict, now)                 a message from the core
    answering.answered(ledger, result, now)            how a command ended
    reminders.next_due(ledger), remind(ledger, now)    the one timer that the shell runs for the agent
    recovery.begin, is_answered, report_nodes, submit_asks, open_nodes, pause    how a session begins (semantics 19)
"""
