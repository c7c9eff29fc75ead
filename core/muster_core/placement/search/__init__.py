"""Bounded search for nodes for the members of several task groups at the same time."""
