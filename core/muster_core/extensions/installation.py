"""Installs the optional features. `main` calls it once, before the core starts."""

from __future__ import annotations

from muster_core.extensions import placement_constraints, predicate_callbacks, recommendations, utilization
from muster_core.placement.filters.hooks import HOOKS


def install() -> None:
    """Sets the hook of each feature."""
    HOOKS.placement_constraints = placement_constraints
    HOOKS.predicate_callbacks = predicate_callbacks
    HOOKS.utilization = utilization
    HOOKS.recommendations = recommendations
