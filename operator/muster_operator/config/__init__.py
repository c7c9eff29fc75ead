"""The ConfigMaps: reading, merging and validation of settings."""
