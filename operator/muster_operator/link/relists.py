"""What a complete list shows as missed deletes: taken before the list is asked for, answered when it is there."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from muster_operator.agent import resync
from muster_operator.agent.ledger import Ledger
from muster_operator.link.facts import TOLD_BY_THEMSELVES, gone_of_storage
from muster_operator.model.facts import Fact
from muster_operator.model.ids import NodeName, PodUid

#: From the keys in the list to what is missing in it.
Missed = Callable[[frozenset[str]], Sequence[Fact]]


def missed_by(plural: str, ledger: Ledger) -> Missed:
    """Remember what is known of a resource now; a priority class that is gone is still the one pods were made with."""
    match plural:
        case "pods":
            pods = resync.known_pods(ledger)
            return lambda listed: resync.missed_pods(pods, frozenset(PodUid(key) for key in listed))
        case "nodes":
            nodes = resync.known_nodes(ledger)
            return lambda listed: resync.missed_nodes(nodes, frozenset(NodeName(key) for key in listed))
        case "namespaces":
            namespaces = resync.known_namespaces(ledger)
            return lambda listed: resync.missed_namespaces(namespaces, listed)
        case _:
            known = known_of_storage(plural, ledger)
            return lambda listed: [
                fact for key in known if key not in listed and (fact := gone_of_storage(plural, key))
            ]


def known_of_storage(plural: str, ledger: Ledger) -> list[str]:
    """The keys of what is known of a kind of storage; nothing of other kinds."""
    storage = ledger.storage
    match plural:
        case "persistentvolumes":
            return sorted(storage.volumes)
        case "persistentvolumeclaims":
            return sorted(storage.claims)
        case "csinodes":
            return sorted(storage.drivers)
        case "volumeattachments":
            return sorted(storage.attachments)
        case _:
            of_kind = TOLD_BY_THEMSELVES.get(plural)
            return sorted(name for kind, name in ledger.objects if kind is of_kind)
