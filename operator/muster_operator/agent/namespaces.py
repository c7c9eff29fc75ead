"""What is known of a namespace: whether applications may start in it, and whether it is on its way out.

Namespaces and pods come on two watch streams, so that a pod may be seen before the namespace that it was created in.
Quota and parent queue travel with the submission (contract 1.6), so an application waits for its namespace. A pod of an
application in another namespace waits for its own, for other pods may mind what labels that has.
"""

from __future__ import annotations

from typing import Final

from muster_operator.agent.ledger import Ledger

#: Seconds after which an application is submitted without a word of its namespace. The streams are milliseconds
#: apart; this is for one that is cut.
WAIT_S: Final = 5.0


def is_ready(ledger: Ledger, name: str) -> bool:
    """Whether it was seen. One that is leaving may be the last of that name: its successor is still to be seen."""
    namespace = ledger.namespaces.get(name)
    return namespace is not None and not namespace.terminating


def is_known(ledger: Ledger, name: str) -> bool:
    """Whether its labels are: they decide which other pods mind those in it."""
    return name in ledger.namespaces


def is_leaving(ledger: Ledger, name: str) -> bool:
    """Whether it is being deleted: nothing can be created in it any more."""
    namespace = ledger.namespaces.get(name)
    return namespace is not None and namespace.terminating
