"""The part of the operator that kopf runs: read ``kopf_operator``."""
