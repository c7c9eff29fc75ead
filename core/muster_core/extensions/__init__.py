"""Optional features of the Scheduler Interface (docs/internals/resource-managers.md). The scheduler works without them.

``installation`` sets the hooks in ``placement/filters/hooks`` when the process starts. Only `main` imports the package.
Each of ``placement_constraints``, ``predicate_callbacks``, ``utilization`` and ``recommendations`` is one feature.
"""
