"""Admission: what is set on pods, and refused, before they are stored (contract 7).

Read in this order: ``review`` (a question of the API server and its answer, as values), ``known`` (what has to be known
of the cluster), ``kinds`` (what is looked at, and where in it a pod is described). Then the folders: ``deciding``
(from a question to its answer; pure), ``answering`` (over HTTPS), ``certifying`` (what the API server trusts),
``registering`` (what it asks us about). ``keeping`` looks after certificates and registration every few seconds;
``serving`` puts it together.
"""
