"""From a question to its answer, pure: ``decide`` is the only entrance.

Below it: ``case`` (a question with what follows from it), ``filtering`` (which namespaces), ``access`` (whose word
counts), ``userinfo`` (whose a pod is) with ``identity`` (the same as text), ``placeholders`` (the mark that nobody else
writes), ``bindings`` (by which both could come on to a pod), ``pods`` (what a pod lacks to be ours).
"""
