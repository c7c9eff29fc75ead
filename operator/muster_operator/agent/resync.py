"""Missed deletes: after a re-list Kubernetes names what is there, never what has vanished.

The shell asks for what is known before it lists, and for what is missing after, so that a pod that appeared meanwhile
is not taken for a lost one.
"""

from __future__ import annotations

from collections.abc import Container

from muster_operator.agent.ledger import Ledger
from muster_operator.model.facts import NamespaceGone, NodeGone, PodGone
from muster_operator.model.ids import NodeName, PodUid


def known_pods(ledger: Ledger) -> frozenset[PodUid]:
    """All pods that the ledger believes to exist. Take it before listing."""
    return frozenset((*ledger.pods, *ledger.served, *ledger.foreign, *ledger.tasks, *ledger.strays, *ledger.deletions))


def known_nodes(ledger: Ledger) -> frozenset[NodeName]:
    """All nodes that the ledger believes to exist. Take it before listing."""
    return frozenset(ledger.nodes)


def known_namespaces(ledger: Ledger) -> frozenset[str]:
    """All namespaces that the ledger believes to exist. Take it before listing."""
    return frozenset(ledger.namespaces)


def missed_pods(known: frozenset[PodUid], listed: Container[PodUid]) -> list[PodGone]:
    """Facts for the pods that were known before a list and are not in it."""
    return [PodGone(uid) for uid in sorted(known) if uid not in listed]


def missed_nodes(known: frozenset[NodeName], listed: Container[NodeName]) -> list[NodeGone]:
    """Facts for the nodes that were known before a list and are not in it."""
    return [NodeGone(name) for name in sorted(known) if name not in listed]


def missed_namespaces(known: frozenset[str], listed: Container[str]) -> list[NamespaceGone]:
    """Facts for the namespaces that were known before a list and are not in it."""
    return [NamespaceGone(name) for name in sorted(known) if name not in listed]
