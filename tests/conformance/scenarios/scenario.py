"""A scenario: its changes to nodes, running pods and pending pods, and the objects that it adds."""

from tests.conformance.choices import Choices
from tests.conformance.objects import ClusterState, Raw


class Scenario:
    """One subject of placement. Each method does nothing by default.

    A cluster has one main scenario and possibly others, so that filters are combined.
    """

    def node(self, choices: Choices, node: Raw) -> None:
        """Modify a node."""

    def objects(self, choices: Choices, state: ClusterState) -> None:
        """Add objects other than nodes and pods. Nodes exist already."""

    def running(self, choices: Choices, state: ClusterState, pod: Raw) -> None:
        """Modify a bound pod."""

    def pending(self, choices: Choices, state: ClusterState, pod: Raw) -> None:
        """Modify a pending pod."""
