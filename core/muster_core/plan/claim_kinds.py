"""Scheduling classes that differ by the names of their own claims alone: the nodes refuse all of them or none.

Each pod with a claim of its own, as executors and stateful jobs have, is a class by itself, because a volume is chosen
for that very claim. What filters read of the claim is its kind: what it asks for, or where its volume is. So a plan
asks the nodes once for each kind that has no room (usual.py).

A claim that something else uses, that a volume is kept for, or that keeps its pod from every node has no kind.
Source: the filters of feasibility/volumes/.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace

from muster_core.model.facts import NO_VOLUMES, PodFacts
from muster_core.model.storage import Handle, Volume
from muster_core.plan.draft import Draft
from muster_core.plan.feasibility.volumes.claims import unusable
from muster_core.plan.outline import shape_of
from muster_core.world.attachments import Attachments
from muster_core.world.classes import AskClass


def kind_of(draft: Draft, wanted: AskClass) -> Hashable | None:
    """What nodes read of asks of the class; equal for classes that the same nodes refuse for the same reasons.
    None = the class has to be asked about itself.
    """
    volumes = wanted.occupant.facts.volumes
    if not volumes.claims or wanted.required_node or wanted.placement is not None:
        return None
    if unusable(draft, shape_of(wanted)):
        return None
    attachments = draft.nodes.occupants.attachments
    own = {name for name, _ in volumes.ephemeral}
    kinds: list[Hashable] = []
    for name in volumes.claims:
        found = _claim(draft, attachments, name)
        if found is None:
            return None
        kinds.append((found, name in own))
    if attachments.rows_with(volumes.attached) or len(set(volumes.claims)) < len(volumes.claims):
        return None
    facts = wanted.occupant.facts
    others = PodFacts(company=facts.company, ports=facts.ports, volumes=NO_VOLUMES, preferences=facts.preferences)
    drivers = tuple(handle.driver for handle in dict.fromkeys(volumes.attached))
    about = (wanted.resources, wanted.constraints, wanted.avoid, wanted.occupant.tags, others)
    return (about, tuple(kinds), volumes.disks, drivers)


def _claim(draft: Draft, attachments: Attachments, name: str) -> Hashable | None:
    """The kind of a claim that only the pod uses and nothing is planned for; None = it has none."""
    storage = attachments.storage
    claim = storage.claims[name]
    if name in attachments.claims or draft.assumptions.of(name) is not None:
        return None
    if any(volume != claim.volume for volume in storage.referring(name)):  # one is kept for it
        return None
    if not claim.is_bound:
        return (claim.request, claim.demand, claim.selected_node)
    volume = storage.volumes.get(claim.volume)
    if volume is None:
        return None
    handle = storage.handle(name)
    if handle is not None and attachments.rows_with((handle,)):
        return None
    return (claim.demand.access_modes, _nameless(volume))


def _nameless(volume: Volume) -> Volume:
    handle = Handle(volume.handle.driver, "-" if volume.handle.id else "") if volume.handle is not None else None
    return replace(volume, name="", reference=None, handle=handle)
