"""The only writer of the scheduler state. It receives events, runs scheduling cycles and commits plans."""
