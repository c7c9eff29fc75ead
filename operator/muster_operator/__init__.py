"""The operator: watches Kubernetes, reports the cluster to the core and carries out what the core decides.

Read in this order: ``model`` (values), ``translate`` (Kubernetes objects to values), ``controller`` (the state and
its handlers), ``kube`` (the API server), ``config`` (ConfigMaps), ``si`` (the core), ``runtime`` (the loop),
``handlers`` (kopf), ``webhook`` (admission). ``running`` and ``serving`` start, connect and stop these parts.
"""
