"""A scenario: its changes to nodes, running pods and pending pods, and the objects that it adds."""

from __future__ import annotations

from tests.conformance.choices import Choices
from tests.conformance.objects import ClusterState, Raw


class Scenario:
    """One subject of placement. Each part does nothing unless a scenario says otherwise.

    A cluster has one scenario that rules it and perhaps others beside it, so that filters meet.
    """

    def node(self, choices: Choices, node: Raw) -> None:
        """Dress a node."""

    def objects(self, choices: Choices, state: ClusterState) -> None:
        """Add what is neither node nor pod; nodes are there already."""

    def running(self, choices: Choices, state: ClusterState, pod: Raw) -> None:
        """Dress a pod that has a node."""

    def pending(self, choices: Choices, state: ClusterState, pod: Raw) -> None:
        """Dress a pod that is to be placed."""
