"""The operator's loop: its inbox, the session with the core, metrics, health and logs."""
