"""The kopf handlers, and the code that starts and patches kopf.

Read ``registry``, then ``framework``.
"""
