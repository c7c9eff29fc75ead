"""Messages of the Scheduler Interface: decoding, encoding, sessions and event records."""
