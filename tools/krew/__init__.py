"""Packages the kubectl plug-in for krew (`make krew`)."""
