"""What filters and scores read of a pod beside its resources and what it asks of nodes.

One value for all of it, that asks, classes, shapes and allocations carry; of
most pods it is NO_FACTS. Equal facts are equal values (semantics 21).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from muster_core.model.company import ANY_COMPANY, Company
from muster_core.model.constraints import Term
from muster_core.model.placement import NO_TAGS, Tags
from muster_core.model.storage import Handle


@dataclass(frozen=True, slots=True)
class HostPort:
    """A port of the node that the pod takes. `ip`: 0.0.0.0 stands for every address."""

    ip: str
    protocol: str
    port: int


@dataclass(frozen=True, slots=True)
class Preferences:
    """What a pod prefers of nodes: weighed terms (weight, term), the images of its containers, one for each, and those
    of its volumes.
    """

    terms: tuple[tuple[int, Term], ...] = ()
    images: tuple[str, ...] = ()
    volume_images: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Disk:
    """An in-tree volume that one node may not use twice. `kind`: gce, aws, iscsi or rbd; `id` tells disks apart, of
    rbd with one of the `monitors`.
    """

    kind: str
    id: str
    read_only: bool = False
    monitors: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Volumes:
    """What a pod uses: claims ("namespace/name", in its order), disks, and volumes of its own that count as attached.

    `ephemeral`: those of the claims that are made for it, with its UID; `pod`: how it is called then.
    """

    claims: tuple[str, ...] = ()
    ephemeral: tuple[tuple[str, str], ...] = ()
    disks: tuple[Disk, ...] = ()
    attached: tuple[Handle, ...] = ()
    pod: str = ""


NO_PREFERENCES: Final = Preferences()
NO_VOLUMES: Final = Volumes()


@dataclass(frozen=True, slots=True)
class PodFacts:
    """Everything of that kind. `concerns_others`: there is more in it than what the pod itself prefers of nodes."""

    company: Company = ANY_COMPANY
    ports: tuple[HostPort, ...] = ()
    volumes: Volumes = NO_VOLUMES
    preferences: Preferences = NO_PREFERENCES
    concerns_others: bool = field(init=False, repr=False, compare=False)
    _hash: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Hash once: facts are looked up far more often than made."""
        concerns = bool(self.ports) or self.company != ANY_COMPANY or self.volumes != NO_VOLUMES
        object.__setattr__(self, "concerns_others", concerns)
        object.__setattr__(self, "_hash", hash((self.company, self.ports, self.volumes, self.preferences)))

    def __hash__(self) -> int:
        return self._hash

    @property
    def is_particular(self) -> bool:
        """Whether more than nodes and their room decides where such a pod may go."""
        return bool(self.company.near or self.company.apart or self.company.spread or self.ports) or (
            self.volumes != NO_VOLUMES
        )


NO_FACTS: Final = PodFacts()


@dataclass(frozen=True, slots=True)
class Occupant:
    """An allocation as filters of others see it: the tags that some selector reads, and its facts."""

    tags: Tags = NO_TAGS
    facts: PodFacts = NO_FACTS
    _hash: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Hash once, as above."""
        object.__setattr__(self, "_hash", hash((self.tags, self.facts)))

    def __hash__(self) -> int:
        return self._hash


NOBODY: Final = Occupant()
