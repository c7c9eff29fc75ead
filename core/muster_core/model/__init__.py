"""Values of the core: identifiers, resources, specifications, events (input), effects (output), decisions, states.

Read ``ids``, ``resources`` and ``specs`` first, then ``events``, ``effects`` and ``decisions``; ``states`` holds the
life cycles, ``limits`` every bound on input.
"""
