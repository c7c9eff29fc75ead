"""What the core noted, for those who watch: kept in a ring, read in batches or followed as a stream, and pushed.

In reading order: `ring` keeps what was noted and numbers it; `store` is the
door: it takes notes in from outlet.py and answers REST with batches and
`streams`; `pushes` decides what of it a resource manager is told and protects
it from floods; `form` writes a record as the JSON of contract 6.1.
"""
