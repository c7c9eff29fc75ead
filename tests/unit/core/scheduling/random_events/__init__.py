"""Random events in random order: one Hypothesis state machine over the core without its I/O layers.

Reading order: `simulated_core` steps events, runs cycles, checks the state after each and replays everything at the
end; `manager_state` is what a resource manager stores; `configurations` draws the configurations; `base` is the base
class of the machine with its sites (several resource managers and partitions with equal names); `*_rules` are the
possible events; `*invariants` are the conditions that hold between any two events; `state_machine` combines them, and
`rounds` runs the machine for as long as requested (`make soak`).
"""
