"""Node selection for requests. It reads a snapshot of the state and changes nothing.

Read ``state/snapshot`` first, then ``node_search``, ``plugins`` and the folders ``volumes``, ``devices`` and
``search``.
"""
