"""Admission: what is set on pods, and refused, before they are stored (contract 7).

Read in this order: ``review`` (a question of the API server and its answer, as values).
"""
