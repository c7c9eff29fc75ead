"""The kopf handlers and how kopf is run."""
