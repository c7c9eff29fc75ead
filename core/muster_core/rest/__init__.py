"""The REST interface of the core."""
