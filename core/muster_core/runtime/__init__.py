"""The process of the core: the scheduler task, its service, timers, the journal and user group lookups."""
