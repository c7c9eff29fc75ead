"""The scheduler state: queues, applications, nodes, users. It adds, removes and keeps sums; it holds no policy.

Read ``scheduler_state`` (the root), ``queues``, ``applications`` and ``nodes`` with ``columns``, then
``scheduling_queue`` and ``request_classes`` (which requests are tried), ``reservations``, ``node_pods``,
``affinity``, ``storage``, ``devices``; at last ``snapshot``, the copy that plans are made on.
"""
