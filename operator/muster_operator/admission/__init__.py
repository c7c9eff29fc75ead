"""Admission: what is set on pods, and refused, before they are stored (contract 7).

Deciding is pure; read it in this order: ``review`` (a question of the API server and its answer, as values),
``known`` (what has to be known of the cluster), ``decide`` (from one to the other, the only entrance). Below it:
``kinds`` (what is looked at, and where in it a pod is described), ``filtering`` (which namespaces), ``access`` (whose
word counts), ``case`` (a question with what follows from it), ``userinfo`` (whose a pod is) with ``identity`` (the same
as text), ``placeholders`` (the mark that nobody else writes), ``bindings`` (by which both could come on to a pod),
``pods`` (what a pod lacks to be ours).

Around it is what serves: ``wire`` (a question and its answer as JSON), ``server`` (HTTPS, in the loop of ``aside``),
``cluster`` (what is known, from the operator's own watch) and ``configuration`` (ConfigMaps, judged by the core).
``certificates``, their ``secret`` and ``trust`` (who has to know of which, and when) make what is shown; ``conditions``
and ``webhooks`` say what is registered, ``registration`` has it stand, ``keeping`` looks after all that every few
seconds. ``introduction`` is what has to be known before. ``serving`` puts it together.
"""
