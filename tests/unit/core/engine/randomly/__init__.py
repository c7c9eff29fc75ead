"""Whatever is told in whatever order: one Hypothesis state machine over the whole core below its edge.

In reading order: `stage` steps events, runs cycles, checks the world after
each and does everything over at the end; `books` is what a resource manager
knows; `configurations` draws what may be in force; `ground` is the machine's
base with its sites (several resource managers and partitions, with equal
names); `rules_of_*` are what may happen; `laws` what has to hold between any
two events; `machine` puts them together and `rounds` runs it for as long as one
likes (`make soak`).
"""
