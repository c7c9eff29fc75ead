"""Translation of raw Kubernetes objects into the values of ``model``. Only this package decides defaults of fields.

Read ``values``, ``pods`` and ``gangs``, then ``constraints``, ``pod_classes``, ``nodes``, ``storage`` and
``objects``, which calls them.
"""
