"""Messages of the Scheduler Interface, and the session with the core. Read ``session``, ``codec``, ``isolation``."""
