"""Objects of the cluster that filters read and that are neither nodes nor pods (muster.v1, UpdateFacts)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from muster_core.model.storage import StorageFact


@dataclass(frozen=True, slots=True)
class NamespaceLabels:
    """The labels that a namespace has now; None = it is gone."""

    name: str
    labels: Mapping[str, str] | None


ClusterFact = NamespaceLabels | StorageFact
