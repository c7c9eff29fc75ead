"""Filter DynamicResources. Read ``expressions`` first, then ``allocation`` and ``filter``."""
