"""Raw Kubernetes objects become values here. Defaults for absent, null or empty fields are decided here only.

Read ``values``, ``pods`` and ``gangs``, then ``constraints``, ``pod_classes``, ``nodes``, ``storage``.
"""
