"""What the API server asks us about: ``conditions`` and ``webhooks`` say it, ``registration`` has it stand.

``introduction`` is what has to be known before.
"""
