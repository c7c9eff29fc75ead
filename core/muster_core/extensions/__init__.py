"""Optional features of the Scheduler Interface (docs/reference/resource-managers.md). The scheduler works without them.

Only `main` imports the package: it sets the hooks in ``placement/plugins/hooks`` when the process starts. The features
are ``placement_constraints``, ``predicate_callbacks``, and the two of ``nodes``: utilization reports, recommendations.
"""
