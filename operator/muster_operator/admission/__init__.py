"""Admission: what is set on pods, and refused, before they are stored (contract 7).

Deciding is pure; read it in this order: ``review`` (a question of the API server and its answer, as values),
``known`` (what has to be known of the cluster), ``decide`` (from one to the other, the only entrance). Below it:
``kinds`` (what is looked at, and where in it a pod is described), ``filtering`` (which namespaces), ``access`` (whose
word counts), ``case`` (a question with what follows from it), ``userinfo`` (whose a pod is) with ``identity`` (the same
as text), ``placeholders`` (the mark that nobody else writes), ``pods`` (what a pod lacks to be ours).
"""
