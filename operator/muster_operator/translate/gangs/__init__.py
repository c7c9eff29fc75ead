"""One module for each way to write a gang, and one kind of gang inside (``model.pods.GangDefinition``).

Read ``dialects``, then ``annotations`` (YuniKorn) and ``pod_groups`` (Kubernetes).
"""
