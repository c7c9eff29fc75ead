"""Random events in random order: one Hypothesis state machine over the core without its I/O layers.

Reading order: `stage` steps events, runs cycles, checks the state after each and replays everything at the end;
`books` is what a resource manager stores; `configurations` draws the configurations; `ground` is the machine's base
with its sites (several resource managers and partitions with equal names); `rules_of_*` are the possible events;
`laws` are the conditions that hold between any two events; `machine` combines them, and `rounds` runs the machine for
as long as requested (`make soak`).
"""
