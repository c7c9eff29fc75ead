"""The ConfigMaps: reading, merging and validation of settings.

Read ``catalog`` (every setting), then ``settings``.
"""
