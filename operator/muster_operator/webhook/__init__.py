"""The admission webhook: decisions, server, certificates and registration."""
