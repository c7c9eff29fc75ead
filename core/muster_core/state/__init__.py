"""The scheduler state: queues, applications, nodes, users.

These modules add, remove and keep sums; they hold no policy.
"""
