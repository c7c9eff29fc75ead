"""What each route answers, one module per family of routes; `../routes.py` says which is where.

`reading` has what is a view of the world; `configuration`, `events`, `probes`,
`levels`, `dumping` and `profiles` have what needs more than that.
"""
