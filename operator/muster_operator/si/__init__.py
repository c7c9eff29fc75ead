"""Messages and sessions of the Scheduler Interface, on the operator's side."""
