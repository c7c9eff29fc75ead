"""What the API server trusts: ``certificates``, their ``secret``, ``trust`` (who has to know of which, and when)."""
