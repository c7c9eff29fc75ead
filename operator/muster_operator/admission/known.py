"""What deciding has to know of the cluster beside the question. The server keeps it up to date; nothing is fetched."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

#: Where the control plane lives: never served and never refused anything, or a cluster could not start itself.
CONTROL_PLANE: Final = "kube-system"


@dataclass(frozen=True, slots=True)
class Known:
    """A view of the cluster at one moment; an unknown namespace has no annotations, an unknown class no wishes."""

    account: str = "system:serviceaccount:muster:muster-operator"
    """The user name of our own service account: it alone makes placeholders (semantics 18)."""

    home: str = "muster"
    """Our own namespace: what runs there must start without us."""

    scheduler_names: frozenset[str] = frozenset({"muster", "yunikorn"})
    """The names that are served now (semantics 30)."""

    namespaces: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Annotations by namespace (contract 1.6)."""

    may_be_preempted: Mapping[str, bool] = field(default_factory=dict)
    """By name of a PriorityClass: its annotation allow-preemption (contract 1.7)."""

    def is_protected(self, namespace: str) -> bool:
        """Whether nothing is set and nothing refused there. Registration must leave these out too."""
        return namespace in {self.home, CONTROL_PLANE}
